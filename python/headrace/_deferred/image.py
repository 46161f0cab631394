"""A Pillow image that is not decoded yet.

Pillow reaches an image's pixels only through its attribute ``im``. So an operation that is not
recorded here materialises the image when it asks for the pixels, and goes on with what Pillow would
have decoded.
"""

from __future__ import annotations

import copyreg
import functools
import sys
import weakref
from typing import Any

import PIL.Image
from PIL._util import DeferredError
from PIL.Image import Resampling

from headrace._deferred import behind, pixels, recording, shrinking
from headrace._deferred.altering import Altering
from headrace._deferred.chain import Chain
from headrace._deferred.curing import OTHER_MODE
from headrace._deferred.methods import RecordedImage

_IM_IS_A_PROPERTY = isinstance(vars(PIL.Image.Image).get("im"), property)


class _Info:
    """The ``info`` of a deferred image, which is computed when it is first asked for.

    It is an attribute of the class, and not one that ``__getattr__`` finds, because ``isinstance``
    with a ``typing.Protocol`` looks for members without running code (``inspect.getattr_static``)
    from Python 3.12 on. It has no ``__set__``, so the image's own value comes first once there is
    one.
    """

    def __get__(self, image: DeferredImage | None, owner: Any = None) -> Any:
        if image is None:
            return self
        chain = image.chain or image.__dict__.get("_left")  # the chain of an image that was closed
        if chain is None:
            raise AttributeError("'Image' object has no attribute 'info'")
        image.info = behind.info(chain, image.loaded)
        return image.info


