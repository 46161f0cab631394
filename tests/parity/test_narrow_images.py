"""Images that a resize leaves without pixels: errors as under torch's loader, by kind and place."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch.utils import data
from torchvision import datasets
from torchvision import transforms as v1
from torchvision.transforms import v2

import headrace as hr
import images
from headrace.errors import NoPixelsError

PIPELINES: dict[str, Any] = {
    "v1": v1.Compose([v1.Resize(45, max_size=60), v1.CenterCrop(30), v1.ToTensor()]),
    "v2": v2.Compose([v2.Resize(None, max_size=60), v2.CenterCrop(30), v2.PILToTensor()]),
    "resized again": v1.Compose([v1.Resize(8, max_size=9), v1.Resize(30), v1.ToTensor()]),
    "scaled": v2.Compose([v2.ScaleJitter((30, 30), (1, 1)), v2.CenterCrop(9), v1.ToTensor()]),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("narrow") / "photos"
    sizes = [(60, 50), (500, 1), (1, 500), (50, 60)]
    files = {f"{n}.png": images.png(*size, 2, seed=n) for n, size in enumerate(sizes)}
    return images.write_tree(root / "class", files).parent


class Opens(data.Dataset[Any]):
    """The same files, opened by a dataset's own code."""

    def __init__(self, root: Path, transform: Any) -> None:
        self.paths, self.transform = sorted(root.rglob("*.png")), transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.transform(Image.open(self.paths[index]).convert("RGB")), index


def samples(loader: Any) -> list[Any]:
    """Each sample, or the error in its place."""
    found: list[Any] = []
    batches = iter(loader)
    while True:
        try:
            found.append(next(batches)[0])
        except StopIteration:
            return found
        except Exception as failure:
            found.append(failure)


@pytest.mark.parametrize("way", ["folder", "own code", "one by one"])
@pytest.mark.parametrize("name", PIPELINES)
def test_an_image_that_becomes_narrower_than_a_pixel_is_a_value_error_in_its_place(
    root: Path, name: str, way: str
) -> None:
    pipeline = PIPELINES[name]
    dataset: Any = Opens(root, pipeline)
    options: dict[str, Any] = {"batch_size": 1}
    if way != "own code":
        dataset = datasets.ImageFolder(str(root), pipeline)
    if way == "one by one":
        options["collate_fn"] = lambda batch: [batch[0][0][None], batch[0][1]]
    with contextlib.closing(hr.DataLoader(dataset, strict=True, **options)) as loader:
        found = samples(loader)
    wanted = samples(data.DataLoader(dataset, **options))
    assert sum(isinstance(one, ValueError) for one in wanted) == 2
    assert len(found) == len(wanted)
    for mine, theirs in zip(found, wanted, strict=True):
        if isinstance(theirs, Exception):
            assert isinstance(mine, ValueError)
            assert way == "own code" or isinstance(mine, NoPixelsError)
        else:
            assert torch.equal(mine, theirs)
