"""A program's own code runs once per call although images are made later, as with torch's loader.

Collate functions that need values, transforms whose result is needed in a worker process, and what
programs keep of recorded images.
"""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import os
import pickle
import random
import weakref
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from PIL import Image
from torch.utils import data
from torchvision import io as tv_io
from torchvision.transforms import v2

import headrace as hr
import images
from deferred.test_own_code import EVALUATION, Opens, compared, equal

WORKERS = pytest.mark.parametrize("workers", [0, 2])
MIRROR = tv.RandomHorizontalFlip(1.0)  # random, with a fixed outcome


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return images.old_files(tmp_path_factory.mktemp("once") / "photos")


def opened(path: str) -> Any:
    return Image.open(path).convert("RGB")


# ---- collate functions that need values ----------------------------------------------------------


@dataclass
class Sample:
    image: Any
    boxes: Any
    names: list[str]


def of_a_sample(path: str, index: int) -> dict[str, Any]:
    boxes = np.full((2, 4), index, np.float32)
    part = Sample(EVALUATION(opened(path)), torch.full((2, 4), float(index)), ["a"])
    return {"part": part, "label": index, "boxes": boxes, "more": deque([index])}


def takes_apart(samples: list[Any]) -> Any:
    """Takes fields away and adds in place before it needs values."""
    labels, drawn = [sample.pop("label") for sample in samples], random.random()
    for sample in samples:
        sample["boxes"] += 1
        sample["part"].boxes.mul_(2).unsqueeze_(0)
        sample["part"].names.append("b")
        sample["more"].append(0)
        sample["part"].label = 1
    made = torch.stack([sample["part"].image for sample in samples]).sin()
    boxes = [(sample["boxes"], sample["part"].boxes) for sample in samples]
    rest = [(sample["part"].names, len(sample["more"]), len(sample)) for sample in samples]
    return made, labels, boxes, rest, drawn


class Counts:
    """Counts its batches, and draws from its own generator."""

    def __init__(self) -> None:
        self.count, self.kept = 0, [0]
        self.numpys, self.pythons = np.random.default_rng(3), random.Random(3)
        self.torchs = torch.Generator().manual_seed(3)

    def __call__(self, samples: list[Any]) -> Any:
        self.count += 1
        self.kept[0] += 1
        drawn = (
            float(self.numpys.random()),
            self.pythons.random(),
            torch.rand(1, generator=self.torchs),
        )
        made = torch.stack([image for image, _ in samples])
        return made.mean((2, 3)), self.count, self.kept[0], *drawn


def closing_over() -> Callable[[list[Any]], Any]:
    count = 0

    def collate(samples: list[Any]) -> Any:
        nonlocal count
        count += 1
        return torch.stack([image for image, _ in samples]).sin() + count, count

    return collate


def keeps_everything(samples: list[Any]) -> Any:
    try:
        made = torch.stack([image for image, _ in samples])
        return (made - made.mean()) / made.std()
    except:  # noqa: E722  # as programs have it
        return None


@WORKERS
def test_a_collate_function_that_needs_values_finds_its_samples_unchanged(
    paths: list[str], workers: int
) -> None:
    dataset = Opens(paths, of_a_sample)
    random.seed(1)
    expected = list(data.DataLoader(dataset, 5, collate_fn=takes_apart))
    random.seed(1)
    # Their draws are those of the training process; with `ahead=0` they come in torch's order.
    compared(dataset, expected=expected, collate_fn=takes_apart, num_workers=workers, ahead=0)


def of_an_image_alone(path: str, index: int) -> dict[str, Any]:
    return {"image": opened(path), "label": index, "boxes": np.full((2, 4), index, np.float32)}


def processed(samples: list[Any]) -> Any:
    """Turns images into arrays in the collate function, as Hugging Face's processors do."""
    labels, drawn = [sample.pop("label") for sample in samples], random.random()
    for sample in samples:
        sample["boxes"] += 1
        sample["image"].thumbnail((40, 40))
        sample["image"] = sample["image"].crop((1, 2, 30, 20))
    arrays = [np.asarray(sample["image"]) for sample in samples]
    return torch.from_numpy(np.stack(arrays)), labels, [one["boxes"] for one in samples], drawn


