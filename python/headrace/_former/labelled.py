"""Of ``headrace.functional`` now."""

from headrace.functional import move

__all__ = ["move"]
