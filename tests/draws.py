"""What random ops draw, computed anew: so a test can know what the engine did.

The draws are Philox 4x64-10 with key (seed, epoch) and counter (block, op, draw, sample), a promise
of native/native.h; NumPy has the same generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

Box = tuple[int, int, int, int]  # top, left, height, width


def words(seed: int, epoch: int, sample: int, op: int, block: int) -> list[int]:
    """The four words of one block."""
    counter = block | op << 64 | sample << 192
    # NumPy steps the counter before it makes a block.
    generator = np.random.Philox(counter=(counter - 1) % 2**256, key=seed | epoch << 64)
    return [int(word) for word in generator.random_raw(4)]


def uniform(word: int) -> float:
    return (word >> 11) * 2.0**-53


def below(word: int, n: int) -> int:
    return word * n >> 64


def resized_crop_box(width: int, height: int, draw: Callable[[int], Sequence[int]]) -> Box:
    """torchvision's get_params with its defaults, from the words of `draw(block)`."""
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
    """Windows of an image: the whole, single pixels, one at each edge, and anything between."""
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
