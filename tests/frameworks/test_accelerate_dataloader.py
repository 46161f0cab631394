"""Accelerate over headrace.DataLoader: its parts of an epoch, states, and no torch loader below."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from frameworks_support import EXAMPLES, FOLDER, learns, torchrun
from torch.utils import data
from torchvision import datasets
from torchvision import transforms as tv

import headrace as hr
import headrace.accelerate

HERE = Path(__file__).parent


@pytest.fixture
def folder() -> datasets.ImageFolder:
    return datasets.ImageFolder(FOLDER, tv.Compose([tv.CenterCrop(8), tv.ToTensor()]))


def test_a_state_saved_mid_epoch_resumes_with_the_very_next_batch(
    tmp_path: Path, example: Callable[[str], ModuleType]
) -> None:
    program = example("accelerate_dataloader")
    losses, seen = program.train(str(FOLDER), 3, tmp_path, save_at=40)
    assert learns(losses)
    assert len(seen) == 96
    resumed_losses, resumed = program.train(str(FOLDER), 3, tmp_path, resume=True)
    assert resumed == seen[40:]
    assert resumed_losses == losses[40:]


def run(work: Path, options: dict[str, Any] | None) -> list[Any]:
    """The answers of the job's two processes."""
    job, program = HERE / "accelerate_dataloader_job.py", EXAMPLES / "accelerate_dataloader.py"
    process = torchrun(2, job, program, FOLDER, work, json.dumps(options))
    _, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    return [json.loads((work / f"{rank}.json").read_text()) for rank in range(2)]


def test_two_processes_train_and_resume_and_gather_each_photograph_once_an_epoch(
    tmp_path: Path,
) -> None:
    first, second = run(tmp_path, {"save_at": 20})
    assert first == second
    seen = first[1]
    assert len(seen) == 32
    # In an epoch each class occurs as often as it has photographs.
    classes = [sorted(n for labels, _ in seen[at : at + 16] for n in labels) for at in (0, 16)]
    assert classes == [datasets.ImageFolder(FOLDER).targets] * 2
    assert run(tmp_path, {"resume": True})[0][1] == seen[20:]


def test_every_process_gets_accelerates_own_parts_with_each_of_its_settings(
    tmp_path: Path,
) -> None:
    for answers in zip(*run(tmp_path, None), strict=True):
        for options, ours, theirs in answers:
            assert ours == theirs, options
        assert answers[0][1] != answers[1][1]


def test_accelerates_own_prepare_warns_that_it_substitutes_torchs_loader(
    folder: datasets.ImageFolder,
) -> None:
    accelerator = Accelerator(cpu=True)
    with pytest.warns(UserWarning, match=r"headrace\.accelerate\.prepare"):
        prepared = accelerator.prepare(hr.DataLoader(folder, 8))
    assert type(prepared.base_dataloader) is data.DataLoader
    with pytest.raises(hr.HeadraceError, match=r"headrace\.accelerate\.prepare"):
        accelerator.prepare(hr.DataLoader(folder, 8, strict=True))
    packed = hr.Dataset(FOLDER)
    with pytest.raises(hr.HeadraceError, match=r"headrace\.accelerate\.prepare"):
        accelerator.prepare(hr.DataLoader(packed, 8, transform=folder.transform))
    packed.close()


def test_prepare_keeps_a_packed_dataset_and_all_arguments(folder: datasets.ImageFolder) -> None:
    packed = hr.Dataset(FOLDER)
    accelerator = Accelerator(cpu=True)
    generator = torch.Generator().manual_seed(3)
    given = {"num_workers": 2, "prefetch_factor": 3, "timeout": 60.0, "generator": generator}
    given |= {"seed": 5, "strict": True, "transform": folder.transform, "mode": "fast"}
    loader = hr.DataLoader(packed, 8, shuffle=True, **given)
    prepared = headrace.accelerate.prepare(accelerator, loader)
    assert isinstance(prepared, hr.DataLoader)
    for name, value in given.items():
        assert getattr(prepared, name) is value or getattr(prepared, name) == value
    assert next(iter(prepared))[0].shape == (8, 3, 8, 8)
    prepared.close()
    packed.close()


def test_prepare_refuses_other_loaders_and_states_with_dispatch_batches(
    folder: datasets.ImageFolder,
) -> None:
    accelerator = Accelerator(cpu=True)
    with pytest.raises(hr.HeadraceError, match=r"headrace\.DataLoader is allowed"):
        headrace.accelerate.prepare(accelerator, data.DataLoader(folder))
    with pytest.raises(hr.HeadraceError, match=r"headrace\.accelerate\.prepare returned"):
        headrace.accelerate.skip_first_batches(accelerator, folder)
    config = DataLoaderConfiguration(dispatch_batches=True, use_stateful_dataloader=True)
    dispatching = Accelerator(cpu=True, dataloader_config=config)
    with pytest.raises(hr.HeadraceError, match="dispatch_batches"):
        headrace.accelerate.prepare(dispatching, hr.DataLoader(folder))


class Squares(data.Dataset[int]):
    """A dataset that only torch's own loader can read."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> int:
        return index * index


@pytest.mark.parametrize("stateful", [False, True])
def test_a_dataset_that_only_torchs_loader_can_read_is_read_by_it_with_one_warning(
    stateful: bool,
) -> None:
    config = DataLoaderConfiguration(use_stateful_dataloader=stateful)
    accelerator = Accelerator(cpu=True, dataloader_config=config)
    with warnings.catch_warnings(record=True) as said:
        prepared = headrace.accelerate.prepare(accelerator, hr.DataLoader(Squares(), 8))
        seen = [batch.tolist() for batch in prepared]
    assert [n for batch in seen for n in batch] == [n * n for n in range(40)]
    assert [one.filename for one in said if "Squares" in str(one.message)] == [__file__]
    with pytest.raises(hr.HeadraceError, match="Squares"):
        headrace.accelerate.prepare(accelerator, hr.DataLoader(Squares(), 8, strict=True))
    skipping = headrace.accelerate.skip_first_batches(accelerator, prepared, 3)
    assert [batch.tolist() for batch in skipping] == seen[3:]
