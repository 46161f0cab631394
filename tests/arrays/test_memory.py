"""Datasets of arrays in memory: every value in any order of axes, and nothing kept afterwards."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
import torch
from torchvision.transforms import v2

import headrace as hr
from headrace import errors
from headrace import transforms as T


def pixels(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def in_order(dataset: hr.Dataset, **options) -> tuple[np.ndarray, list[int]]:
    """All images of an epoch in order, as uint8 of shape (N, H, W, C), and all labels."""
    images, labels = [], []
    with hr.Loader(dataset, batch_size=7, dtype="uint8", num_threads=2, **options) as loader:
        for batch, numbers in loader:
            images.append(batch.permute(0, 2, 3, 1).numpy().copy())
            labels += numbers.tolist()
    return np.concatenate(images), labels


COLOURS = pixels(40, 9, 13, 3)
GREYS = pixels(40, 9, 13, 1)
IN_GREY = GREYS.repeat(3, 3)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (COLOURS, COLOURS),
        (COLOURS.transpose(0, 3, 1, 2).copy(), COLOURS),
        (GREYS[..., 0], IN_GREY),
        (GREYS, IN_GREY),
        (GREYS.transpose(0, 3, 1, 2), IN_GREY),
        (np.concatenate([COLOURS, GREYS], 3), COLOURS),
        (np.concatenate([COLOURS, GREYS], 3).transpose(0, 3, 1, 2).copy(), COLOURS),
        (torch.from_numpy(COLOURS), COLOURS),
        (torch.from_numpy(COLOURS).permute(0, 3, 1, 2), COLOURS),
        (np.asfortranarray(COLOURS), COLOURS),
        (COLOURS[::-1, ::-1, ::-2], COLOURS[::-1, ::-1, ::-2]),
        (COLOURS[..., ::-1], COLOURS[..., ::-1]),
        (np.broadcast_to(COLOURS[:1], COLOURS.shape), COLOURS[:1].repeat(40, 0)),
    ],
    ids=[
        *("NHWC", "NCHW", "NHW", "NHW1", "N1HW", "RGBA", "planes of RGBA", "tensor"),
        *("permuted tensor", "Fortran order", "backwards", "BGR", "broadcast"),
    ],
)
def test_an_array_with_any_axes_and_strides_gives_its_values(array, expected):
    dataset = hr.Dataset.from_arrays(array, range(40))
    images, labels = in_order(dataset)
    assert np.array_equal(images, expected)
    assert labels == list(range(40))
    assert np.array_equal(dataset[-3].image, expected[-3])
    assert dataset[-3].label == 37
    assert dataset.kind == "memory"
    assert len(dataset) == 40
    for again in (pickle.loads(pickle.dumps(dataset)), copy.deepcopy(dataset)):
        assert np.array_equal(in_order(again)[0], expected)
        again.close()
    dataset.close()


def test_without_labels_every_label_is_minus_one():
    assert in_order(hr.Dataset.from_arrays(GREYS))[1] == [-1] * 40


def test_labels_may_be_names_tensors_and_columns():
    names = ["cat", "dog"]
    by_name = hr.Dataset.from_arrays(GREYS, [names[i % 2] for i in range(40)], names)
    assert in_order(by_name)[1] == [0, 1] * 20
    assert by_name.classes == names
    column = hr.Dataset.from_arrays(GREYS, torch.arange(40).reshape(40, 1))
    assert in_order(column)[1] == list(range(40))


@pytest.mark.parametrize(
    ("array", "options", "says"),
    [
        (pixels(4, 3, 5, 3), {}, "either of the axes 1 and 3.* of its headrace.Dataset says it"),
        (pixels(4, 5, 6, 7), {}, "neither of the axes 1 and 3"),
        (pixels(4, 5), {}, r"the shape \(4, 5\)"),
        (pixels(4, 5, 6, 3), {"layout": "NCHW"}, "5 channels"),
        (pixels(4, 5, 6, 3), {"layout": "NHW"}, "which is not layout='NHW'"),
        (pixels(4, 5, 6), {"labels": [1, 2]}, r"labels has the shape \(2,\)"),
        (pixels(4, 5, 6), {"labels": [0.5] * 4}, "float64"),
        (pixels(4, 5, 6), {"labels": [0, 1, -2, 0]}, "labels=-2"),
        ([[1, 2]], {}, "a NumPy array, a memory map or a torch tensor"),
        (pixels(4, 5, 6), {"labels": [0, 1, 2, 3], "classes": ["a", "b"]}, r"labels\[2\] is 2"),
    ],
)
def test_impossible_arguments_are_refused_by_name(array, options, says):
    with pytest.raises(errors.ArgumentError, match=says):
        hr.Dataset.from_arrays(array, **options)


def test_layout_decides_if_the_shape_is_ambiguous():
    array = pixels(4, 3, 5, 3)
    dataset = hr.Dataset.from_arrays(array, layout="NCHW")
    assert np.array_equal(dataset[1].image, array[1].transpose(1, 2, 0))


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint16", "bool", "int8"])
def test_an_unsupported_dtype_is_named(dtype):
    with pytest.raises(errors.UnsupportedError, match=f"dtype {dtype}, only uint8"):
        hr.Dataset.from_arrays(GREYS.astype(dtype))
    if dtype != "uint16":
        with pytest.raises(errors.UnsupportedError, match=f"dtype torch.{dtype}, only uint8"):
            hr.Dataset.from_arrays(torch.from_numpy(GREYS.astype(dtype)))


def test_an_array_without_images_is_an_empty_dataset():
    for shape in ((0, 5, 6), (4, 0, 6, 3)):
        with pytest.raises(errors.EmptyDatasetError):
            hr.Dataset.from_arrays(pixels(*shape))


def test_the_array_is_read_without_a_copy_and_released_when_everything_is_closed():
    array = COLOURS.copy()
    gone = weakref.ref(array)
    dataset = hr.Dataset.from_arrays(array)
    array[0] = 7
    assert (dataset[0].image == 7).all()
    loader = hr.Loader(dataset, batch_size=8, dtype="uint8")
    del array
    dataset.close()
    gc.collect()
    assert gone() is not None
    assert sum(len(labels) for _, labels in loader) == 40
    held = next(iter(loader))
    loader.close()
    gc.collect()
    assert gone() is None
    assert (held[0][0] == 7).all()
    with pytest.raises(errors.ClosedError, match="gave its array back"):
        pickle.dumps(dataset)


def test_a_loader_that_is_dropped_without_close_releases_the_array():
    array = COLOURS.copy()
    gone = weakref.ref(array)
    batches = iter(hr.Loader(hr.Dataset.from_arrays(array), batch_size=8))
    next(batches)
    del array, batches
    gc.collect()
    assert gone() is None


def test_a_pickled_dataset_carries_its_array():
    again = pickle.loads(pickle.dumps(hr.Dataset.from_arrays(COLOURS, range(40))))
    assert np.array_equal(again[5].image, COLOURS[5])
    assert again[5].label == 5


def test_a_tensor_whose_memory_torch_moved_is_an_error_and_is_never_read():
    tensor = torch.from_numpy(COLOURS.copy())
    dataset = hr.Dataset.from_arrays(tensor)
    tensor.share_memory_()
    with pytest.raises(errors.ClosedError, match="memory was moved"):
        dataset[5]
    with pytest.raises(errors.ClosedError, match="memory was moved"):
        hr.Loader(dataset, batch_size=8)
    again = hr.Dataset.from_arrays(tensor)
    assert np.array_equal(again[5].image, COLOURS[5])


def test_a_concatenation_keeps_the_arrays_of_its_parts():
    first = hr.Dataset.from_arrays(COLOURS, range(40))
    both = hr.Dataset.concat([first, hr.Dataset.from_arrays(COLOURS[:5], range(5))])
    first.close()
    images, labels = in_order(both)
    assert np.array_equal(images, np.concatenate([COLOURS, COLOURS[:5]]))
    assert labels == [*range(40), *range(5)]


def test_transforms_give_torchvisions_values():
    array = pixels(30, 32, 32, 3, seed=3)
    steps = [T.Resize(24), T.CenterCrop(20), T.Normalize([0.4, 0.5, 0.6], [0.2, 0.3, 0.4])]
    by_torchvision = v2.Compose(
        [
            v2.ToPILImage(),
            *(v2.Resize(24), v2.CenterCrop(20), v2.ToImage()),
            *(v2.ToDtype(torch.float32, scale=True),),
            v2.Normalize([0.4, 0.5, 0.6], [0.2, 0.3, 0.4]),
        ]
    )
    with hr.Loader(
        hr.Dataset.from_arrays(array), batch_size=30, transform=steps, scale="mul"
    ) as loader:
        images, _ = next(iter(loader))
    assert torch.equal(images, torch.stack([by_torchvision(image) for image in array]))


def test_a_packed_array_has_the_same_draws_and_resumes_alike(tmp_path):
    array, labels = pixels(50, 32, 32, 3), [i % 10 for i in range(50)]
    transform = [T.RandomCrop(32, padding=4), T.RandomHorizontalFlip()]
    held = hr.Dataset.from_arrays(array, labels)
    hr.pack(held, tmp_path / "packed")
    options = {"batch_size": 8, "shuffle": True, "seed": 5, "transform": transform}
    with hr.Loader(tmp_path / "packed", **options) as packed, hr.Loader(held, **options) as ours:
        for _ in range(2):
            for left, right in zip(packed, ours, strict=True):
                assert torch.equal(left[0], right[0])
                assert torch.equal(left[1], right[1])
        batches = iter(ours)
        next(batches)
        state = ours.state_dict()
        expected = [images for images, _ in batches]
    with hr.Loader(hr.Dataset.from_arrays(array.copy(), labels), num_threads=4, **options) as again:
        again.load_state_dict(state)
        for one, other in zip(expected, again, strict=True):
            assert torch.equal(one, other[0])


def test_a_different_array_has_a_different_fingerprint():
    prints = {
        hr.Dataset.from_arrays(*given).fingerprint
        for given in ((COLOURS,), (COLOURS, range(40)), (COLOURS[1:],), (COLOURS[::-1],), (GREYS,))
    }
    assert len(prints) == 5
