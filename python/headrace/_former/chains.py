"""Of ``headrace.functional`` now."""

from headrace.functional import mix_chains

__all__ = ["mix_chains"]
