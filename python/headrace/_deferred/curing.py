"""The advice for each cause that leaves images to Python: what would make them native."""

from __future__ import annotations

IN_PYTHON = (
    "The engine makes the image up to that line; in a worker process Pillow does. To make all of "
    "it native, use a transform there that headrace.from_torchvision translates, or do the same to "
    "whole batches after the loader."
)
ARRAY = (
    "Without that, the engine reads the dataset's array itself. headrace.Dataset.from_arrays("
    "dataset.data, labels) has its images with any labels."
)
# Parts of the causes that `opening` gives for a file, an array or an argument. The cure is found by
# them.
OTHER_KIND = "is not a JPEG, PNG, WebP, BMP, GIF or TIFF of a common kind (RGB, grey, palette)"
OTHER_FORMAT = "is in none of the formats that the program accepts"
NO_IMAGE = "is no image that Pillow opens"
BAD = "cannot be decoded"
TOO_LARGE = "and Image.MAX_IMAGE_PIXELS is"
OTHER_ARRAY = "an array that is not 8-bit RGB or grey is made into an image"
NOT_WHOLE = "may be truncated or damaged, and a stream's sample cannot be made again"
OTHER_MODE = "of an image of mode"
PASTED = "PIL.Image.Image.paste needs the pixels"
FLOATS = "resizes a tensor with version 1 of torchvision's transforms"
OWN_THREAD = "an image is opened in a thread of the program's own, where Pillow decodes it"
ELSEWHERE = "makes images or arrays of something else than what it opens"
_NOT_OPENED = (
    "Images are native if the dataset's code opens them with PIL.Image.open, or makes them with "
    "PIL.Image.fromarray from uint8 arrays (height, width, 3)."
)
_BY_CAUSE = {
    ELSEWHERE: (
        "The images that it opens are native all the same. A target, such as a heat map, may stay "
        "as it is. Another image is native if PIL.Image.open opens it."
    ),
    NO_IMAGE: (
        "The program meets Pillow's error where it opens the file, and what it does then is in "
        "Python. Repair the file or leave it out."
    ),
    BAD: (
        "The program's code runs again for that sample, with images opened by Pillow, and what it "
        "raises then the loader raises. Repair the file or leave it out."
    ),
    OTHER_KIND: (
        "To make the file native, save it as JPEG, PNG, WebP, BMP, GIF or TIFF with 8 bits a "
        "channel and one frame."
    ),
    OTHER_FORMAT: "Remove formats= where the program opens the file, or save it in one of them.",
    TOO_LARGE: "Set PIL.Image.MAX_IMAGE_PIXELS to the pixels of the largest file, or to None.",
    OWN_THREAD: (
        "Open images in the thread that runs __getitem__: opening decodes nothing there, and the "
        "engine's threads decode."
    ),
    NOT_WHOLE: (
        "In a stream, JPEG, PNG and WebP files are native if their end is intact; save it again."
    ),
    OTHER_MODE: (
        "The engine makes images of mode RGB and L, and Pillow makes this one. Where its colours "
        'are wanted, call convert("RGB") right after opening it. The numbers of a palette (the '
        "classes of a mask) and transparency stay with Pillow."
    ),
    FLOATS: (
        "It computes that in floats. torchvision.transforms.v2.Resize (antialiased, bilinear or "
        "bicubic) of the tensor is native, and so is a Resize of the PIL image."
    ),
    PASTED: (
        "The engine makes the image up to that line. PIL.ImageOps.pad and PIL.ImageOps.expand put "
        "an image on a plain canvas natively."
    ),
    OTHER_ARRAY: "Give PIL.Image.fromarray uint8 arrays (height, width, 3) or (height, width).",
}


def cure(cause: str, opened: bool) -> str:
    """What would make the images native, in a sentence or more.

    Args:
        cause: why pixels were needed in Python, as ``Reason.text`` says it.
        opened: whether the program's code opened images.
    """
    if not opened:
        return _NOT_OPENED
    return of_a_file(cause) or IN_PYTHON


def of_a_file(cause: str) -> str:
    """What would let the engine read a file that Pillow has to; "" if the cause is not a file's."""
    return next((text for known, text in _BY_CAUSE.items() if known in cause), "")
