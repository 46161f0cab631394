"""The former name of a module whose contents are in ``headrace.functional``."""

from headrace.functional import mix_chains

__all__ = ["mix_chains"]
