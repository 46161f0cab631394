"""Where torchvision's two versions give different bytes for a PIL image, and where they do not.

``torchvision.transforms`` and ``torchvision.transforms.v2`` compute the coefficients of an affine
map in another order of operations, so that their last bits differ: an op's ``version`` says whose
it has. Rotations, perspectives and the maps of the policies are the same in both.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_kernels
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import datasets
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.functional import _get_inverse_affine_matrix as matrix_of_v1
from torchvision.transforms.v2.functional import _geometry

import cases
import headrace as hr
from headrace import functional as ours
from headrace import transforms as t
from images import photographs

DRAWS = cases.some(400, of=2000)
FILTERS = ("nearest", "bilinear", "bicubic")
SIDES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
VERSIONS: dict[int, Any] = {1: v1, 2: v2}
MATRICES = {1: matrix_of_v1, 2: _geometry._get_inverse_affine_matrix}


def noise(
    seed: int, sides: tuple[int, ...] = SIDES, draws: int = DRAWS
) -> Iterator[tuple[Any, random.Random]]:
    """Small images in which every pixel matters, and a generator for their arguments."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    for _ in range(draws):
        shape = (draw.choice(sides), draw.choice(sides), 3)
        yield rng.integers(0, 256, shape, dtype=np.uint8), draw


def angle(draw: random.Random) -> float:
    """A quarter turn, an eighth, or any."""
    quarter, eighth = draw.randrange(-720, 721, 90), draw.randrange(-360, 361, 45)
    return float(draw.choice((quarter, eighth, draw.uniform(-180, 180))))


def around(draw: random.Random) -> dict[str, Any]:
    """A fill and a centre."""
    centre = [draw.uniform(-9, 30), draw.uniform(-9, 30)]
    return {
        "fill": [draw.randrange(256) for _ in range(3)],
        "center": draw.choice((None, None, centre, [int(place) for place in centre])),
    }


def test_an_affine_map_of_either_version_equals_torchvisions_in_every_byte() -> None:
    apart = 0
    for array, draw in noise(1):
        sheared = [draw.uniform(-40, 40), draw.uniform(-40, 40)]
        given = {
            "angle": angle(draw),
            "translate": draw.choice(([0, 0], [draw.randint(-9, 9), draw.randint(-9, 9)])),
            "scale": draw.choice((1.0, 2.0, 0.5, draw.uniform(0.3, 3))),
            "shear": draw.choice(([0.0, 0.0], [45.0, 0.0], [0.0, 45.0], sheared)),
            **around(draw),
        }
        name, image, made = draw.choice(FILTERS), Image.fromarray(array), []
        for version, kind in VERSIONS.items():
            theirs = kind.functional.affine(image, interpolation=InterpolationMode(name), **given)
            made.append(np.asarray(theirs))
            found = ours.affine(array, interpolation=name, version=version, **given)
            assert np.array_equal(found, made[-1]), (version, array.shape, name, given)
        apart += not np.array_equal(*made)
    # Else nothing here tells the versions apart.
    assert apart > DRAWS / 100


def test_an_affine_map_follows_version_1_by_default() -> None:
    array = next(noise(2, (5,)))[0]
    for turn in range(-720, 721, 90):
        given: Any = (float(turn), [1, 0], 1.0, [0.0, 0.0], "bilinear")
        assert np.array_equal(ours.affine(array, *given), ours.affine(array, *given, version=1))
    assert t.RandomAffine(90).version == 1
    with pytest.raises(hr.errors.ArgumentError, match="version is 3"):
        ours.affine(array, *given, version=3)


def test_a_rotation_is_the_same_in_both_versions() -> None:
    for array, draw in noise(3):
        turn, expand, given = angle(draw), draw.random() < 0.5, around(draw)
        name, image = draw.choice(FILTERS), Image.fromarray(array)
        found = ours.rotate(array, turn, name, expand, **given)
        for version, kind in VERSIONS.items():
            mode = InterpolationMode(name)
            wanted = kind.functional.rotate(image, turn, mode, expand, **given)
            assert np.array_equal(found, np.asarray(wanted)), (version, turn, expand, given)


def test_a_perspective_is_the_same_in_both_versions() -> None:
    for array, draw in noise(4, (7, 8, 16, 17, 33), 400):
        torch.manual_seed(draw.randrange(2**31))
        corners = v1.RandomPerspective.get_params(
            array.shape[1], array.shape[0], draw.uniform(0, 0.7)
        )
        name, fill, image = draw.choice(FILTERS), around(draw)["fill"], Image.fromarray(array)
        found = ours.perspective(array, *corners, name, fill)
        for version, kind in VERSIONS.items():
            mode = InterpolationMode(name)
            wanted = kind.functional.perspective(image, *corners, mode, fill)
            assert np.array_equal(found, np.asarray(wanted)), (version, corners)


