"""Records how each loader of a program ran, for the table that ``headrace run`` prints at its end.

A record keeps neither the loader nor anything of its dataset alive.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from headrace._torch.notices import of_the_program

# The records of this process; None: nobody wants them.
kept: list[Record] | None = None

_MOST = 10_000  # loaders of which records are kept

NATIVE, PARTLY, TORCHS, UNUSED = "native", "partly", "torch's", "not used"


class Record:
    """A loader.

    Attributes:
        place: file and line of the program that made it.
        dataset: its class.
        main: it belongs to the first of a program's processes.
        why: some of its images, or all, were made in Python; "" if none.
        cure: what would make them native.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset, self.why, self.cure = _named(dataset), "", ""
        self.place, self.main = "", True
        self._used = self._native = self._python = False
        if kept is not None and len(kept) < _MOST:
            self.place, self.main = _place(), _rank() == 0
            kept.append(self)

    def native(self, rest: str = "", cure: str = "") -> None:
        """The engine reads the dataset itself; `rest` is what it leaves to Python."""
        self._used, self._native, self._python = True, True, bool(rest)
        self.why, self.cure = rest, cure

    def torchs(self, why: str, cure: str) -> None:
        """torch's loader reads, without Headrace."""
        self._used = True
        if not self.why:
            self._python, self.why, self.cure = True, why, cure

    def recorded(self, native: bool, why: str, cure: str = "") -> None:
        """The dataset's own code made a batch.

        Args:
            native: the engine makes images of it, or made some at once.
            why: others were made in Python, for this; "" where there were none.
            cure: what would make those native.
        """
        self._used, self._native = True, self._native or native
        if why and not self.why:
            self._python, self.why, self.cure = True, why, cure

    @property
    def how(self) -> str:
        """What became of it, in a word."""
        if self._native:
            return PARTLY if self._python else NATIVE
        return TORCHS if self._used else UNUSED

    @property
    def because(self) -> str:
        """Why it is not native in all."""
        return self.why or ("its dataset opens no image" if self.how == TORCHS else "")


def _named(dataset: Any) -> str:
    """A dataset's class, and that of which it is a subset."""
    inner = getattr(dataset, "dataset", None)
    name = type(dataset).__name__
    return f"{name} of {type(inner).__name__}" if name == "Subset" else name


def _place() -> str:
    """The innermost line that is of none of the libraries in between."""
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
