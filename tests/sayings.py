"""What errors say by themselves."""

from __future__ import annotations

import re
import sys
from typing import Any


def arguments(failure: BaseException) -> tuple[Any, ...]:
    """An error's arguments, without what Headrace adds."""
    return failure.args if sys.version_info >= (3, 11) else (own(failure),)


def own(failure: BaseException) -> str:
    """An error's sentence, without what Headrace adds.

    Python 3.10 has no notes (``BaseException.add_note``), so there the additions stand in brackets
    behind the sentence.
    """
    said = str(failure)
    if sys.version_info < (3, 11):
        said = re.split(r" \((?:index \d+|made again, )", said, maxsplit=1)[0]
    return said
