"""A process of ``pack`` in which Pillow decodes what the engine does not decode.

The engine starts this file by its path, so that the package is not loaded once more. The engine
sends files, each after its length. For each it gets a PNG of the pixels that torchvision's loader
gives, or a sentence (internal/pack/pillow.go).
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import operator
import os
import struct
import sys
import warnings
from typing import Any, BinaryIO

IMAGE, REFUSAL = 0, 1
_LONGEST = 1000  # characters of a sentence
# Extensions of photographs that torchvision's ImageFolder does not list and the engine does not
# decode.
_EXTENSIONS = (".avif", ".avifs", ".heic", ".heif", ".j2k", ".jp2", ".jpc", ".jpx", ".jxl")


def command() -> list[str] | None:
    """The command that starts such a process with this one's modules and Pillow's switches."""
    if not sys.executable:
        return None
    image, file = sys.modules.get("PIL.Image"), sys.modules.get("PIL.ImageFile")
    told = {
        "path": [os.path.abspath(entry) for entry in sys.path],
        "truncated": bool(getattr(file, "LOAD_TRUNCATED_IMAGES", False)),
    }
    if image is not None:
        told["pixels"] = image.MAX_IMAGE_PIXELS
        told["openers"] = _openers(image)
    return [sys.executable, os.path.abspath(__file__), json.dumps(told)]


def extensions() -> list[str]:
    """Returns file extensions that Pillow opens, also by plugins that the program has registered,
    and that no other list has."""
    try:
        from PIL import Image
    except ImportError:
        return []
    known = Image.registered_extensions()
    return [end for end in _EXTENSIONS if known.get(end) in Image.OPEN]


def _openers(image: Any) -> list[tuple[str, str, str | None]]:
    """Returns plugins that the program has registered with Pillow: a format's name, where its class
    is, and where the function is that recognises its first bytes, if there is one."""
    return [
        (name, place, _place(accept))
        for name, (factory, accept) in image.OPEN.items()
        if (place := _place(factory)) is not None and not place.startswith("PIL.")
    ]


def _place(found: Any) -> str | None:
    """Where another process finds it; None if it has no name there, like a lambda or a partial."""
    module, name = (getattr(found, of, None) for of in ("__module__", "__qualname__"))
    known = isinstance(module, str) and isinstance(name, str) and "<" not in name
    return f"{module}:{name}" if known else None


def _register(openers: list[tuple[str, str, str | None]]) -> None:
    """Registers the program's plugins with Pillow. One that cannot be found decodes nothing."""
    from PIL import Image

    def at(place: str) -> Any:
        module, _, name = place.partition(":")
        return operator.attrgetter(name)(importlib.import_module(module))

    for name, factory, accept in openers:
        with contextlib.suppress(Exception):  # whatever its module raises, its files are refused
            Image.register_open(name, at(factory), None if accept is None else at(accept))


def main() -> None:
    """Answers until the engine closes its end of the pipe."""
    told = json.loads(sys.argv[1])
    sys.path[:] = told["path"]
    source = sys.stdin.buffer
    # What a codec prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    while head := source.read(8):
        data = source.read(struct.unpack("<Q", head)[0])
        _send(answers, *_answer(data, told))


def _send(answers: BinaryIO, kind: int, payload: bytes) -> None:
    answers.write(struct.pack("<BQ", kind, len(payload)))
    answers.write(payload)
    answers.flush()


def _answer(data: bytes, told: dict[str, Any]) -> tuple[int, bytes]:
    try:
        from PIL import Image, ImageFile
    except ImportError:
        return REFUSAL, b"Pillow, which may read it, is not installed"
    _register(told.pop("openers", []))
    Image.MAX_IMAGE_PIXELS = told.get("pixels", Image.MAX_IMAGE_PIXELS)
    ImageFile.LOAD_TRUNCATED_IMAGES = told["truncated"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data)).convert("RGB")
        image.info.clear()  # pixels and nothing else
        into = io.BytesIO()
        image.save(into, "PNG")
    except Exception as failure:  # plugins may raise anything, and the job continues
        said = " ".join(f"{type(failure).__name__}: {failure}".split())[:_LONGEST]
        return REFUSAL, f"nor does Pillow read it: {said}".encode(errors="replace")
    return IMAGE, into.getvalue()


if __name__ == "__main__":
    main()
