"""Replaces torch's ``DataLoader`` by Headrace's, for programs that you do not want to edit.

The name ``DataLoader`` is an attribute of two modules, ``torch.utils.data`` and
``torch.utils.data.dataloader``. Code that looks it up or imports it afterwards gets Headrace's
class. A module that ran ``from torch.utils.data import DataLoader`` before keeps torch's.
"""

from __future__ import annotations

import multiprocessing.spawn
import threading
from typing import Any

import torch.utils.data
import torch.utils.data.dataloader

from headrace._torch.kind import Kind, TorchDataLoader
from headrace.dataloader import DataLoader

_MODULES: tuple[Any, ...] = (torch.utils.data, torch.utils.data.dataloader)
# Where pickle finds torch's class. While Headrace's class has torch's names, pickle would find it
# there, and refuse a class that is not found under its name. So torch's class is called by its name
# in this module, which always exists. Such a pickle can be loaded wherever Headrace is installed.
_OWN = (TorchDataLoader.__module__, TorchDataLoader.__qualname__)
_HERE = (__name__, "TorchDataLoader")

_lock = threading.Lock()
_installations: list[Installation] = []


class Installation:
    """What ``headrace.install`` returns. As a context manager it uninstalls at the end."""

    def uninstall(self) -> None:
        """Restores torch's names, unless another installation still needs them replaced."""
        with _lock:
            if self in _installations:
                _installations.remove(self)
                if not _installations:
                    _give_back()

    def __enter__(self) -> Installation:
        return self

    def __exit__(self, *_: object) -> None:
        self.uninstall()


def install() -> Installation:
    """Makes ``torch.utils.data.DataLoader`` mean ``headrace.DataLoader`` from now on.

    It also replaces ``torch.utils.data.dataloader.DataLoader``. Loaders that the program and its
    libraries make afterwards are Headrace's, and so are classes that they derive. Call it before
    importing modules that run ``from torch.utils.data import DataLoader``: those that already have
    done so keep torch's class.

    Loaders of torch's class, whenever they were made, do not change. ``isinstance(loader,
    torch.utils.data.DataLoader)`` is still true for them, and they can be pickled. torchdata's
    ``StatefulDataLoader`` stays torch's. Processes that ``multiprocessing`` spawns have the
    replacement too.

    Returns:
        an object that undoes this call, by ``uninstall()`` or as a context manager.
    """
    made = Installation()
    with _lock:
        if not _installations:
            _take()
        _installations.append(made)
    return made


def uninstall() -> None:
    """Restores torch's names, however often ``install`` was called."""
    with _lock:
        if _installations:
            _installations.clear()
            _give_back()


def _take() -> None:
    for module in _MODULES:
        if module.DataLoader is TorchDataLoader:  # unless other code replaced it
            module.DataLoader = DataLoader
    Kind.stands_in = True
    TorchDataLoader.__module__, TorchDataLoader.__qualname__ = _HERE
    multiprocessing.spawn.get_preparation_data = _preparation_data


def _give_back() -> None:
    for module in _MODULES:
        if module.DataLoader is DataLoader:
            module.DataLoader = TorchDataLoader
    Kind.stands_in = False
    TorchDataLoader.__module__, TorchDataLoader.__qualname__ = _OWN
    if multiprocessing.spawn.get_preparation_data is _preparation_data:
        multiprocessing.spawn.get_preparation_data = _pythons_preparation_data


# ---- processes that are spawned ---------------------------------------------------------------

_pythons_preparation_data = multiprocessing.spawn.get_preparation_data


class _Arrangement:
    """A spawned process unpickles this before it imports the program's main module."""

    def __reduce__(self) -> Any:
        # This does not name a function of Headrace, because the process lacks this one's sys.path
        # at that time.
        return exec, (
            "try:\n"
            "    from headrace._startup import hook\n"
            "except ImportError:\n"
            "    pass\n"
            "else:\n"
            "    hook.arrange()\n",
        )


def _preparation_data(name: str) -> dict[str, Any]:
    """Adds to ``multiprocessing``'s own data; each start of a process looks this function up."""
    return {**_pythons_preparation_data(name), "headrace": _Arrangement()}
