"""Arrays of images that the program holds in memory."""

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
    """An array in a dataset's configuration. It is pickled whole, and tells the engine its address.

    Args:
        tensor: the torch tensor that owns the array's memory, if there is one.
    """

    def __init__(self, array: NDArray[np.uint8], tensor: Any = None) -> None:
        self.array, self._tensor = array, tensor

    def __reduce__(self) -> Any:
        # All bytes between its ends are kept, because the configuration names places by the array's
        # own strides.
        low, high = self.bounds()
        data = bytes((ctypes.c_char * (high - low)).from_address(low))
        return _anew, (data, self.array.shape, self.array.strides, self.array.ctypes.data - low)

    def check_in_place(self) -> None:
        """Refuses a tensor if torch has moved its memory since, and has freed the former memory.

        Raises:
            ClosedError: the tensor was shared with other processes, resized or set.
        """
        if self._tensor is not None and self._tensor.data_ptr() != self.array.ctypes.data:
            raise ClosedError(
                "the tensor's memory was moved, as share_memory_() does and sending it to another "
                "process: make the dataset behind that, or of a copy"
            )

    def bounds(self) -> tuple[int, int]:
        """The addresses of its first byte and of the byte behind its last one."""
        low = high = self.array.ctypes.data
        for length, step in zip(self.array.shape, self.array.strides, strict=True):
            low, high = low + min(0, (length - 1) * step), high + max(0, (length - 1) * step)
        return low, high + 1

    def to_json(self) -> dict[str, int]:
        """Returns what the engine is told of it."""
        low, high = self.bounds()
        return {"address": low, "bytes": high - low}


def _anew(data: bytes, shape: Any, strides: Any, offset: int) -> Held:
    # A bytearray does not move, and the array keeps it alive.
    return Held(np.ndarray(shape, np.uint8, bytearray(data), offset, strides))


def within(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the arrays in memory of a dataset's configuration and of its parts."""
    if config.get("array", {}).get("memory") is not None:
        yield config["array"]
    for part in config.get("parts", ()):
        yield from within(part)


def copied(config: dict[str, Any]) -> dict[str, Any]:
    """Copies the configuration for another dataset, which may be closed on its own."""
    found = dict(config)
    if "array" in found:
        found["array"] = dict(found["array"])
    if "parts" in found:
        found["parts"] = [copied(part) for part in found["parts"]]
    return found


def check_given_back(config: dict[str, Any]) -> None:
    """Refuses a dataset that was closed and gave back its array.

    Raises:
        ClosedError: it cannot be opened again.
    """
    array = config.get("array", {})
    if "memory" in array and array["memory"] is None:
        raise ClosedError("the dataset was closed, which gave its array back")
    for part in config.get("parts", ()):
        check_given_back(part)


def config(images: Any, layout: str | None) -> dict[str, Any]:
    """Returns what the engine is told of an array in memory.

    Raises:
        ArgumentError, UnsupportedError: it is not an array of uint8 images.
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
    """Returns the array, and the tensor that owns its memory, if there is one."""
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
    """A label for each image, as ints. Takes a sequence, an array or a tensor of whole numbers.

    Args:
        classes: the classes' names in the order of their numbers, for labels that are names.

    Raises:
        ArgumentError: there is not one label for each image, or a label is not a class.
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
