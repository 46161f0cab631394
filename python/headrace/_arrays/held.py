"""Arrays of images in memory that the program holds."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._arrays import shapes
from headrace._engine import arguments
from headrace.errors import ArgumentError, ClosedError, EmptyDatasetError, UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Held:
    """An array in a dataset's configuration, which is pickled whole and tells the engine where.

    Args:
        tensor: torch's, whose memory the array is.
    """

    def __init__(self, array: NDArray[np.uint8], tensor: Any = None) -> None:
        self.array, self._tensor = array, tensor

    def __reduce__(self) -> Any:
        # All bytes between its ends: the configuration names places by the steps that it has.
        low, high = self.bounds()
        data = bytes((ctypes.c_char * (high - low)).from_address(low))
        return _anew, (data, self.array.shape, self.array.strides, self.array.ctypes.data - low)

    def check_in_place(self) -> None:
        """Refuses a tensor whose memory torch has put elsewhere, and given back, meanwhile.

        Raises:
            ClosedError: it was shared with other processes, resized or set.
        """
        if self._tensor is not None and self._tensor.data_ptr() != self.array.ctypes.data:
            raise ClosedError(
                "the tensor's memory was moved, as share_memory_() does and sending it to another "
                "process: make the dataset behind that, or of a copy"
            )

    def bounds(self) -> tuple[int, int]:
        """The addresses of its first byte and of the one behind its last."""
        low = high = self.array.ctypes.data
        for length, step in zip(self.array.shape, self.array.strides, strict=True):
            low, high = low + min(0, (length - 1) * step), high + max(0, (length - 1) * step)
        return low, high + 1

    def to_json(self) -> dict[str, int]:
        """What the engine is told of it."""
        low, high = self.bounds()
        return {"address": low, "bytes": high - low}


def _anew(data: bytes, shape: Any, strides: Any, offset: int) -> Held:
    # A bytearray, which stays where it is and is kept by the array.
    return Held(np.ndarray(shape, np.uint8, bytearray(data), offset, strides))


def within(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The arrays of a dataset's configuration, and of its parts', that lie in memory."""
    if config.get("array", {}).get("memory") is not None:
        yield config["array"]
    for part in config.get("parts", ()):
        yield from within(part)


def copied(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration for a dataset of its own, which may be closed by itself."""
    found = dict(config)
    if "array" in found:
        found["array"] = dict(found["array"])
    if "parts" in found:
        found["parts"] = [copied(part) for part in found["parts"]]
    return found


def check_given_back(config: dict[str, Any]) -> None:
    """Refuses a dataset that was closed, and with it had its array.

    Raises:
        ClosedError: it cannot be opened again.
    """
    array = config.get("array", {})
    if "memory" in array and array["memory"] is None:
        raise ClosedError("the dataset was closed, which gave its array back")
    for part in config.get("parts", ()):
        check_given_back(part)


def config(images: Any, layout: str | None) -> dict[str, Any]:
    """What the engine is told of an array in memory.

    Raises:
        ArgumentError, UnsupportedError: it is no array of images of uint8.
    """
    array, tensor = _array(images)
    if not array.size:
        raise EmptyDatasetError(f"images has the shape {array.shape}: it holds no image")
    found, held = shapes.axes("images", array.shape, array.strides, layout), Held(array, tensor)
    offset = array.ctypes.data - held.bounds()[0]
    said = {"format": "memory", "layout": found.layout, "shape": list(array.shape)}
    return {
        **found.config([shapes.Stretch(0, offset, found.stride, found.rows)]),
        "memory": held,
        "source": {**said, "dtype": "uint8"},
    }


def _array(images: Any) -> tuple[NDArray[np.uint8], Any]:
    """The array, and the tensor whose memory it is, if it is one's."""
    given = None
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    if tensor is not None and isinstance(images, tensor):
        shapes.check_dtype("images", images.dtype)
        if images.device.type != "cpu" or str(images.layout) != "torch.strided":
            raise UnsupportedError(
                f"images is a tensor of layout {images.layout} on {images.device}: only dense "
                "ones in the memory of the CPU are read, as images.to_dense().cpu() is"
            )
        given, images = images, images.detach().numpy()
    if not isinstance(images, np.ndarray):
        allowed = "a NumPy array, a memory map or a torch tensor of uint8"
        raise arguments.refuse_type("images", images, allowed)
    shapes.check_dtype("images", images.dtype)
    return images, given


def labels(values: Any, rows: int, classes: Sequence[str] | None = None) -> list[int] | None:
    """A label for each image, as ints: of a sequence, an array or a tensor of whole numbers.

    Args:
        classes: their names in the order of their numbers, for labels that are names.

    Raises:
        ArgumentError: they are not as many as the images, or one is no class.
    """
    if values is None:
        return None
    try:
        found = np.asarray(values)
    except (TypeError, ValueError):
        raise arguments.refuse_type("labels", values, "a sequence of whole numbers") from None
    if found.size != rows or found.shape[:1] != (rows,):
        raise ArgumentError(
            f"labels has the shape {found.shape} (expected ({rows},), one an image)"
        )
    if found.dtype.kind == "U" and classes is not None:
        numbers = {name: number for number, name in enumerate(classes)}
        missing = sorted(set(found.ravel().tolist()) - set(numbers))
        if missing:
            raise arguments.refuse("labels", missing[0], "one of the classes")
        return [numbers[name] for name in found.ravel().tolist()]
    if found.dtype.kind not in "iu":
        raise ArgumentError(f"labels is of dtype {found.dtype} (expected whole numbers)")
    if found.min() < -1 or found.max() >= 2**31:
        wrong = found.min() if found.min() < -1 else found.max()
        raise arguments.refuse("labels", int(wrong), "class numbers, or -1 for none,")
    numbers_found: list[int] = found.ravel().tolist()
    return numbers_found
