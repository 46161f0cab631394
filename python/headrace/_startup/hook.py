"""Installs Headrace as soon as a process has imported torch, and never in one that does not.

Until then this module imports nothing else of Headrace. So a process without torch pays only one
look for each import.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_arranged = False


def arrange(table: bool = False) -> None:
    """Arranges that Headrace is installed once torch has been imported.

    Args:
        table: whether the process lists the loaders that it made when it ends.
    """
    global _arranged
    if _arranged:
        return
    _arranged = True
    if "torch" in sys.modules:
        _install(table)
    else:
        sys.meta_path.insert(0, _Finder(table))


def _install(table: bool) -> None:
    from headrace import installing

    installing.install()
    if table:
        from headrace._startup import loaders

        loaders.list_at_the_end()


class _Finder(threading.local):
    """Finds torch and Headrace's modules as the finders after it do, and notices when they are
    imported.

    It waits until the outermost of them is imported: a module of Headrace may import torch, and
    then only half of that module exists.
    """

    def __init__(self, table: bool) -> None:
        self._table = table
        self._depth = 0

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch" and not name.startswith("headrace."):
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, path, target)) is not None:
                if spec.loader is not None:
                    self._watch(spec.loader)
                return spec
        return None

    def _watch(self, loader: Any) -> None:
        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # the object's; the one of its class is visible again
            self._depth += 1
            try:
                loader.exec_module(module)
            finally:
                self._depth -= 1
            if self._depth == 0 and "torch" in sys.modules and self in sys.meta_path:
                sys.meta_path.remove(self)
                _install(self._table)

        loader.exec_module = exec_module