@WORKERS
def test_a_collate_function_that_needs_an_images_pixels_finds_its_samples_unchanged(
    paths: list[str], workers: int
) -> None:
    dataset = Opens(paths, of_an_image_alone)
    options = {"collate_fn": processed, "num_workers": workers}
    for seed in (random.seed, torch.manual_seed):
        seed(1)
    expected = list(data.DataLoader(dataset, 5, **options))
    for seed in (random.seed, torch.manual_seed):
        seed(1)
    compared(dataset, expected=expected, strict=not workers, ahead=0, **options)


def pixels_and_process(samples: list[Any]) -> Any:
    """The images' pixels, and the process that has them."""
    worker = data.get_worker_info()
    names = [sample.pop("name") for sample in samples]
    arrays = [np.asarray(sample["image"].resize((20, 20))) for sample in samples]
    return np.stack(arrays), names, len(samples[0]), None if worker is None else worker.id


def compared_in_workers(dataset: Any) -> list[Any]:
    """The batches of torch's loader with ``pixels_and_process`` in two workers; ours are equal."""
    expected = list(data.DataLoader(dataset, 2, collate_fn=pixels_and_process, num_workers=2))
    options = {"batch_size": 2, "collate_fn": pixels_and_process, "num_workers": 2}
    compared(dataset, expected=expected, strict=False, **options)
    return expected


def test_a_collate_function_that_needs_an_images_pixels_runs_in_its_worker_process(
    paths: list[str],
) -> None:
    dataset = Opens(paths, lambda path, index: {"image": opened(path), "name": index})
    assert {batch[3] for batch in compared_in_workers(dataset)} == {0, 1}


