"""Bad files in a program's own dataset: Pillow's errors, raised where Pillow raises them."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
import warnings
from collections import UserDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import PIL
import pytest
import torch
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from PIL import Image, ImageFile
from torch.utils import data
from torchvision import io as tv_io
from torchvision.transforms import v2

import headrace as hr
import images
import sayings
from deferred.test_own_code import Opens, compared, equal
from headrace import errors
from headrace._deferred import pixels
from headrace._deferred.epoch import Epoch

SMALL = tv.Compose([tv.Resize((32, 32)), tv.ToTensor()])
SMALL_IMAGES = v2.Compose([v2.Resize((32, 32)), v2.ToImage(), v2.ToDtype(torch.float32, True)])


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    """Twelve JPEGs: number 4 is cut off, 7 is text, and 9 is a JPEG 2000 with another extension."""
    root = images.plain_tree(tmp_path / "photos", 12)
    found = sorted(str(path) for path in root.rglob("*.jpg"))
    whole = Path(found[4]).read_bytes()
    Path(found[4]).write_bytes(whole[: len(whole) // 2])
    Path(found[7]).write_bytes(b"not an image at all")
    Image.open(found[9]).save(found[9], "JPEG2000")
    for path in found:
        os.utime(path, (1e9, 1e9))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_in_one_thread_does_not_end_the_epoch_of_another_thread(
    paths: list[str], workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second thread asks for a batch while the first one still handles its error."""
    # The third is text, which Pillow refuses when it is opened.
    dataset = Opens(paths[5:], lambda path, index: (SMALL(Image.open(path).convert("RGB")), index))
    fails, goes_on = threading.Event(), threading.Event()
    behind = Epoch._behind

    def late(self: Epoch, standing: Any) -> Any:
        if sys.exc_info()[0] is not None and not fails.is_set():
            fails.set()
            assert goes_on.wait(60)
        return behind(self, standing)

    monkeypatch.setattr(Epoch, "_behind", late)
    found: list[Any] = []

    def take(batches: Any) -> None:
        found.extend(next(batches)[1].item() for _ in range(2))
        with pytest.raises(PIL.UnidentifiedImageError, match="cannot identify image file"):
            next(batches)

    with contextlib.closing(hr.DataLoader(dataset, 1, num_workers=workers)) as loader:
        batches = iter(loader)
        first = threading.Thread(target=take, args=[batches])
        first.start()
        assert fails.wait(60)
        try:
            found.extend(next(batches)[1].tolist())
        finally:
            goes_on.set()
            first.join()
        found.extend(next(batches)[1].tolist())
        del batches
    assert found == [0, 1, 3, 4]


def with_another(paths: list[str]) -> Any:
    def make(path: str, index: int) -> Any:
        while True:
            try:
                return SMALL(Image.open(path).convert("RGB")), index
            except (OSError, PIL.UnidentifiedImageError):
                index = (index + 1) % len(paths)
                path = paths[index]

    return make


def or_none(path: str, index: int) -> Any:
    try:
        image = Image.open(path).convert("RGB")
    except OSError:
        return None
    return SMALL(image), index


def present(samples: list[Any]) -> Any:
    return data.default_collate([sample for sample in samples if sample is not None])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_program_that_tries_another_file_finds_the_same_file_as_with_torchs_loader(
    paths: list[str], workers: int
) -> None:
    compared(Opens(paths, with_another(paths)), strict=False, num_workers=workers)
    compared(Opens(paths, or_none), strict=False, num_workers=workers, collate_fn=present)


@pytest.mark.parametrize("number", [4, 7])
def test_an_error_is_pillows_and_comes_at_the_batch_of_its_file(
    paths: list[str], number: int
) -> None:
    dataset = Opens(paths, lambda path, index: (SMALL(Image.open(path).convert("RGB")), index))
    with pytest.raises(OSError) as expected:  # noqa: PT011  # Pillow's sentence is compared
        dataset[number]
    loader = hr.DataLoader(dataset, batch_size=1)
    batches, found = iter(loader), []
    for _ in range(len(paths)):
        try:
            found.append(int(next(batches)[1]))
        except OSError as failure:
            found.append((type(failure), sayings.own(failure)))
    bad = [place for place, what in enumerate(found) if isinstance(what, tuple)]
    assert bad == [4, 7]
    assert found[number] == (expected.type, str(expected.value))
    assert found[:4] == [0, 1, 2, 3]
    loader.close()


