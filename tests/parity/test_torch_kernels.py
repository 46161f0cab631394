"""The rules that replace torch's kernels in parity tests give torch's values, up to one rounding.

A kernel rounds in one of two ways, the same for all of its results; the CPU decides which. `make
kernels` runs all parity tests with every kernel that a CPU can be made to take.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_kernels

import cases
import processes

DRAWS = cases.some(30, of=100)
Given = tuple[Any, ...]


def intervals(draw: random.Random) -> Iterator[Given]:
    for steps in (1, 2, 10, 31):
        for end in (0.3, 0.9, 0.99, 30.0, 135.0, 150.0 / 331.0 * 224.0, draw.uniform(-9, 9)):
            yield 0.0, end, steps
            yield end, 0.0, steps


def sides(draw: random.Random) -> tuple[int, int]:
    longest = draw.choice((9, 130))
    return draw.randint(1, longest), draw.randint(1, longest)


def places_and_columns(draw: random.Random) -> Iterator[Given]:
    """The centres of an image's pixels, and the coefficients of a map that is applied to them."""
    for _ in range(DRAWS):
        height, width = sides(draw)
        y, x = np.mgrid[0:height, 0:width].astype(np.float32).reshape(2, -1) + np.float32(0.5)
        middle = draw.choice(((0, 0), (width / 2, height / 2)))
        places = np.stack([x - middle[0], y - middle[1], np.ones_like(x)], -1, dtype=np.float32)
        columns = [[draw.uniform(-2, 2) / width for _ in range(2)] for _ in range(3)]
        yield torch.from_numpy(places)[None], torch.tensor([columns])


def images_and_grids(draw: random.Random) -> Iterator[Given]:
    noise = np.random.default_rng(4)
    for number in range(DRAWS):
        image = noise.integers(0, 256, (1, 4, *sides(draw))).astype(np.float32)
        image[:, 3] = 1
        grid = noise.uniform(-1.3, 1.3, (1, *sides(draw), 2)).astype(np.float32)
        yield torch.from_numpy(image), torch.from_numpy(grid), ("bilinear", "nearest")[number % 2]


def grid_sample(image: torch.Tensor, grid: torch.Tensor, mode: str) -> torch.Tensor:
    return torch.nn.functional.grid_sample(image, grid, mode, align_corners=False)


KERNELS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "linspace": (torch.linspace, torch_kernels.linspace, intervals),
    "bmm": (torch.bmm, torch_kernels.product, places_and_columns),
    "grid_sample": (grid_sample, torch_kernels.sampled, images_and_grids),
}


@pytest.mark.parametrize("name", KERNELS)
def test_each_kernel_has_one_of_the_two_roundings_and_no_other(name: str) -> None:
    kernel, rule, inputs = KERNELS[name]
    differ = {True: 0, False: 0}
    for given in inputs(random.Random(name)):
        found = kernel(*given)
        assert found.dtype == torch.float32
        for fused in differ:
            differ[fused] += int((found != rule(*given, fused=fused)).sum())
    assert min(differ.values()) == 0, differ
    assert max(differ.values()) > 0  # else both roundings gave the same, and nothing was shown


LEVELS = ["DEFAULT", "AVX2", "AVX512"]
OWN = torch.backends.cpu.get_cpu_capability()


@pytest.mark.parametrize("level", LEVELS[: LEVELS.index(OWN)] if OWN in LEVELS else [])
@pytest.mark.every(2)
def test_comparisons_with_torch_pass_with_the_kernels_of_each_lower_level_too(level: str) -> None:
    """One test of each kernel, and one that used to fail where torch rounds differently."""
    processes.run(
        """
        import sys

        sys.path.insert(0, sys.argv[1])
        import torch
        from torchvision.transforms import v2
        import test_augmix, test_label_ops, test_recipe_translation, test_tensor_resize
        import test_torch_kernels as kernels

        assert torch.backends.cpu.get_cpu_capability() == sys.argv[2]
        for name in kernels.KERNELS:
            kernels.test_each_kernel_has_one_of_the_two_roundings_and_no_other(name)
        test_augmix.test_the_ops_of_a_chain_equal_torchvisions_on_tensors()
        test_label_ops.test_a_mask_moves_as_in_torchvision("perspective")
        for name in test_tensor_resize.FILTERS:
            test_tensor_resize.test_a_resize_of_a_byte_tensor_equals_torchs_in_every_byte(name)
        translation = test_recipe_translation
        translation.test_solarize_of_a_policy_changes_exactly_the_values_that_torchvisions_changes(v2)
        """,
        Path(__file__).parent,
        level,
        prefix=("env", f"ATEN_CPU_CAPABILITY={level.lower()}"),
        timeout=240,
    )
