"""Of ``headrace.transforms`` now."""

from headrace.transforms import Schedule

__all__ = ["Schedule"]
