"""Functions on whole images, with torchvision's functional names and arguments.

Each takes and returns an RGB array of uint8, shape (height, width, 3), and gives the bytes that
torchvision gives on a PIL image. (In the blur, which torchvision runs on tensors, up to a hundred
values in ten million differ, by one.) The engine that runs them in a loader runs them here, so a
recipe's drawn parameters can be replayed one by one. With ``tensor=True``, where a function has
that argument, the bytes are those of torchvision's v1 on a uint8 tensor. An impossible argument is
an ``ArgumentError``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace._engine import arguments
from headrace._images.pixels import run

if TYPE_CHECKING:
    from headrace._images.pixels import Fill, Pixels


def adjust_brightness(img: Pixels, brightness_factor: float, *, tensor: bool = False) -> Pixels:
    """Blends black (factor 0) with the image (factor 1); larger factors go beyond the image."""
    return run(img, "AdjustBrightness", brightness_factor=brightness_factor, tensor=tensor)


def adjust_contrast(img: Pixels, contrast_factor: float, *, tensor: bool = False) -> Pixels:
    """Blends the mean grey (factor 0) with the image (factor 1); larger factors go beyond."""
    return run(img, "AdjustContrast", contrast_factor=contrast_factor, tensor=tensor)


def adjust_saturation(img: Pixels, saturation_factor: float, *, tensor: bool = False) -> Pixels:
    """Blends the grey image (factor 0) with the image (factor 1); larger factors go beyond."""
    return run(img, "AdjustSaturation", saturation_factor=saturation_factor, tensor=tensor)


def adjust_sharpness(img: Pixels, sharpness_factor: float, *, tensor: bool = False) -> Pixels:
    """Blends the smoothed image (factor 0) with the image (factor 1); larger factors go beyond."""
    return run(img, "AdjustSharpness", sharpness_factor=sharpness_factor, tensor=tensor)


def adjust_hue(img: Pixels, hue_factor: float) -> Pixels:
    """Turns the hue by -0.5 to 0.5 of the circle, in Pillow's 8-bit HSV."""
    return run(img, "AdjustHue", hue_factor=hue_factor)


def adjust_gamma(img: Pixels, gamma: float, gain: float = 1) -> Pixels:
    """Maps each value to ``255 * gain * (value / 255) ** gamma``, clipped to 0..255."""
    return run(img, "AdjustGamma", gamma=gamma, gain=gain)


def autocontrast(img: Pixels, *, tensor: bool = False) -> Pixels:
    """Stretches each channel so that its darkest value becomes 0 and its lightest 255."""
    return run(img, "Autocontrast", tensor=tensor)


def equalize(img: Pixels) -> Pixels:
    """Equalises each channel's histogram."""
    return run(img, "Equalize")


def invert(img: Pixels) -> Pixels:
    """Replaces each value by 255 minus that value."""
    return run(img, "Invert")


def posterize(img: Pixels, bits: int) -> Pixels:
    """Keeps the ``bits`` (0 to 8) highest bits of each value; with 0 the image is black."""
    return run(img, "Posterize", bits=bits)


def solarize(img: Pixels, threshold: float) -> Pixels:
    """Inverts values of at least ``threshold`` (0 to 255)."""
    return run(img, "Solarize", threshold=threshold)


def solarize_add(img: Pixels, add: int, thresh: int = 128) -> Pixels:
    """Adds ``add`` (0 to 255) to values below ``thresh``, up to 255, like timm's SolarizeAdd."""
    return run(img, "SolarizeAdd", add=add, thresh=thresh)


def jpeg(img: Pixels, quality: int) -> Pixels:
    """Encodes the image as a JPEG of that ``quality`` (1 to 100), like Pillow, and decodes it."""
    return run(img, "JPEG", quality=quality)


def gaussian_noise(
    img: Pixels,
    mean: float = 0.0,
    sigma: float = 0.1,
    clip: bool = True,
    key: Sequence[int] = (0, 0, 0, 0),
) -> Pixels:
    """Adds normally distributed noise to every value.

    Args:
        img: uint8 array of shape (height, width, 3).
        mean, sigma: mean (-10 to 10) and standard deviation (0 to 10), for values in 0..1.
        clip: clip the result to 0..255; otherwise it wraps around, so that 257 becomes 1.
        key: four numbers of 32 bits that determine the noise; ``replay`` reports them.
    """
    return run(img, "Noise", mean=mean, sigma=sigma, clip=clip, key=key)


def pillow_blur(img: Pixels, radius: float | Sequence[float]) -> Pixels:
    """Blurs like Pillow's ``ImageFilter.GaussianBlur`` with that radius, 0 to 1000 pixels, or with
    one radius horizontally and one vertically.
    """
    return run(img, "PillowBlur", radius=radius)


def rgb_to_grayscale(img: Pixels, num_output_channels: int = 1) -> Pixels:
    """Converts to grey: shape (height, width, 1), or (height, width, 3) with equal channels."""
    channels = arguments.count("num_output_channels", num_output_channels, 1)
    if channels not in (1, 3):
        raise arguments.refuse("num_output_channels", channels, "1 or 3")
    grey = run(img, "Grayscale", num_output_channels=3)
    return grey if channels == 3 else grey[:, :, :1].copy()


