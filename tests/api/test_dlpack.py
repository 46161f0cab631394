"""Any object that refers to a batch's memory keeps the memory from being written again."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import conftest
import headrace as hr

CROP = [{"name": "RandomResizedCrop", "size": [20, 24]}]

# Ways from images to another object that shows their memory.
FROM_TORCH: dict[str, Callable[[Any], Any]] = {
    "itself": lambda images: images,
    "slice": lambda images: images[1:3, :, 2:9:2],
    "permuted": lambda images: images.permute(0, 2, 3, 1),
    "flattened": lambda images: images.view(-1),
    "numpy": lambda images: images.numpy(),
    "numpy slice": lambda images: images.numpy()[:, 1:2],
    "memoryview": lambda images: memoryview(images.numpy()),
    "numpy.from_dlpack": lambda images: np.from_dlpack(images),
    "torch.from_dlpack": lambda images: torch.from_dlpack(images),
    "torch.utils.dlpack": lambda images: torch.from_dlpack(torch.utils.dlpack.to_dlpack(images)),
}
FROM_NUMPY: dict[str, Callable[[Any], Any]] = {
    "itself": lambda images: images,
    "slice": lambda images: images[1:3, :, 2:9:2],
    "transposed": lambda images: images.transpose(0, 2, 3, 1),
    "torch.from_numpy": lambda images: torch.from_numpy(images),
    "torch.from_dlpack": lambda images: torch.from_dlpack(images),
    "numpy.from_dlpack": lambda images: np.from_dlpack(images),
    "memoryview": lambda images: memoryview(images),
}
WAYS = [("torch", name) for name in FROM_TORCH] + [("numpy", name) for name in FROM_NUMPY]


def slots() -> int:
    return len(conftest.slots())


def content(view: Any) -> bytes:
    return np.asarray(view).tobytes()


@pytest.mark.parametrize(("output", "way"), WAYS, ids=[": ".join(way) for way in WAYS])
def test_a_view_keeps_its_batch_unchanged_and_returns_the_memory_when_it_is_freed(
    packed: Path, output: str, way: str
) -> None:
    look = (FROM_TORCH if output == "torch" else FROM_NUMPY)[way]
    made = hr.Loader(packed, 5, transform=CROP, num_threads=2, output=output, shuffle=True)
    images, labels = next(iter(made))
    view = look(images)
    was = content(view)
    del images, labels
    gc.collect()
    for _ in range(3):
        list(made)
    assert content(view) == was
    made.close()
    del made
    gc.collect()
    assert slots() == 1
    assert content(view) == was
    del view
    gc.collect()
    assert slots() == 0


@pytest.mark.parametrize("output", ["torch", "numpy"])
def test_holding_labels_does_not_hold_the_memory_of_images(packed: Path, output: str) -> None:
    with hr.Loader(packed, 5, transform=CROP, output=output) as made:
        kept = [labels for _, labels in made]
        again = [labels for _, labels in made]
        gc.collect()
        # What is left are the loader's own slots. How many it made depends on how far the decode
        # threads ran ahead; each batch would have one if its labels held it.
        assert slots() < len(kept) + len(again)
    gc.collect()
    assert slots() == 0
    assert [content(labels) for labels in kept] == [content(labels) for labels in again]
    own = kept[0].untyped_storage().nbytes() if output == "torch" else kept[0].base.nbytes
    assert own < 1000


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "channels_last"])
def test_dlpack_hands_over_pointers_without_copying(packed: Path, dtype: str, layout: str) -> None:
    form = {"transform": CROP, "dtype": dtype, "layout": layout}
    with (
        hr.Loader(packed, 5, **form) as tensors,
        hr.Loader(packed, 5, output="numpy", **form) as arrays,
    ):
        (images, labels), (others, numbers) = next(iter(tensors)), next(iter(arrays))
        assert np.from_dlpack(images).ctypes.data == images.data_ptr()
        assert np.from_dlpack(labels).ctypes.data == labels.data_ptr()
        assert torch.from_dlpack(others).data_ptr() == others.ctypes.data
        assert torch.from_dlpack(numbers).data_ptr() == numbers.ctypes.data
        assert np.array_equal(np.from_dlpack(images), others)
        # The alignment that XLA and others need to take memory without a copy.
        assert images.data_ptr() % 64 == labels.data_ptr() % 64 == 0
        del images, labels, others, numbers


def test_bfloat16_goes_through_dlpack_within_torch(packed: Path) -> None:
    with hr.Loader(packed, 5, transform=CROP, dtype="bfloat16") as made:
        images, _ = next(iter(made))
        assert torch.from_dlpack(images).data_ptr() == images.data_ptr()
        del images


def test_an_unused_capsule_gives_the_batch_back(packed: Path) -> None:
    for output in ("torch", "numpy"):
        made = hr.Loader(packed, 5, transform=CROP, output=output)
        images, labels = next(iter(made))
        capsule = images.__dlpack__()
        made.close()
        del images, labels, made
        gc.collect()
        assert slots() == 1
        del capsule
        gc.collect()
        assert slots() == 0
