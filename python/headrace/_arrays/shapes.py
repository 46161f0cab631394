"""The axes of an array of images, and their configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from headrace._engine import arguments
from headrace.errors import ArgumentError, BadFileError, UnsupportedError

LAYOUTS = ("NHW", "NHWC", "NCHW")
_CHANNELS = (1, 3, 4)
PACK = "headrace.pack takes any map-style dataset that gives its images as uint8 arrays"


def bad(path: str, text: str, record: int | None = None, offset: int | None = None) -> BadFileError:
    """Makes the error of a file whose bytes are wrong, worded like the engine's errors."""
    where = f"{path}: " if record is None else f"{path}: record {record}: "
    return BadFileError(f"{where}bad: {text}", file=path, record=record, offset=offset)


def unsupported(path: str, text: str) -> UnsupportedError:
    """Makes the error of a file whose bytes are right but which is not read."""
    return UnsupportedError(f"{path}: unsupported: {text}", file=path)


class Chunk(NamedTuple):
    """A stretch of a file that decodes to whole images.

    Attributes:
        offset: bytes from the beginning of the file.
        stored: its bytes in the file.
        size: its bytes after decoding.
        codec, sum: in the engine's words (docs/c-abi.md).
        fill: for the codec "fill", which stores nothing: the value of every byte.
    """

    offset: int
    stored: int
    size: int
    codec: str
    sum: str = ""
    fill: int = 0


class Tile(NamedTuple):
    """A chunk with the number of its file."""

    file: int
    chunk: Chunk


class Tiles(NamedTuple):
    """Chunks that hold parts of images; only together they decode to whole images.

    Attributes:
        shape: the shape of those images together, with the axes in stored order.
        chunk: the shape of each chunk.
        parts: the chunks; the last axis changes first.
    """

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    parts: Sequence[Tile]


class Stretch(NamedTuple):
    """Images at equal distances in a file, in a chunk of it, or in the block that several chunks
    make.

    Attributes:
        file: the file's number.
        offset: where the first image begins, in the file or in the decoded chunk.
        stride: bytes from image to image.
    """

    file: int
    offset: int
    stride: int
    rows: int
    chunk: Chunk | None = None
    tiles: Tiles | None = None

    def config(self) -> dict[str, Any]:
        """Returns what the engine is told of it."""
        said = self._asdict()
        said["chunk"] = None if self.chunk is None else self.chunk._asdict()
        if self.tiles is not None:
            chunks = [{"file": one.file, **one.chunk._asdict()} for one in self.tiles.parts]
            about = {"shape": list(self.tiles.shape), "chunk": list(self.tiles.chunk)}
            said["tiles"] = {**about, "chunks": chunks}
        return said

    def chunks(self) -> Iterator[Chunk]:
        """The chunks that it decodes."""
        if self.chunk is not None:
            yield self.chunk
        elif self.tiles is not None:
            yield from (one.chunk for one in self.tiles.parts)


class Axes(NamedTuple):
    """The axes of an array of images. Strides are in bytes, from one value to the next."""

    rows: int
    height: int
    width: int
    channels: int
    stride: int  # from image to image
    strides: tuple[int, int, int]  # from row to row, pixel to pixel, channel to channel
    layout: str = "NHWC"

    def config(self, stretches: Sequence[Stretch]) -> dict[str, Any]:
        """Returns the array's configuration, without the files or the memory in which it lies."""
        return {
            "height": self.height,
            "width": self.width,
            "channels": self.channels,
            "strides": list(self.strides),
            "stretches": [one.config() for one in stretches],
        }


def check_dtype(name: str, dtype: Any) -> None:
    """Refuses every dtype but uint8.

    Raises:
        UnsupportedError: another dtype, which the sentence names.
    """
    if str(dtype) not in ("uint8", "|u1", "torch.uint8"):
        text = f"{name} is of dtype {dtype}, only uint8 is read in place"
        raise UnsupportedError(f"{text}; convert it, or {PACK}")


def axes(
    name: str, shape: Sequence[int], strides: Sequence[int] | None, layout: str | None
) -> Axes:
    """Returns the axes of an array with this shape.

    Args:
        name: what an error calls the array.
        strides: the stride of each axis; None for C order without gaps.
        layout: one of ``LAYOUTS``; None if the axis of size 1, 3 or 4 is the channel.

    Raises:
        ArgumentError: it is not an array of images, or both or none of its axes can be the channel.
    """
    found = tuple(int(length) for length in shape)
    if strides is None:
        steps = [1]
        for length in found[:0:-1]:
            steps.insert(0, steps[0] * length)
        strides = steps
    layout = _layout(name, found, layout)
    place = [layout.find(letter) for letter in "NHWC"]
    sizes = [1 if at < 0 else found[at] for at in place]
    steps = [0 if at < 0 else int(strides[at]) for at in place]
    if sizes[3] not in _CHANNELS:
        raise ArgumentError(
            f"{name} has {sizes[3]} channels in layout={layout!r} (expected 1, 3 or 4)"
        )
    inner = (steps[1], steps[2], steps[3])
    return Axes(sizes[0], sizes[1], sizes[2], sizes[3], steps[0], inner, layout)


def _layout(name: str, shape: tuple[int, ...], layout: str | None) -> str:
    if layout is not None:
        arguments.choice("layout", layout, LAYOUTS)
        if len(shape) != len(layout):
            raise ArgumentError(f"{name} has the shape {shape}, which is not layout={layout!r}")
        return layout
    if len(shape) == 3:
        return "NHW"
    if len(shape) != 4:
        allowed = "(N, H, W), (N, H, W, C) or (N, C, H, W)"
        raise ArgumentError(f"{name} has the shape {shape} (expected {allowed})")
    last, second = shape[3] in _CHANNELS, shape[1] in _CHANNELS
    if last == second:
        which = "either" if last else "neither"
        raise ArgumentError(
            f"{name} has the shape {shape}, where {which} of the axes 1 and 3 can be the channels, "
            'which are 1, 3 or 4: layout="NHWC" or "NCHW" of its headrace.Dataset says it'
        )
    return "NHWC" if last else "NCHW"