def to_grayscale(img: Pixels, num_output_channels: int = 1) -> Pixels:
    """The same as ``rgb_to_grayscale``."""
    return rgb_to_grayscale(img, num_output_channels)


def gaussian_blur(
    img: Pixels, kernel_size: int | Sequence[int], sigma: float | Sequence[float] | None = None
) -> Pixels:
    """Blurs with a Gaussian kernel.

    Args:
        img: uint8 array of shape (height, width, 3); each side more than half the kernel's.
        kernel_size: odd side of the kernel in pixels; or width and height.
        sigma: standard deviation in pixels; or one horizontally and one vertically. None:
            ``0.15 * kernel_size + 0.35``.
    """
    if sigma is None:
        sigma = [0.15 * size + 0.35 for size in arguments.numbers("kernel_size", kernel_size)]
    return run(img, "Blur", kernel_size=kernel_size, sigma=sigma)


def permute_channels(img: Pixels, permutation: Sequence[int]) -> Pixels:
    """Reorders the channels: the first channel of the result is number ``permutation[0]``."""
    return run(img, "PermuteChannels", permutation=permutation)


def pad(
    img: Pixels,
    padding: int | Sequence[int],
    fill: Fill = 0,
    padding_mode: str = "constant",
) -> Pixels:
    """Adds pixels on all sides; see ``headrace.transforms.Pad``. With ``fill=None`` they are 0."""
    colour = 0 if fill is None else fill
    return run(img, "Pad", padding=padding, fill=colour, padding_mode=padding_mode)


def crop(img: Pixels, top: int, left: int, height: int, width: int) -> Pixels:
    """Crops a box, in pixels; what lies outside of the image is black."""
    return run(img, "Crop", top=top, left=left, height=height, width=width)


def center_crop(img: Pixels, output_size: int | Sequence[int]) -> Pixels:
    """Crops the middle of the image; it is padded with black if it is too small."""
    return run(img, "CenterCrop", output_size=output_size)


def five_crop(img: Pixels, size: int | Sequence[int]) -> tuple[Pixels, ...]:
    """Crops the corners and the middle: top left, top right, bottom left, bottom right, middle.

    Raises:
        ArgumentError: the image is smaller than ``size`` (height and width, or one number).
    """
    return tuple(run(img, "FiveCrop", size=size))


def ten_crop(
    img: Pixels, size: int | Sequence[int], vertical_flip: bool = False
) -> tuple[Pixels, ...]:
    """``five_crop`` of the image and of its mirror image, top to bottom if ``vertical_flip``."""
    return tuple(run(img, "TenCrop", size=size, vertical_flip=vertical_flip))


def resize(
    img: Pixels,
    size: int | Sequence[int] | None,
    interpolation: Any = "bilinear",
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Pixels:
    """Resizes the image; see ``headrace.transforms.Resize``."""
    given = {"size": size, "interpolation": interpolation, "max_size": max_size}
    return run(img, "Resize", antialias=antialias, **given)


def resize_box(
    img: Pixels,
    size: int | Sequence[int],
    box: Sequence[float],
    interpolation: Any = "bilinear",
) -> Pixels:
    """Resizes a part of the image, like Pillow's ``resize`` with a ``box``.

    Args:
        size: height and width of the result in pixels; one number for a square.
        box: left, top, right and bottom of the part in pixels, which may be fractions; stored as
            float32, as in Pillow. The filter also uses pixels outside of the box, as far as the
            image reaches.

    Raises:
        ArgumentError: the box is empty or not inside the image.
    """
    return run(img, "ResizeBox", size=size, box=box, interpolation=interpolation)


def reduce(img: Pixels, factor: int | Sequence[int]) -> Pixels:
    """Replaces each box of pixels by its mean, like Pillow's ``reduce``. At the edges boxes are
    smaller.

    Args:
        factor: columns and rows of a box, 1 to 65,536; one number for both.

    Raises:
        ArgumentError: a factor is out of range.
    """
    return run(img, "Reduce", factor=factor)


def erase(
    img: Pixels,
    i: int,
    j: int,
    h: int,
    w: int,
    v: float | Sequence[float],
    inplace: bool = False,
) -> Pixels:
    """Replaces a box by a colour.

    Args:
        img: uint8 array of shape (height, width, 3). It is not changed.
        i, j: first row and first column of the box.
        h, w: rows and columns of the box; parts outside of the image are ignored.
        v: the new value, 0 to 255, or (red, green, blue).
        inplace: only False is allowed.
    """
    if arguments.flag("inplace", inplace):
        raise arguments.refuse("inplace", inplace, "False: the result is an array of its own")
    return run(img, "Erase", i=i, j=j, h=h, w=w, v=v)


def hflip(img: Pixels) -> Pixels:
    """Mirrors the image left to right."""
    return run(img, "RandomHorizontalFlip", p=1.0)


def vflip(img: Pixels) -> Pixels:
    """Mirrors the image top to bottom."""
    return run(img, "RandomVerticalFlip", p=1.0)
