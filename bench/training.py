"""A training step on a GPU beside which loaders are measured, and the machine that it runs on."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torchvision

import facts

CUDA = "cuda"


def machine(program: str) -> dict[str, Any]:
    """Prints and returns the facts of a machine with a GPU; without a GPU the program ends here."""
    if not torch.cuda.is_available():
        sys.exit(f"{program}: torch.cuda.is_available() is False: this benchmark needs a GPU.")
    found = facts.machine() | {"gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda}
    print(json.dumps(found))
    return found


class Training:
    """One model in mixed precision, channels last.

    With bfloat16 the program never waits for the GPU; with float16 the scaler waits at each step.
    """

    def __init__(self, name: str, precision: str) -> None:
        torch.backends.cudnn.benchmark = True
        model = getattr(torchvision.models, name)(num_classes=1000).to(CUDA)
        self._model = model.to(memory_format=torch.channels_last)
        self._optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        self._precision: torch.dtype = getattr(torch, precision)
        self._scaler = torch.amp.GradScaler(CUDA, enabled=precision == "float16")

    def step(self, inputs: torch.Tensor, labels: torch.Tensor) -> None:
        with torch.autocast(CUDA, self._precision):
            loss = torch.nn.functional.cross_entropy(self._model(inputs), labels)
        self._optimizer.zero_grad(set_to_none=True)
        self._scaler.scale(loss).backward()
        self._scaler.step(self._optimizer)
        self._scaler.update()


def trained(training: Training, batches: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yields the batches, each after a training step with it."""
    for images, labels in batches:
        training.step(images, labels)
        yield images, labels
