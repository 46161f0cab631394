"""Records Pillow's and torchvision's functions that make one image of another.

A call is recorded if the engine makes the same bytes for its arguments; otherwise the function does
what it always does, with Pillow's pixels.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import PIL.Image
import PIL.ImageOps

from headrace._deferred import decoding, finishing, numeric
from headrace._deferred.chain import Op
from headrace._deferred.image import DeferredImage, native_chain
from headrace._deferred.methods import LARGEST, colour_of
from headrace._deferred.recording import Recording
from headrace._deferred.switches import NOT_RECORDED, Handler
from headrace._deferred.tensorfunctions import KERNELS

# With these Pillow keeps all of an image's ``info``, a transparent colour included.
_OF_POINTS = (
    *("AdjustGamma", "AdjustSharpness", "Autocontrast", "Equalize", "Invert", "Posterize"),
    "Solarize",
)
# These use Image.new or Image.fromarray, which make an image without ``info``.
_ANEW = ("AdjustBrightness", "AdjustContrast", "AdjustHue", "Blur", "Grayscale", "Pad")
_MODES = ("constant", "edge", "reflect", "symmetric")


def _recorded(
    original: Callable[..., Any],
    image: Any,
    arguments: tuple[Any, ...],
    size: tuple[int, int] | None = None,
    **op: Any,
) -> Any:
    """The image with a further op, which does what the function does with its arguments."""
    chain, name = native_chain(image), op["name"]
    if chain is None or chain.full or (name not in _OF_POINTS and image.names_a_colour):
        return NOT_RECORDED  # each function treats a transparent colour in its own way
    anew = name in _ANEW
    made = Op(json.dumps(op), partial(_again, original, arguments), anew=anew)
    return image.then(chain.then(made, size or chain.size), anew)


def _again(original: Callable[..., Any], arguments: tuple[Any, ...], image: Any) -> Any:
    return original(image, *arguments)


# ---- PIL.ImageOps --------------------------------------------------------------------------------


def _plain(name: str) -> Handler:
    """The handler of a function that takes an image and perhaps a mask, which has to be None."""

    def handler(found: Recording, original: Any, image: Any, *mask: Any) -> Any:
        if any(one is not None for one in mask):
            return NOT_RECORDED
        return _recorded(original, image, (), name=name)

    return handler


def _autocontrast(
    found: Recording,
    original: Any,
    image: Any,
    cutoff: Any = 0,
    ignore: Any = None,
    mask: Any = None,
    preserve_tone: Any = False,
) -> Any:
    uncut = cutoff is None or (type(cutoff) in (int, float) and cutoff == 0)
    # ignore=0 is no default: pixels of value 0 are not counted then.
    if not uncut or ignore is not None or mask is not None or preserve_tone is not False:
        return NOT_RECORDED
    return _recorded(original, image, (), name="Autocontrast")


def _posterize(found: Recording, original: Any, image: Any, bits: Any) -> Any:
    bits = numeric.whole(bits)
    if bits is None or not 1 <= bits <= 8:
        return NOT_RECORDED
    return _recorded(original, image, (bits,), name="Posterize", bits=bits)


def _solarize(found: Recording, original: Any, image: Any, threshold: Any = 128) -> Any:
    threshold = numeric.number(threshold)
    if not numeric.within(threshold, -1e6, 1e6):
        return NOT_RECORDED
    return _recorded(original, image, (threshold,), name="Solarize", threshold=threshold)


def _expand(found: Recording, original: Any, image: Any, border: Any = 0, fill: Any = 0) -> Any:
    colour = None if fill is None else colour_of(fill, getattr(image, "mode", ""))
    if colour is None:
        return NOT_RECORDED
    return _padded(original, image, (border, fill), border, fill=colour)


def _pad_to(
    found: Recording,
    original: Any,
    image: Any,
    size: Any,
    method: Any = PIL.Image.Resampling.BICUBIC,
    color: Any = None,
    centering: Any = (0.5, 0.5),
) -> Any:
    """``ImageOps.pad``: the image, as large as it fits into the size, with a colour around it."""
    fill = colour_of(color, getattr(image, "mode", ""))
    if native_chain(image) is None or fill is None:
        return NOT_RECORDED
    resized = PIL.ImageOps.contain(image, size, method)
    if resized.size == size or native_chain(resized) is None:
        return resized if resized.size == size else NOT_RECORDED
    across, down = size[0] - resized.width, size[1] - resized.height
    along = 0 if across else 1
    before = round((across or down) * max(0, min(centering[along], 1)))
    left, top = (before, 0) if across else (0, before)
    border = (left, top, across - left, down - top)
    return _padded(PIL.ImageOps.expand, resized, (border, color or 0), border, fill=fill)


def _pad(
    found: Recording,
    original: Any,
    image: Any,
    padding: Any,
    fill: Any = 0,
    padding_mode: Any = "constant",
) -> Any:
    """torchvision's ``pad``, which fills all channels if the colour is one number."""
    one = type(fill) is int and 0 <= fill <= 255
    colour = 0 if fill is None else fill if one else colour_of(fill, getattr(image, "mode", ""))
    if colour is None or padding_mode not in _MODES:
        return NOT_RECORDED
    border = tuple(padding) if isinstance(padding, list) else padding
    border = border[0] if isinstance(border, tuple) and len(border) == 1 else border
    if padding_mode != "constant" and not isinstance(border, int | tuple):
        return NOT_RECORDED  # torchvision refuses NumPy's numbers there
    if padding_mode in ("reflect", "symmetric") and max(_four(border), default=0) > _least(image):
        return NOT_RECORDED
    arguments = (padding, fill, padding_mode)
    return _padded(original, image, arguments, border, fill=colour, padding_mode=padding_mode)


