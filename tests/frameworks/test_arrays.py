"""JAX and TensorFlow: batches through DLPack, without a copy."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest
import tensorflow as tf
from frameworks_support import learns

import headrace as hr

CROP = [hr.transforms.RandomResizedCrop(24)]


GET_POINTER = ctypes.pythonapi.PyCapsule_GetPointer
GET_POINTER.restype, GET_POINTER.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def jax_view(batch: Any) -> tuple[Any, int]:
    found = jax.dlpack.from_dlpack(batch, copy=False)
    return found, found.unsafe_buffer_pointer()


def tensorflow_view(batch: Any) -> tuple[Any, int]:
    found = tf.experimental.dlpack.from_dlpack(batch.__dlpack__())
    # TensorFlow gives a pointer only in a capsule, whose first member is `data`.
    capsule = tf.experimental.dlpack.to_dlpack(found)
    tensor = GET_POINTER(capsule, b"dltensor")
    return found, ctypes.c_void_p.from_address(tensor).value


VIEWS = {"jax": jax_view, "tensorflow": tensorflow_view}


def slots() -> int:
    return Path("/proc/self/maps").read_text().count("/dev/zero\n")


@pytest.mark.parametrize("framework", VIEWS)
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_batch_is_read_without_a_copy(
    photographs: Path, framework: str, dtype: str, layout: str
) -> None:
    options = {"transform": CROP, "dtype": dtype, "layout": layout, "output": "numpy"}
    with hr.Loader(photographs, 7, **options) as loader:
        images, labels = next(iter(loader))
        found, pointer = VIEWS[framework](images)
        assert pointer == images.ctypes.data
        assert tuple(found.shape) == images.shape
        assert np.array_equal(np.asarray(found), images)
        if framework == "tensorflow":  # JAX has int64 only if it is enabled
            found, pointer = VIEWS[framework](labels)
            assert pointer == labels.ctypes.data
        del found, images, labels
        gc.collect()


@pytest.mark.parametrize("framework", VIEWS)
def test_a_slot_is_kept_exactly_as_long_as_the_consumers_array(
    photographs: Path, framework: str
) -> None:
    loader = hr.Loader(photographs, 7, transform=CROP, output="numpy")
    images, labels = next(iter(loader))
    copy = images.copy()
    found, _ = VIEWS[framework](images)
    del images, labels
    gc.collect()
    for _ in range(2):  # a slot that came back too early would be overwritten
        list(loader)
    gc.collect()
    assert np.array_equal(np.asarray(found), copy)
    loader.close()
    del loader
    gc.collect()
    assert slots() == 1
    assert np.array_equal(np.asarray(found), copy)
    del found
    gc.collect()
    assert slots() == 0


@pytest.mark.parametrize("framework", VIEWS)
def test_a_model_learns(
    photographs: Path, framework: str, example: Callable[[str], ModuleType]
) -> None:
    assert learns(example(f"{framework}_training").train(str(photographs), 3))
