"""Resizes as by Pillow before 13, whichever Pillow is installed."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from torch.utils import data
from torchvision.transforms.functional import pil_to_tensor

import headrace as hr
import images
from headrace import errors
from headrace._engine import followed
from headrace._images import pixels

FILTERS = {filter.name.lower(): filter for filter in list(Image.Resampling)[1:6]}


@pytest.fixture(params=["10.4", "12.3", ""], ids=["10.4", "12.3", "newest"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The version of Pillow that the engine follows in this test."""
    version: str = request.param
    monkeypatch.setattr(followed, "pillow", lambda: version)
    return version


def in_two_passes(image: Image.Image, size: tuple[int, int], filter: Any) -> NDArray[np.uint8]:
    """A resize across and then down: Pillow 12 does it in one call, and any Pillow in two."""
    across = image.resize((size[0], image.height), filter)
    return np.asarray(across.resize(size, filter))


def test_the_horizontal_pass_comes_first_as_in_pillow_before_13(version: str) -> None:
    random = np.random.default_rng(4)
    others = 0
    for number, encoded in enumerate([images.jpeg(149, 407), images.jpeg(300, 211)] * 20):
        image = Image.open(io.BytesIO(encoded)).convert("RGB")
        name, filter = list(FILTERS.items())[number % len(FILTERS)]
        width, height = int(random.integers(1, 300)), int(random.integers(1, 300))
        whole = (0, 0, image.height, image.width)
        made = hr.functional.resized_crop(encoded, *whole, (height, width), name)
        older = in_two_passes(image, (width, height), filter)
        others += not np.array_equal(made, older)
        if version:
            assert np.array_equal(made, older), (name, width, height)
    assert (others > 0) == (not version)


def test_the_vertical_pass_comes_first_for_very_tall_images_as_in_pillow_12_2(version: str) -> None:
    """Images with more than 100 times as many rows as columns; Pillow 13 treats them as any
    other."""
    random = np.random.default_rng(5)
    across_first = 0
    for number in range(40):
        width = 3 if number % 2 else 4
        array = random.integers(0, 256, (303 if width == 3 else 400, width, 3), dtype=np.uint8)
        image = Image.fromarray(array)
        name, filter = list(FILTERS.items())[number % len(FILTERS)]
        size = (int(random.integers(5, 60)), int(random.integers(5, 290)))
        made = hr.functional.resize(array, (size[1], size[0]), name)
        down = image.resize((image.width, size[1]), filter)
        if version == "12.3" and width == 3:
            assert np.array_equal(made, np.asarray(down.resize(size, filter)))
        across_first += np.array_equal(made, in_two_passes(image, size, filter))
    assert across_first >= {"10.4": 40, "12.3": 20, "": 0}[version]


def test_loaders_follow_the_version_of_pillow_as_functions_do(version: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    encoded = images.jpeg(149, 407)
    (tmp_path / "a" / "1.jpg").write_bytes(encoded)
    resize = hr.transforms.Resize((90, 200))
    with hr.Loader(tmp_path, 1, transform=[resize], dtype="uint8", output="numpy") as loader:
        [(made, _)] = loader
    expected = hr.functional.resized_crop(encoded, 0, 0, 407, 149, (90, 200))
    assert np.array_equal(made[0].transpose(1, 2, 0), expected)
    array = pixels.of(hr.functional.decode(encoded))
    assert np.array_equal(hr.functional.resize(array, (90, 200)), expected)


def test_images_that_a_program_opens_follow_the_version_of_pillow(
    version: str, tmp_path: Path
) -> None:
    path = tmp_path / "1.jpg"
    path.write_bytes(images.jpeg(149, 407))

    class Opens(data.Dataset[Any]):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> Any:
            return pil_to_tensor(Image.open(path).convert("RGB").resize((200, 90)))

    with contextlib.closing(hr.DataLoader(Opens(), 1)) as loader:
        [made] = loader
    expected = hr.functional.resized_crop(
        path.read_bytes(), 0, 0, 407, 149, (90, 200), Image.Resampling.BICUBIC
    )
    assert np.array_equal(made[0].permute(1, 2, 0).numpy(), expected)


def test_second_images_follow_the_version_of_pillow(version: str, tmp_path: Path) -> None:
    for name in ("images", "others"):
        (tmp_path / name).mkdir()
        Image.open(io.BytesIO(images.jpeg(149, 407))).save(tmp_path / name / "1.png")
    pairs = hr.Dataset.from_pairs(tmp_path / "images", tmp_path / "others")
    with hr.Loader(
        pairs,
        1,
        transform=[hr.transforms.Resize((90, 200))],
        labels={"target": hr.transforms.Image()},
        dtype="uint8",
        output="numpy",
    ) as loader:
        [(made, _, moved)] = loader
    assert np.array_equal(made, moved["target"])


def test_an_invalid_version_of_pillow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "pillow", lambda: "new")
    with pytest.raises(errors.ArgumentError, match='pillow is "new"'):
        hr.functional.decode(images.jpeg(8, 8))


@pytest.mark.parametrize(
    ("version", "expected"),
    [("12.3.0", "12.3"), ("9.0.0.post1", "9.0"), ("13.0.0", ""), ("14.1", ""), ("dev", "")],
)
def test_the_version_that_is_followed_is_that_of_the_installed_pillow(
    version: str, expected: int, tmp_path: Path
) -> None:
    (tmp_path / "PIL").mkdir()
    (tmp_path / "PIL" / "__init__.py").write_text(f"__version__ = {version!r}\n")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from headrace._engine import followed\n"
        "print(followed.pillow())\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert found.stdout.decode().strip() == expected
