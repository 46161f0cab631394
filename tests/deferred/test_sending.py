"""Batches that workers send: one that does not pickle is an error; no shared memory is needed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision.transforms.functional as F
from PIL import Image
from torch.utils import data

import headrace as hr
from deferred.test_own_code import Opens, paths

__all__ = ["paths"]


def with_a_lambda(path: str, index: int) -> Any:
    return F.to_tensor(Image.open(path).convert("RGB")), lambda: index


def with_an_open_file(path: str, index: int) -> Any:
    return F.to_tensor(Image.open(path).convert("RGB")), open(path, "rb")


def without_images(path: str, index: int) -> Any:
    return index, lambda: path


class Refuses:
    def __getstate__(self) -> Any:
        class OfThisFunction(Exception):
            pass

        raise OfThisFunction("it stays here")


def with_an_object_that_refuses(path: str, index: int) -> Any:
    return F.to_tensor(Image.open(path).convert("RGB")), Refuses()


def as_they_are(samples: list[Any]) -> list[Any]:
    return samples


class Streams(data.IterableDataset[Any]):
    def __init__(self, paths: list[str], make: Callable[[str, int], Any]) -> None:
        self.paths, self.make = paths, make

    def __iter__(self) -> Any:
        return (self.make(path, index) for index, path in enumerate(self.paths))


def failure_of(batches: Iterator[Any]) -> Exception | None:
    """The exception that ends an iteration, without its traceback, which holds the worker
    processes."""
    try:
        list(batches)
    except Exception as failure:
        return failure.with_traceback(None)
    return None


UNSENDABLE = [with_a_lambda, with_an_open_file, without_images, with_an_object_that_refuses]


@pytest.mark.parametrize("make", UNSENDABLE)
@pytest.mark.parametrize("kind", [Opens, Streams])
def test_a_batch_that_does_not_pickle_is_an_error_and_no_hang(
    paths: list[str], kind: Any, make: Any
) -> None:
    loader = hr.DataLoader(kind(paths, make), 4, num_workers=2, collate_fn=as_they_are)
    failure = failure_of(iter(loader))
    assert "pickle" in str(failure) or "it stays here" in str(failure)
    assert "goes from a worker process to this one by pickle" in str(failure)
    loader.close()


def raises_its_own(path: str, index: int) -> Any:
    class OfThisFunction(Exception):
        pass

    if index == 6:
        raise OfThisFunction("the sixth")
    return F.to_tensor(Image.open(path).convert("RGB").resize((20, 20)))


def test_an_error_whose_class_does_not_pickle_is_reported(paths: list[str]) -> None:
    loader = hr.DataLoader(Opens(paths, raises_its_own), 4, num_workers=2)
    batches = iter(loader)
    assert next(batches).shape == (4, 3, 20, 20)
    failure = failure_of(batches)
    assert type(failure) is RuntimeError
    assert "OfThisFunction: the sixth" in str(failure)
    del batches
    loader.close()


class LoadsItself(data.Dataset[Any]):
    """Each sample is the first batch of a loader without processes."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        inner = hr.DataLoader(Opens(self.paths[index : index + 1], with_a_lambda), collate_fn=first)
        image, function = next(iter(inner))
        inner.close()
        return image.shape, function()


def first(samples: list[Any]) -> Any:
    return samples[0]


def test_a_loader_without_workers_inside_a_worker_need_not_pickle_its_batches(
    paths: list[str],
) -> None:
    with_two = list(hr.DataLoader(LoadsItself(paths), None, num_workers=2))
    assert with_two == list(data.DataLoader(LoadsItself(paths), None))
    assert len(with_two) == len(paths)


SMALL = """
import glob, sys
import torchvision.transforms.functional as F
from PIL import Image
from torch.utils import data
import headrace as hr

class Large(data.Dataset):
    def __init__(self):
        self.paths = sorted(glob.glob(sys.argv[1] + "/*/*.jpg"))[:8]
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, index):
        return F.to_tensor(Image.open(self.paths[index]).convert("RGB").resize((1024, 1024)))

if __name__ == "__main__":
    kind = hr.DataLoader if sys.argv[2] == "headrace" else data.DataLoader
    for batch in kind(Large(), 8, num_workers=1):
        print(batch.nbytes, float(batch[:, :, ::64, ::64].double().sum()))
"""
MOUNTED = 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@"'


def enlarged(path: str, index: int) -> Any:
    return F.to_tensor(Image.open(path).convert("RGB").resize((1024, 1024)))


def test_batches_larger_than_shared_memory_come_from_worker_processes(
    paths: list[str], tmp_path: Path
) -> None:
    """/dev/shm has 64 MB and a batch 96. torch's loader takes memory there, and fails."""
    program = tmp_path / "large.py"
    program.write_text(SMALL)
    alone = ["unshare", "-m", "sh", "-c", MOUNTED, "sh"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs a mount namespace of its own")
    root = str(Path(paths[0]).parents[1])

    def run(kind: str, *before: str) -> Any:
        command = [*before, sys.executable, str(program), root, kind]
        return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)

    found = run("headrace", *alone)
    assert found.returncode == 0, found.stderr
    expected = torch.stack([enlarged(path, 0) for path in paths[:8]])
    assert found.stdout == f"{expected.nbytes} {float(expected[:, :, ::64, ::64].double().sum())}\n"
    assert expected.nbytes == 8 * 3 * 1024 * 1024 * 4
    assert run("torch", *alone).returncode != 0
