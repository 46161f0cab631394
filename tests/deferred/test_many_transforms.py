"""Lists of transforms as long as the engine takes them, and longer: 64 ops an image."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision.transforms as tv
from PIL import Image, ImageOps
from torch.utils import data
from torchvision import datasets
from torchvision.transforms import v2

import headrace as hr
from deferred.test_own_code import Opens, equal, paths
from headrace._deferred.chain import Chain, Op
from headrace.errors import UnsupportedError

__all__ = ["paths"]  # a fixture

# The warning that images are made in Python.
pytestmark = pytest.mark.filterwarnings("ignore:headrace.DataLoader")

TABLE = Path(__file__).parents[2] / "internal" / "transform" / "transforms.json"
SMALL, TENSOR = tv.Resize((24, 24)), tv.ToTensor()
FORTY = tv.Compose([tv.Pad(1), tv.CenterCrop(24)] * 20)
INVERSIONS = tv.Compose([tv.RandomInvert(1.0)] * 41)


def opened(path: str) -> Any:
    return SMALL(Image.open(path).convert("RGB"))


def in_a_loop(image: Any, count: int) -> Any:
    for number in range(count):
        image = ImageOps.invert(image) if number % 3 else ImageOps.mirror(image)
    return image


PROGRAMS = {
    "twice": lambda path: TENSOR(FORTY(FORTY(opened(path)))),
    "three times": lambda path: TENSOR(FORTY(FORTY(FORTY(opened(path))))),
    "behind functions": lambda path: TENSOR(FORTY(in_a_loop(opened(path), 30))),
    "functions behind": lambda path: TENSOR(in_a_loop(FORTY(FORTY(opened(path))), 70)),
    "functions behind one": lambda path: TENSOR(in_a_loop(FORTY(tv.Pad(1)(opened(path))), 27)),
    "with a group each": lambda path: TENSOR(INVERSIONS(opened(path))),
    "to a tensor": lambda path: tv.Compose([*FORTY.transforms, *FORTY.transforms, TENSOR])(
        opened(path)
    ),
    "members of a choice": lambda path: TENSOR(
        tv.RandomChoice([tv.RandomInvert(1.0)] * 25)(opened(path))
    ),
    "in grey": lambda path: TENSOR(FORTY(FORTY(opened(path).convert("L")))),
}


@pytest.mark.parametrize("make", PROGRAMS.values(), ids=list(PROGRAMS))
@pytest.mark.parametrize("workers", [0, 2])
def test_transforms_beyond_the_engines_limit_run_once_and_give_torchs_pixels(
    paths: list[str], make: Any, workers: int
) -> None:
    calls: Counter[str] = Counter()

    def called(path: str, index: int) -> Any:
        calls[path] += 1
        return make(path)

    expected = [*data.DataLoader(Opens(paths, called), 4)]
    calls.clear()
    with contextlib.closing(hr.DataLoader(Opens(paths, called), 4, num_workers=workers)) as loader:
        assert equal([*loader], expected)
        assert loader.stats()["pillow_images"] == 0
    assert {*calls.values()} <= {1}


def test_forty_transforms_run_in_the_engine_alone(paths: list[str]) -> None:
    dataset = Opens(paths, lambda path, index: TENSOR(FORTY(opened(path))))
    with contextlib.closing(hr.DataLoader(dataset, 4, strict=True)) as loader:
        assert not loader.explain().reasons
        assert equal([*loader], [*data.DataLoader(dataset, 4)])


def test_transforms_of_an_image_folder_beyond_the_engines_limit_run_in_python(
    paths: list[str],
) -> None:
    transform = tv.Compose([SMALL, tv.CenterCrop(24), *INVERSIONS.transforms, TENSOR])
    folder = datasets.ImageFolder(Path(paths[0]).parents[1], transform)
    with contextlib.closing(hr.DataLoader(folder, 4)) as loader:
        assert equal([*loader], [*data.DataLoader(folder, 4)])


@pytest.mark.parametrize("count", [1, 2, 31, 32])
def test_a_translation_has_at_most_as_many_ops_as_the_engine_takes(count: int) -> None:
    """Each is two ops: the engine takes 32 of them, and no 33rd."""
    inversions = v2.Compose([v2.RandomInvert(1.0)] * count)
    hr.Loader(hr.Dataset.from_arrays(ONE), transform=hr.from_torchvision(inversions)).close()
    more = v2.Compose([v2.RandomInvert(1.0)] * 33)
    with pytest.raises(UnsupportedError, match="more than 64"):
        hr.from_torchvision(more)


ONE = torch.zeros((1, 8, 8, 3), dtype=torch.uint8).numpy()


@pytest.mark.parametrize("large", range(4))
@pytest.mark.parametrize("separate", [True, False])
def test_a_chain_with_no_room_is_full_however_short_its_texts_are(
    large: int, separate: bool
) -> None:
    texts = ['{"name":"RandomPhotometricDistort"}'] * large
    found = []
    for _ in range(64):
        joined = texts if separate else [",".join(texts)]
        chain = Chain(
            b"", "RGB", "RGB", (1, 1), tuple(Op(text, None) for text in joined), None, None
        )
        assert chain.full or chain.has_room(6)
        found.append(chain.full)
        texts = [*texts, '{"name":"X","p":1}']
    assert found[-1]
    assert sorted(found) == found


def test_a_transform_with_a_chance_has_an_argument_p_and_counts_as_two_engine_ops() -> None:
    from headrace._translate.result import engine_ops

    table = json.loads(TABLE.read_text())["transforms"]
    chances = [one for one in table if one.get("with_chance")]
    assert chances
    for one in chances:
        assert "p" in [argument["name"] for argument in one["arguments"]]
        assert engine_ops({"name": one["name"], "p": 0.5}) == 2
