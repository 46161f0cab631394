"""What would make native what a loader leaves to Python: the sentence that goes with each cause."""

from __future__ import annotations

IN_PYTHON = (
    "Up to that line the engine makes the image; in a worker process Pillow does. To have all of "
    "it native, use a transform there that headrace.from_torchvision translates, or do the same "
    "to whole batches behind the loader."
)
ARRAY = (
    "Without that, the engine reads the dataset's array itself. headrace.Dataset.from_arrays("
    "dataset.data, labels) has its images with any labels."
)
# What opening says of a file, an array or an argument, by which its cure is found.
OTHER_KIND = "is no JPEG, PNG, WebP, BMP, GIF or TIFF of a common kind (RGB, grey, palette)"
OTHER_FORMAT = "is of none of the formats that the program takes"
TOO_LARGE = "and Image.MAX_IMAGE_PIXELS is"
OTHER_ARRAY = "an array that is not of 8-bit RGB or grey is made an image"
NOT_WHOLE = "may be cut off or damaged, and a stream's sample cannot be made again"
OWN_THREAD = "an image is opened in a thread of the program's own, where Pillow decodes it"
_NOT_OPENED = (
    "Images become native that are opened by PIL.Image.open, or made by PIL.Image.fromarray of "
    "uint8 arrays (height, width, 3), in the dataset's code."
)
_BY_CAUSE = {
    OTHER_KIND: (
        "Files of other kinds become native when they are saved as JPEG, PNG, WebP, BMP, GIF or "
        "TIFF, of 8 bits a channel and one frame."
    ),
    OTHER_FORMAT: "Take it out of formats= where the program opens the file, or save it as one.",
    TOO_LARGE: "Set PIL.Image.MAX_IMAGE_PIXELS to as many as the files have, or to None.",
    OWN_THREAD: (
        "Open images in the thread that runs __getitem__: there nothing is decoded, and the "
        "engine's threads decode."
    ),
    NOT_WHOLE: (
        "In a stream JPEG, PNG and WebP files are native that end as such files end; save it anew."
    ),
    OTHER_ARRAY: "Give PIL.Image.fromarray uint8 arrays (height, width, 3) or (height, width).",
}


def cure(cause: str, opened: bool) -> str:
    """What would make it native, a sentence or more.

    Args:
        cause: why pixels were needed in Python, as ``Reason.text`` says it.
        opened: the program's code opened images.
    """
    if not opened:
        return _NOT_OPENED
    return of_a_file(cause) or IN_PYTHON


def of_a_file(cause: str) -> str:
    """What would have the engine read what Pillow has to; "" where no more is known."""
    return next((text for known, text in _BY_CAUSE.items() if known in cause), "")
