"""A Pillow image that nobody has decoded yet.

Pillow reaches an image's pixels through its attribute ``im`` and through nothing else. So whatever
is not recorded here materialises the image in the moment in which it asks for the pixels, and goes
on with what Pillow would have decoded.
"""

from __future__ import annotations

import functools
import io
import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import PIL.Image
from PIL.Image import Dither, Palette, Resampling, Transform, Transpose
from PIL.ImageFilter import GaussianBlur

from headrace._deferred import pixels, recording
from headrace._deferred.chain import Chain, Step, step
from headrace._deferred.source import File

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
LARGEST = 65_535  # the engine's bound of a side and of a corner: docs/limits.md
_WIDEST = 1000  # its bound of a blur's radius
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


class Opened:
    """The file behind an image, as Pillow opens it when somebody asks for more than its size."""

    def __init__(self, source: File | bytes, name: str | bytes) -> None:
        self._source, self.name = source, name
        self._image: Any = None

    @property
    def image(self) -> Any:
        """Pillow's own object. Its pixels are read when it needs them."""
        if self._image is None:
            data = self._source if isinstance(self._source, bytes) else self._source.read()
            with recording.paused():
                self._image = PIL.Image.open(io.BytesIO(data))
            if self.name:
                self._image.filename = self.name
        return self._image


