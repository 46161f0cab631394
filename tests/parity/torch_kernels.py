"""torch's kernels whose last bits depend on the CPU, as rules that torchvision is given instead.

All three add to a product. With a fused multiply-add that is rounded once, without one the product
is rounded by itself first. Which of the two torch does is the CPU's: its own kernels fuse with
AVX2, MKL's product of matrices on Intel's CPUs with AVX-512 alone (docs/exactness.md). Headrace
fuses on every CPU (native/pixels/tensorops.c, native/maskwarp.c and native/draws/policy.c), so what
it is compared with has to. test_torch_kernels.py shows that a CPU's kernels are these, in one
rounding or in the other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch
from torchvision.transforms import _functional_tensor
from torchvision.transforms.v2.functional import _geometry

Array = np.ndarray[Any, Any]
F32 = np.float32


def multiplied_and_added(a: Any, b: Any, c: Any, fused: bool) -> Array:
    """a * b + c of floats; a double holds the product of two floats exactly."""
    if fused:
        exact = np.multiply(a, b, dtype=np.float64)
        return np.add(exact, c, dtype=np.float64).astype(F32)
    return np.add(np.multiply(a, b, dtype=F32), c, dtype=F32)


def linspace(
    start: float, end: float, steps: int, fused: bool = True, **_form: Any
) -> torch.Tensor:
    """torch.linspace of floats: each number from the nearer end."""
    first, last = F32(start), F32(end)
    step = (last - first) / F32(max(steps - 1, 1))
    forth = np.arange(steps, dtype=F32)
    from_first = multiplied_and_added(step, forth, first, fused)
    from_last = multiplied_and_added(-step, forth[::-1], last, fused)
    near = forth < (steps // 2 if steps > 1 else 1)
    return torch.from_numpy(np.where(near, from_first, from_last))


def product(places: torch.Tensor, columns: torch.Tensor, fused: bool = True) -> torch.Tensor:
    """torch.bmm of [1, n, 3] and [1, 3, k], where the third number of each place is 1. Below 400
    multiplications torch uses a loop of its own, which does not fuse."""
    (x, y, one), matrix = places[0].numpy().T, columns[0].numpy()
    assert (one == 1).all()
    fused = fused and x.size * matrix.size >= 400
    made = [multiplied_and_added(y, b, x * a, fused) + c for a, b, c in matrix.T]
    return torch.from_numpy(np.stack(made, -1)[None])


def sampled(
    image: torch.Tensor,
    grid: torch.Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
    fused: bool = True,
) -> torch.Tensor:
    """torch's grid_sample of [1, channels, height, width], as torchvision calls it."""
    assert (padding_mode, align_corners) == ("zeros", False)
    planes = image[0].numpy()
    # A border of zeros on each side stands for all that lies outside, where NaN may lie, too.
    around = np.pad(planes, [(0, 0), (1, 2), (1, 2)])
    numbers, place = grid[0].numpy(), []
    for axis, side in enumerate(planes.shape[:0:-1]):
        at = multiplied_and_added(numbers[..., axis] + F32(1), side / 2, F32(-0.5), fused)
        place.append(np.fmin(np.fmax(at, F32(-1)), F32(side)))
    x, y = place

    def pixel(column: Array, row: Array) -> Array:
        return around[:, row.astype(int) + 1, column.astype(int) + 1]

    if mode == "nearest":
        return torch.from_numpy(pixel(np.rint(x), np.rint(y))[None])
    left, top = np.floor(x), np.floor(y)
    w, n = x - left, y - top
    e, s = F32(1) - w, F32(1) - n
    total = pixel(left, top) * (e * s)
    for column, row, weight in (
        (left + 1, top, w * s),
        (left, top + 1, e * n),
        (left + 1, top + 1, w * n),
    ):
        total = multiplied_and_added(pixel(column, row), weight, total, fused)
    return torch.from_numpy(total[None])


@contextlib.contextmanager
def fused() -> Iterator[None]:
    """While this holds, torchvision uses these rules, fused, in place of the CPU's kernels."""
    with (
        mock.patch.object(torch, "linspace", linspace),
        mock.patch.object(torch.Tensor, "bmm", product),
        mock.patch.object(_functional_tensor, "grid_sample", sampled),
        mock.patch.object(_geometry, "grid_sample", sampled),
    ):
        yield
