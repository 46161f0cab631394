"""Several views of an image in a sample: its file is read once and decoded once for all of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torchvision.transforms as tv
from PIL import Image
from torch.utils import data
from torchvision import datasets

import headrace as hr
import images
from deferred.at_once import AtOnce
from headrace._engine.decoder import Decoder, Task

FILES, SIDE = 12, 400


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = images.plain_tree(tmp_path_factory.mktemp("views") / "photos", FILES, 2, SIDE)
    for path in made.rglob("*.jpg"):
        os.utime(path, (1e9, 1e9))  # a file that was just written is read when it is opened
    return made


class TwoCrops:
    """Two views by one transform, as in MoCo's and SimSiam's loaders."""

    def __init__(self) -> None:
        self.crop = tv.Compose([tv.RandomResizedCrop(32), tv.ToTensor()])

    def __call__(self, image: Any) -> Any:
        return [self.crop(image), self.crop(image)]


class MultiCrop:
    """Two large and many small views, as in DINO and SwAV."""

    def __init__(self) -> None:
        small = tv.Compose([tv.RandomResizedCrop(16, (0.05, 0.4)), tv.ToTensor()])
        large = tv.Compose([tv.RandomResizedCrop(32, (0.4, 1.0)), tv.ToTensor()])
        self.views = [large, large, *[small] * 6]

    def __call__(self, image: Any) -> Any:
        return [view(image) for view in self.views]


class WithPlain:
    """A dict with a view without random draws between two with them."""

    def __init__(self) -> None:
        self.crop = tv.Compose([tv.RandomResizedCrop(32), tv.ToTensor()])
        self.plain = tv.Compose([tv.Resize((24, 24)), tv.ToTensor()])

    def __call__(self, image: Any) -> Any:
        return {"a": self.crop(image), "plain": self.plain(image), "b": self.crop(image)}


class OpenedTwice(data.Dataset[Any]):
    """Each view of a sample opens the file anew."""

    def __init__(self, root: Path) -> None:
        self.files = sorted(root.rglob("*.jpg"))
        self.view = tv.Compose([tv.RandomResizedCrop(32), tv.ToTensor()])

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        opened = (Image.open(self.files[index]).convert("RGB") for _ in range(2))
        return [self.view(image) for image in opened]


VIEWS = {"two": TwoCrops, "eight": MultiCrop, "with a plain one": WithPlain, "opened twice": None}


def _dataset(root: Path, kind: str) -> Any:
    made: Any = VIEWS[kind]
    return datasets.ImageFolder(root, made()) if made else OpenedTwice(root)


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[list[Task]]:
    """What the engine is given for each batch."""
    found: list[list[Task]] = []
    submit = Decoder.submit

    def noted(self: Decoder, tasks: Any, keep: Any = None) -> Any:
        found.append([Task(*task) for task in tasks])
        return submit(self, found[-1], keep)

    monkeypatch.setattr(Decoder, "submit", noted)
    return found


def _units(tasks: list[Task]) -> Iterator[list[Task]]:
    """The tasks that are one image to the engine, which reads it for the first of them."""
    unit: list[Task] = []
    for task in tasks:
        if unit and not task.same_image:
            yield unit
            unit = []
        unit.append(task)
    yield unit


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", VIEWS)
def test_all_views_of_a_sample_are_one_read_and_one_decode(
    root: Path, kind: str, workers: int, submitted: list[list[Task]]
) -> None:
    loader = hr.DataLoader(_dataset(root, kind), 5, strict=True, seed=1, num_workers=workers)
    with contextlib.closing(loader):
        list(loader)
    units = [unit for tasks in submitted for unit in _units(tasks)]
    assert len(units) == FILES
    assert len({unit[0].source.path for unit in units}) == FILES
    for unit in units:
        # Tasks whose keys count up are decoded together: internal/decoder/worker.go.
        views = [task.key for task in unit]
        first = views[0]
        assert views == [(*first[:4], first[4] + number) for number in range(len(views))]
        assert len(views) >= 2


def _read_bytes() -> int:
    """The bytes that this process has read through system calls, in all threads."""
    told = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(told["rchar"])


@pytest.mark.skipif(
    os.environ.get("HEADRACE_AT_ONCE") == "1", reason="all is made a second time, to be compared"
)
def test_the_engine_reads_no_file_again_for_another_view(root: Path) -> None:
    whole = sum(path.stat().st_size for path in root.rglob("*.jpg"))
    read = {}
    for kind in ("two", "eight"):
        with contextlib.closing(hr.DataLoader(_dataset(root, kind), 4, strict=True)) as loader:
            list(loader)
            before = _read_bytes()
            list(loader)
            read[kind] = _read_bytes() - before
    assert whole <= read["eight"] < 2 * whole, f"{read} bytes, of files of {whole}"


@pytest.mark.parametrize("kind", VIEWS)
def test_views_decoded_together_have_the_same_bytes_as_each_alone(
    root: Path, kind: str, at_once: AtOnce
) -> None:
    with contextlib.closing(hr.DataLoader(_dataset(root, kind), 5, strict=True, seed=1)) as loader:
        list(loader)
    assert at_once.compared >= 2 * FILES


def test_several_samples_of_one_file_are_decoded_by_all_threads(
    root: Path, submitted: list[list[Task]]
) -> None:
    view = tv.Compose([tv.RandomResizedCrop(32), tv.ToTensor()])
    file = min(root.rglob("*.jpg"))

    class OneFile(data.Dataset[Any]):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> Any:
            return view(Image.open(file).convert("RGB"))

    with contextlib.closing(hr.DataLoader(OneFile(), 8, strict=True)) as loader:
        list(loader)
    assert [len(list(_units(tasks))) for tasks in submitted] == [8]


def test_a_damaged_file_with_several_views_raises_pillows_error_for_its_sample(
    root: Path, tmp_path: Path
) -> None:
    for number, path in enumerate(sorted(root.rglob("*.jpg"))[:4]):
        cut = path.read_bytes()
        images.write_tree(
            tmp_path, {f"c/{number}.jpg": cut[: len(cut) // 2] if number == 2 else cut}
        )
    with (
        contextlib.closing(hr.DataLoader(_dataset(tmp_path, "eight"), 2)) as loader,
        pytest.raises(OSError, match="truncated"),
    ):
        list(loader)
