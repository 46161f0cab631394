"""headrace.DataLoader: what it accepts, what it gives, and what it leaves to torch and Pillow."""

from __future__ import annotations

import contextlib
import copy
import inspect
import itertools
import os
import pickle
import re
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils import data
from torchvision import datasets, tv_tensors
from torchvision import transforms as tv
from torchvision.transforms import v2

import headrace as hr
import images
from conftest import engine_threads

STEPS = [tv.Resize((24, 24)), tv.CenterCrop(16), tv.ToTensor()]


@pytest.fixture(autouse=True)
def _no_warnings(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fails a test on any warning that it does not expect, and on a notice, which is then
    logged."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # torch's own warning about more worker processes than cores.
        warnings.filterwarnings("ignore", "This DataLoader will create")
        # Python's warning, from 3.12 on, of a fork in a process with threads.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded")
        yield
    assert [record.getMessage() for record in caplog.records if record.name == "headrace"] == []


@pytest.fixture
def photos(folder: Path) -> datasets.ImageFolder:
    return datasets.ImageFolder(str(folder), tv.Compose([*STEPS]))  # a copy, because tests edit it


def same(mine: Any, theirs: Any) -> bool:
    """Equal in type, dtype and value at any depth."""
    if isinstance(theirs, torch.Tensor):
        return mine.dtype == theirs.dtype and type(mine) is type(theirs) and mine.equal(theirs)
    if isinstance(theirs, list | tuple):
        pairs = itertools.zip_longest(mine, theirs)
        return type(mine) is type(theirs) and all(same(a, b) for a, b in pairs)
    return type(mine) is type(theirs) and mine == theirs


def compare(dataset: Any, **options: Any) -> list[Any]:
    """All batches, which must be torch's as well."""
    native = {"strict": True} | {key: options.pop(key) for key in ("strict",) if key in options}
    found = list(hr.DataLoader(dataset, **options, **native))
    options.pop("num_workers", None)
    expected = list(data.DataLoader(dataset, **options))
    assert same(found, expected)
    return found


# ---- torch's surface ---------------------------------------------------------------------------


def test_dataloader_has_torchs_class_arguments_and_attributes(
    photos: datasets.ImageFolder,
) -> None:
    mine, theirs = hr.DataLoader(photos), data.DataLoader(photos)
    assert isinstance(mine, data.DataLoader)
    for name, value in vars(theirs).items():
        if name.startswith("_"):
            continue
        if name in ("sampler", "batch_sampler"):
            assert type(getattr(mine, name)) is type(value)
        else:
            assert getattr(mine, name) == value, name
    positional = [
        name
        for name, parameter in inspect.signature(data.DataLoader).parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    assert list(inspect.signature(hr.DataLoader).parameters)[: len(positional)] == positional
    assert hr.DataLoader[tuple[torch.Tensor, torch.Tensor]].__args__  # as torch's in annotations
    every = hr.DataLoader(
        photos,
        batch_size=5,
        num_workers=2,
        drop_last=True,
        timeout=30,
        worker_init_fn=print,
        multiprocessing_context="spawn",
        generator=torch.Generator(),
        prefetch_factor=3,
        persistent_workers=True,
        pin_memory=True,
        in_order=False,
    )
    assert (every.batch_size, every.num_workers, every.prefetch_factor) == (5, 2, 3)
    assert every.multiprocessing_context.get_start_method() == "spawn"
    assert (len(every), len(list(every))) == (4, 4)


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": -1},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"persistent_workers": True},
        {"multiprocessing_context": "spawn"},
        {"shuffle": True, "sampler": [1]},
        {"batch_sampler": [[1]], "batch_size": 3},
        {"batch_size": 0},
        {"batch_size": None, "drop_last": True},
        {"no_such": 1},
    ],
)
def test_impossible_arguments_are_refused_as_torch_refuses_them(
    photos: datasets.ImageFolder, options: dict[str, Any]
) -> None:
    with pytest.raises((ValueError, TypeError)) as theirs:
        data.DataLoader(photos, **options)
    with pytest.raises(type(theirs.value)):
        hr.DataLoader(photos, **options)


