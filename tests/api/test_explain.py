"""``headrace.explain``: what of any loader's samples is native, and what to do about the rest."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils import data
from torchvision import datasets
from torchvision import transforms as tv

import headrace as hr
import images

STEPS = tv.Compose([tv.Resize(20), tv.CenterCrop(16), tv.ToTensor()])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("explain") / "photos", 6)


class Listed(data.Dataset[Any]):
    """Images of a list of paths, each made by a function."""

    def __init__(self, root: Path, make: Any) -> None:
        self.paths, self.make = sorted(root.rglob("*.jpg")), make

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.make(self.paths[index])


def opened(path: Path) -> Image.Image:
    return Image.open(path).convert("RGB")


def masked(path: Path) -> Any:
    image = opened(path)
    mask = np.asarray(image)[..., 0]  # the line that is told
    return {"views": [STEPS(image), STEPS(image)], "mask": mask, "boxes": np.zeros((3, 4))}


LINE = 1 + Path(__file__).read_text().splitlines().index(
    "    mask = np.asarray(image)[..., 0]  # the line that is told"
)


@pytest.mark.parametrize("kind", [data.DataLoader, hr.DataLoader])
def test_each_image_of_a_sample_is_listed_with_the_line_that_has_it_in_python(
    root: Path, kind: Any
) -> None:
    found = hr.explain(kind(Listed(root, masked), 2, shuffle=True))
    line = f"{__file__}:{LINE}"
    assert [(leaf.where, leaf.native, leaf.place) for leaf in found.leaves] == [
        ("['views'][0]", True, ""),
        ("['views'][1]", True, ""),
        ("['mask']", False, line),
    ]
    assert [reason.place for reason in found.reasons] == [line]
    assert "headrace.from_torchvision" in found.cure
    assert not found.native
    table = str(found).splitlines()
    assert table[0] == "['views'][0]  native  Tensor (3, 16, 16) torch.float32"
    assert table[2].startswith("['mask']      Python  ndarray (")
    assert table[2].endswith(f"uint8, from {line}")
    assert table[3].startswith("in Python: ")
    assert table[4] == found.cure


def test_a_loader_of_torchs_stays_what_it_was_and_nothing_is_drawn_or_said(root: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's advice
        loader = data.DataLoader(
            datasets.ImageFolder(root, STEPS), 2, shuffle=True, num_workers=64, drop_last=True
        )
    before = dict(loader.__dict__)
    states = torch.get_rng_state(), random.getstate()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = hr.explain(loader)
    assert found.native
    assert loader.__dict__ == before
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]


def test_every_cause_has_its_cure(root: Path, tmp_path: Path) -> None:
    unopened = hr.explain(data.DataLoader(Listed(root, lambda path: torch.zeros(3, 8, 8))))
    assert "Listed opens no image" in unopened.reasons[0].text
    assert "PIL.Image.open" in unopened.cure
    Image.new("RGB", (20, 20)).save(tmp_path / "one.ppm")
    foreign = Listed(root, lambda path: STEPS(opened(tmp_path / "one.ppm")))
    found = hr.explain(data.DataLoader(foreign))
    assert "saved as JPEG, PNG, WebP, BMP, GIF or TIFF" in found.cure
    assert not found.native
    rest = tv.Compose([tv.ToTensor(), tv.Lambda(lambda image: image + 1)])
    ended = hr.explain(data.DataLoader(datasets.ImageFolder(root, rest)))
    assert ended.reasons[0].text.endswith("<lambda> needs the pixels")
    assert ended.reasons[0].place.startswith(__file__)
    assert "headrace.from_torchvision" in ended.cure


def test_subclasses_streams_and_single_samples_are_explained(root: Path) -> None:
    class Own(data.DataLoader[Any]):
        def __init__(self, root: Path) -> None:
            super().__init__(Listed(root, lambda path: STEPS(opened(path))), batch_size=None)

    class Stream(data.IterableDataset[Any]):
        def __iter__(self) -> Any:
            return (STEPS(opened(path)) for path in sorted(root.rglob("*.jpg")))

    assert hr.explain(Own(root), 3).native
    assert hr.explain(data.DataLoader(Stream(), 2)).native
    text = str(hr.explain(data.DataLoader(data.TensorDataset(torch.zeros(3)))))
    assert text == "the sample has no image"


def test_what_is_no_loader_of_torchs_is_refused_in_a_sentence(root: Path) -> None:
    with pytest.raises(hr.errors.ArgumentError, match=r"builtins\.list: a torch\.utils\.data"):
        hr.explain([1])
    loader = hr.Loader(root, batch_size=2, transform=[hr.transforms.Resize((8, 8))])
    with pytest.raises(hr.errors.ArgumentError, match="native in all"):
        hr.explain(loader)
    loader.close()
    pipe = data.datapipes.iter.IterableWrapper([1, 2])
    with pytest.raises(hr.errors.UnsupportedError, match="data pipes itself"):
        hr.explain(data.DataLoader(pipe))