def test_files_that_only_pillow_reads_are_read_by_pillow(paths: list[str]) -> None:
    del paths[7], paths[4]
    with pytest.warns(UserWarning, match="is not a JPEG, PNG, WebP"):
        compared(Opens(paths, lambda path, index: SMALL(Image.open(path))), strict=False)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("number", [4, 7])
def test_an_error_of_a_file_names_the_file_and_the_index(
    paths: list[str], number: int, workers: int
) -> None:
    dataset = Opens(paths, lambda path, index: SMALL(Image.open(path).convert("RGB")))
    order = [0, 1, number, 2]
    options = {"batch_size": 4, "sampler": order, "num_workers": workers}
    with contextlib.closing(hr.DataLoader(dataset, **options)) as loader:
        batches = iter(loader)
        with pytest.raises(OSError) as raised:  # noqa: PT011  # what it says is looked at below
            next(batches)
    said = "".join(traceback.format_exception_only(raised.value))
    assert paths[number] in said
    assert f"index {number}" in said


def test_an_error_of_a_file_of_a_stream_names_the_file(paths: list[str]) -> None:
    class Stream(data.IterableDataset[Any]):
        def __iter__(self) -> Any:
            return (SMALL(Image.open(path).convert("RGB")) for path in paths)

    with contextlib.closing(hr.DataLoader(Stream(), batch_size=2, ahead=0)) as loader:
        batches = iter(loader)
        next(batches)
        next(batches)
        with pytest.raises(OSError, match="truncated") as raised:
            next(batches)
    assert paths[4] in "".join(traceback.format_exception_only(raised.value))


def warnings_of(epoch: Any, count: int, expected: Any) -> list[int]:
    """How often each of several epochs warns that Pillow decodes some files."""
    found = []
    for _ in range(count):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert equal(epoch(), expected)
        found.append(sum("Pillow decodes what" in str(one.message) for one in said))
    return found


