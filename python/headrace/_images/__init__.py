"""What ``headrace.functional`` is made of: one image at a time."""