def outcomes(op: Any, version: int, image: Image.Image) -> dict[bytes, str]:
    """All results that a TrivialAugmentWide may give for an image, each with its op and
    magnitude."""
    made, mode = {}, op.interpolation
    with torch_kernels.fused():
        if version == 1:
            space = op._augmentation_space(op.num_magnitude_bins)
        else:
            space = {
                name: (magnitudes(op.num_magnitude_bins, image.height, image.width), signed)
                for name, (magnitudes, signed) in op._AUGMENTATION_SPACE.items()
            }
    for name, (magnitudes, signed) in space.items():
        lone = magnitudes is None or magnitudes.ndim == 0
        for magnitude in [0.0] if lone else magnitudes.tolist():
            for value in (magnitude, -magnitude) if signed else (magnitude,):
                if version == 1:
                    given = v1.autoaugment._apply_op(image, name, value, mode, op.fill)
                else:
                    given = op._apply_image_or_video_transform(image, name, value, mode, op._fill)
                made[np.asarray(given).tobytes()] = f"{name} {value}"
    return made


@pytest.mark.every(3)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", FILTERS)
def test_each_op_of_a_policy_follows_the_policys_version(version: int, name: str) -> None:
    """RandAugment and AutoAugment have the same ops with smaller turns."""
    op = VERSIONS[version].TrivialAugmentWide(9, InterpolationMode(name), [9, 99, 199])
    steps = list(hr.from_torchvision(op))
    used: Counter[str] = Counter()
    for number, (height, width) in enumerate([(5, 4), (4, 5), (17, 16), (33, 7)]):
        array = np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)
        wanted = outcomes(op, version, Image.fromarray(array))
        ppm = b"P6 %d %d 255\n" % (width, height) + array.tobytes()
        for sample in range(400):
            image = array
            for function, given in ours.replay(ppm, steps, sample=sample):
                image = getattr(ours, function)(image, **given)
            assert image.tobytes() in wanted, (height, width, sample)
            used[wanted[image.tobytes()]] += 1
    assert len(used) > 80


@pytest.mark.parametrize("version", VERSIONS)
def test_the_warps_of_an_augmix_have_the_coefficients_of_its_version(version: int) -> None:
    (step,) = hr.from_torchvision(VERSIONS[version].AugMix(10, mixture_width=4, chain_depth=2))
    height, width, seen = 33, 47, set()
    ppm = b"P6 %d %d 255\n" % (width, height) + bytes(3 * height * width)
    wanted = {}
    middle, corner, none = [0.0, 0.0], [-0.5 * width, -0.5 * height], [0.0, 0.0]
    ops = {
        "shear x": lambda m: (corner, 0.0, none, 1.0, [math.degrees(math.atan(m)), 0.0]),
        "shear y": lambda m: (corner, 0.0, none, 1.0, [0.0, math.degrees(math.atan(m))]),
        "turn": lambda m: (middle, -m, none, 1.0, [0.0, 0.0]),
        "move x": lambda m: (middle, 0.0, [float(int(m)), 0.0], 1.0, [0.0, 0.0]),
        "move y": lambda m: (middle, 0.0, [0.0, float(int(m))], 1.0, [0.0, 0.0]),
    }
    most = {"turn": 30.0, "move x": width / 3.0, "move y": height / 3.0}
    for name, arguments in ops.items():
        for magnitude in torch_kernels.linspace(0.0, most.get(name, 0.3), 10).tolist():
            for value in (magnitude, -magnitude):
                wanted[tuple(MATRICES[version](*arguments(value)))] = name
    for sample in range(200):
        ((_, mixed),) = ours.replay(ppm, [step], sample=sample)
        for drawn in (part for chain in mixed["chains"] for part in chain):
            if drawn["function"] == "tensor_affine":
                seen.add(wanted[tuple(drawn["arguments"]["coefficients"])])
    assert seen == set(ops)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_quarter_turn_in_a_loader_follows_the_version_of_its_class(
    version: int, tmp_path: Path
) -> None:
    kind = VERSIONS[version]
    (tmp_path / "all").mkdir()
    for number, array in enumerate(photographs()):
        Image.fromarray(array[: 60 + 7 * number, : 81 + 6 * number]).save(
            tmp_path / "all" / f"{number}.png"
        )
    turn = kind.RandomAffine((-90, -90), interpolation=InterpolationMode.BILINEAR)
    dataset = datasets.ImageFolder(
        str(tmp_path), kind.Compose([turn, kind.CenterCrop(50), v1.PILToTensor()])
    )
    for mine, theirs in zip(
        hr.DataLoader(dataset, 3, strict=True), DataLoader(dataset, 3), strict=True
    ):
        assert torch.equal(mine[0], theirs[0])
