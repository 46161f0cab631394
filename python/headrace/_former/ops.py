"""The former name of a module whose contents are in ``headrace.functional``."""

from headrace.functional import *  # noqa: F403 - these functions and others
