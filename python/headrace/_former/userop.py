"""Of ``headrace.transforms`` now."""

from headrace.transforms import Native

__all__ = ["Native"]
