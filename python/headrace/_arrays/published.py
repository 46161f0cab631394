"""The published files of MNIST and CIFAR: IDX, and CIFAR's binary batches."""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._arrays import held
from headrace._arrays.shapes import Axes, Stretch, bad, unsupported
from headrace._arrays.stored import Stored, in_one_piece, labels_of
from headrace._engine import arguments
from headrace.errors import ArgumentError, MissingFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The third byte of an IDX file (http://yann.lecun.com/exdb/mnist).
_IDX_TYPES = {8: "uint8", 9: "int8", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def idx_shape(head: bytes) -> tuple[int, ...] | None:
    """The shape that an IDX file's header states; None if it is no such header."""
    if len(head) < 8 or head[:2] != b"\0\0" or head[2] not in _IDX_TYPES or not 1 <= head[3] <= 4:
        return None
    count = head[3]
    if len(head) < 4 + 4 * count:
        return None
    return struct.unpack_from(f">{count}I", head, 4)


def read_idx(path: str) -> list[Stored]:
    """The array of an IDX file. If it holds images, the labels of its sibling file follow."""
    arrays = [_idx(path, "image")]
    folder, name = os.path.split(path)
    sibling = os.path.join(folder, re.sub(r"images([-.]idx)\d", r"labels\g<1>1", name))
    if sibling != path and len(arrays[0].shape) > 1:
        if not os.path.exists(sibling) and os.path.exists(sibling + ".gz"):
            raise unsupported(sibling + ".gz", "it is compressed; gunzip it first")
        if os.path.exists(sibling):
            arrays.append(_idx(sibling, "label"))
    return arrays


def _idx(path: str, name: str) -> Stored:
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = file.read(20)
    shape = idx_shape(head)
    if shape is None:
        raise bad(path, "bad header: no IDX file of up to 4 dimensions")
    dtype, begin = _IDX_TYPES[head[2]], 4 + 4 * len(shape)
    expected = begin + math.prod(shape) * np.dtype(dtype).itemsize
    if size != expected:
        raise bad(
            path,
            f"the file has not the size that its header says (expected {expected} bytes, "
            f"found {size})",
        )
    return in_one_piece(path, name, shape, dtype, begin)


# The names of MNIST's image files by split, and the folders where torchvision keeps them.
_IDX_NAMES = {
    "train": ("train-images-idx3-ubyte", "train-images.idx3-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte", "test-images-idx3-ubyte"),
}
_IDX_FOLDERS = ("", "raw", "MNIST/raw", "FashionMNIST/raw", "KMNIST/raw")


def idx_files(folder: str) -> dict[str, str]:
    """Finds MNIST's image files by split, in a folder or where torchvision keeps them."""
    for below in _IDX_FOLDERS:
        found = {}
        for split, names in _IDX_NAMES.items():
            paths = (os.path.join(folder, below, name) for name in names)
            if there := [path for path in paths if os.path.isfile(path)]:
                found[split] = there[0]
        if found:
            return found
    return {}


def of_split(splits: Mapping[str, str], split: str | None) -> str:
    """Chooses MNIST's file of a split.

    Raises:
        ArgumentError: no split is chosen, and there are several.
        MissingFileError: there is no file of that split.
    """
    if split is None and len(splits) > 1:
        raise ArgumentError('there are several splits: ["test" "train"]; split= chooses one')
    chosen = next(iter(splits)) if split is None else split_of(split)
    if chosen not in splits:
        raise MissingFileError(f"split={split!r}: there is no such file of MNIST")
    return splits[chosen]


# ---- CIFAR -----------------------------------------------------------------------------------

# Bytes of labels before the 3,072 bytes of an image, and the number of classes of the last label.
_CIFAR = {"cifar10": (1, 10), "cifar100": (2, 100)}
_IMAGE = 3 * 32 * 32
_NAMES = {
    "cifar10": {
        "train": re.compile(r"data_batch_\d+\.bin"),
        "test": re.compile(r"test_batch\.bin"),
    },
    "cifar100": {"train": re.compile(r"train\.bin"), "test": re.compile(r"test\.bin")},
}
_OTHERS = ("test_batch.bin", "train.bin", "test.bin")


def cifar_kind(names: Sequence[str]) -> str | None:
    """Returns which of the two sets of binary files these names belong to."""
    for kind, splits in _NAMES.items():
        if names and all(
            any(split.fullmatch(os.path.basename(name)) for split in splits.values())
            for name in names
        ):
            return kind
    return None


def cifar_files(folder: str) -> list[str]:
    """Returns the files of a folder that have one of CIFAR's names."""
    batches = [f"data_batch_{number}.bin" for number in range(1, 10)]
    named = [os.path.join(folder, name) for name in (*batches, *_OTHERS)]
    return [path for path in named if os.path.isfile(path)]


def read_cifar(
    paths: Sequence[str],
    kind: str,
    label: Any,
    split: str | None,
    opened: Callable[[str], Sequence[Stored]],
) -> dict[str, Any]:
    """Returns the configuration of CIFAR's binary files.

    Args:
        label: for CIFAR-100, "fine" (None) or "coarse"; or another file, or the labels themselves.
        split: "train" or "test", if there are files of both.
        opened: reads the arrays of another file.
    """
    before, classes = _CIFAR[kind]
    given = [
        one
        for one in paths
        if split is None or _NAMES[kind][split_of(split)].fullmatch(os.path.basename(one))
    ]
    splits = {
        name
        for name, of in _NAMES[kind].items()
        for one in given
        if of.fullmatch(os.path.basename(one))
    }
    if len(splits) > 1:
        raise ArgumentError('there are several splits: ["test" "train"]; split= chooses one')
    if not given:
        raise MissingFileError(f"split={split!r}: there is no such file of {kind}")
    which = label if isinstance(label, str) and label in ("fine", "coarse") else None
    if which == "coarse" and before == 1:
        raise arguments.refuse("label", label, '"fine" or "coarse" of CIFAR-100')
    stretches, labels, step = [], [], before + _IMAGE
    for number, path in enumerate(given):
        rows, rest = divmod(os.path.getsize(path), step)
        if rest or not rows:
            raise bad(
                path,
                f"not a whole number of images (expected a multiple of {step} bytes, found "
                f"{rows * step + rest})",
            )
        stretches.append(Stretch(number, before, step, rows))
        labels.append(_cifar_labels(path, step, 0 if which == "coarse" else before - 1))
    values = np.concatenate(labels)
    limit = 20 if which == "coarse" else classes
    if np.max(values) >= limit:
        record = int(np.argmax(values >= limit))
        text = f"the label is {values[record]} (expected 0 to {limit - 1})"
        ends = np.cumsum([len(part) for part in labels])
        raise bad(given[int(np.searchsorted(ends, record, "right"))], text, record)
    axes = Axes(len(values), 32, 32, 3, step, (32, 1, 1024))
    found: dict[str, Any] = {
        "array": {**axes.config(stretches), "files": given},
        "labels": values.tolist(),
    }
    said = {"format": kind, "image": "", "layout": "NCHW", "shape": [axes.rows, 3, 32, 32]}
    found["array"]["source"] = {**said, "label": which or "", "dtype": "uint8"}
    if label is not None and which is None:
        others, found["array"]["source"]["label"] = labels_of([], None, axes.rows, label, opened)
        found["labels"] = held.labels(others, axes.rows)
    elif names := _class_names(os.path.dirname(given[0]), kind, which, limit):
        found["classes"] = names
    return found


def split_of(split: str) -> str:
    return arguments.choice("split", split, ("train", "test"))


def _cifar_labels(path: str, step: int, place: int) -> NDArray[np.uint8]:
    # This reads through a buffer as large as a batch file, 30 MB; there are at most a few files.
    with open(path, "rb") as file:
        parts = []
        while data := file.read(step * 10_000):
            whole = len(data) // step * step
            parts.append(np.frombuffer(data[:whole], np.uint8)[place::step].copy())
    return np.concatenate(parts)


def _class_names(folder: str, kind: str, label: Any, count: int) -> list[str]:
    """Reads the classes' names from CIFAR's own list beside the files; empty if there is none."""
    name = "batches.meta.txt"
    if kind == "cifar100":
        name = "coarse_label_names.txt" if label == "coarse" else "fine_label_names.txt"
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            lines = [line.strip() for line in file.read(1 << 16).splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError):
        return []
    return lines if len(lines) == count else []
