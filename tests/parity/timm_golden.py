"""What tests/parity/timm_golden.json holds, and the program that writes it, where timm 1.0 is:

    python tests/parity/timm_golden.py

Hashes of the results of each op of a timm configuration for one picture: for both signs, and for
both filters that are drawn. A policy's are listed by its lines.
"""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

FILE = Path(__file__).with_name("timm_golden.json")
RAND = [
    "rand-m9-n1-p1",
    "rand-m9-n1-p1-inc1",
    "rand-m3-n1-p1-inc1",
    "rand-m15-n1-p1-mmax20-inc1",
    "rand-m15-n1-p1",
    "rand-m7-n1-p1-t3a",
    "rand-m9-n1-p1-t3aw",
    "rand-m9-n1-p1-tweights",
]
AUTO = ["v0", "v0r", "original", "originalr"]


def picture() -> NDArray[np.uint8]:
    """Ramps and edges of integers: the same on every machine."""
    y, x = np.mgrid[0:28, 0:36]
    planes = [
        (x * (5 + c) + y * (3 + 2 * c) + 70 * ((x // 7 + y // 5) % 2)) % 256 for c in range(3)
    ]
    return np.stack(planes, axis=2).astype(np.uint8)


def hash_of(pixels: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest()[:12]


def posterize(image: Image.Image, bits: int, real: Any = ImageOps.posterize) -> Image.Image:
    """Pillow's posterize before it refused fewer than one bit: nothing is left."""
    return real(image, bits) if bits > 0 else Image.new("RGB", image.size)


def outcomes(op: Any) -> list[str]:
    """All results of one AugmentOp, which is always applied."""
    op.prob = 1.0
    found = set()
    for sign in (0.4, 0.6):
        for place in (0, 1):
            with (
                mock.patch.object(random, "random", lambda sign=sign: sign),
                mock.patch.object(random, "choice", lambda of, place=place: of[place]),
                mock.patch.object(ImageOps, "posterize", posterize),
            ):
                found.add(hash_of(op(Image.fromarray(picture()))))
    return sorted(found)


def golden() -> dict[str, Any]:
    from timm.data import auto_augment as timm

    found: dict[str, Any] = {"picture": hash_of(picture())}
    for config in RAND:
        ops = timm.rand_augment_transform(config).ops
        found[config] = sorted({hashed for op in ops for hashed in outcomes(op)})
    for config in AUTO:
        lines = timm.auto_augment_transform(config).policy
        found[config] = [[outcomes(op) for op in line] for line in lines]
    return found


if __name__ == "__main__":
    FILE.write_text(json.dumps(golden(), indent=0) + "\n")
