"""Which containers a dataset consists of, and what in them is image and label."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace._engine import arguments
from headrace.errors import ArgumentError

if TYPE_CHECKING:
    Path = str | os.PathLike[str]


class Words(NamedTuple):
    """What ``Dataset``, ``Loader``, ``index`` and ``pack`` say alike of a source that is a path."""

    format: str | None = None
    image: str | None = None
    label: Any = None
    fields: Sequence[str] | None = None
    classes: Sequence[str] | None = None
    split: str | None = None
    root: Path | None = None

    def checked(self) -> Words:
        """The same as the engine takes them; only a label may yet be an array or another file."""
        one = {"format": self.format, "image": self.image, "split": self.split}
        several = {"fields": self.fields, "classes": self.classes}
        given: dict[str, Any] = {
            name: arguments.name(name, value) for name, value in one.items() if value is not None
        }
        for name, values in several.items():
            if values is not None:
                given[name] = arguments.each(name, values, arguments.name)
        if self.root is not None:
            given["root"] = arguments.path("root", self.root)
        return self._replace(**given)

    def refuse_with(self, what: str, is_: str = "a Dataset that") -> None:
        """Refuses words beside a dataset that is open, for it was told its own.

        Args:
            what: the name of the argument that the dataset was given as.
            is_: what that argument is, if not the dataset itself.
        """
        for name, value in self._asdict().items():
            if value is not None:
                raise ArgumentError(
                    f"{name}={value!r} is for a path, and {what} is {is_} is open already "
                    f"(expected the path, or Dataset(path, {name}=...))"
                )


def refuse_of_address(whose: str, **given: Any) -> None:
    """Refuses what is said of an address beside what has opened it already.

    Args:
        whose: what has its own, "a headrace.Dataset".
        given: by name; a value may be secret, so none is told.
    """
    for name, value in given.items():
        if value is not None:
            raise ArgumentError(f"{name}= is for an address; {whose} has its own")


def config(what: str, path: Path | Sequence[Path], words: Words) -> dict[str, Any]:
    """The engine's configuration of a source, which may be one path or several.

    Args:
        what: the name of the argument that the source was given as.
    """
    found: dict[str, Any] = {}
    if isinstance(path, list | tuple):
        found["containers"] = arguments.each(what, path, arguments.path)
    else:
        found["path"] = arguments.path(what, path)
    given = words.checked()._asdict()
    if words.label is not None:
        given["label"] = arguments.name("label", words.label)
    found |= {name: value for name, value in given.items() if value is not None}
    return found


def warn_of(info: Mapping[str, Any]) -> None:
    """Warns of what a scan has to say, where the user's own code opened the dataset."""
    for text in info.get("warnings", ()):
        warn(text)


# Folders of these names are splits, and no class of anybody's. A test of internal/scan compares
# them with its own.
_SPLITS = {"train", "training", "val", "valid", "validation", "dev", "test"}


def warn_of_splits(folder: str | os.PathLike[str], classes: Sequence[str]) -> None:
    """Warns where one folder too high was given, so that its splits have become the classes."""
    if classes and {name.lower() for name in classes} <= _SPLITS:
        first = os.path.join(arguments.printable(os.fspath(folder)), classes[0])
        warn(f"the classes are {', '.join(classes)}; if these are splits, open one, as {first}")


def class_folders(source: Any, count: int) -> list[str]:
    """The names of a folder's folders, if there are as many as a job found classes."""
    if not isinstance(source, str | os.PathLike) or not os.path.isdir(source):
        return []
    names = sorted(entry.name for entry in os.scandir(os.fspath(source)) if entry.is_dir())
    return names if len(names) == count else []


def warn(text: str) -> None:
    """Warns at the line of the user's own code."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("headrace."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)
