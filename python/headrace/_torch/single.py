"""Makes one sample of a ``DataLoader``: the engine or Pillow decodes it, and it is transformed."""

from __future__ import annotations

import contextlib
import ctypes
import io
import sys
from collections.abc import Callable
from typing import Any

import torch

from headrace._engine import _lib, abi
from headrace._torch import trailing
from headrace._torch.failures import joined
from headrace._torch.recipe import Recipe
from headrace._translate.result import Translation
from headrace.errors import HeadraceError


class Work:
    """The work for a sample. Several threads may do it at once."""

    def __init__(self, recipe: Recipe) -> None:
        self._samples = recipe.samples
        self._translation = recipe.translation
        self._strict = recipe.strict
        self._anew = recipe.translation.anew
        self._config = recipe.config()
        if recipe.translation.gives != "PIL image":
            self._config["layout"] = "NCHW"
        self._limits = recipe.samples.dataset._config.get("limits") or {}

    def sample(self, row: int, key: dict[str, int]) -> Any:
        """The sample of a row, without what its transforms do in Python.

        Args:
            key: what the transforms' draws are keyed by: seed, epoch, sample and draw.

        Raises:
            HeadraceError: its file cannot be decoded. For a folder's file it is an ``OSError``,
                too.
        """
        dataset, labels, made = self._samples.dataset, self._samples.labels, self._translation
        if labels is None and not made and not made.rest:
            return dataset[row]  # a headrace.Dataset without a transform gives its own sample
        image = self._wrapped(*self._image(row, key))
        return image, int(dataset.facts(row)["label"]) if labels is None else labels[row]

    def rest(self, sample: Any) -> Any:
        """The sample as its dataset would have returned it: runs the program's own functions."""
        if not self._translation.rest:
            return sample
        image, label = sample
        for op in self._translation.rest:
            image = op(image)
        return image, label

    def _image(
        self, row: int, key: dict[str, int]
    ) -> tuple[torch.Tensor, bytearray | dict[Any, Any]]:
        """The image; and its file's bytes, or if Pillow decoded it, the ``info`` of Pillow's."""
        foreign = self._samples.foreign
        if foreign is None:
            return self.native(row, key)
        if row not in foreign.rows:
            try:
                return self.native(row, key)
            except HeadraceError as failure:
                if self._strict and foreign.refused(failure):
                    raise joined(failure, OSError()) from failure
                if not foreign.take(failure):
                    raise
        try:
            data, limits, info = foreign.read(row)
        except MemoryError:
            raise
        except Exception as theirs:
            try:
                return self.native(row, key)  # the engine says what is wrong with the file
            except HeadraceError as failure:
                raise joined(failure, theirs) from theirs
        return self._decoded(row, data, self._config | key | {"limits": limits}), info

    def native(self, row: int, key: dict[str, int]) -> tuple[torch.Tensor, bytearray]:
        """The image as the engine decodes it, and its file's bytes.

        The image is HWC if it is to become a PIL image, else CHW.
        """
        data = self._samples.dataset.read(row)
        return self._decoded(row, data, self._config | key | {"limits": self._limits}), data

    def _decoded(self, row: int, data: bytearray, config: dict[str, Any]) -> torch.Tensor:
        try:
            return _decoded(data, config)
        except HeadraceError as failure:
            if failure.file is None:  # the decoder got only bytes
                failure.file, failure.record = self._samples.dataset.facts(row)["path"], row
                failure.reason = f"{failure.file}: record {row}: {failure.reason}"
            raise

    def _wrapped(self, image: torch.Tensor, data: bytearray | dict[Any, Any]) -> Any:
        if self._translation.gives == "PIL image":
            from PIL import Image

            # An image of one channel has mode L, whose array has no third dimension.
            made = Image.fromarray(
                image.numpy().squeeze(2) if image.shape[2] == 1 else image.numpy()
            )
            made.info = {}
            if not self._anew:
                info = data if isinstance(data, dict) else _info(data)
                made.info = _converted(info, "RGB", made.mode)
            return made
        return wrapper(self._translation)(image)


def _info(data: bytearray) -> dict[Any, Any]:
    """The ``info`` that Pillow's image of a file would have, converted to RGB.

    The program's own code may look at it, for example for EXIF's orientation.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as opened:
            info: dict[Any, Any] = opened.info
            with contextlib.suppress(OSError, SyntaxError):  # what Pillow reads before it fails
                info |= trailing.found_in(data, opened.format)
            if "transparency" not in info:
                return info
            palette = opened.getpalette() if opened.mode == "P" else None
            return _converted(info, opened.mode, "RGB", palette)
    # This Pillow does not know the kind of file, or does not convert the mode; or the image is
    # larger than Pillow opens, which limits= may allow.
    except (OSError, ValueError, Image.DecompressionBombError):
        return {}


def _converted(info: Any, mode: str, other: str, palette: Any = None) -> dict[Any, Any]:
    """The ``info`` of an image that is converted to another mode.

    Pillow also converts a transparent colour in it.
    """
    from PIL import Image

    if mode == other or "transparency" not in info:
        return info  # type: ignore[no-any-return]
    if isinstance(info["transparency"], bytes):  # several colours: Pillow drops them, and warns
        return {name: value for name, value in info.items() if name != "transparency"}
    one = Image.new(mode, (1, 1))
    if palette is not None:
        one.putpalette(palette)
    one.info = info
    return one.convert(other).info


def wrapper(made: Translation) -> Callable[[torch.Tensor], torch.Tensor]:
    """What gives a tensor the class that torchvision's transforms would have given it."""
    if made.gives != "tv_tensors.Image":
        return lambda image: image
    # This module is loaded, because v2 is. An import here would make torchvision a dependency.
    kind: Callable[[torch.Tensor], torch.Tensor] = sys.modules["torchvision.tv_tensors"].Image
    return kind


def _decoded(data: bytearray, config: dict[str, Any]) -> torch.Tensor:
    """One image, decoded and transformed: HWC, or CHW if the layout is NCHW."""

    def room(found: abi.Image) -> tuple[torch.Tensor, int]:
        dtype: torch.dtype = getattr(torch, config["dtype"])
        channels = found.bytes // (found.height * found.width * dtype.itemsize)
        shape = (found.height, found.width, channels)
        if config.get("layout") == "NCHW":
            shape = (channels, found.height, found.width)
        image = torch.empty(shape, dtype=dtype, device="cpu")
        return image, image.data_ptr()

    return _lib.decode((ctypes.c_char * len(data)).from_buffer(data), len(data), config, room)