class DeferredImage(PIL.Image.Image):
    """An image of which is known where its bytes are and what was done to it.

    Attributes:
        chain: both; None once it was materialised, after which it is an image as any other.
    """

    chain: Chain | None

    def __init__(self, chain: Chain, format: str | None = None) -> None:
        # Not Image.__init__: `info` is not known without opening the file.
        self._im = None
        self._twin: PIL.Image.Image | None = None
        self._mode, self._size = chain.mode, chain.size
        self.palette = None
        self._readonly = 0
        self._exif = None
        self.chain = chain
        if format:
            self.format = format

    # ---- what is asked of it -----------------------------------------------------------------

    @property
    def im(self) -> Any:
        """Pillow's pixels, decoded now if they were not before."""
        if self._im is None:
            self.materialise()
        return super().im

    @im.setter
    def im(self, im: Any) -> None:
        if self.chain is not None:
            self.info  # noqa: B018  # as long as the chain leads to it
            self.chain = None
        self._im = im

    def materialise(self) -> None:
        """Decodes it, and does to it what was recorded: somebody may change its pixels now."""
        image = self.twin()
        self.chain = self._twin = None
        self._im, self._mode, self._size = image.im, image.mode, image.size
        self.palette = image.palette
        self._readonly = image.readonly
        if "info" not in self.__dict__:
            self.info = image.info

    def twin(self, what: str = "") -> PIL.Image.Image:
        """An image of Pillow's own with the same pixels, which nobody changes.

        Args:
            what: needs them; "": the function that the program called.
        """
        if self.chain is None:
            return self
        if self._twin is None:
            self._twin = pixels.image_of(self.chain, what)
            self._twin.info = self.info
        return self._twin

    @property
    def __array_interface__(self) -> Any:
        if self.chain is None:
            return super().__array_interface__
        return self.twin().__array_interface__

    def __getattr__(self, name: str) -> Any:
        """What only the opened file knows: ``info``, and an unaltered image's own attributes."""
        chain = self.__dict__.get("chain")
        if chain is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name == "info":
            self.info = chain.header.image._copy_info()
            return self.info
        if name == "filename" and self.format:
            return chain.header.name
        if self.format:  # as it was opened
            return getattr(chain.header.image, name)
        raise AttributeError(f"'Image' object has no attribute {name!r}")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DeferredImage):
            other = other.plain()
        return bool(self.plain() == other)

    __hash__ = None  # type: ignore[assignment]  # as Image's, which has an __eq__

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.plain().__reduce_ex__(protocol)

    def plain(self) -> PIL.Image.Image:
        """An Image of Pillow's own class with the same pixels."""
        made = PIL.Image.Image._new(self, self.im)
        if self.format:
            made.format = self.format
        return made

    def getexif(self) -> Any:
        if self.chain is not None and self.format:
            return self.chain.header.image.getexif()
        return super().getexif()

    def verify(self) -> None:
        if self.chain is not None and self.format:
            self.chain.header.image.verify()

    def load(self) -> Any:
        """Nothing yet: what follows may not need pixels, unless it is Pillow's own method."""
        if self.chain is not None:
            if sys._getframe(1).f_globals.get("__name__") != "PIL.Image":
                return _Access(self)
            self.materialise()
        return super().load()

    def draft(self, mode: Any, size: Any) -> Any:
        """Decodes smaller, which is Pillow's own business: it takes over."""
        if self.chain is None or not self.format:
            return super().draft(mode, size)
        header = self.chain.header.image
        answer = header.draft(mode, size)
        if answer is not None:
            pixels.note()
            self._mode, self._size, info = header.mode, header.size, header.info
            self.chain = None
            with recording.paused():
                self._im, self.info = header.copy().im, info
        return answer

    # ---- what is recorded --------------------------------------------------------------------

    def _recorded(self, made: Step, size: tuple[int, int]) -> DeferredImage | None:
        chain = self.chain
        if chain is None or not chain.native or not 0 < min(size) <= max(size) <= LARGEST:
            return None
        return DeferredImage(chain.then(made, size))

    def copy(self) -> PIL.Image.Image:
        return super().copy() if self.chain is None else DeferredImage(self.chain)

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
        if chain is not None and mode == "RGB" and matrix is None:
            return DeferredImage(chain.in_colours())
        # Of a palette Pillow makes L with a rounding of its own.
        if chain is not None and mode == "L" and chain.mode in ("RGB", "RGBA", "LA"):
            return DeferredImage(chain.in_grey())
        same = chain is not None and mode in (None, chain.mode) and matrix is None
        if same and chain is not None and chain.mode != "P":
            return DeferredImage(chain)
        chosen = Dither.FLOYDSTEINBERG if dither is None else dither
        return PIL.Image.Image.convert(self.twin(), mode, matrix, chosen, palette, colors)

    def crop(self, box: Any = None) -> PIL.Image.Image:
        if box is None:
            return self.copy()
        made = None
        if self.chain is not None and len(box) == 4 and all(map(_finite, box)):
            left, top, right, bottom = map(round, box)
            size = (right - left, bottom - top)
            if max(abs(left), abs(top)) <= LARGEST:
                text = (
                    f'{{"name":"Crop","top":{top},"left":{left},"height":{size[1]},'
                    f'"width":{size[0]}}}'
                )
                made = self._recorded(Step(text, _calls("crop", (left, top, right, bottom))), size)
        return PIL.Image.Image.crop(self.twin(), box) if made is None else made

    def resize(
        self, size: Any, resample: Any = None, box: Any = None, reducing_gap: Any = None
    ) -> PIL.Image.Image:
        made, known = None, Resampling.BICUBIC if resample is None else resample
        sides = tuple(size) if isinstance(size, tuple | list) else ()
        whole = [type(side) for side in sides] == [int, int]
        if whole and box is None and reducing_gap is None and known in _FILTERS:
            name = _FILTERS[known]
            text = f'{{"name":"Resize","size":[{sides[1]},{sides[0]}],"interpolation":"{name}"}}'
            made = self._recorded(Step(text, _calls("resize", sides, known)), sides)
        if made is not None:
            return made
        return PIL.Image.Image.resize(self.twin(), size, resample, box, reducing_gap)

    def transpose(self, method: Any) -> PIL.Image.Image:
        made = None
        if method in _TRANSPOSES:
            width, height = self.size
            size = (height, width) if method in _TURNED else (width, height)
            made = self._recorded(Step(_TRANSPOSES[method], _calls("transpose", method)), size)
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
                step(
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
        arguments = (angle, resample, expand, center, translate, fillcolor)
        return PIL.Image.Image.rotate(self.twin(), *arguments)

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
        whole = isinstance(size, tuple | list) and [*map(type, size)] == [int, int]
        fixed = len(numbers) == (6 if name == "AffineMap" else 8) and all(map(_finite, numbers))
        if whole and fixed and resample in _WARPS and fill == 1 and colour is not None:
            arguments = {"coefficients": [*map(float, numbers)], "fill": colour}
            if name == "AffineMap":
                arguments["size"] = [size[1], size[0]]
            if name == "AffineMap" or (name and tuple(size) == self.size):
                replay = _calls("transform", tuple(size), method, numbers, resample, 1, fillcolor)
                warp = step(name, replay, interpolation=_FILTERS[resample], **arguments)
                made = self._recorded(warp, tuple(size))
        if made is not None:
            return made
        twin = self.twin("Image.transform")
        return PIL.Image.Image.transform(twin, size, method, data, resample, fill, fillcolor)

    def filter(self, filter: Any) -> PIL.Image.Image:
        known = filter() if isinstance(filter, type) else filter
        radius: Any = known.radius if type(known) is GaussianBlur else None
        made = None
        if _finite(radius) and 0 <= radius <= _WIDEST:
            replay = _calls("filter", GaussianBlur(radius))
            made = self._recorded(step("PillowBlur", replay, radius=float(radius)), self.size)
        return PIL.Image.Image.filter(self.twin("Image.filter"), filter) if made is None else made


def _of_the_twin(name: str) -> Any:
    """A method of Pillow's that reads pixels and changes none."""
    method = getattr(PIL.Image.Image, name)

    @functools.wraps(method)
    def of_the_twin(self: DeferredImage, *arguments: Any, **named: Any) -> Any:
        return method(self.twin(f"Image.{name}"), *arguments, **named)

    return of_the_twin


_READING = (
    "effect_spread",
    "entropy",
    "getbbox",
    "getchannel",
    "getcolors",
    "getextrema",
    "getpixel",
    "getprojection",
    "histogram",
    "point",
    "quantize",
    "reduce",
    "save",
    "split",
    "tobytes",
)
for _name in _READING:
    setattr(DeferredImage, _name, _of_the_twin(_name))


class _Access:
    """What ``load`` returns of an image that is deferred: Pillow's pixels, once one is touched."""

    def __init__(self, image: DeferredImage) -> None:
        self._image = image

    def _pixels(self) -> Any:
        self._image.im  # noqa: B018  # materialises
        return PIL.Image.Image.load(self._image)

    def __getitem__(self, place: Any) -> Any:
        return self._pixels()[place]

    def __setitem__(self, place: Any, colour: Any) -> None:
        self._pixels()[place] = colour


def _calls(method: str, *arguments: Any) -> Callable[[Any], Any]:
    return partial(_call, method, arguments)


def _call(method: str, arguments: tuple[Any, ...], image: Any) -> Any:
    return getattr(image, method)(*arguments)


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def native_chain(image: Any) -> Chain | None:
    """What was recorded of an image, if it is one of these and the engine can go on with it."""
    chain = image.chain if type(image) is DeferredImage else None
    return chain if chain is not None and chain.native else None


def colour_of(colour: Any, mode: str = "RGB") -> Any:
    """A fill as the engine takes it, or None: one number is red to Pillow where there are three."""
    if colour is None or (type(colour) is int and colour == 0):
        return 0
    if mode == "L":
        return colour if type(colour) is int and 0 <= colour <= 255 else None
    values = list(colour) if isinstance(colour, tuple | list) else []
    if len(values) == 3 and all(type(v) is int and 0 <= v <= 255 for v in values):
        return values
    return None
