"""Of ``headrace.functional`` now."""

from headrace.functional import *  # noqa: F403 - these functions and others
