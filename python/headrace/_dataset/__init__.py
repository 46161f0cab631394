"""What ``Dataset`` is made of: its configuration, the engine's handle of it, and its samples."""
