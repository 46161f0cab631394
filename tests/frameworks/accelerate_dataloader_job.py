"""Run by test_accelerate_dataloader.py under torchrun: writes what each process saw as JSON."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch.utils import data
from torchvision import datasets
from torchvision import transforms as tv

import headrace as hr
import headrace.accelerate

COUNT, BATCH, SKIPPED = 117, 8, 3
PROGRAM, FOLDER, WORK = sys.argv[1:4]
KINDS = ["split_batches", "even_batches", "use_seedable_sampler", "dispatch_batches"]


class Numbers(data.Dataset[Any]):
    """A dataset for torch's loader with as many samples, without photographs."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[int, int]:
        return 0, index


def numbered() -> datasets.ImageFolder:
    """Photographs whose labels are their numbers."""
    folder = datasets.ImageFolder(FOLDER, tv.Compose([tv.CenterCrop(8), tv.PILToTensor()]))
    folder.samples = [(path, number) for number, (path, _) in enumerate(folder.samples[:COUNT])]
    return folder


def seen(accelerator: Accelerator, gathers: bool, native: bool) -> list[Any]:
    """Labels of two epochs, and of a third one without its first batches; of all ranks if
    ``gathers``."""
    torch.manual_seed(7)
    if native:
        loader = hr.DataLoader(numbered(), batch_size=BATCH, shuffle=True, strict=True)
        prepared = headrace.accelerate.prepare(accelerator, loader)
        rest = headrace.accelerate.skip_first_batches(accelerator, prepared, SKIPPED)
        assert accelerator.prepare(prepared) is prepared
        assert isinstance(rest, hr.DataLoader)
    else:
        prepared = accelerator.prepare(data.DataLoader(Numbers(), batch_size=BATCH, shuffle=True))
        rest = accelerator.skip_first_batches(prepared, SKIPPED)
    steps: list[Any] = []
    for epoch in (prepared, prepared, rest):
        steps.append(len(epoch))
        for _, labels in epoch:
            gathered = accelerator.gather_for_metrics(labels) if gathers else labels
            steps.append([labels.tolist(), gathered.tolist()])
    if native:
        prepared.close()
        rest.close()
    return steps


def orders() -> list[list[Any]]:
    """For each of Accelerate's settings, the order that Headrace gave this process, and torch's."""
    found = []
    for chosen in itertools.product([False, True], repeat=len(KINDS)):
        options = dict(zip(KINDS, chosen, strict=True))
        if options["dispatch_batches"] and not options["even_batches"]:
            continue  # even_batches has no effect there
        accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**options))
        gathers = options["even_batches"]
        found.append([options, *(seen(accelerator, gathers, native) for native in (True, False))])
    return found


def trained(options: dict[str, Any]) -> Any:
    specification = importlib.util.spec_from_file_location("accelerate_dataloader", PROGRAM)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.train(FOLDER, 2, Path(WORK), **options)


if __name__ == "__main__":
    options = json.loads(sys.argv[4])
    answer = orders() if options is None else trained(options)
    Path(WORK, f"{os.environ['RANK']}.json").write_text(json.dumps(answer))
