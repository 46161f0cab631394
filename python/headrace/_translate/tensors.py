"""How torchvision resizes a tensor of bytes, and the engine's filter that gives the same bytes.

torch has two ways. With whole numbers it multiplies bytes by weights of 16 bits, like the filters
"tensor-bilinear" and "tensor-bicubic" (native/resize). With floats, which it rounds at the end, it
adds up in an order that depends on the CPU. torchvision's v2 chooses by filter, version and CPU; v1
uses floats. What v2 chose is seen in what it makes of a small image.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from headrace._translate.values import name_of

# 24 pixels in 6 rows: 97 times their number, modulo 256. Below is what whole numbers make of them,
# as 2 rows of 3. With floats, four of bilinear's six values differ, and two of bicubic's.
_ROWS, _COLUMNS = 6, 4
_IN_WHOLE_NUMBERS = {
    "bilinear": bytes.fromhex("6297726ca17c"),
    "bicubic": bytes.fromhex("579c6b71a67b"),
}


def read_filter(op: Any, stage: str, version: int) -> tuple[str, str]:
    """The engine's name for how a transform resizes a tensor, and "" or why there is none."""
    name = name_of(op.interpolation)
    if stage != "uint8":
        return "", f"here it resizes a tensor of {stage}; in front of ToDtype it has bytes"
    if version != 2:
        return "", "here it resizes a tensor, which v1 does in floats; v2 has bytes throughout"
    if name not in _IN_WHOLE_NUMBERS:
        how = f"interpolation={op.interpolation!r}"
        return "", f"torchvision resizes tensors and PIL images differently with {how}"
    if not op.antialias:
        return "", f"antialias={op.antialias!r} of a tensor, which the engine always smoothes"
    if not in_whole_numbers(name):
        return "", "torch resizes tensors in floats on this CPU"
    return f"tensor-{name}", ""


@cache
def in_whole_numbers(name: str) -> bool:
    """Whether torchvision's v2 resizes bytes with whole numbers here, for a filter."""
    if name not in _IN_WHOLE_NUMBERS:
        return False
    torch = sys.modules["torch"]
    functional = sys.modules["torchvision.transforms.v2.functional"]
    values = [97 * n % 256 for n in range(_ROWS * _COLUMNS)]
    image = torch.tensor(values, dtype=torch.uint8, device="cpu").reshape(1, _ROWS, _COLUMNS)
    image = image.expand(3, -1, -1)
    filters = sys.modules["torchvision.transforms"].InterpolationMode
    made = functional.resize_image(image, [2, 3], interpolation=filters(name), antialias=True)
    return bytes(made[0].flatten().tolist()) == _IN_WHOLE_NUMBERS[name]
