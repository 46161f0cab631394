"""Records Pillow's methods that make one image of another, as the engine's transforms.

If a method is not recorded for its arguments, Pillow does it, with the image's pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import PIL.Image
from PIL.Image import Dither, Palette, Resampling, Transform, Transpose
from PIL.ImageFilter import GaussianBlur

from headrace._deferred import palettes
from headrace._deferred.chain import Chain, Op, op
from headrace._deferred.numeric import exact, number, whole

_FILTERS = {
    Resampling.NEAREST: "nearest",
    Resampling.BOX: "box",
    Resampling.BILINEAR: "bilinear",
    Resampling.HAMMING: "hamming",
    Resampling.BICUBIC: "bicubic",
    Resampling.LANCZOS: "lanczos",
}
_WARPS = (Resampling.NEAREST, Resampling.BILINEAR, Resampling.BICUBIC)
_MAPS: dict[Any, str] = {Transform.AFFINE: "AffineMap", Transform.PERSPECTIVE: "Perspective"}
LARGEST = 65_535  # the engine's bound for a side and for a corner (docs/limits.md)
_WIDEST = 1000  # the engine's bound for a blur's radius
_LEFT_RIGHT = '{"name":"RandomHorizontalFlip","p":1.0}'
_TOP_BOTTOM = '{"name":"RandomVerticalFlip","p":1.0}'
_QUARTER = '{"name":"Rotate","angle":90.0,"expand":true}'
_THREE_QUARTERS = '{"name":"Rotate","angle":270.0,"expand":true}'
_TRANSPOSES = {
    Transpose.FLIP_LEFT_RIGHT: _LEFT_RIGHT,
    Transpose.FLIP_TOP_BOTTOM: _TOP_BOTTOM,
    Transpose.ROTATE_180: f"{_LEFT_RIGHT},{_TOP_BOTTOM}",
    Transpose.ROTATE_90: _QUARTER,
    Transpose.ROTATE_270: _THREE_QUARTERS,
    Transpose.TRANSPOSE: f"{_QUARTER},{_TOP_BOTTOM}",
    Transpose.TRANSVERSE: f"{_QUARTER},{_LEFT_RIGHT}",
}
_TURNED = (Transpose.ROTATE_90, Transpose.ROTATE_270, Transpose.TRANSPOSE, Transpose.TRANSVERSE)


class RecordedImage(PIL.Image.Image):
    """An image with a chain of ops that are not done yet.

    Attributes:
        chain: the chain; None: it is like any other image.
    """

    chain: Chain | None

    def of(self, chain: Chain) -> RecordedImage:
        """An image of the same class with another chain."""
        raise NotImplementedError

    def twin(self, what: str = "") -> PIL.Image.Image:
        """An image of Pillow's own class with the same pixels, which nobody may change."""
        raise NotImplementedError

    @property
    def names_a_colour(self) -> bool:
        """Whether the program has an ``info`` with a transparent colour, which Pillow converts."""
        raise NotImplementedError

    def _recorded(self, made: Op, size: tuple[int, int]) -> RecordedImage | None:
        chain = self.chain
        if chain is None or not chain.native or chain.full:
            return None
        if not 0 < min(size) <= max(size) <= LARGEST:
            return None
        return self.of(chain.then(made, size))

    def copy(self) -> PIL.Image.Image:
        return super().copy() if self.chain is None else self.of(self.chain)

    __copy__ = copy

    def convert(
        self,
        mode: Any = None,
        matrix: Any = None,
        dither: Any = None,
        palette: Any = Palette.WEB,
        colors: int = 256,
    ) -> PIL.Image.Image:
        chain = self.chain
        if chain is not None and mode not in (None, chain.mode):
            chain = None if self.names_a_colour or chain.full else chain
        # Pillow also tests whether the matrix is true, and not whether it is None.
        if chain is not None and mode == "RGB" and not matrix:
            if chain.mode == "P":
                palettes.warn_of(chain)
            return self.of(chain.in_colours())
        # From a palette Pillow makes L with another rounding, so that is left to Pillow.
        if chain is not None and mode == "L" and not matrix and chain.mode in ("RGB", "RGBA", "LA"):
            return self.of(chain.in_grey())
        same = chain is not None and (mode is None or (mode == chain.mode and not matrix))
        if same and chain is not None and chain.mode != "P":
            return self.of(chain)
        chosen = Dither.FLOYDSTEINBERG if dither is None else dither
        return PIL.Image.Image.convert(self.twin(), mode, matrix, chosen, palette, colors)

    def crop(self, box: Any = None) -> PIL.Image.Image:
        if box is None:
            return self.copy()
        made = None
        corners = [*map(number, box)] if isinstance(box, tuple | list) else []
        if self.chain is not None and len(corners) == 4 and None not in corners:
            left, top, right, bottom = map(round, corners)  # type: ignore[arg-type]
            size = (right - left, bottom - top)
            most = PIL.Image.MAX_IMAGE_PIXELS  # with more Pillow warns or refuses
            if max(abs(left), abs(top)) <= LARGEST and (most is None or size[0] * size[1] <= most):
                text = (
                    f'{{"name":"Crop","top":{top},"left":{left},"height":{size[1]},'
                    f'"width":{size[0]}}}'
                )
                made = self._recorded(Op(text, _calls("crop", (left, top, right, bottom))), size)
        return PIL.Image.Image.crop(self.twin(), box) if made is None else made

    def resize(
        self, size: Any, resample: Any = None, box: Any = None, reducing_gap: Any = None
    ) -> PIL.Image.Image:
        made, known = None, Resampling.BICUBIC if resample is None else resample
        sides: Any = tuple(map(whole, size)) if isinstance(size, tuple | list) else ()
        plain = len(sides) == 2 and None not in sides and known in _FILTERS
        plain = plain and self.mode not in ("1", "P")  # Pillow resizes these by nearest pixels
        if plain and box is None and reducing_gap is None:
            name = _FILTERS[known]
            text = f'{{"name":"Resize","size":[{sides[1]},{sides[0]}],"interpolation":"{name}"}}'
            made = self._recorded(Op(text, _calls("resize", sides, known)), sides)
        elif plain and min(sides) > 0:
            made = self._resized_box(sides, known, box, reducing_gap)
        if made is not None:
            return made
        return PIL.Image.Image.resize(self.twin(), size, resample, box, reducing_gap)

    def _resized_box(
        self, size: tuple[int, int], resample: Resampling, box: Any, gap: Any
    ) -> RecordedImage | None:
        """``resize`` with a box or a reducing gap."""
        width, height = self.size
        part: Any = (0, 0, width, height) if box is None else tuple(map(exact, box))
        if len(part) != 4 or None in part:
            return None
        left, top, right, bottom = part
        if not (0 <= left < right <= width and 0 <= top < bottom <= height):
            return None  # Pillow raises
        if gap is not None and not (_finite(gap) and gap >= 1):
            return None
        if gap is not None and resample != Resampling.NEAREST:
            # As PIL.Image.Image.resize: a much larger image is averaged by whole factors first.
            across = int((right - left) / size[0] / gap) or 1
            down = int((bottom - top) / size[1] / gap) or 1
            if across > 1 or down > 1:
                x, y, *ends = self._get_safe_box(size, resample, part)
                reduced = self.reduce((across, down), (x, y, *ends))
                if not isinstance(reduced, RecordedImage):
                    return None
                sides = (left - x, top - y, right - x, bottom - y)
                scaled = [side / f for side, f in zip(sides, (across, down) * 2, strict=True)]
                return reduced._resized_box(size, resample, scaled, None)
        made = op(
            "ResizeBox",
            _calls("resize", size, resample, part),
            size=[size[1], size[0]],
            box=[*map(float, part)],
            interpolation=_FILTERS[resample],
        )
        return self._recorded(made, size)

    def reduce(self, factor: Any, box: Any = None) -> PIL.Image.Image:
        pair = tuple(factor) if isinstance(factor, list | tuple) else (factor, factor)
        part = (0, 0, *self.size) if box is None else tuple(box)
        made = None
        if [*map(type, pair)] == [int] * 2 and [*map(type, part)] == [int] * 4:
            left, top, right, bottom = part
            inside = 0 <= left < right <= self.size[0] and 0 <= top < bottom <= self.size[1]
            if inside and min(pair) > 0 and max(pair) <= LARGEST:
                image = self if box is None else self.crop(part)
                size = (-((left - right) // pair[0]), -((top - bottom) // pair[1]))
                if isinstance(image, RecordedImage):
                    replay = _calls("reduce", pair)
                    made = image._recorded(op("Reduce", replay, factor=list(pair)), size)
        return (
            PIL.Image.Image.reduce(self.twin("Image.reduce"), factor, box) if made is None else made
        )

    def transpose(self, method: Any) -> PIL.Image.Image:
        made = None
        if method in _TRANSPOSES:
            width, height = self.size
            size = (height, width) if method in _TURNED else (width, height)
            made = self._recorded(Op(_TRANSPOSES[method], _calls("transpose", method)), size)
        return PIL.Image.Image.transpose(self.twin(), method) if made is None else made

    def rotate(
        self,
        angle: float,
        resample: Any = Resampling.NEAREST,
        expand: Any = 0,
        center: Any = None,
        translate: Any = None,
        fillcolor: Any = None,
    ) -> PIL.Image.Image:
        made = None
        fill = colour_of(fillcolor, self.mode)
        plain = center is None and translate is None and not expand and resample in _WARPS
        if plain and fill is not None and _finite(angle):
            replay = _calls("rotate", angle, resample, expand, center, translate, fillcolor)
            made = self._recorded(
                op(
                    "Rotate",
                    replay,
                    angle=float(angle),
                    interpolation=_FILTERS[resample],
                    fill=fill,
                ),
                self.size,
            )
        if made is not None:
            return made
        # Pillow's own rotate calls transpose or transform, which are recorded.
        arguments = (angle, resample, expand, center, translate, fillcolor)
        return PIL.Image.Image.rotate(self, *arguments)

    def transform(
        self,
        size: Any,
        method: Any,
        data: Any = None,
        resample: Any = Resampling.NEAREST,
        fill: int = 1,
        fillcolor: Any = None,
    ) -> PIL.Image.Image:
        made, colour = None, colour_of(fillcolor, self.mode)
        name = _MAPS.get(method, "") if isinstance(method, int) else ""
        numbers = list(data) if isinstance(data, tuple | list) else []
        sides = isinstance(size, tuple | list) and [*map(type, size)] == [int, int]
        fixed = len(numbers) == (6 if name == "AffineMap" else 8) and all(map(_finite, numbers))
        if sides and fixed and resample in _WARPS and fill == 1 and colour is not None:
            arguments = {"coefficients": [*map(float, numbers)], "fill": colour}
            if name == "AffineMap":
                arguments["size"] = [size[1], size[0]]
            if name == "AffineMap" or (name and tuple(size) == self.size):
                replay = _calls("transform", tuple(size), method, numbers, resample, 1, fillcolor)
                warp = op(name, replay, interpolation=_FILTERS[resample], **arguments)
                made = self._recorded(warp, tuple(size))
        if made is not None:
            return made
        twin = self.twin("Image.transform")
        return PIL.Image.Image.transform(twin, size, method, data, resample, fill, fillcolor)

    def filter(self, filter: Any) -> PIL.Image.Image:
        known = filter() if isinstance(filter, type) else filter
        radius: Any = known.radius if type(known) is GaussianBlur else None
        made = None
        # Not for NumPy's numbers: Pillow compares the radius with a tuple, which gives an array for
        # these, and asks whether that is true.
        if type(radius) in (int, float) and 0 <= radius <= _WIDEST:
            replay = _calls("filter", GaussianBlur(radius))
            made = self._recorded(op("PillowBlur", replay, radius=float(radius)), self.size)
        return PIL.Image.Image.filter(self.twin("Image.filter"), filter) if made is None else made


def _calls(method: str, *arguments: Any) -> Callable[[Any], Any]:
    return partial(_call, method, arguments)


def _call(method: str, arguments: tuple[Any, ...], image: Any) -> Any:
    return getattr(image, method)(*arguments)


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def colour_of(colour: Any, mode: str = "RGB") -> Any:
    """A fill as the engine takes it, or None. To Pillow one number is a red for an RGB image."""
    if colour is None or (type(colour) is int and colour == 0):
        return 0
    if mode == "L":
        return colour if type(colour) is int and 0 <= colour <= 255 else None
    values = list(colour) if isinstance(colour, tuple | list) else []
    if len(values) == 3 and all(type(v) is int and 0 <= v <= 255 for v in values):
        return values
    return None
