"""headrace.DataLoader where torch's own loader reads: its attributes and its warnings."""

from __future__ import annotations

import copy
import gc
import importlib.util
import inspect
import logging
import os
import pickle
import subprocess
import sys
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

import pytest
import torch
from torch.utils import data
from torchvision import datasets
from torchvision import transforms as tv

import headrace as hr
from headrace.errors import UnsupportedError

STEPS = [tv.Resize((24, 24)), tv.CenterCrop(16), tv.ToTensor()]
ADVICE = "This DataLoader will create"
NOTICE = "in Python, one image at a time"

# A module of a program that has nothing to do with images.
TEXT = """
import torch

class Text(torch.utils.data.Dataset):
    def __init__(self):
        self.lines = [f"line {number}" for number in range(9)]
    def __len__(self):
        return len(self.lines)
    def __getitem__(self, index):
        return self.lines[index]

class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(9))
"""


@runtime_checkable
class Stateful(Protocol):
    """Asks for a state as frameworks do: hasattr until Python 3.11, inspect.getattr_static from
    3.12 on."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class OwnItems(datasets.ImageFolder):
    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return image.sqrt(), label


def identity(image: Any) -> Any:
    return image


@pytest.fixture
def photos(folder: Path) -> datasets.ImageFolder:
    return datasets.ImageFolder(str(folder), tv.Compose([*STEPS]))


@pytest.fixture
def text(tmp_path: Path) -> ModuleType:
    (tmp_path / "text_program.py").write_text(TEXT)
    spec = importlib.util.spec_from_file_location("text_program", tmp_path / "text_program.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules["text_program"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Said:
    """The warnings of a test, also repeated ones."""

    def __init__(self, caught: list[warnings.WarningMessage]) -> None:
        self._caught = caught

    def of(self, words: str) -> int:
        return sum(words in text for text in self.texts)

    @property
    def texts(self) -> list[str]:
        return [str(warning.message) for warning in self._caught]


@pytest.fixture
def said() -> Iterator[Said]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield Said(caught)


# ---- state -------------------------------------------------------------------------------------


def has_state(loader: Any) -> bool:
    answers = {hasattr(loader, name) for name in ("state_dict", "load_state_dict")}
    for name in ("state_dict", "load_state_dict"):
        answers.add(inspect.getattr_static(loader, name, None) is not None)
    answers.add(isinstance(loader, Stateful))
    [answer] = answers  # all alike
    return answer


def test_a_native_loader_has_a_state_and_one_that_torch_reads_for_has_none(
    photos: datasets.ImageFolder, folder: Path, text: ModuleType
) -> None:
    numbers = data.TensorDataset(torch.arange(9))
    own = OwnItems(str(folder), tv.Compose(STEPS))
    assert not has_state(data.DataLoader(numbers))
    for other in (numbers, text.Text(), text.Stream(), [1, 2, 3]):
        loader = hr.DataLoader(other)
        assert not has_state(loader)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            next(iter(loader))
        assert not has_state(loader)
    for other in (photos, own):
        loader = hr.DataLoader(other, 5)
        assert has_state(loader)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            next(iter(loader))
        assert has_state(loader)
        assert loader.state_dict()["batches"] == 1
    assert hr.DataLoader(photos, 5).state_dict()["batches"] == 0  # of one that nobody else holds


def test_a_dataset_may_be_filled_after_its_loader_is_made(folder: Path) -> None:
    class Late(datasets.ImageFolder):
        def __init__(self) -> None:
            pass

        setup = datasets.ImageFolder.__init__

    late = Late()
    loader = hr.DataLoader(late, 5, sampler=range(24))
    late.setup(str(folder), tv.Compose(STEPS))
    assert len(list(loader)) == 5
    assert has_state(loader)


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_copy_of_a_loader_has_its_own_state_or_none_like_the_loader(
    photos: datasets.ImageFolder, duplicate: Any
) -> None:
    loader = hr.DataLoader(photos, 5, seed=7)
    batches = iter(loader)
    next(batches)
    other = duplicate(loader)
    assert has_state(other)
    next(batches)
    assert (loader.state_dict()["batches"], other.state_dict()["batches"]) == (2, 1)
    other.seed = 8
    assert (loader.state_dict()["seed"], other.state_dict()["seed"]) == (7, 8)
    other.load_state_dict(other.state_dict())
    assert [len(labels) for _, labels in other] == [5, 5, 5, 4]
    assert not has_state(duplicate(hr.DataLoader(data.TensorDataset(torch.arange(9)))))


def test_a_loader_is_freed_with_its_last_reference_without_garbage_collection(
    photos: datasets.ImageFolder,
) -> None:
    gc.disable()
    try:
        loader = hr.DataLoader(photos, 5)
        list(loader)
        watched = weakref.ref(loader)
        del loader
        assert watched() is None
    finally:
        gc.enable()


def test_a_subclass_keeps_its_own_state_dict_method(photos: datasets.ImageFolder) -> None:
    class Counting(hr.DataLoader[Any]):
        def state_dict(self) -> dict[str, Any]:  # type: ignore[override]
            return {"mine": self.state.state_dict()}

    loader = Counting(photos, 5)
    next(iter(loader))
    assert loader.state_dict()["mine"]["batches"] == 1


@pytest.mark.skipif(importlib.util.find_spec("torchdata") is not None, reason="torchdata is here")
def test_torchdatas_argument_is_unknown_if_torchdata_is_not_installed(
    photos: datasets.ImageFolder,
) -> None:
    for kind in (data.DataLoader, hr.DataLoader):
        with pytest.raises(TypeError, match="unexpected keyword argument 'snapshot_every_n_steps'"):
            kind(photos, snapshot_every_n_steps=2)


# ---- what it warns of --------------------------------------------------------------------------


def test_torchs_advice_on_workers_comes_once_and_never_for_a_native_loader(
    photos: datasets.ImageFolder, said: Said
) -> None:
    many = 4 * (os.cpu_count() or 1)
    data.DataLoader(data.TensorDataset(torch.arange(9)), num_workers=many)
    assert said.of(ADVICE) == 1
    loader = hr.DataLoader(data.TensorDataset(torch.arange(9)), num_workers=many)
    assert said.of(ADVICE) == 2
    pickle.loads(pickle.dumps(loader))
    iter(loader)
    iter(loader)
    assert said.of(ADVICE) == 2
    loader = hr.DataLoader(photos, num_workers=many)
    iter(loader)
    assert said.of(ADVICE) == 2
    photos.transform = identity  # from now on it needs processes
    iter(loader)
    iter(loader)
    assert said.of(ADVICE) == 3


def test_no_warning_of_the_fallback_comes_if_nothing_suggests_images(
    text: ModuleType, said: Said
) -> None:
    numbers = data.TensorDataset(torch.arange(9))
    for other in (
        numbers,
        text.Text(),
        text.Stream(),
        [1, 2, 3],
        range(9),
        {0: "a", 1: "b"},
        torch.arange(9),
        data.Subset(numbers, [1, 2]),
        data.ConcatDataset([text.Text(), data.Subset(text.Text(), [1])]),
        data.ChainDataset([text.Stream()]),
        data.StackDataset(numbers, text.Text()),
        data.StackDataset(a=numbers),
    ):
        list(hr.DataLoader(other))
    assert said.of("headrace") == 0


def test_a_warning_of_the_fallback_comes_if_there_may_be_images(
    text: ModuleType, folder: Path, said: Said
) -> None:
    transformed = text.Text()
    transformed.transform = tv.Compose(STEPS)
    fakes = datasets.FakeData(9, (3, 8, 8), transform=tv.ToTensor())
    mentioned = 0
    for other in (transformed, OwnItems(str(folder), tv.Compose(STEPS))):
        list(hr.DataLoader(other))
        mentioned += 1
        assert said.of(NOTICE) == mentioned
    # Pillow's images that a dataset makes itself are accepted if known transforms follow.
    for other in (
        fakes,
        data.Subset(fakes, [1, 2]),
        data.StackDataset(text.Text(), data.Subset(fakes, range(9))),
    ):
        loader = hr.DataLoader(other)
        assert loader.explain().native
        list(loader)
        assert said.of(NOTICE) == mentioned
    text.tv = tv  # as "from torchvision import transforms as tv" at its top
    list(hr.DataLoader(text.Text()))
    assert said.of(NOTICE) == mentioned + 1


def test_a_notice_is_never_an_error_and_is_logged_if_warnings_are_errors(
    photos: datasets.ImageFolder, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    photos.transform = tv.Compose([*STEPS, identity])
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING, logger="headrace"):
        warnings.simplefilter("error")
        for dataset in (OwnItems(str(folder), tv.Compose(STEPS)), photos):
            loader = hr.DataLoader(dataset, 8)
            assert [len(labels) for _, labels in [*loader, *loader]] == [8] * 6
    logged = [record.getMessage() for record in caplog.records if record.name == "headrace"]
    assert len(logged) == 2
    assert NOTICE in logged[0]
    assert "it and what follows run in Python" in logged[1]


@pytest.mark.slow
def test_a_program_with_w_error_that_torchs_loader_reads_for_runs_to_its_end(folder: Path) -> None:
    program = f"""if True:
        from torchvision import datasets, transforms as tv
        import headrace
        class Own(datasets.ImageFolder):
            def __getitem__(self, index):
                image, label = super().__getitem__(index)
                return image.sqrt(), label
        photos = Own({str(folder)!r}, tv.Compose([tv.Resize((8, 8)), tv.ToTensor()]))
        print(len(list(headrace.DataLoader(photos, 8))))
    """
    # Of errors in Python's own modules only those count that the program itself meets.
    ran = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "3\n"), ran.stderr
    assert "Own.__getitem__ needs the pixels" in ran.stderr


class AsksTorch(hr.DataLoader[Any]):
    """A loader with an iterator of its own."""

    def __iter__(self) -> Any:
        return self._get_iterator()


class Numbered(hr.DataLoader[Any]):
    """Numbers its batches in the iterator that torch's ``__iter__`` asks for."""

    def _get_iterator(self) -> Any:
        return enumerate(super()._get_iterator())


