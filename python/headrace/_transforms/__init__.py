"""What ``headrace.transforms`` is made of: transforms as data."""