class DeferredImage(RecordedImage):
    """An image that is known by its chain: where its bytes are, and what was done to it.

    Attributes:
        chain: the chain; None once the image was materialised, after which it is like any other.
        loaded: whether Pillow would have decoded it by now, so that no draft is possible any more;
            false for a file that was only opened.
        place: the place of its sample in the batch.
        opened_from: the program's open file that Pillow would decode it from; None: there is none.
    """

    # Defaults that most images never change are the class's, because images are made for every
    # sample.
    _im: Any = None
    _twin: PIL.Image.Image | None = None
    _palette: Any = None
    _exif: Any = None
    _file: behind.Opened | None = None
    _let_go = False
    readonly = 0
    if not _IM_IS_A_PROPERTY:
        pyaccess = None  # Pillow 10 needs it to set a pixel
    loaded = True
    opened_from: Any = None
    info: Any = _Info()

    def __init__(self, chain: Chain, format: str | None = None, place: int | None = None) -> None:
        """An image that was opened, if it has a format; else one that was made of another.

        Args:
            place: the place of that other one.
        """
        # Without Image.__init__, because `info` is not known before the file is opened.
        self._mode, self._size = chain.mode, chain.size
        self.chain = chain
        if format:
            self._file, self.format, self.loaded = chain.header, format, False
            # Not left to __getattr__, for the reason that `_Info` gives.
            self.filename = "" if chain.header is None else chain.header.name
        self.place = recording.place_of(place)
        if (found := recording.current()) is not None:
            found.made.append(weakref.ref(self))
            if chain.key is not None and not found.engine:
                found.images.append(self)

    def of(self, chain: Chain) -> DeferredImage:
        if not self.loaded:
            self.begin_to_load()
        made = DeferredImage(chain, place=self.place)
        if "info" in self.__dict__:  # the program may have changed it
            made.info = behind.copied(self)
        return made

    def then(self, chain: Chain, anew: bool) -> DeferredImage:
        """The image that a function makes of this one.

        Args:
            anew: whether it does not take over ``info``.
        """
        made = DeferredImage(chain, place=self.place)
        if "info" in self.__dict__:  # the program may have changed it
            made.info = {} if anew else behind.copied(self)
        return made

    def begin_to_load(self) -> None:
        """Marks the moment when Pillow would decode the image, so that its file has to be open.

        Raises:
            ValueError: the file is closed, and says so.
            Exception: what Pillow raises if the image's own context has ended.
        """
        file: Any = self.opened_from
        if file is not None:
            if file.closed:
                file.seek(0)  # as Pillow would
            self.opened_from = None
        if self._let_go and not self.loaded and self._file is not None:
            # Pillow has closed the file that it would read now. Each version has its own error.
            own = self._file.image
            own.__exit__(None, None, None)
            with recording.paused():
                own.load()
        if not self.loaded and self._file is not None and "info" in self.__dict__:
            self.info.update(self._file.more())  # in the program's own dict, as Pillow does
        found, chain = recording.current(), self.chain
        if not self.loaded and chain is not None and found is not None:
            found.begun[id(chain.source)] = chain.source, self.place
        self.loaded = True

    @property
    def names_a_colour(self) -> bool:
        """Whether the program has an ``info`` with a transparent colour, which Pillow converts."""
        return "transparency" in self.__dict__.get("info", ())

    # ---- what programs and Pillow ask it for -------------------------------------------------

    @property
    def im(self) -> Any:
        """Pillow's pixels, which are decoded now if they were not before."""
        if self._im is None:
            self.materialise()
        # Before Pillow 11 `im` is an attribute, and says nothing if the image is closed.
        return super().im if _IM_IS_A_PROPERTY else self._im

    @im.setter
    def im(self, im: Any) -> None:
        if self.chain is not None:
            # Computed now, because they are found through the chain.
            self.info  # noqa: B018
            self.palette  # noqa: B018
            self.chain = None
        self._im = im

    def materialise(self) -> None:
        """Decodes it and does what was recorded, because somebody may change its pixels now."""
        self.become(self.twin())

    def become(self, image: PIL.Image.Image) -> None:
        """Takes the pixels of another image, which nobody else uses."""
        if "info" not in self.__dict__:
            self.info  # noqa: B018  # computed now, because it is found through the chain
        own_mode = self.chain is not None and self._mode != self.chain.mode  # somebody has set it
        self.chain = self._twin = None
        self._im, self._size = image.im, image.size
        if not own_mode:
            self._mode = image.mode
        if self._palette is None:
            self._palette = image.palette
        self.readonly = image.readonly
        PIL.Image.Image.load(self)  # gives the pixels their palette, if they have none yet

    @property
    def palette(self) -> Any:
        """The palette as Pillow has it by now: that of the file, or that of the pixels."""
        if self._palette is None and self._mode == "P":
            chain = self.chain or self.__dict__.get("_left")
            opened = chain and behind.header(chain)
            if opened and (self.chain is None or not self.loaded or opened.format == "PNG"):
                self._palette = opened.palette.copy()
                if self.loaded:  # a PNG's palette has the same bytes as that of the pixels
                    self._palette.rawmode, self._palette.dirty = None, 0
            elif self.chain is not None:
                self.materialise()
        return self._palette

    @palette.setter
    def palette(self, palette: Any) -> None:
        if self.chain is not None:
            self.im  # noqa: B018  # what was recorded needs the palette of the file
        self._palette = palette

    def putpalette(self, *arguments: Any, **named: Any) -> None:
        if self.mode in ("L", "LA", "P", "PA"):
            self.im  # noqa: B018  # before Pillow changes the mode
        super().putpalette(*arguments, **named)

    def twin(self, what: str = "") -> PIL.Image.Image:
        """An image of Pillow's own class with the same pixels, which nobody may change.

        Args:
            what: what needs the pixels; "": the function that the program called.
        """
        if self.chain is None:
            return self
        self.begin_to_load()
        altering = None
        if self._twin is None:
            altering = self._asked(what)
            self._twin = pixels.image_of(self.chain)
            self._twin.info = self.info
        elif (found := recording.current()) is not None and found.explains:
            altering = self._note(what)
        return self._twin if altering is None else altering.of_image(self._twin)

    def _asked(self, what: str) -> Altering | None:
        """As ``pixels.asked``, but a collate function in a worker process never waits.

        A collate function that asks images for pixels, such as a processor of Hugging Face, mostly
        does much work on them in Python. So it runs where torch's loader runs it, in as many
        processes, and gets the pixels there.
        """
        found = recording.current()
        if found is not None and not found.travels:
            found.refuse()
        return self._note(what)

    def _note(self, what: str) -> Altering | None:
        """As ``pixels.note``; names the mode if the engine does not transform such an image."""
        found, chain = recording.current(), self.chain
        if found is None:
            return None
        of = "" if chain is None or chain.native else f" {OTHER_MODE} {chain.mode}"
        return found.note(f"{what} needs the pixels{of}" if what else "", of)

    @property
    def __array_interface__(self) -> Any:
        if self.chain is None:
            return super().__array_interface__
        return self.twin().__array_interface__

    def __getattr__(self, name: str) -> Any:
        """Gets what only the opened file knows, the attributes of its format's own class."""
        file = self._file
        if file is None or name.startswith("__"):
            raise AttributeError(f"'Image' object has no attribute {name!r}")
        return getattr(self._own(file), name)

    def _own(self, file: behind.Opened) -> Any:
        """The file as Pillow has it, which is closed if the program has closed the image."""
        own = file.image
        if "_left" in self.__dict__:
            own.close()
        return own

    @property
    def format_description(self) -> Any:  # type: ignore[override]
        return None if self._file is None else self._file.image.format_description

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DeferredImage):
            if (self.format is None) != (other.format is None):
                return False  # Pillow's would differ in class: an opened image has its format's
            other = other.plain()
        return bool(self.plain() == other)

    __hash__ = None  # type: ignore[assignment]  # as in Image, which has an __eq__

    def __reduce_ex__(self, protocol: Any) -> Any:
        # It unpickles as an Image of Pillow's own, also in processes without Headrace. This is not
        # how an Image reduces itself, because pickle would then compare classes.
        anew: Any = (PIL.Image.Image, object, None)
        return copyreg._reconstructor, anew, self.plain().__getstate__()  # type: ignore[attr-defined]

    def seek(self, frame: int) -> None:
        """As Pillow's ``seek``. The file has one frame, so every other number is Pillow's error."""
        if frame and self._file is not None:
            self._file.image.seek(frame)
        super().seek(frame)

    def plain(self) -> PIL.Image.Image:
        """An Image of Pillow's own class with the same pixels."""
        made = PIL.Image.Image._new(self, self.im)
        if self.format:
            made.format = self.format
        return made

    def getexif(self) -> Any:
        if self._file is None:
            return super().getexif()
        own = self._own(self._file)
        if own.format == "PNG" and "exif" not in own.info and "_left" not in self.__dict__:
            # Pillow decodes the image now, because EXIF may stand behind the pixels.
            self.begin_to_load()
            if self._file.ends:
                return PIL.Image.Image.getexif(own)
        return own.getexif()

    def verify(self) -> None:
        """As Pillow's ``verify``, after which most files have to be opened again."""
        if self._file is not None:
            own = self._own(self._file)
            if self.loaded and "_left" not in self.__dict__:
                with recording.paused():
                    own.load()  # some formats refuse to be verified then
            own.verify()
            self._let_go = True

    def load(self) -> Any:
        """Does not decode yet, because the program may not need pixels; Pillow's own methods do."""
        if self.chain is not None:
            self.begin_to_load()
            if sys._getframe(1).f_globals.get("__name__") != "PIL.Image":
                return _Access(self)
            self.materialise()
        return super().load()

    def save(self, *arguments: Any, **named: Any) -> None:
        """Saves the pixels.

        For a JPEG or TIFF it also saves what else its file has, such as quantization tables and
        tags.
        """
        image = self.twin("Image.save")
        if self._file is not None and self.format in ("JPEG", "TIFF"):
            image = self._file.holding(image)
        PIL.Image.Image.save(image, *arguments, **named)

    def __exit__(self, *failure: Any) -> None:
        self._let_go = True
        super().__exit__(*failure)

    def close(self) -> None:
        """Lets the pixels go. What is known without them can still be asked for."""
        if self.chain is not None:
            self._left, self.chain, self._twin = self.chain, None, None
        # Not by Pillow's own close, which asks an opened file for its map: this has none.
        self._im = DeferredError(ValueError("Operation on closed image"))

    def draft(self, mode: Any, size: Any) -> Any:
        """As Pillow's ``draft`` of a JPEG, which libjpeg decodes at 1/2, 1/4 or 1/8 of its size."""
        return shrinking.draft(self, mode, size)

    def thumbnail(
        self, size: Any, resample: Any = Resampling.BICUBIC, reducing_gap: Any = 2.0
    ) -> None:
        """As Pillow's ``thumbnail``, which changes the image in place, by ``resize``."""
        shrinking.thumbnail(self, size, resample, reducing_gap)


