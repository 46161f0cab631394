"""The file behind an image that is not decoded yet, which Pillow opens for its ``info``."""

from __future__ import annotations

import io
from typing import Any

import PIL.Image

from headrace._deferred import pixels, recording
from headrace._deferred.chain import Chain
from headrace._deferred.source import File, bytes_of
from headrace._torch import trailing
from headrace.errors import ChangedError


class Opened:
    """The file behind an image. Pillow opens it when code asks for more than mode and size.

    Attributes:
        behind: how far Pillow has read once it has opened the file, which is behind the header.
        kind: Pillow's name of its format; "": it is not known yet.
        ends: whether nothing comes after the pixels; true until Pillow has opened the file.
    """

    kind = ""
    ends = True
    _more: dict[Any, Any] | None = None

    def __init__(self, source: File | bytes, name: str | bytes) -> None:
        self._source, self.name = source, name
        self._image: Any = None
        self.behind = 0

    @property
    def image(self) -> Any:
        """Pillow's own object for the file. It reads the pixels when they are needed."""
        if self._image is None:
            data = bytes_of(self._source)
            file = io.BytesIO(data)
            with recording.paused():
                self._image = PIL.Image.open(file)
            self.behind, self.ends = file.tell(), not trailing.has_more(data)
            if self.name:
                self._image.filename = self.name
        return self._image

    def more(self) -> dict[Any, Any]:
        """What Pillow adds to ``info`` when it reads the pixels.

        Raises:
            OSError, SyntaxError: Pillow cannot read them.
        """
        if self._more is None:
            own = self.image
            try:
                # From the bytes and not from `own`, which the program may have closed.
                with recording.paused():
                    data = b"" if self.ends else bytes_of(self._source)
                    self._more = trailing.found_in(data, own.format)
            except ChangedError:
                raise
            except Exception:
                recording.decoding_failed()
                raise
        return self._more

    def holding(self, image: PIL.Image.Image) -> Any:
        """A new object of Pillow's for the file, which has the pixels of ``image``."""
        made = Opened(self._source, self.name).image
        made.tile, made.im, made.info = [], image.im, image.info
        made._mode, made._size, made.palette = image.mode, image.size, image.palette
        return made


class Given(Opened):
    """The pixels of an image that Python made, and the ``info`` of that image."""

    def __init__(self, data: bytes, info: dict[Any, Any]) -> None:
        super().__init__(data, "")
        self._info = dict(info)

    @property
    def image(self) -> Any:
        made = super().image
        made.info = self._info
        return made


def header(chain: Chain) -> Any:
    """The file as Pillow opens it; for pixels in memory, the file that was made of them."""
    return (chain.header or Opened(chain.source, "")).image


def copied(image: Any) -> dict[Any, Any]:
    """The ``info`` of a new image that is made of this one."""
    # Before Pillow 13 there is no _copy_info, and all of it is taken over, lists included.
    made: dict[Any, Any] = getattr(image, "_copy_info", image.info.copy)()
    return made


def info(chain: Chain, loaded: bool) -> dict[Any, Any]:
    """The ``info`` of an image: that of its file, except for a colour that was transparent there.

    Args:
        loaded: whether Pillow would have read the pixels by now.
    """
    found = copied(header(chain))
    if loaded and chain.header is not None:
        found |= chain.header.more()
    colour = found.get("transparency")
    if colour is None and any(op.anew for op in chain.ops):
        return {}
    if colour is None or chain.as_opened:
        return found
    if isinstance(colour, bytes):  # of the colours of a palette, which is gone
        del found["transparency"]
        return found
    # Each op treats that colour in its own way. So Pillow computes it; few files have one.
    return pixels.info_of(chain, found)


def as_draft(mode: Any, size: Any, image: Any) -> Any:
    """The replay of a draft, on the file as Pillow opens it."""
    image.draft(mode, size)
    return image