def _padded(original: Any, image: Any, arguments: tuple[Any, ...], border: Any, **op: Any) -> Any:
    sides = _four(border)
    if not sides or not all(0 <= side <= LARGEST for side in sides):
        return NOT_RECORDED
    left, top, right, bottom = sides
    size = (left + image.size[0] + right, top + image.size[1] + bottom)
    if max(size) > LARGEST:
        return NOT_RECORDED
    return _recorded(original, image, arguments, size, name="Pad", padding=sides, **op)


def _four(border: Any) -> list[int]:
    """Left, top, right, bottom, as ImageOps reads a border; empty if it is no border."""
    given = list(border) if isinstance(border, tuple) else [border] * 4
    given = given * 2 if len(given) == 2 else given
    sides = [side for side in map(numeric.whole, given) if side is not None]
    return sides if len(sides) == len(given) == 4 else []


def _least(image: Any) -> int:
    """By how many pixels an image can be padded with its own mirror image at once."""
    return min(image.size) - 1 if isinstance(image, DeferredImage) else 0


# ---- PIL.ImageEnhance ----------------------------------------------------------------------------

_ENHANCERS = {
    "Brightness": "AdjustBrightness",
    "Color": "AdjustSaturation",
    "Contrast": "AdjustContrast",
    "Sharpness": "AdjustSharpness",
}


def _enhancer(name: str) -> Handler:
    """The handler of an enhancer's ``__init__``, which makes the image that a factor of 0 gives."""

    def handler(found: Recording, original: Any, self: Any, image: Any) -> Any:
        made = _recorded(partial(_enhanced, type(self)), image, (0.0,), name=name, factor=0.0)
        if made is NOT_RECORDED:
            return NOT_RECORDED
        self.image, self.degenerate = image, made
        if name == "AdjustSaturation":
            self.intermediate_mode = "L"
        return None

    return handler


def _enhance(found: Recording, original: Any, self: Any, factor: Any) -> Any:
    kind, image, factor = type(self), getattr(self, "image", None), numeric.number(factor)
    name = _ENHANCERS.get(kind.__name__, "") if kind.__module__ == "PIL.ImageEnhance" else ""
    if not name or type(image) is not DeferredImage or not numeric.within(factor, 0, 1e9):
        return NOT_RECORDED
    # It blends the image and the degenerate one, so both must be as they were in `__init__`.
    other = getattr(self.degenerate, "chain", None)
    chain = image.chain
    if other is None or chain is None or other.source is not chain.source:
        return NOT_RECORDED
    if other.ops[:-1] != chain.ops or other.key != chain.key:
        return NOT_RECORDED
    return _recorded(partial(_enhanced, kind), image, (factor,), name=name, factor=factor)


def _enhanced(kind: Any, image: Any, factor: float) -> Any:
    return kind(image).enhance(factor)


# ---- torchvision's functions of PIL images -------------------------------------------------------


