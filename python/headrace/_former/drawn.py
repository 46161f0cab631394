"""The former name of a module whose contents are in ``headrace.functional``."""

from headrace.functional import replay

__all__ = ["replay"]
