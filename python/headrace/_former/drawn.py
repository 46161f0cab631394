"""Of ``headrace.functional`` now."""

from headrace.functional import replay

__all__ = ["replay"]