def _grey(found: Recording, original: Any, image: Any, num_output_channels: Any) -> Any:
    chain = native_chain(image)
    if chain is not None and num_output_channels == 1:
        return image.convert("L")
    if chain is None or chain.mode != "RGB" or num_output_channels != 3:
        return NOT_RECORDED
    return _recorded(original, image, (3,), name="Grayscale", num_output_channels=3)


def _hue(found: Recording, original: Any, image: Any, hue_factor: Any) -> Any:
    if getattr(image, "mode", "") != "RGB":
        return NOT_RECORDED  # torchvision returns an image without colours as it is
    hue_factor = numeric.exact(hue_factor)
    if not numeric.within(hue_factor, -0.5, 0.5):
        return NOT_RECORDED
    return _recorded(original, image, (hue_factor,), name="AdjustHue", factor=hue_factor)


def _gamma(found: Recording, original: Any, image: Any, gamma: Any, gain: Any = 1.0) -> Any:
    if not numeric.within(gamma, 0, 1e9) or not numeric.within(gain, -1e6, 1e6):
        return NOT_RECORDED
    return _recorded(original, image, (gamma, gain), name="AdjustGamma", gamma=gamma, gain=gain)


_LARGEST_KERNEL = 1023  # the engine's bound (docs/limits.md)


def _blur(found: Recording, original: Any, image: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """torchvision's Gaussian blur, with a kernel size and a deviation across and down."""
    if native_chain(image) is None:  # v1's function takes tensors, too
        return NOT_RECORDED
    of_one = isinstance(kernel_size, list | tuple) and len(kernel_size) == 1
    kernel = [] if of_one else _two(kernel_size)  # torchvision refuses a list of one
    if any(type(side) is not int for side in kernel):
        return NOT_RECORDED
    if sigma is None and kernel:
        sigma = [0.15 * side + 0.35 for side in kernel]
    deviations = _two(sigma)
    bounded = all(numeric.within(one, 1e-9, 1e6) for one in deviations)
    if not kernel or not deviations or not bounded:
        return NOT_RECORDED
    for side, size in zip(kernel, image.size, strict=True):
        if side % 2 == 0 or not 0 < side <= _LARGEST_KERNEL:
            return NOT_RECORDED
        if side // 2 >= size:  # torch refuses to pad so far
            return NOT_RECORDED
    arguments = (kernel, deviations)
    op: dict[str, Any] = {"kernel_size": kernel, "sigma": [*map(float, deviations)]}
    return _recorded(original, image, arguments, name="Blur", **op)


def _two(value: Any) -> list[Any]:
    """Two numbers of a number, or of a list of one or two; empty if it is neither."""
    listed = list(value) if isinstance(value, list | tuple) else [value]
    return listed * 2 if len(listed) == 1 else listed if len(listed) == 2 else []


# The handlers by the names of functions or methods, by the module that defines these.
FUNCTIONS: dict[str, dict[str, Handler]] = {
    "PIL.ImageOps": {
        "autocontrast": _autocontrast,
        "equalize": _plain("Equalize"),
        "expand": _expand,
        "invert": _plain("Invert"),
        "pad": _pad_to,
        "posterize": _posterize,
        "solarize": _solarize,
    },
    "PIL.ImageEnhance": {
        "_Enhance.enhance": _enhance,
        **{f"{kind}.__init__": _enhancer(name) for kind, name in _ENHANCERS.items()},
    },
    "torchvision.transforms._functional_pil": {
        "adjust_gamma": _gamma,
        "adjust_hue": _hue,
        "pad": _pad,
        "to_grayscale": _grey,
    },
    "torchvision.transforms.functional": {
        "convert_image_dtype": finishing.always,
        "erase": finishing.of_its_class(finishing.erase),
        "gaussian_blur": _blur,
        "normalize": finishing.normalize,
        "pil_to_tensor": finishing.pil_to_tensor,
        "to_pil_image": finishing.to_pil_image,
        "to_tensor": finishing.to_tensor,
    },
    "torchvision.transforms.v2.functional._augment": {"erase_image": finishing.erase},
    "torchvision.transforms.v2.functional._misc": {
        "_gaussian_blur_image_pil": _blur,
        "convert_image_dtype": finishing.v2_always,
        "normalize": finishing.of_its_class(finishing.normalize),
        "normalize_image": finishing.normalize,
        "to_dtype": finishing.of_its_class(finishing.asked),
        "to_dtype_image": finishing.asked,
    },
    **decoding.FUNCTIONS,
    **KERNELS,
}
