"""The draws of random ops, computed by the test, so that it knows what the engine did.

The draws are Philox 4x64-10 with key (seed, epoch) and counter (block, op, draw, sample), a promise
of native/draws/draws.h; NumPy has the same generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Box = tuple[int, int, int, int]  # top, left, height, width
Array = np.ndarray[Any, Any]
F32 = np.float32


def words(seed: int, epoch: int, sample: int, op: int, block: int) -> list[int]:
    """The four words of one block."""
    counter = block | op << 64 | sample << 192
    # NumPy increments the counter before it makes a block.
    generator = np.random.Philox(counter=(counter - 1) % 2**256, key=seed | epoch << 64)
    return [int(word) for word in generator.random_raw(4)]


def uniform(word: int) -> float:
    return (word >> 11) * 2.0**-53


def below(word: int, n: int) -> int:
    return word * n >> 64


def resized_crop_box(width: int, height: int, draw: Callable[[int], Sequence[int]]) -> Box:
    """torchvision's get_params with its defaults, with the words of `draw(block)`."""
    for block in range(10):
        word = draw(block)
        area = width * height * (0.08 + (1.0 - 0.08) * uniform(word[0]))
        low, high = math.log(3 / 4), math.log(4 / 3)
        ratio = math.exp(low + (high - low) * uniform(word[1]))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return below(word[2], height - h + 1), below(word[3], width - w + 1), h, w
    w, h = width, height
    if width / height < 3 / 4:
        h = round(width / (3 / 4))
    elif width / height > 4 / 3:
        w = round(height * (4 / 3))
    return (height - h) // 2, (width - w) // 2, h, w


def some_boxes(width: int, height: int, count: int, seed: int) -> list[Box]:
    """Windows of an image: the whole, single pixels, one at each edge, and anything in between."""
    random = np.random.default_rng(seed)

    def length(side: int) -> int:
        return int(random.integers(1, side + 1))

    found = [(0, 0, height, width), (0, 0, 1, 1), (height - 1, width - 1, 1, 1)]
    for edge in range(4):
        h, w = length(height), length(width)
        top, left = int(random.integers(height - h + 1)), int(random.integers(width - w + 1))
        top = {0: 0, 1: height - h}.get(edge, top)
        left = {2: 0, 3: width - w}.get(edge, left)
        found.append((top, left, h, w))
    while len(found) < count:
        h, w = length(height), length(width)
        top, left = int(random.integers(height - h + 1)), int(random.integers(width - w + 1))
        found.append((top, left, h, w))
    return found[:count]


# ---- noise: native/pixels/noise.c's arithmetic, operation by operation in single precision ----


def logarithm(x: Array) -> Array:
    """Natural logarithm of numbers from 2^-24 to 1."""
    bits = x.view(np.uint32) + np.uint32(0x3F800000 - 0x3F3504F3)
    exponent = ((bits >> 23).astype(np.int32) - 127).astype(F32)
    x = ((bits & np.uint32(0x7FFFFF)) + np.uint32(0x3F3504F3)).view(F32)
    s = (x - F32(1)) / (x + F32(1))
    series = polynomial(s * s, [1, 1 / 3, 1 / 5, 1 / 7, 1 / 9])
    return exponent * F32(0.693147181) + F32(2) * s * series


def polynomial(x: Array, coefficients: list[float]) -> Array:
    total = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = F32(coefficient) + x * total
    return total


def noise_of(key: Sequence[int], height: int, width: int) -> Array:
    """Standard normal values of an image, by NumPy's Philox: each row begins with a block."""
    blocks = -(-3 * width // 8)
    seed = key[0] | key[1] << 32 | key[2] << 64 | key[3] << 96
    # NumPy increments the counter before it makes a block.
    generator = np.random.Philox(counter=2**256 - 1, key=seed)
    words = generator.random_raw(4 * blocks * height)
    low, high = words.astype(np.uint32), (words >> 32).astype(np.uint32)
    radius = np.sqrt(F32(-2) * logarithm(((low >> 8) + 1).astype(F32) * F32(2**-24)))
    part = ((high >> 8) & 0x3FFFFF).astype(F32) * F32(2**-22) - F32(0.5)
    angle = part * F32(1.57079633)
    sine = angle * polynomial(angle**2, [1, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880])
    cosine = polynomial(angle**2, [1, -0.5, 1 / 24, -1 / 720, 1 / 40320, -1 / 3628800])
    odd, back = (high >> 30) & 1 == 1, (high >> 31) == 1
    x, y = np.where(odd, -sine, cosine), np.where(odd, cosine, sine)
    pair = np.stack([np.where(back, -x, x), np.where(back, -y, y)], -1) * radius[:, None]
    return pair.reshape(height, 8 * blocks)[:, : 3 * width].reshape(height, width, 3)


def uniform_noise_of(key: Sequence[int], height: int, width: int) -> Array:
    """An elastic transform's noise from -1 to 1, across and down: float32 of (height, width, 2)."""
    blocks = -(-width // 8)
    seed = key[0] | key[1] << 32 | key[2] << 64 | key[3] << 96
    found = np.empty((height, width, 2), F32)
    for axis in range(2):
        for row in range(height):
            # NumPy increments the counter before it makes a block.
            counter = (axis << 128 | row << 64) - 1
            generator = np.random.Philox(counter=counter % 2**256, key=seed)
            words = generator.random_raw(4 * blocks)
            halves = np.stack([words.astype(np.uint32), (words >> 32).astype(np.uint32)], -1)
            values = (halves.reshape(-1) >> 8).astype(F32) * F32(2**-24) * F32(2) - F32(1)
            found[row, :, axis] = values[:width]
    return found