class NumberedByTorch(data.DataLoader[Any]):
    def _get_iterator(self) -> Any:
        return enumerate(super()._get_iterator())


@pytest.mark.parametrize("kind", [datasets.ImageFolder, OwnItems])
def test_an_overridden_get_iterator_is_used_as_in_torchs_loader(
    folder: Path, said: Said, kind: Any
) -> None:
    dataset = kind(str(folder), tv.Compose(STEPS))
    loader = Numbered(dataset, 8)
    for _ in range(2):
        for found, expected in zip(loader, NumberedByTorch(dataset, 8), strict=True):
            assert found[0] == expected[0]
            assert torch.equal(found[1][0], expected[1][0])
    assert said.of("one image at a time") == 1
    assert "write __iter__ instead" in said.texts[-1]
    assert not hasattr(loader, "state_dict")
    with pytest.raises(UnsupportedError, match="_get_iterator of its own"):
        next(iter(Numbered(dataset, 8, strict=True)))
    with pytest.raises(UnsupportedError, match="_get_iterator of its own"):
        hr.explain(loader)


def test_a_warning_says_that_torchs_loader_reads_why_and_the_cure(
    photos: datasets.ImageFolder, folder: Path, said: Said
) -> None:
    photos.transform = tv.Compose([*STEPS, identity])
    pipe = data.datapipes.map.SequenceWrapper(OwnItems(str(folder), tv.Compose(STEPS)))
    pipe.transform = tv.Compose(STEPS)
    own = OwnItems(str(folder), tv.Compose(STEPS))
    told = [
        (hr.DataLoader(pipe, 8), "torch's loader", "make a Dataset that opens the images itself"),
        (AsksTorch(own, 8), "torch's loader", "leave __iter__ to DataLoader"),
        (hr.DataLoader(own, 8), "OwnItems.__getitem__", "headrace.from_torchvision translates"),
        (hr.DataLoader(photos, 8), "it and what follows", "headrace.from_torchvision translates"),
    ]
    for number, (loader, what, cure) in enumerate(told, 1):
        list(loader)
        list(loader)
        assert said.of("one image at a time") == number
        assert what in said.texts[-1]
        assert cure in said.texts[-1]
    list(hr.DataLoader(data.datapipes.map.SequenceWrapper([1, 2])))
    assert said.of("one image at a time") == len(told)


def test_strict_refuses_what_torchs_loader_would_read(folder: Path) -> None:
    own = OwnItems(str(folder), tv.Compose(STEPS))
    with pytest.raises(UnsupportedError, match=r"torch's loader loads.*leave __iter__"):
        iter(AsksTorch(own, 8, strict=True))
