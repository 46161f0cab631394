"""Of ``headrace.transforms`` now."""

from headrace.transforms import Views

__all__ = ["Views"]
