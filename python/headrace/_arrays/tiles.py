"""Chunks that hold parts of images, and chunks that were never written.

h5py and zarr-python choose such chunks if a program does not choose. All chunks that hold parts of
the same images make one block, which the engine assembles and keeps as a whole.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace._arrays.shapes import Axes, Chunk, Stretch, Tile, Tiles

if TYPE_CHECKING:
    Position = tuple[int, ...]  # the number of a chunk along each axis

MOST_BYTES = 256 << 20  # of a block that the engine decodes
MOST_MISSING = 1 << 20  # chunks that were never written
MOST_FILLED = 1 << 24  # images in such chunks


class Grid(NamedTuple):
    """An array that is cut into chunks, and those chunks that were written.

    Attributes:
        shape, chunk: the shape of the array and of each chunk.
        found: the written chunks, by their numbers along the axes.
        fill: the value of all chunks that were not written; None if the file does not state it.
    """

    shape: Sequence[int]
    chunk: Sequence[int]
    found: Mapping[Position, Tile]
    fill: int | None

    @property
    def counts(self) -> tuple[int, ...]:
        """How many chunks there are along each axis."""
        return tuple(-(-whole // one) for whole, one in zip(self.shape, self.chunk, strict=True))

    def check_written(self, refuse: Callable[[str], Exception]) -> None:
        """Refuses an array that lacks more chunks than a dataset may lack.

        The missing chunks are counted and not listed, because a file of 2 kB may claim 2**60 rows.
        """
        missing = math.prod(self.counts) - len(self.found)
        if not missing:
            return
        why = f"{missing} chunks were never written"
        images = (self.counts[0] - len({at[0] for at in self.found})) * self.chunk[0]
        if not self.found:
            raise refuse(f"{why}, which are all")
        if missing > MOST_MISSING or images > MOST_FILLED:
            raise refuse(why)
        if self.fill is None:
            raise refuse(f"{why}, and it has no fill value")

    def stretches(self, axes: Axes, refuse: Callable[[str], Exception]) -> list[Stretch]:
        """Returns where the images lie, chunk after chunk."""
        self.check_written(refuse)
        whole = tuple(self.chunk[1:]) == tuple(self.shape[1:])
        together = min(self.chunk[0], axes.rows)
        size = max(together * axes.stride, math.prod(self.chunk))
        if not whole and size > MOST_BYTES:
            raise refuse(
                f"its chunks of {tuple(self.chunk)} hold parts of images, and those of {together} "
                f"images have {size} bytes (at most {MOST_BYTES} are decoded as one)"
            )
        written = {at[0] for at in self.found}
        made: list[Stretch] = []
        for number in range(self.counts[0]):
            rows = min(self.chunk[0], axes.rows - number * self.chunk[0])
            if number not in written:
                made.append(self._filled(axes, rows))
            elif not whole:
                made.append(self._tiled(number, axes, rows))
            else:
                place = (number, *(0 for _ in self.shape[1:]))
                made.append(self._one(self.found[place], axes, rows))
        return made

    def _filled(self, axes: Axes, rows: int) -> Stretch:
        # One image stands for all of them.
        return Stretch(0, 0, 0, rows, Chunk(0, 0, axes.stride, "fill", fill=self.fill or 0))

    def _one(self, tile: Tile, axes: Axes, rows: int) -> Stretch:
        if tile.chunk.codec == "plain" and not tile.chunk.sum:
            return Stretch(tile.file, tile.chunk.offset, axes.stride, rows)
        return Stretch(tile.file, 0, axes.stride, rows, tile.chunk)

    def _tiled(self, number: int, axes: Axes, rows: int) -> Stretch:
        fill = Tile(0, Chunk(0, 0, math.prod(self.chunk), "fill", fill=self.fill or 0))
        inner = itertools.product(*(range(count) for count in self.counts[1:]))
        parts = [self.found.get((number, *at), fill) for at in inner]
        tiles = Tiles((rows, *self.shape[1:]), tuple(self.chunk), parts)
        return Stretch(0, 0, axes.stride, rows, tiles=tiles)


def chunk_of(coded: tuple[str, str] | None, offset: int, stored: int, size: int) -> Chunk:
    """Returns a chunk that went through a codec and a checksum; None: through neither."""
    return Chunk(offset, stored, size, *(coded or ("plain", "")))


def moved(stretch: Mapping[str, Any], files: int) -> None:
    """Adds ``files`` to the numbers of the files in a stretch's configuration."""
    tiles = stretch["tiles"]
    for one in (stretch, *(tiles["chunks"] if tiles else ())):
        one["file"] += files
