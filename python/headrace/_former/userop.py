"""The former name of a module whose contents are in ``headrace.transforms``."""

from headrace.transforms import Native

__all__ = ["Native"]
