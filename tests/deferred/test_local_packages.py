"""Programs' packages that are called as a library's: ``datasets``, as in DETR's repository.

``timm`` and ``lightning`` are others, as folders of a program.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image
from torch.utils import data
from torchvision import transforms

import headrace as hr
from deferred.test_own_code import equal, paths
from headrace._torch.kind import is_accelerates
from headrace._torch.states import _lightning_counts
from headrace.errors import UnsupportedError

__all__ = ["paths"]  # a fixture

PROGRAM = """
import torch
from PIL import Image

class Photos(torch.utils.data.Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = Image.open(self.paths[index]).convert("RGB")
        return torch.tensor(image.getpixel((3, 3)))  # here

class Made(Photos):
    def __getitem__(self, index):
        return torch.tensor(Image.new("RGB", (8, 8), (index, 0, 0)).getpixel((3, 3)))

def run(loader):
    return [*loader]  # it runs here
"""

# Classes with the names of timm's and Accelerate's, which do something else.
TRANSFORMS = """
from torchvision.transforms.functional import to_tensor

class MaybeToTensor:
    def __call__(self, image):
        return to_tensor(image) * 2 - 1
"""
DATA_LOADER = """
from headrace import DataLoader

class BatchSamplerShard:
    def __init__(self, batch_sampler):
        self.batch_sampler = batch_sampler

    def __iter__(self):
        return ([index, index] for index, *_ in self.batch_sampler)

    def __len__(self):
        return len(self.batch_sampler)
"""
LIBRARIES = ("accelerate", "datasets", "lightning", "open_clip", "timm", "transformers")


@pytest.fixture(params=[*LIBRARIES, "test"])
def program(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    """A module of the program in a package of that name."""
    name = request.param
    begin = "from .photos import Photos as DatasetInfo, Photos as Trainer, Photos as create_model\n"
    files = {"__init__": begin, "photos": PROGRAM}
    files |= {"data/__init__": "", "data/transforms": TRANSFORMS, "data_loader": DATA_LOADER}
    files |= {"pytorch": "", "transform": TRANSFORMS}
    for file, text in files.items():
        (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name / f"{file}.py").write_text(text)
    loaded = [one for one in sys.modules if one.partition(".")[0] == name]
    for one in loaded:
        monkeypatch.delitem(sys.modules, one)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module(f"{name}.photos")
    for one in [one for one in sys.modules if one.partition(".")[0] == name]:
        del sys.modules[one]


def part_of(program: Any, name: str) -> Any:
    """Another module of the program's package."""
    return importlib.import_module(f"{program.__package__}.{name}")


@pytest.mark.skipif(
    os.environ.get("HEADRACE_AT_ONCE") == "1",
    reason="what makes deferrals at once (at_once.py) stands between the program and the engine",
)
def test_a_reason_names_the_programs_line_if_its_package_has_the_name_of_a_library(
    program: Any, paths: list[str]
) -> None:
    with contextlib.closing(hr.DataLoader(program.Photos(paths), 4)) as loader:
        (reason,) = loader.explain().reasons
        assert equal([*loader], [*data.DataLoader(program.Photos(paths), 4)])
    line = PROGRAM.split("\n").index("        return torch.tensor(image.getpixel((3, 3)))  # here")
    assert str(reason.place) == f"{program.__file__}:{line + 1}"


def test_a_dataset_in_a_package_with_the_name_of_a_library_may_have_images(
    program: Any, paths: list[str], tmp_path: Path
) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with contextlib.closing(hr.DataLoader(program.Made(paths), 4)) as loader:
            assert loader.state_dict()["version"]
            assert len([*loader]) == 3
    assert any("opens no image" in str(one.message) for one in said)


def test_a_warning_names_the_line_of_a_program_whose_package_is_called_as_a_library(
    program: Any, paths: list[str]
) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with contextlib.closing(hr.DataLoader(program.Photos(paths), 4)) as loader:
            program.run(loader)
    (warning,) = [one for one in said if "needs the pixels" in str(one.message)]
    line = PROGRAM.split("\n").index("    return [*loader]  # it runs here")
    assert (warning.filename, warning.lineno) == (program.__file__, line + 1)


class Opened(data.Dataset[Any]):
    """Photographs with a transform."""

    def __init__(self, paths: list[str], transform: Any) -> None:
        self.paths, self.transform = paths, transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.transform(Image.open(self.paths[index]).convert("RGB").resize((32, 32)))


@pytest.mark.parametrize("module", ["data.transforms", "transform"])
def test_a_programs_class_with_the_name_of_a_librarys_does_what_the_program_wrote(
    program: Any, paths: list[str], module: str
) -> None:
    transform = part_of(program, module).MaybeToTensor()
    for pipeline in (transform, transforms.Compose([transforms.Resize(24), transform])):
        expected = [*data.DataLoader(Opened(paths, pipeline), 4)]
        with contextlib.closing(hr.DataLoader(Opened(paths, pipeline), 4)) as loader:
            assert equal([*loader], expected)
    with pytest.raises(UnsupportedError, match="Headrace has no such transform"):
        hr.from_torchvision(pipeline)


def test_a_programs_class_with_the_name_of_one_of_accelerates_samplers_is_asked(
    program: Any, paths: list[str]
) -> None:
    module = part_of(program, "data_loader")
    dataset = Opened(paths, transforms.ToTensor())
    sampler = module.BatchSamplerShard(data.BatchSampler(range(len(paths)), 2, False))
    expected = [*data.DataLoader(dataset, batch_sampler=sampler)]
    with contextlib.closing(hr.DataLoader(dataset, batch_sampler=sampler)) as loader:
        assert equal([*loader], expected)
    assert not is_accelerates(module.DataLoader)


def test_no_trainer_counts_batches_in_a_programs_own_package(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "headrace.lightning", raising=False)
    part_of(program, "pytorch")
    assert not _lightning_counts()