@pytest.mark.parametrize("kind", [str, os.fsencode, Path])
def test_a_path_is_refused_as_a_dataset_and_the_message_names_what_makes_one(
    folder: Path, kind: Any
) -> None:
    with pytest.raises(hr.HeadraceError, match=r"dataset=.*headrace\.Dataset\(.*/photos"):
        hr.DataLoader(kind(folder), 8)


@pytest.mark.parametrize("batch_size", [1, 5, 24, 100])
@pytest.mark.parametrize("drop_last", [False, True])
def test_length_and_batches_equal_torchs(
    photos: datasets.ImageFolder, batch_size: int, drop_last: bool
) -> None:
    loader = hr.DataLoader(photos, batch_size, drop_last=drop_last)
    found = compare(photos, batch_size=batch_size, drop_last=drop_last)
    assert len(loader) == len(found) == len(iter(loader))


def test_batches_are_lists_of_float32_images_and_int64_labels(
    photos: datasets.ImageFolder,
) -> None:
    batch = next(iter(hr.DataLoader(photos, 6)))
    assert type(batch) is list
    assert (batch[0].shape, batch[0].dtype) == ((6, 3, 16, 16), torch.float32)
    assert (batch[1].shape, batch[1].dtype) == ((6,), torch.int64)
    photos.transform = tv.Compose([tv.CenterCrop(9), tv.PILToTensor()])
    assert next(iter(hr.DataLoader(photos, 6)))[0].dtype == torch.uint8


def test_many_workers_of_a_native_loader_start_no_process_and_cause_no_warning(
    photos: datasets.ImageFolder,
) -> None:
    before = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    loader = hr.DataLoader(photos, 6, num_workers=64, pin_memory=True)
    for _ in loader:
        assert Path(f"/proc/self/task/{os.getpid()}/children").read_text() == before


def test_a_copy_and_an_unpickled_loader_work_independently(photos: datasets.ImageFolder) -> None:
    loader = hr.DataLoader(photos, 6)
    expected = list(loader)
    for other in (copy.copy(loader), pickle.loads(pickle.dumps(loader))):
        assert same(list(other), expected)
    loader.close()
    assert same(list(loader), expected)


