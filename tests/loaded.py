"""A dataset whose workers report which modules they have loaded. It imports none of them itself."""

from __future__ import annotations

import sys

import torch

import headrace as hr


class WhatIsLoaded(torch.utils.data.Dataset):
    """Gives image and label of a dataset that was pickled to a worker, and whether a module is
    loaded."""

    def __init__(self, dataset: hr.Dataset, module: str) -> None:
        self._dataset, self._module = dataset, module

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int, int]:
        found = self._dataset[index]
        return torch.from_numpy(found.image.copy()), found.label, int(self._module in sys.modules)
