"""Runs of array images that are made in one C call have the same bytes as each image alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import headrace as hr
from headrace import errors
from headrace import transforms as T
from timing import eventually

IMAGES = np.random.default_rng(5).integers(0, 256, (90, 20, 27, 3), np.uint8)
ARRAYS = {
    "NHWC": IMAGES,
    "NCHW": IMAGES.transpose(0, 3, 1, 2).copy(),
    "grey": IMAGES[..., 0].copy(),
    "RGBA": np.concatenate([IMAGES, IMAGES[..., :1]], 3),
    "backwards": IMAGES[:, ::-1, ::-1],
    "BGR": IMAGES[..., ::-1],
    "window": IMAGES[:, 3:15, 5:22],
}
NORMALIZE = T.Normalize([0.4, 0.5, 0.6], [0.2, 0.3, 0.4])
TRANSFORMS = {
    "none": [],
    "crop and flip": [T.RandomCrop(16, padding=4), T.RandomHorizontalFlip()],
    "colour": [T.RandomCrop(12, padding=4, fill=[1, 200, 77]), T.RandomVerticalFlip()],
    "twice": [T.Pad(3), T.RandomCrop((11, 9)), T.RandomHorizontalFlip(), T.CenterCrop(30)],
    "reflect": [T.RandomCrop(16, padding=4, padding_mode="reflect")],
    "resize": [T.RandomResizedCrop(10), T.ColorJitter(0.4)],
    "normalized": [T.RandomCrop(16, padding=4), NORMALIZE],
    "one channel": [T.RandomCrop(16, padding=2), T.Grayscale(1), T.Normalize([0.5], [0.2])],
    "grey first": [T.Grayscale(1), T.RandomCrop(16, padding=2, fill=7)],
    "erased": [T.CenterCrop(16), T.RandomErasing(1.0)],
}


@pytest.mark.parametrize("transform", list(TRANSFORMS))
@pytest.mark.parametrize("array", list(ARRAYS))
@pytest.mark.every(3)
def test_a_run_has_the_bytes_of_packed_samples(array, transform, tmp_path):
    held = hr.Dataset.from_arrays(ARRAYS[array], range(90))
    hr.pack(held, tmp_path / "packed")
    height, width = held[0].image.shape[:2]
    # Arrays, whose size is known, need no resize; packed images need this identity for theirs.
    steps = TRANSFORMS[transform] or [T.CenterCrop((height, width))]
    for dtype, layout in (
        ("float32", "NCHW"),
        ("float16", "channels_last"),
        ("uint8", "channels_last"),
        ("bfloat16", "NCHW"),
        ("float16", "NCHW"),
        ("uint8", "NCHW"),
    ):
        if dtype == "uint8" and transform in ("normalized", "one channel", "erased"):
            continue
        options = {"batch_size": 40, "shuffle": True, "seed": 9, "dtype": dtype, "layout": layout}
        packed = hr.Loader(tmp_path / "packed", transform=steps, **options)
        runs = hr.Loader(held, transform=steps, num_threads=2, **options)
        with packed, runs:
            for theirs, ours in zip(packed, runs, strict=True):
                assert torch.equal(theirs[0], ours[0])
                assert torch.equal(theirs[1], ours[1])
    held.close()


def files_of(folder, array):
    """The same array in files whose images are also made many at a time: in one piece, cut in two,
    in compressed chunks, and concatenated."""
    np.save(folder / "a.npy", array)
    np.save(folder / "x-0.npy", array[:50])
    np.save(folder / "x-1.npy", array[50:])
    yield hr.Dataset(folder / "a.npy", label=range(90))
    yield hr.Dataset(folder / "a.npy", label=range(90), backend="pread")
    yield hr.Dataset(str(folder / "x-*.npy"), label=range(90))
    halves = array[:50], array[50:]
    labels = range(50), range(50, 90)
    parts = [hr.Dataset.from_arrays(*one) for one in zip(halves, labels, strict=True)]
    parts[1] = hr.Dataset(folder / "x-1.npy", label=range(50, 90))
    yield hr.Dataset.concat(parts)
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "a.h5", "w") as file:
        form = {"chunks": (7, *array.shape[1:]), "compression": "gzip"}
        file.create_dataset("images", data=array, **form)
        file["labels"] = np.arange(90)
    yield hr.Dataset(folder / "a.h5")


@pytest.mark.parametrize("transform", ["none", "crop and flip", "resize"])
@pytest.mark.parametrize("shuffle", [False, True, "window"])
@pytest.mark.every(3)
def test_runs_of_images_in_files_have_the_same_bytes_as_in_memory(tmp_path, transform, shuffle):
    array = IMAGES[:, :12, :14].copy()
    options = {"batch_size": 40, "shuffle": shuffle, "seed": 9, "transform": TRANSFORMS[transform]}
    # Windows follow the chunks of a compressed file, and an array in memory has none. So with
    # windows the images of a whole epoch are compared one by one.
    by_label = shuffle == "window"
    with hr.Loader(hr.Dataset.from_arrays(array, range(90)), **options) as loader:
        expected = epoch_of(loader, by_label)
    for dataset in files_of(tmp_path, array):
        with hr.Loader(dataset, num_threads=3, **options) as loader:
            ours = epoch_of(loader, by_label)
        assert torch.equal(expected[0], ours[0])
        assert torch.equal(expected[1], ours[1])


def epoch_of(loader, by_label):
    """All images and labels of an epoch, in its order or sorted by label."""
    batches = [(images.clone(), labels.clone()) for images, labels in loader]
    images, labels = (torch.cat(column) for column in zip(*batches, strict=True))
    order = labels.argsort() if by_label else torch.arange(len(labels))
    return images[order], labels[order]


def test_a_file_truncated_while_it_is_read_is_an_error_of_the_first_missing_image(
    tmp_path,
):
    np.save(tmp_path / "a.npy", IMAGES)
    size = (tmp_path / "a.npy").stat().st_size
    with hr.Loader(hr.Dataset(tmp_path / "a.npy"), batch_size=10, prefetch=1) as loader:
        batches = iter(loader)
        next(batches)
        with open(tmp_path / "a.npy", "r+b") as file:
            file.truncate(size - 3 * IMAGES[0].size - 1)
        with pytest.raises(errors.TruncatedError, match=r"record 86 .86."):
            for _ in batches:
                pass


def test_the_epoch_is_the_same_for_any_number_of_threads_and_after_any_resume():
    held = hr.Dataset.from_arrays(IMAGES, range(90))
    options = {
        "batch_size": 8,
        "shuffle": True,
        "seed": 1,
        "transform": TRANSFORMS["crop and flip"],
    }

    def epochs(threads: int, from_step: int = 0) -> list[tuple[torch.Tensor, torch.Tensor]]:
        with hr.Loader(held, num_threads=threads, **options) as loader:
            batches = iter(loader)
            for _ in range(from_step):
                next(batches)
            state = loader.state_dict()
        with hr.Loader(held, num_threads=threads, **options) as loader:
            loader.load_state_dict(state)
            return [*loader, *loader]

    expected = epochs(1)
    for threads, step in ((1, 3), (2, 0), (3, 7), (8, 5)):
        found = epochs(threads, step)
        assert len(found) == len(expected) - step
        for one, other in zip(expected[step:], found, strict=True):
            assert torch.equal(one[0], other[0])
            assert torch.equal(one[1], other[1])


def test_small_batches_are_prefetched_further_ahead_by_default():
    tiny = hr.Dataset.from_arrays(IMAGES, range(90))
    large = hr.Dataset.from_arrays(np.zeros((40, 300, 300, 3), np.uint8))  # 4.3 MB a batch
    for held, prefetch, ahead in (
        (tiny, None, 8),
        (tiny, 3, 3),
        (large, None, 3),
    ):
        with hr.Loader(held, batch_size=4, prefetch=prefetch) as loader:
            next(iter(loader))
            assert eventually(lambda: loader.stats()["batches_ready"] == ahead)  # noqa: B023


def test_an_image_beyond_a_limit_is_an_error_of_its_record():
    for limits, says in (
        ({"max_record_bytes": 100}, "max_record_bytes"),
        ({"max_pixels": 9}, "max_pixels"),
    ):
        held = hr.Dataset.from_arrays(IMAGES, limits=limits)
        with (
            pytest.raises(errors.LimitError, match=rf"record 0 \(0\).*{says}"),
            hr.Loader(held, batch_size=8) as loader,
        ):
            next(iter(loader))


def test_a_crop_that_fits_in_no_image_is_refused():
    held = hr.Dataset.from_arrays(IMAGES)
    with (
        pytest.raises(errors.HeadraceError, match="size is 64x64"),
        hr.Loader(held, batch_size=8, transform=[T.RandomCrop(64)]) as loader,
    ):
        next(iter(loader))


def test_views_and_mixed_batches_of_an_array_equal_those_of_packed_samples(tmp_path):
    held = hr.Dataset.from_arrays(IMAGES, [i % 5 for i in range(90)])
    hr.pack(held, tmp_path / "packed")
    crop = T.RandomCrop(16, padding=4)
    for transform in (T.Views([crop], [crop, NORMALIZE]), [crop, T.MixUp(num_classes=5)]):
        options = {"batch_size": 30, "shuffle": True, "seed": 2, "transform": transform}
        with (
            hr.Loader(tmp_path / "packed", **options) as packed,
            hr.Loader(held, **options) as ours,
        ):
            for theirs, mine in zip(packed, ours, strict=True):
                for one, other in zip(theirs[0], mine[0], strict=True):
                    assert torch.equal(one, other)
                assert torch.equal(theirs[1], mine[1])


def test_labels_are_right_with_eight_threads():
    rows = 5000
    array = np.zeros((rows, 6, 6), np.uint8)
    array[:, 0, 0], array[:, 0, 1] = np.arange(rows) % 256, np.arange(rows) // 256
    held = hr.Dataset.from_arrays(array, range(rows))
    with hr.Loader(held, batch_size=100, shuffle=True, num_threads=8, dtype="uint8") as loader:
        for _ in range(3):
            seen = []
            for images, labels in loader:
                numbers = images[:, 0, 0, 0].int() + 256 * images[:, 0, 0, 1].int()
                assert torch.equal(numbers, labels.int())
                seen += labels.tolist()
            assert sorted(seen) == list(range(rows))