def _of_the_twin(name: str) -> Any:
    """A method of Pillow's that only reads pixels; it gets the twin's."""
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
    "split",
    "tobytes",
)
for _name in _READING:
    setattr(DeferredImage, _name, _of_the_twin(_name))

# Some programs ask for the name of an image's class, and treat any other name as an array.
DeferredImage.__name__ = DeferredImage.__qualname__ = PIL.Image.Image.__qualname__
DeferredImage.__module__ = PIL.Image.Image.__module__


class _Access:
    """What ``load`` returns for a deferred image. It decodes when a pixel is read or set."""

    def __init__(self, image: DeferredImage) -> None:
        self._image = image

    def _pixels(self) -> Any:
        self._image.im  # noqa: B018  # materialises
        return PIL.Image.Image.load(self._image)

    def __getitem__(self, place: Any) -> Any:
        return self._pixels()[place]

    def __setitem__(self, place: Any, colour: Any) -> None:
        self._pixels()[place] = colour


def native_chain(image: Any) -> Chain | None:
    """The chain of an image, if it is a deferred one and the engine can go on with it."""
    if type(image) is not DeferredImage or (chain := image.chain) is None:
        return None
    if not image.loaded:
        image.begin_to_load()  # because the caller goes on with it
    return chain if chain.native else None
