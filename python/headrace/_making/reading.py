"""Reads a program's own dataset in its order, in this process or in several."""

from __future__ import annotations

import traceback
from collections.abc import Generator, Mapping
from typing import Any

from headrace._engine import arguments
from headrace._making.items import Columns, Taken, take
from headrace.errors import ArgumentError, HeadraceError

# Items that a worker sends at once: more of them cost less time per item, but more memory waits.
_AT_ONCE = 8


def is_dataset(source: Any) -> bool:
    """Whether it is a map-style dataset, and not a path or a list of paths."""
    if isinstance(source, list | tuple):
        return bool(source) and isinstance(source[0], tuple | Mapping)
    if isinstance(source, str | bytes | bytearray | memoryview | Mapping):
        return False
    kind = type(source)
    return hasattr(kind, "__getitem__") and hasattr(kind, "__len__")


def chosen(source: Any, split: str | None) -> Any:
    """Chooses the dataset of a split, if there are several splits; otherwise returns what was
    given.

    Raises:
        ArgumentError: ``split`` is missing, or names no split.
    """
    if not isinstance(source, Mapping):
        return source
    if split is None or split not in source:
        names = arguments.shown(list(source))
        raise ArgumentError(f"source has the splits {names}; split= chooses one of them")
    return source[split]


def read(
    dataset: Any, columns: Columns, num_workers: int, with_images: bool = True
) -> Generator[Taken, None, None]:
    """Yields the items of a dataset in its order.

    Raises:
        ArgumentError, UnsupportedError: an item does not belong to a dataset of images.
        RuntimeError: the dataset raised; the sentence says what, and at which index.
    """
    items = _Items(dataset, columns, with_images)
    if num_workers:
        return _read_by_workers(items, num_workers)
    return (_given(items[index], index) for index in range(len(dataset)))


class _Items:
    """A dataset of what is to be written, or of what went wrong, as a worker can send it."""

    def __init__(self, dataset: Any, columns: Columns, with_images: bool) -> None:
        self._dataset, self._columns, self._with_images = dataset, columns, with_images

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Taken | Exception:
        try:
            item = self._dataset[index]
        except HeadraceError as failure:
            return failure
        except Exception as failure:
            # The reading process may not know the failure's class, so only its text is kept.
            said = "".join(traceback.format_exception_only(failure)).strip()
            found = RuntimeError(f"source[{index}]: {said}")
            found.__cause__ = failure
            return found
        try:
            return take(item, self._columns, self._with_images)
        except HeadraceError as failure:
            return failure


def _given(item: Taken | Exception, index: int) -> Taken:
    if isinstance(item, HeadraceError):
        raise type(item)(f"source[{index}]: {item.reason}") from item.__cause__
    if isinstance(item, Exception):
        raise item
    return item


def _read_by_workers(items: _Items, num_workers: int) -> Generator[Taken, None, None]:
    try:
        import torch
        import torch.utils.data.dataloader as torchs
    except ImportError:
        raise ArgumentError(
            f"num_workers={num_workers}: torch, whose DataLoader starts them, is not installed"
        ) from None
    # This finds torch's own class, even if headrace.install has given its name to another.
    kind: Any = next(base for base in torchs.DataLoader.__mro__ if type(base) is type)
    own = torch.Generator()  # leaves the program's generator unchanged
    loader = kind(items, _AT_ONCE, num_workers=num_workers, collate_fn=_as_they_are, generator=own)
    index = 0
    for batch in loader:
        for item in batch:
            yield _given(item, index)
            index += 1


def _as_they_are(batch: list[Any]) -> list[Any]:
    return batch