@pytest.mark.slow
def test_importing_headrace_imports_neither_torch_nor_torchvision() -> None:
    program = (
        "import sys, headrace; headrace.Dataset; headrace.from_torchvision\n"
        "assert not {'torch', 'torchvision'} & set(sys.modules)\n"
        "headrace.DataLoader\n"
        "assert 'torch' in sys.modules and 'torchvision' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# ---- collating ---------------------------------------------------------------------------------


def test_a_custom_collate_function_gets_the_same_samples_as_from_torch(
    photos: datasets.ImageFolder,
) -> None:
    compare(photos, batch_size=5, collate_fn=lambda samples: samples)
    photos.transform = v2.Compose([v2.CenterCrop(8), v2.ToImage()])
    [samples, *_] = compare(photos, batch_size=5, collate_fn=lambda samples: samples)
    assert type(samples[0][0]) is tv_tensors.Image
    compare(photos, batch_size=5)
    compare(photos, batch_size=None)
    compare(photos, batch_sampler=[[], [1]], collate_fn=len)


@pytest.mark.parametrize("kind", [v2.MixUp, v2.CutMix])
def test_collate_functions_with_mixup_and_cutmix_get_the_batch_that_they_expect(
    photos: datasets.ImageFolder, kind: type
) -> None:
    mix = kind(num_classes=3)

    def collate(samples: list[Any]) -> Any:
        torch.manual_seed(2)
        return mix(*data.default_collate(samples))

    [(_, labels), *_] = compare(photos, batch_size=5, collate_fn=collate)
    assert labels.shape == (5, 3)


def test_an_exception_in_collate_reaches_the_user_and_the_next_batch_follows(
    photos: datasets.ImageFolder,
) -> None:
    def collate(samples: list[Any]) -> int:
        if samples[0][1] == 0:
            raise KeyError("mine")
        return len(samples)

    iterator = iter(hr.DataLoader(photos, 8, collate_fn=collate))
    with pytest.raises(KeyError, match="mine"):
        next(iterator)
    assert list(iterator) == [8, 8]


# ---- which datasets, and when they change ------------------------------------------------------


def test_dataset_subclasses_that_do_not_override_getitem_run_natively(folder: Path) -> None:
    class Renamed(datasets.ImageFolder):
        def find_classes(self, directory: Any) -> Any:
            return ["class1", "class0"], {"class1": 0, "class0": 1}

    compare(Renamed(str(folder), tv.Compose(STEPS)), batch_size=5)
    loader = datasets.folder.default_loader
    compare(datasets.DatasetFolder(str(folder), loader, (".jpg",), tv.Compose(STEPS)), batch_size=5)


def test_changes_of_samples_and_transforms_take_effect_at_the_next_iteration(
    photos: datasets.ImageFolder,
) -> None:
    loader = hr.DataLoader(photos, 5, strict=True)

    def expect_torchs() -> None:
        assert same(list(loader), list(data.DataLoader(photos, 5)))

    expect_torchs()
    # __len__ is that of the sampler, which torch made for the old length.
    photos.samples[3], photos.samples[4] = photos.samples[4], (photos.samples[3][0], 2)
    expect_torchs()
    photos.samples = photos.samples[::-1]
    expect_torchs()
    photos.transform.transforms[1] = tv.CenterCrop(12)
    expect_torchs()
    photos.transform = tv.Compose([tv.CenterCrop(8), tv.PILToTensor()])
    expect_torchs()
    photos.samples += photos.samples[:7]
    expect_torchs()


def test_the_engines_loader_is_not_opened_again_while_nothing_changes(
    photos: datasets.ImageFolder,
) -> None:
    loader = hr.DataLoader(photos, 5, num_workers=1)

    def epoch() -> None:
        for _ in loader:
            pass

    epoch()
    before = engine_threads()
    assert before
    for _ in range(3):
        epoch()
        next(iter(loader))
    assert engine_threads() == before
    photos.samples = photos.samples[1:]
    photos.samples.append(photos.samples[0])
    epoch()
    assert not engine_threads() & before


def test_a_packed_dataset_takes_a_transform(packed: Path, photos: datasets.ImageFolder) -> None:
    ds = hr.Dataset(packed)
    expected = list(data.DataLoader(photos, 5))
    for transform in (tv.Compose(STEPS), hr.from_torchvision(tv.Compose(STEPS))):
        assert same(list(hr.DataLoader(ds, 5, transform=transform, strict=True)), expected)
    steps = [hr.transforms.Resize((24, 24)), hr.transforms.CenterCrop(16)]
    assert same(list(hr.DataLoader(ds, 5, transform=steps, strict=True)), expected)
    with pytest.raises(hr.HeadraceError, match=r"one of headrace\.transforms"):
        list(hr.DataLoader(ds, 5, transform=STEPS))
    half = data.Subset(ds, range(3, 9))
    ds.transform = tv.Compose(STEPS)
    expected = list(data.DataLoader(data.Subset(photos, range(3, 9)), 5))
    assert same(list(hr.DataLoader(half, 5, strict=True)), expected)
    with pytest.raises(hr.HeadraceError, match="transform"):
        hr.DataLoader(photos, transform=tv.Compose(STEPS))


def test_a_packed_dataset_without_a_transform_gives_its_own_samples(packed: Path) -> None:
    ds = hr.Dataset(packed)
    found = list(hr.DataLoader(ds, batch_size=None, strict=True))
    for index, (image, label) in enumerate(found):
        assert np.array_equal(image.numpy(), ds[index].image)
        assert label == ds[index].label


# ---- what is left to torch and Pillow ---------------------------------------------------------


class Noise(torch.nn.Module):
    """A user's own transform; it tells a PIL image from a tensor."""

    def forward(self, image: Any) -> Any:
        self.thread = threading.current_thread()
        if isinstance(image, Image.Image):
            return Image.eval(image, lambda value: 255 - value)
        return image**2 + 1


SUFFIXES = {
    "PIL": tv.Compose([*STEPS[:2], Noise(), tv.ToTensor()]),
    "tensor": tv.Compose([*STEPS, tv.Normalize(0.5, 0.5), Noise()]),
    "bytes": tv.Compose([tv.CenterCrop(8), tv.PILToTensor(), Noise(), Noise()]),
    "image": v2.Compose([v2.CenterCrop(8), v2.ToImage(), Noise(), v2.ToDtype(torch.float32)]),
    "resized tensor": v2.Compose([v2.CenterCrop(60), v2.ToImage(), v2.Resize(8, antialias=False)]),
}


@pytest.mark.parametrize("name", SUFFIXES)
@pytest.mark.parametrize("workers", [0, 2])
def test_custom_transforms_at_the_end_run_in_the_same_process_and_on_the_same_input_as_in_torch(
    photos: datasets.ImageFolder, name: str, workers: int
) -> None:
    photos.transform = SUFFIXES[name]
    loader = hr.DataLoader(photos, 5, num_workers=workers)
    with pytest.warns(UserWarning, match="Noise|Resize|Image.point|_container") as caught:
        found = list(loader)
    assert sum(one.category is UserWarning for one in caught) == 1
    assert same(found, list(data.DataLoader(photos, 5)))
    noise = next((op for op in photos.transform.transforms if isinstance(op, Noise)), None)
    if noise is not None:
        noise.thread = None
        list(itertools.islice(loader, 1))  # and no second warning
        assert noise.thread is (None if workers else threading.main_thread())
    with pytest.raises(hr.HeadraceError, match="strict=True"):
        list(hr.DataLoader(photos, 5, strict=True))


def test_an_exception_in_a_custom_transform_reaches_the_user_and_the_next_batch_follows(
    photos: datasets.ImageFolder,
) -> None:
    calls = itertools.count()

    def broken(image: Any) -> Any:
        if next(calls) == 2:
            raise KeyError("mine")
        return image

    photos.transform = tv.Compose([*STEPS, broken])
    with pytest.warns(UserWarning, match="function"):
        iterator = iter(hr.DataLoader(photos, 8))
    with pytest.raises(KeyError, match="mine"):
        next(iterator)
    assert [len(labels) for _, labels in iterator] == [8, 8]


def test_images_of_several_sizes_reach_a_collate_function_that_accepts_them(
    photos: datasets.ImageFolder,
) -> None:
    photos.transform = tv.Compose([tv.Resize(20), tv.ToTensor()])
    compare(photos, batch_size=5, collate_fn=lambda samples: samples)
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        list(hr.DataLoader(photos, 24))
    photos.transform = tv.Compose([tv.RandomHorizontalFlip(1.0)])
    compare(photos, collate_fn=lambda samples: [np.asarray(image).tolist() for image, _ in samples])
    photos.transform = None
    compare(photos, collate_fn=lambda samples: [np.asarray(image).tolist() for image, _ in samples])


def test_limits_of_a_packed_dataset_hold_in_threads_too(packed: Path) -> None:
    ds = hr.Dataset(packed, limits={"max_pixels": 100})
    for steps in ([tv.CenterCrop(8), tv.ToTensor()], [tv.ToTensor()]):  # whole, and one by one
        with pytest.raises(hr.errors.LimitError, match="100"):
            list(hr.DataLoader(ds, 5, transform=tv.Compose(steps), strict=True))


def test_augmentations_do_not_depend_on_custom_transforms_after_them(
    photos: datasets.ImageFolder,
) -> None:
    crop = [tv.RandomResizedCrop(9), tv.RandomHorizontalFlip(), tv.ToTensor()]

    def epoch(steps: list[Any]) -> list[Any]:
        photos.transform = tv.Compose(steps)
        return list(hr.DataLoader(photos, sampler=[1, 2, 1, 1, 5], batch_size=5, seed=3))

    with pytest.warns(UserWarning, match="Noise"):
        [(found, _)] = epoch([*crop, Noise()])
    [(plain, _)] = epoch(crop)
    assert torch.equal(found, plain**2 + 1)


class OwnItems(datasets.ImageFolder):
    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return image.sqrt(), label


class Upside:
    def __call__(self, image: Any) -> torch.Tensor:
        return torch.ones(3)


class Strings(data.Dataset):
    def __len__(self) -> int:
        return 9

    def __getitem__(self, index: int) -> str:
        return f"text {index}"


class Stream(data.IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(9))


def custom_datasets(folder: Path) -> dict[str, tuple[Any, str]]:
    def photos(**options: Any) -> datasets.ImageFolder:
        return datasets.ImageFolder(str(folder), **{"transform": tv.Compose(STEPS), **options})

    def edited(path: str, label: Any) -> datasets.ImageFolder:
        made = photos(loader=lambda _: Image.new("RGB", (30, 30)))
        made.loader = datasets.folder.default_loader
        made.samples = [(path, label)]
        return made

    other = photos(transform=tv.Compose([tv.CenterCrop(16), tv.ToTensor()]))
    file = photos().samples[0][0]
    return {
        "own items": (OwnItems(str(folder), tv.Compose(STEPS)), "OwnItems.__getitem__ needs the"),
        "strings": (Strings(), "Strings opens no image"),
        "stream": (Stream(), "Stream opens no image"),
        "target_transform": (photos(target_transform=lambda n: n + 5), ""),
        "loader": (photos(loader=lambda path: Image.open(path).convert("RGB")), ""),
        "other transforms": (data.ConcatDataset([photos(), other]), ""),
        "no known transform": (
            photos(transform=v2.Compose([v2.ToImage(), v2.Resize((8, 8), antialias=False)])),
            "needs the pixels",
        ),
        "a function": (photos(transform=Upside()), ""),
        "float label": (edited(file, 0.5), ""),
        "bool label": (edited(file, True), ""),
        "negative label": (edited(file, -1), ""),
    }


@pytest.mark.parametrize(
    "name",
    [
        *("own items", "strings", "stream", "target_transform", "loader", "other transforms"),
        *("no known transform", "a function", "float label", "bool label", "negative label"),
    ],
)
def test_a_custom_dataset_gives_torchs_batches_with_one_warning_of_what_runs_in_python(
    folder: Path, name: str
) -> None:
    dataset, reason = custom_datasets(folder)[name]
    loader = hr.DataLoader(dataset, 5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [list(loader), list(loader)]
    assert same(found, [list(data.DataLoader(dataset, 5))] * 2)
    assert [reason in str(warning.message) for warning in caught] == [True] * bool(reason)
    assert all(warning.filename == __file__ for warning in caught)
    if reason:
        with pytest.raises(hr.HeadraceError, match=re.escape(reason)):
            list(hr.DataLoader(dataset, 5, strict=True))
    else:
        assert same(list(hr.DataLoader(dataset, 5, strict=True)), found[0])
    assert hasattr(loader, "state_dict") == (name != "stream")


def test_subsets_and_concatenations_of_headrace_datasets_are_read_natively(
    folder: Path, packed: Path, tmp_path: Path
) -> None:
    other = images.plain_tree(tmp_path / "other", 6, 2)
    (other / "class0").rename(other / "zebra")  # each part keeps its labels
    hr.index(other)
    parts = [hr.Dataset(packed), hr.Dataset(other), hr.Dataset(folder)]
    joined = data.ConcatDataset([parts[0], data.Subset(parts[1], [4, 1]), parts[2], parts[1]])
    compose = tv.Compose(STEPS)
    loader = hr.DataLoader(joined, 7, transform=compose, strict=True)
    assert len(loader.dataset) == 24 + 2 + 24 + 6
    images_found, labels_found = map(torch.cat, zip(*loader, strict=True))
    expected = [
        (tv.functional.to_pil_image(joined[i][0]), joined[i][1]) for i in range(len(joined))
    ]
    assert labels_found.tolist() == [label for _, label in expected]
    assert images_found.equal(torch.stack([compose(image) for image, _ in expected]))
    state = loader.state_dict()
    hr.DataLoader(joined, 7, transform=compose).load_state_dict(state)
    swapped = data.ConcatDataset([*reversed(joined.datasets)])
    with pytest.raises(hr.HeadraceError, match="fingerprint"):
        hr.DataLoader(swapped, 7, transform=compose).load_state_dict(state)


def test_concatenated_headrace_datasets_with_different_options_are_read_by_their_own_code(
    folder: Path, packed: Path, photos: datasets.ImageFolder
) -> None:
    slow, plain = hr.Dataset(packed, backend="pread"), hr.Dataset(folder)
    for joined in (data.ConcatDataset([slow, plain]), data.ConcatDataset([plain, photos])):
        loader = hr.DataLoader(joined, batch_size=None, num_workers=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert same([*loader], [*data.DataLoader(joined, batch_size=None)])
    with pytest.raises(hr.HeadraceError, match="one of their own"):
        hr.DataLoader(data.ConcatDataset([plain, photos]), transform=tv.Compose(STEPS))


def test_a_folder_with_only_unsupported_files_is_read_by_pillow(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    Image.new("RGB", (40, 30), "red").save(tmp_path / "a" / "image.ppm")
    dataset = datasets.ImageFolder(str(tmp_path), tv.Compose(STEPS))
    with pytest.warns(UserWarning, match=r"image\.ppm"):
        found = list(hr.DataLoader(dataset))
    assert same(found, list(data.DataLoader(dataset)))


def test_a_custom_dataset_may_use_worker_processes(folder: Path) -> None:
    dataset = OwnItems(str(folder), tv.Compose(STEPS))
    with pytest.warns(UserWarning, match="OwnItems"):
        found = list(hr.DataLoader(dataset, 5, num_workers=2))
    assert same(found, list(data.DataLoader(dataset, 5)))


# ---- iterating ---------------------------------------------------------------------------------


def test_several_iterators_at_once_each_have_the_whole_epoch(photos: datasets.ImageFolder) -> None:
    loader = hr.DataLoader(photos, 5)
    expected = list(loader)
    first, second = iter(loader), iter(loader)
    mixed = list(zip(first, second, strict=True))
    assert same([a for a, _ in mixed], expected)
    assert same([b for _, b in mixed], expected)
    assert [len(list(loader)) for _ in loader] == [5] * 5


def test_threads_that_share_an_iterator_get_each_batch_once(photos: datasets.ImageFolder) -> None:
    def take(batches: Iterator[Any], taken: list[float]) -> None:
        taken.extend(float(images.sum()) for images, _ in batches)

    with contextlib.closing(hr.DataLoader(photos, num_workers=2)) as made:
        expected = sorted(float(images.sum()) for images, _ in made)
        for _ in range(5):
            batches, taken = iter(made), list[float]()
            threads = [
                threading.Thread(target=take, args=(batches, taken), daemon=True) for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(20)
            assert sorted(taken) == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_after_an_early_break_the_next_epoch_is_whole(
    photos: datasets.ImageFolder, workers: int
) -> None:
    loader = hr.DataLoader(photos, 5, num_workers=workers)
    expected = list(loader)
    for stop in range(5):
        for _ in itertools.islice(loader, stop):
            pass
        assert same(list(loader), expected)


def test_an_exhausted_iterator_stays_exhausted(photos: datasets.ImageFolder) -> None:
    iterator = iter(hr.DataLoader(photos, 24))
    next(iterator)
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)


def test_batches_outlive_their_loader_and_are_never_overwritten(
    photos: datasets.ImageFolder,
) -> None:
    loader = hr.DataLoader(photos, 5)
    held = [batch for _ in range(4) for batch in loader]
    del loader
    assert same(held, list(data.DataLoader(photos, 5)) * 4)


def test_an_exception_of_the_sampler_comes_after_the_batches_before_it(
    photos: datasets.ImageFolder,
) -> None:
    def indices() -> Iterator[int]:
        yield from range(7)
        raise KeyError("mine")

    class Sampler:
        def __iter__(self) -> Iterator[int]:
            return indices()

    for workers in (0, 2):
        iterator = iter(hr.DataLoader(photos, 3, sampler=Sampler(), num_workers=workers))
        assert [next(iterator)[1].tolist() for _ in range(2)] == [[0, 0, 0], [0, 0, 0]]
        with pytest.raises(KeyError, match="mine"):
            next(iterator)
        with pytest.raises(StopIteration):
            next(iterator)


@pytest.mark.parametrize(
    ("index", "error"), [(24, IndexError), (-25, IndexError), ("1", TypeError)]
)
def test_an_index_out_of_range_or_of_a_wrong_type_is_refused(
    photos: datasets.ImageFolder, index: Any, error: type
) -> None:
    with pytest.raises(error):
        list(hr.DataLoader(photos, sampler=[1, index]))


@pytest.mark.parametrize("suffix", [[], [lambda image: image]])
def test_a_bad_image_is_an_error_that_names_its_file_and_the_next_batch_follows(
    tmp_path: Path, suffix: list[Any]
) -> None:
    images.plain_tree(tmp_path, 12, 1)
    bad = sorted((tmp_path / "class0").iterdir())[5]
    bad.write_bytes(bad.read_bytes()[:200])
    dataset = datasets.ImageFolder(str(tmp_path), tv.Compose([*STEPS, *suffix]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if suffix else "error")
        iterator = iter(hr.DataLoader(dataset, 4))
    assert len(next(iterator)[1]) == 4
    with pytest.raises(hr.HeadraceError, match=bad.name) as caught:
        next(iterator)
    assert caught.value.file == str(bad)
    assert len(next(iterator)[1]) == 4
    with pytest.raises(StopIteration):
        next(iterator)


def test_on_error_replace_keeps_the_epochs_length(tmp_path: Path) -> None:
    images.plain_tree(tmp_path, 12, 1)
    bad = sorted((tmp_path / "class0").iterdir())[5]
    bad.write_bytes(b"no image")
    dataset = datasets.ImageFolder(str(tmp_path), tv.Compose(STEPS))
    assert len(list(hr.DataLoader(dataset, 4, on_error="replace"))) == 3


def slowly(image: Any) -> Any:
    time.sleep(0.3)
    return image


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [[], [slowly]])
def test_a_batch_that_takes_longer_than_timeout_raises_torchs_runtime_error(
    tmp_path: Path, suffix: list[Any]
) -> None:
    # 24 megapixels a batch: no machine decodes them in a millisecond.
    large = images.jpeg(2000, 1500)
    images.write_tree(tmp_path, {f"a/{n}.jpg": large for n in range(8)})
    dataset = datasets.ImageFolder(str(tmp_path), tv.Compose([*STEPS, *suffix]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if suffix else "error")
        iterator = iter(hr.DataLoader(dataset, 8, timeout=0.001))
    with pytest.raises(RuntimeError, match=r"timed out after 0\.001 seconds") as caught:
        next(iterator)
    assert isinstance(caught.value, hr.HeadraceError)
    # The batch is still being made, and comes after a longer wait.
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            batch = next(iterator)
        except RuntimeError:
            continue
        assert len(batch[1]) == 8
        return
    pytest.fail("the batch did not come within a minute")


@pytest.mark.slow
def test_a_process_that_ends_does_not_wait_for_samples_in_progress(folder: Path) -> None:
    program = f"""if True:
        import time, warnings
        warnings.simplefilter("ignore")
        from torchvision import datasets, transforms as tv
        import headrace as hr
        def slowly(image):
            time.sleep(2)
            return image
        kept = []
        for steps in ([], [slowly]):
            photos = datasets.ImageFolder(
                {str(folder)!r}, tv.Compose([tv.RandomResizedCrop(224), tv.ToTensor(), *steps])
            )
            kept.append(iter(hr.DataLoader(photos, 1, num_workers=1, prefetch_factor=24)))
            next(kept[-1])
        print(time.monotonic(), flush=True)
    """
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert time.monotonic() - float(ran.stdout) < 30  # the workers had 46 seconds of sleep left