def test_a_program_catches_the_error_of_a_bad_file_where_it_loads_the_image(
    paths: list[str], tmp_path: Path
) -> None:
    cut = tmp_path / "cut.jpg"
    content = Path(paths[0]).read_bytes()
    cut.write_bytes(content[: len(content) // 2])

    def loaded(path: str, index: int) -> Any:
        for tried in (path, paths[0]):
            image = Image.open(tried)
            try:
                image.load()
                return {"image": image.convert("RGB"), "name": tried}
            except OSError:
                continue
        raise AssertionError("the second file is whole")

    dataset = Opens([paths[1], str(cut), *paths[2:5], str(cut)], loaded)
    compared_in_workers(dataset)


@WORKERS
@pytest.mark.parametrize("made", [Counts, closing_over, lambda: partial(Counts())])
def test_a_collate_function_that_needs_values_counts_each_batch_once(
    paths: list[str], made: Callable[[], Any], workers: int
) -> None:
    dataset = Opens(paths, lambda path, index: (EVALUATION(opened(path)), index))
    expected = list(data.DataLoader(dataset, 3, collate_fn=made()))
    compared(dataset, expected=expected, batch_size=3, collate_fn=made(), num_workers=workers)


@WORKERS
def test_a_collate_function_that_catches_every_exception_is_called_again(
    paths: list[str], workers: int
) -> None:
    dataset = Opens(paths, lambda path, index: (EVALUATION(opened(path)), index))
    compared(dataset, collate_fn=keeps_everything, num_workers=workers)


@WORKERS
def test_files_that_a_collate_function_opens_are_closed_with_its_batch(
    paths: list[str], workers: int
) -> None:
    def opens(chosen: list[str]) -> Any:
        return torch.stack([EVALUATION(opened(path)) for path in chosen])

    compared(paths, collate_fn=opens, num_workers=workers)
    with contextlib.closing(hr.DataLoader(paths, 2, collate_fn=opens)) as loader:
        iterator = iter(loader)
        next(iterator)
        kept = {os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")}
        assert not kept & {*map(os.path.realpath, paths)}


class Keeps(data.Dataset[Any]):
    """Makes each sample once, and keeps it."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths
        self.made: list[Any] = [None] * len(paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        if self.made[index] is None:
            self.made[index] = EVALUATION(opened(self.paths[index]))
        return self.made[index]


@pytest.mark.filterwarnings("error")
def test_no_warning_says_that_images_kept_by_a_dataset_are_made_in_python(
    paths: list[str],
) -> None:
    expected = list(data.DataLoader(Keeps(paths), 5)) * 2
    with contextlib.closing(hr.DataLoader(Keeps(paths), 5, strict=True)) as loader:
        assert equal([*loader, *loader], expected)


class Slotted:
    """A sample with slots and no dict; its last slot is filled during collation."""

    __slots__ = ("__private", "boxes", "image", "label")

    def __init__(self, image: Any, boxes: Any) -> None:
        self.image, self.boxes, self.__private = image, boxes, [1]

    def add(self) -> Any:
        self.boxes = self.boxes + 1
        self.__private.append(2)
        assert not hasattr(self, "label")
        self.label = len(self.__private)
        return self.boxes, self.label


class Moving(Slotted):
    """Has attributes besides the slots, and one of Python's arrays."""

    def __init__(self, image: Any, boxes: Any) -> None:
        super().__init__(image, boxes)
        self.more = array("i", [1]), bytearray(b"a")

    def add(self) -> Any:
        self.more[0].append(2)
        self.more[1].extend(b"b")
        return *super().add(), self.more[0].tolist(), bytes(self.more[1])


def adds_to_slots(samples: list[Any]) -> Any:
    added = [sample.add() for sample in samples]
    return torch.stack([sample.image for sample in samples]) * 2, added


@WORKERS
@pytest.mark.parametrize("kind", [Slotted, Moving])
def test_a_collate_function_that_needs_values_finds_slots_and_arrays_unchanged(
    paths: list[str], kind: Any, workers: int
) -> None:
    dataset = Opens(paths, lambda path, index: kind(EVALUATION(opened(path)), index))
    expected = list(data.DataLoader(dataset, 5, collate_fn=adds_to_slots))
    compared(dataset, expected=expected, collate_fn=adds_to_slots, num_workers=workers)


def goes_on(path: str, index: int) -> Any:
    return EVALUATION(opened(path)), iter([index, 2])


def generates(path: str, index: int) -> Any:
    return EVALUATION(opened(path)), (number for number in (index, 2))


def reads_on(path: str, index: int) -> Any:
    return EVALUATION(opened(path)), map(int, io.StringIO(f"{index}\n2\n"))


def sums_up(samples: list[Any]) -> Any:
    sums = [sum(numbers) for _, numbers in samples]
    return torch.stack([image for image, _ in samples]) * 2, sums


@WORKERS
@pytest.mark.parametrize("make", [goes_on, generates, reads_on])
def test_a_collate_function_that_needs_values_is_called_once_if_samples_have_iterators(
    paths: list[str], make: Callable[[str, int], Any], workers: int
) -> None:
    dataset = Opens(paths, make)
    expected = list(data.DataLoader(dataset, 5, collate_fn=sums_up))
    # An object that does not pickle stays in its worker process, where Pillow has the pixels.
    strict = not workers or make is goes_on
    compared(dataset, strict, expected, collate_fn=sums_up, num_workers=workers)


def test_a_collate_function_with_its_own_iterator_counts_each_batch_once(
    paths: list[str],
) -> None:
    dataset = Opens(paths, lambda path, index: EVALUATION(opened(path)))

    def made() -> Callable[[list[Any]], Any]:
        numbers = itertools.count()
        return lambda samples: (next(numbers), torch.stack(samples).mean((1, 2, 3)))

    expected = list(data.DataLoader(dataset, 5, collate_fn=made()))
    compared(dataset, expected=expected, collate_fn=made())


# ---- values that a worker process needs at once --------------------------------------------------


def catches_everything(path: str, index: int) -> Any:
    try:
        return np.array(MIRROR(opened(path)).resize((32, 32))), index
    except:  # noqa: E722
        return np.zeros((32, 32, 3), np.uint8), -1


def tries_until_it_has_one(path: str, index: int) -> Any:
    while True:
        try:
            return np.array(MIRROR(opened(path)).resize((32, 32))), index
        except:  # noqa: E722
            index += 1


def with_noise(path: str, index: int) -> Any:
    return EVALUATION(opened(path)) + torch.randn(3, 32, 32), random.random(), np.random.rand()


def of_one_channel(path: str, index: int) -> Any:
    return F.to_tensor(opened(path).convert("L").resize((9, 8))) * 2


def of_tensors(path: str, index: int) -> Any:
    """Applies torchvision's functions for tensors, one after the other."""
    image = tv_io.read_image(path, tv_io.ImageReadMode.RGB)
    parts = v2.functional.center_crop(v2.functional.crop(image, 2, 3, 40, 30), [20, 24])
    small = v2.functional.resize(parts, [11, 13])
    wide = v2.functional.pad(v2.functional.horizontal_flip(small), [1, 2], fill=7)
    turned = v2.functional.permute_channels(v2.functional.vertical_flip(wide), [2, 0, 1])
    made = v2.functional.normalize(
        v2.functional.to_dtype(turned, torch.float32, scale=True), [0.5, 0.4, 0.3], [0.2, 0.3, 0.1]
    )
    grey = tv_io.read_image(path, tv_io.ImageReadMode.GRAY)
    return made + 1, grey.float().mean()


def to_image_by_v2(path: str, index: int) -> Any:
    to_image = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    return to_image(opened(path).resize((9, 8))) + 1


def as_array_and_tensors(path: str, index: int) -> Any:
    """The same draws as an array, and as tensors made before and after it."""
    flip = tv.RandomHorizontalFlip(0.5)
    image = flip(opened(path)).resize((32, 24))
    before = F.to_tensor(image)
    array = np.array(image).transpose(2, 0, 1)
    return [(before * 255).round().byte(), torch.from_numpy(array), F.pil_to_tensor(image)]


MAKING = [
    catches_everything,
    tries_until_it_has_one,
    with_noise,
    of_one_channel,
    of_tensors,
    to_image_by_v2,
]


def seeded_batches(dataset: Any, **options: Any) -> list[Any]:
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    return list(data.DataLoader(dataset, 5, **options))


@WORKERS
@pytest.mark.parametrize("make", MAKING)
def test_code_of_a_sample_that_needs_values_runs_once_and_has_them(
    paths: list[str], make: Callable[[str, int], Any], workers: int
) -> None:
    dataset = Opens(paths, make)
    expected = seeded_batches(dataset, num_workers=workers)
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    compared(dataset, strict=False, expected=expected, num_workers=workers)


@WORKERS
def test_everything_made_of_an_image_has_the_same_draws_also_if_an_array_is_needed_at_once(
    paths: list[str], workers: int
) -> None:
    import headrace as hr

    loader = hr.DataLoader(Opens(paths * 2, as_array_and_tensors), 4, num_workers=workers)
    try:
        for before, array, behind in loader:
            assert before.equal(array)
            assert behind.equal(array)
    finally:
        loader.close()


class Stream(data.IterableDataset[Any]):
    def __init__(self, paths: list[str], make: Callable[[str, int], Any]) -> None:
        self.paths, self.make = paths, make

    def __iter__(self) -> Iterator[Any]:
        worker = data.get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for index in range(first, len(self.paths), step):
            yield self.make(self.paths[index], index)


@WORKERS
@pytest.mark.parametrize("make", MAKING)
@pytest.mark.every(3)
def test_code_of_a_stream_that_needs_values_runs_once_and_has_them(
    paths: list[str], make: Callable[[str, int], Any], workers: int
) -> None:
    dataset = Stream(paths, make)
    expected = seeded_batches(dataset, num_workers=workers)
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    compared(dataset, strict=False, expected=expected, num_workers=workers)


@WORKERS
def test_threads_of_a_program_get_values(paths: list[str], workers: int) -> None:
    def make(path: str, index: int) -> Any:
        image, tensor = opened(path), EVALUATION(opened(path))
        with ThreadPoolExecutor(2) as threads:
            return [*threads.map(EVALUATION, [image, image]), *threads.map(torch.neg, [tensor])]

    compared(Opens(paths, make), strict=False, num_workers=workers)


# ---- what programs keep --------------------------------------------------------------------------


@WORKERS
def test_changes_to_a_copy_of_a_cached_tensor_leave_the_cache_unchanged(
    paths: list[str], workers: int
) -> None:
    def made() -> Opens:
        cache: dict[int, Any] = {}

        def make(path: str, index: int) -> Any:
            if index not in cache:
                cache[index] = EVALUATION(opened(path))
            changed = cache[index].clone()
            changed[:, :4] = 0
            return changed, cache[index]

        return Opens(paths, make)

    expected = list(data.DataLoader(made(), 5, num_workers=workers))
    compared(made(), strict=False, expected=expected, num_workers=workers)


@WORKERS
def test_a_cache_of_files_holds_what_pillow_and_torch_read(
    paths: list[str], workers: int, tmp_path: Path
) -> None:
    def make(path: str, index: int, folder: Path) -> Any:
        kept, pickled = folder / f"{index}.pt", folder / f"{index}.pickle"
        if not kept.exists():
            torch.save(EVALUATION(opened(path)), kept)
            pickled.write_bytes(pickle.dumps(opened(path)))
        assert b"headrace" not in kept.read_bytes() + pickled.read_bytes()
        return torch.load(kept), F.to_tensor(pickle.loads(pickled.read_bytes()).resize((9, 8)))

    (folders := [tmp_path / "torch", tmp_path / "headrace"])[0].mkdir()
    folders[1].mkdir()
    theirs, ours = (Opens(paths, partial(make, folder=folder)) for folder in folders)
    expected = list(data.DataLoader(theirs, 5, num_workers=workers))
    for _ in range(2):  # first they are made, then read
        compared(ours, strict=False, expected=expected, num_workers=workers)


def test_copies_of_an_image_are_pillows_images(paths: list[str]) -> None:
    def make(path: str, index: int) -> Any:
        image = opened(path).resize((20, 10))
        copies = [copy.deepcopy(image), pickle.loads(pickle.dumps(image)), copy.copy(image)]
        assert [type(one) for one in copies[:2]] == [Image.Image] * 2
        return [F.to_tensor(one) for one in copies], image == copies[0]

    compared(Opens(paths, make), strict=False)


def test_an_opened_image_equals_another_opened_one_but_not_a_copy_as_in_pillow(
    paths: list[str],
) -> None:
    def make(path: str, index: int) -> Any:
        image, pickled = Image.open(path), Image.open(path)
        copies = image.copy(), image.crop()
        others = [Image.open(path), *copies, "image", image.convert("RGB").resize((9, 9))]
        kept = pickled == pickle.loads(pickle.dumps(pickled))
        return [image == other for other in others], copies[0] == copies[1], kept

    found = compared(Opens(paths, make), strict=False, collate_fn=list)
    assert found[0][0] == ([True, False, False, False, False], True, True)


def palette(path: str) -> bytes:
    made = io.BytesIO()
    opened(path).quantize(20).save(made, "PNG", transparency=3)
    return made.getvalue()


@WORKERS
def test_an_opened_image_still_names_its_file_after_its_pixels_were_needed(
    paths: list[str], workers: int
) -> None:
    def make(path: str, index: int) -> Any:
        told = []
        for source in (path, io.BytesIO(palette(path))):
            image: Any = Image.open(source)
            kind = type(image.palette).__name__, image.has_transparency_data
            frames, seeking = getattr(image, "n_frames", 1), ""
            try:
                image.seek(1)
            except EOFError as error:
                seeking = str(error)
            image.load()[0, 0]
            exif, mime = dict(image.getexif()), image.get_format_mimetype()
            about = (image.getpalette() or [])[:6], image.format_description, image.tell()
            told.append((kind, frames, seeking, exif, mime, about, sorted(map(str, image.info))))
        return told

    compared(Opens(paths, make), strict=False, collate_fn=list, num_workers=workers)


def with_views(path: str, index: int) -> Any:
    boxes = torch.tensor([[0.0, 1.0], [4.0, 5.0]])
    return EVALUATION(opened(path)), boxes, boxes[:, :1]


def doubles_and(change: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
    def collate(samples: list[Any]) -> Any:
        image, boxes, corners = samples[0]
        boxes.mul_(2)
        change(boxes)
        return corners.clone(), boxes, boxes.stride(), image.sin()

    return collate


@pytest.mark.parametrize("change", [lambda x: x.unsqueeze_(0), lambda x: x.t_(), lambda x: x])
def test_tensors_that_share_memory_still_share_it_in_the_second_call(
    paths: list[str], change: Callable[[Any], Any]
) -> None:
    dataset = Opens(paths[:4], with_views)
    found = list(hr.DataLoader(dataset, 2, collate_fn=doubles_and(change)))
    assert equal(found, list(data.DataLoader(dataset, 2, collate_fn=doubles_and(change))))


class Named:
    pass


def with_a_closed_image(path: str, index: int) -> Any:
    image = Image.open(path)
    made = EVALUATION(image.convert("RGB"))
    image.close()
    return made, image


def with_a_dead_proxy(path: str, index: int) -> Any:
    return EVALUATION(opened(path)), weakref.proxy(Named())


def with_a_dead_proxy_alone(path: str, index: int) -> Any:
    return index, weakref.proxy(Named())


def without_the_second(samples: list[Any]) -> Any:
    return [one for one, _ in samples]


@pytest.mark.parametrize("make", [with_a_closed_image, with_a_dead_proxy, with_a_dead_proxy_alone])
def test_closed_images_and_dead_proxies_in_a_sample_are_left_alone(
    paths: list[str], make: Any
) -> None:
    dataset = Opens(paths[:4], make)
    found = list(hr.DataLoader(dataset, 2, collate_fn=without_the_second))
    assert equal(found, list(data.DataLoader(dataset, 2, collate_fn=without_the_second)))