@pytest.mark.parametrize("workers", [0, 1])
def test_pillow_decodes_in_threads_what_the_engine_does_not_and_such_files_are_counted(
    paths: list[str], workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Pillow was told to, it makes images of truncated files."""
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    for path in paths:
        if path not in (paths[7], paths[9]):
            whole = Path(paths[0]).read_bytes()
            Path(path).write_bytes(whole if path == paths[0] else whole[: len(whole) // 2])
            os.utime(path, (1e9, 1e9))
    chosen = [path for path in paths if path not in (paths[7], paths[9])]
    names: set[str] = set()
    by_pillow = pixels.by_pillow

    def in_a_thread(*arguments: Any) -> bytes:
        names.add(threading.current_thread().name.rpartition("_")[0])
        return by_pillow(*arguments)

    monkeypatch.setattr(pixels, "by_pillow", in_a_thread)
    dataset = Opens(chosen, lambda path, index: SMALL(Image.open(path).convert("RGB")))
    expected = list(data.DataLoader(dataset, 4))
    options = {"num_workers": workers, "batch_size": 4}
    with contextlib.closing(hr.DataLoader(dataset, **options)) as loader:
        epochs = warnings_of(lambda: list(loader), 3, expected)
        stats = loader.stats()
        assert (stats["pillow_images"], stats["pillow_files"]) == (27, 9)
    # The first epoch warns, and a later one warns again if more such files were found.
    assert [min(1, count) for count in epochs[:1]] + epochs[2:] == [1, 0]
    assert epochs[1] <= 1
    assert names == {"DataLoader"}
    with (
        contextlib.closing(hr.DataLoader(dataset, strict=True, **options)) as loader,
        pytest.raises(errors.UnsupportedError, match="Pillow decodes what the engine cannot"),
    ):
        list(loader)


@pytest.mark.parametrize("workers", [0, 1])
def test_files_that_only_pillow_reads_are_counted_and_warned_of_once(
    paths: list[str], tmp_path: Path, workers: int
) -> None:
    """Animated WebPs, one of which comes twice."""
    chosen = [path for path in paths if path not in (paths[4], paths[7], paths[9])]
    for number in range(3):
        image = Image.open(chosen[number])
        moving = str(tmp_path / f"{number}.webp")
        image.save(moving, save_all=True, append_images=[image.rotate(90)])
        os.utime(moving, (1e9, 1e9))
        chosen += [moving] * (1 + (number == 2))
    dataset = Opens(chosen, lambda path, index: SMALL(Image.open(path).convert("RGB")))
    expected = list(data.DataLoader(dataset, 13))
    with contextlib.closing(hr.DataLoader(dataset, 13, num_workers=workers)) as loader:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert equal([*loader, *loader], expected * 2)
        stats = loader.stats()
    # Python 3.12 and newer warn of any fork of a process with threads, also under torch's loader.
    (text,) = [str(one.message) for one in said if "multi-threaded" not in str(one.message)]
    assert "(4 images so far" in text
    assert ".webp is not a JPEG" in text
    assert "save it as JPEG, PNG, WebP" in text
    assert (stats["pillow_images"], stats["pillow_files"]) == (8, 3)


def test_a_file_that_only_pillow_reads_is_counted_if_the_program_opens_the_file_itself(
    paths: list[str], tmp_path: Path
) -> None:
    """As torchvision's default_loader does."""
    image = Image.open(paths[0])
    moving = tmp_path / "0.webp"
    image.save(moving, save_all=True, append_images=[image.rotate(90)])

    def opened(path: str, index: int) -> Any:
        with open(path, "rb") as file:
            return SMALL(Image.open(file).convert("RGB"))

    dataset = Opens([paths[0], str(moving), str(moving)], opened)
    expected = list(data.DataLoader(dataset, 3))
    with contextlib.closing(hr.DataLoader(dataset, 3)) as loader:
        assert equal(list(loader), expected)
        stats = loader.stats()
    assert (stats["pillow_images"], stats["pillow_files"]) == (2, 1)


class NotesCalls(data.Dataset[Any]):
    """Notes which samples were asked for and where, and tries another file in place of a bad
    one."""

    def __init__(self, paths: list[str], small: Any, notes: Path) -> None:
        self.paths, self.small, self.notes = paths, small, notes

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        with self.notes.open("a") as file:
            file.write(f"{index} {os.getpid()}\n")
        drawn = torch.rand(1)
        try:
            image = Image.open(self.paths[index]).convert("RGB")
        except OSError:
            image = Image.open(self.paths[0]).convert("RGB")
        return {"image": self.small(image), "index": index, "drawn": drawn}


def changes_samples(samples: list[Any]) -> Any:
    """Changes its argument."""
    for sample in samples:
        sample["drawn"] += 1
        sample["name"] = str(sample.pop("index"))
    return data.default_collate(samples)


@pytest.mark.parametrize("collate", [data.default_collate, changes_samples])
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("small", [SMALL, SMALL_IMAGES])
def test_the_batch_of_a_bad_file_is_made_again_in_the_same_process_with_the_same_draws(
    paths: list[str], tmp_path: Path, workers: int, collate: Any, small: Any
) -> None:
    whole = Path(paths[4]).read_bytes()
    del paths[9], paths[7]
    Path(paths[7]).write_bytes(whole)  # cut off, as number 4 is
    dataset, kept = (NotesCalls(paths, small, tmp_path / name) for name in ("calls", "torchs"))
    torch.manual_seed(3)
    expected = list(data.DataLoader(kept, 5, num_workers=workers, collate_fn=collate))
    torch.manual_seed(3)
    options = {"num_workers": workers, "collate_fn": collate, "batch_size": 5}
    more = {} if workers else {"ahead": 0}
    with contextlib.closing(hr.DataLoader(dataset, strict=True, **options, **more)) as loader:
        assert equal(list(loader), expected)
    calls = [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
    assert sorted(int(index) for index, _ in calls) == sorted([*range(10)] * 2)
    for batch in (range(5), range(5, 10)):
        assert len({process for index, process in calls if int(index) in batch}) == 1


class Labelled(NamedTuple):
    image: Any
    index: int


def numbered(image: Any, index: int) -> Any:
    return UserDict({"image": image, "index": index})


@pytest.mark.parametrize("kind", [Labelled, numbered])
def test_samples_of_a_programs_own_class_are_made_once_and_made_again_if_a_file_is_bad(
    paths: list[str], kind: Any
) -> None:
    def make(path: str, index: int) -> Any:
        try:
            return kind(SMALL(Image.open(path).convert("RGB")), index)
        except OSError:
            return kind(SMALL(Image.open(paths[0]).convert("RGB")), index)

    good, bad = [*paths[:4], paths[5]], [*paths[:6]]
    with contextlib.closing(hr.DataLoader(Opens(good, make), 5, strict=True)) as loader:
        list(loader)
        assert loader.stats()["images_decoded"] == 5
    expected = list(data.DataLoader(Opens(bad, make), 3))
    with contextlib.closing(hr.DataLoader(Opens(bad, make), 3, strict=True)) as loader:
        for ours, theirs in zip(loader, expected, strict=True):
            names = ("image", "index") if kind is numbered else (0, 1)
            assert all(torch.equal(ours[name], theirs[name]) for name in names)


def black_where_bad(made: Any) -> Any:
    def opened(path: str, index: int) -> Any:
        try:
            return made(Image.open(path).convert("RGB").resize((32, 32)))
        except OSError:
            return made(Image.new("RGB", (32, 32)))

    return opened


# What is done to the images in __getitem__, and to one of them in the collate function.
IN_TWO_PLACES = {
    "bytes divided": (F.pil_to_tensor, lambda x: x / 255),
    "bytes flipped": (F.pil_to_tensor, lambda x: x.flip(-1).float()),
    "images": (lambda x: x, F.to_tensor),
    "images changed": (lambda x: x, lambda x: F.to_tensor(F.hflip(F.pad(x.crop((1, 1, 9, 9)), 2)))),
    "images transformed": (lambda x: x, SMALL),
    "images of version 2": (lambda x: x, SMALL_IMAGES),
    "images again": (F.to_tensor, lambda x: F.to_tensor(F.to_pil_image(x))),
}


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("what", IN_TWO_PLACES)
def test_a_bad_file_affects_only_its_own_sample_also_if_collate_changes_its_image(
    paths: list[str], what: str, workers: int
) -> None:
    first, then = IN_TWO_PLACES[what]
    calls: list[int] = []

    def counted(path: str, index: int) -> Any:
        calls.append(index)
        return black_where_bad(first)(path, index)

    def collate(samples: list[Any]) -> Any:
        return torch.stack([then(one).as_subclass(torch.Tensor) for one in samples])

    dataset = Opens(paths[4:6] + paths[:4], counted)
    expected = list(data.DataLoader(dataset, 6, collate_fn=collate))
    calls.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compared(dataset, False, expected, batch_size=6, collate_fn=collate, num_workers=workers)
    assert workers or len(calls) == 12, "each sample is made twice"


class Keeps(data.Dataset[Any]):
    """Keeps the samples that it has made."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths
        self.made: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        if index not in self.made:
            self.made[index] = SMALL(Image.open(self.paths[index]).convert("RGB"))
        return self.made[index]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_a_bad_file_whose_tensor_the_program_keeps_is_an_error(
    paths: list[str], workers: int
) -> None:
    with contextlib.closing(hr.DataLoader(Keeps(paths[3:6]), 3, num_workers=workers)) as loader:
        for _ in range(2):
            with pytest.raises(OSError, match="truncated"):
                list(loader)


def is_whole(path: str, how: Callable[[Any], Any]) -> bool:
    """Whether a file can be decoded, as a program looks that keeps nothing of the image."""
    try:
        how(Image.open(path))
    except Exception:
        return False
    return True


LOOKS: dict[str, Callable[[Any], Any]] = {
    "converted": lambda image: image.convert("RGB"),
    "loaded": lambda image: image.load(),
    "cropped": lambda image: image.crop((0, 0, 4, 4)).size,
    "a tensor": lambda image: F.to_tensor(image).shape,
    "transformed": lambda image: tv.Compose([tv.Resize(8), tv.ToTensor()])(image.convert("RGB")),
    "only opened": lambda image: image.size,
    "an array": lambda image: np.asarray(image).sum(),
    "by torchvision": lambda image: tv_io.read_image(image.filename).shape,
}


@pytest.mark.filterwarnings("ignore:headrace.DataLoader")
@pytest.mark.filterwarnings("ignore:unclosed file")
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("what", LOOKS)
def test_a_program_that_only_looks_whether_files_are_whole_finds_the_same_as_with_torchs_loader(
    tmp_path: Path, what: str, workers: int
) -> None:
    if what == "cropped" and os.environ.get("HEADRACE_AT_ONCE") == "1":
        pytest.skip("a crop that is made at once reads nothing below it (docs/exactness.md)")
    paths = []
    for number in range(6):
        whole = images.jpeg(60, 45, seed=number)
        paths.append(str(tmp_path / f"{number}.jpg"))
        Path(paths[-1]).write_bytes(whole[: len(whole) // 2] if number in (1, 4) else whole)
        os.utime(paths[-1], (1e9, 1e9))

    def of(path: str, index: int) -> Any:
        return is_whole(path, LOOKS[what]), is_whole(path, lambda image: image.mode)

    expected = list(data.DataLoader(Opens(paths, of), batch_size=3))
    with contextlib.closing(hr.DataLoader(Opens(paths, of), 3, num_workers=workers)) as loader:
        found = list(loader)
    assert str(found) == str(expected)
    assert ("False" in str(expected)) == (what != "only opened")
