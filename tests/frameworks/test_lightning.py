"""Lightning: Trainer with a checkpoint and a resume mid-epoch."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

from frameworks_support import FOLDER, learns, torchrun


def test_a_run_resumed_mid_epoch_continues_with_the_very_next_batch(
    photographs: Path, tmp_path: Path, example: Callable[[str], ModuleType]
) -> None:
    program = example("lightning_trainer")
    whole = program.fit(str(photographs), tmp_path / "whole", 48)
    assert learns(whole.losses)
    epochs = [sorted(chain.from_iterable(whole.seen[begin : begin + 16])) for begin in (0, 16, 32)]
    assert epochs == [list(range(256))] * 3
    begun = program.fit(str(photographs), tmp_path / "begun", 21)
    resumed = program.fit(
        str(photographs), tmp_path / "resumed", 48, tmp_path / "begun" / "last.ckpt"
    )
    assert begun.seen + resumed.seen == whole.seen
    assert begun.losses + resumed.losses == whole.losses


def test_two_processes_train_on_the_drop_in_as_on_torchs_loader_and_resume_mid_epoch(
    tmp_path: Path,
) -> None:
    """Lightning recreates a hook's or an argument's loader with a DistributedSampler."""
    process = torchrun(2, Path(__file__).parent / "lightning_job.py", FOLDER, tmp_path)
    _, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    for answers in found:
        assert set(answers["torch"][0]) == {"torch.utils.data.dataloader DistributedSampler"}
        for given in ("hook", "argument"):
            loaders, seen = answers[given]
            assert set(loaders) == {"headrace.dataloader DistributedSampler"}
            assert seen == answers["torch"][1]
        assert len(answers["whole"][1]) == 20
        assert answers["resumed"][1] == answers["whole"][1][11:]
    assert found[0]["torch"][1] != found[1]["torch"][1]


def test_an_epoch_resumed_by_another_number_of_ranks_and_later_epochs_are_complete(
    tmp_path: Path,
) -> None:
    """Lightning counts batches before it loads the state: of 80 photographs, in batches of four."""

    def run(ranks: int, name: str, steps: int) -> list[dict[str, Any]]:
        job = Path(__file__).parent / "lightning_ranks_job.py"
        process = torchrun(ranks, job, FOLDER, tmp_path, name, steps)
        _, err = process.communicate(timeout=500)
        assert process.returncode == 0, err
        return [json.loads((tmp_path / f"{name}.{rank}.json").read_text()) for rank in range(ranks)]

    def samples(ranks: list[dict[str, Any]], epoch: str) -> list[int]:
        return sorted(chain.from_iterable(rank["seen"][epoch] for rank in ranks))

    taken = samples(run(2, "begun", 14), "1")  # an epoch of ten steps, and four of the next
    assert len(taken) == 32
    for ranks in (1, 4):
        resumed = run(ranks, f"resumed-{ranks}", 14 + (48 + 80) // (4 * ranks) + 1)
        assert sorted(taken + samples(resumed, "1")) == list(range(80))
        assert samples(resumed, "2") == list(range(80))
        assert all(rank["validated"][:2] == [1, 2] for rank in resumed)


def test_a_state_of_other_ranks_gives_a_warning_if_lightning_would_count_too_few_batches() -> None:
    program = """
        import lightning.pytorch, sys, warnings
        from torch.utils.data import DistributedSampler
        from torchvision import datasets, transforms
        import headrace as hr
        photographs = datasets.ImageFolder(sys.argv[1], transforms.Compose(
            [transforms.CenterCrop(8), transforms.ToTensor()]))
        loaders = [hr.DataLoader(photographs, 8, sampler=DistributedSampler(photographs, n, 0))
                   for n in (2, 4, 4)]
        next(iter(loaders[0]))
        for loader in loaders[1:]:
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                loader.load_state_dict(loaders[0].state_dict())
            print(*[w.message for w in found])
            hr.lightning.Lengths()
    """
    command = [sys.executable, "-c", textwrap.dedent(program), FOLDER]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    assert "headrace.lightning.Lengths()" in said[0]
    assert said[1:] == ["", ""]


def test_a_trainer_saves_checkpoints_of_a_loader_that_torch_reads(tmp_path: Path) -> None:
    """At its first checkpoint Lightning asks every loader that has a state for it."""
    program = """
        import sys, torch, warnings
        import lightning.pytorch as lightning
        from torch.utils.data import DataLoader, TensorDataset
        import headrace

        class Line(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer, self.seen = torch.nn.Linear(2, 1), []
            def training_step(self, batch, _):
                self.seen.append(batch[0][:, 0].int().tolist())
                return self.layer(batch[0]).mean()
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), 0.01)

        def fit(kind, folder, epochs, checkpoint=None):
            numbers = TensorDataset(torch.arange(24).reshape(12, 2).float())
            torch.manual_seed(0)
            model = Line()
            saving = lightning.callbacks.ModelCheckpoint(folder, save_last=True)
            trainer = lightning.Trainer(
                accelerator="cpu", logger=False, max_epochs=epochs, callbacks=[saving],
                enable_progress_bar=False, enable_model_summary=False,
            )
            trainer.fit(model, kind(numbers, 4, shuffle=True), ckpt_path=checkpoint)
            return model.seen

        warnings.simplefilter("ignore")
        found = {}
        for kind in (DataLoader, headrace.DataLoader):
            folder = f"{sys.argv[1]}/{kind.__module__}"
            begun = fit(kind, folder, 2)
            found[kind] = begun, fit(kind, folder, 3, f"{folder}/last.ckpt")
        assert len(found[DataLoader][0]) == 6 and len(found[DataLoader][1]) == 3
        assert found[headrace.DataLoader] == found[DataLoader]
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), tmp_path],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
