"""The containers that a dataset consists of, and what in them is image and label."""

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
    """What ``Dataset``, ``Loader``, ``index`` and ``pack`` can be told about a source's path."""

    format: str | None = None
    image: str | None = None
    label: Any = None
    fields: Sequence[str] | None = None
    classes: Sequence[str] | None = None
    split: str | None = None
    root: Path | None = None

    def checked(self) -> Words:
        """The same as the engine takes it. Only a label may still be an array or another file."""
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
        """Refuses these words beside an open dataset, because it was opened with its own.

        Args:
            what: the name of the argument that holds the dataset.
            is_: what that argument is, if not the dataset itself.
        """
        for name, value in self._asdict().items():
            if value is not None:
                raise ArgumentError(
                    f"{name}={value!r} is for a path, and {what} is {is_} is open already "
                    f"(expected the path, or Dataset(path, {name}=...))"
                )


def refuse_of_address(whose: str, **given: Any) -> None:
    """Refuses words about an address beside something that was opened with its own.

    Args:
        whose: what was opened, such as "a headrace.Dataset".
        given: the words by name; a value may be secret, so none is shown.
    """
    for name, value in given.items():
        if value is not None:
            raise ArgumentError(f"{name}= is for an address; {whose} has its own")


def config(what: str, path: Path | Sequence[Path], words: Words) -> dict[str, Any]:
    """The engine's configuration of a source, which may be one path or several.

    Args:
        what: the name of the argument that holds the source.
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
    """Passes on the warnings of a scan, at the line of the user's code that opened the dataset."""
    for text in info.get("warnings", ()):
        warn(text)


# Folders with these names are splits and never classes. A test of internal/scan compares them with
# its own list.
_SPLITS = {"train", "training", "val", "valid", "validation", "dev", "test"}


def warn_of_splits(folder: str | os.PathLike[str], classes: Sequence[str]) -> None:
    """Warns if the folder given is one level too high, so that its splits became the classes."""
    if classes and {name.lower() for name in classes} <= _SPLITS:
        first = os.path.join(arguments.printable(os.fspath(folder)), classes[0])
        warn(f"the classes are {', '.join(classes)}; if these are splits, open one, as {first}")


def class_folders(source: Any, count: int) -> list[str]:
    """Returns the names of a folder's subfolders, if there are as many as a job found classes."""
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
