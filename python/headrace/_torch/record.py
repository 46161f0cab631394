"""Records how each loader of a program ran, for the table that ``headrace run`` prints at its end.

A record keeps neither the loader nor any part of its dataset alive.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from headrace._torch.notices import of_the_program

# The records of this process; None: none are kept.
kept: list[Record] | None = None

_MOST = 10_000  # how many records are kept

NATIVE, PARTLY, TORCHS, UNUSED = "native", "partly", "torch's", "not used"


class Record:
    """How one loader ran.

    Attributes:
        place: file and line of the program that made the loader.
        dataset: the class of its dataset.
        main: whether it belongs to the first of a program's processes.
        why: why images were made in Python; "": none were.
        cure: what would make these native.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset, self.why, self.cure = _named(dataset), "", ""
        self.place, self.main = "", True
        self._used = self._native = self._python = False
        if kept is not None and len(kept) < _MOST:
            self.place, self.main = _place(), _rank() == 0
            kept.append(self)

    def native(self, rest: str = "", cure: str = "") -> None:
        """Notes that the engine reads the dataset itself; `rest` is what it leaves to Python."""
        self._used, self._native, self._python = True, True, bool(rest)
        self.why, self.cure = rest, cure

    def torchs(self, why: str, cure: str) -> None:
        """Notes that torch's loader reads, without Headrace."""
        self._used = True
        if not self.why:
            self._python, self.why, self.cure = True, why, cure

    def recorded(self, native: bool, why: str, cure: str = "") -> None:
        """Notes that the dataset's own code made a batch.

        Args:
            native: whether the engine makes images of the batch, or made some at once.
            why: why images were made in Python; "": none were.
            cure: what would make these native.
        """
        self._used, self._native = True, self._native or native
        if why and not self.why:
            self._python, self.why, self.cure = True, why, cure

    @property
    def how(self) -> str:
        """How the loader ran, in a word."""
        if self._native:
            return PARTLY if self._python else NATIVE
        return TORCHS if self._used else UNUSED

    @property
    def because(self) -> str:
        """Why it was not entirely native."""
        return self.why or ("its dataset opens no image" if self.how == TORCHS else "")


def _named(dataset: Any) -> str:
    """The name of a dataset's class; for a subset, also that of the whole dataset."""
    inner = getattr(dataset, "dataset", None)
    name = type(dataset).__name__
    return f"{name} of {type(inner).__name__}" if name == "Subset" else name


def _place() -> str:
    """The innermost line of the program that is not in one of the libraries in between."""
    _, frame = of_the_program()
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _rank() -> int:
    """This process's number among those that train together, as far as it is known."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    for name in ("RANK", "LOCAL_RANK"):
        if os.environ.get(name, "").isdecimal():
            return int(os.environ[name])
    return 0
