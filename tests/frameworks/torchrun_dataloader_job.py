"""Run by test_torchrun.py: DDP with headrace.DataLoader and torch's, with a DistributedSampler."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils import data
from torchvision import datasets
from torchvision import transforms as tv

import headrace as hr

COUNT = 117
FIXED = tv.Compose([tv.Resize((32, 32)), tv.ToTensor()])


def train(kind: type[data.DataLoader[Any]], **options: Any) -> list[Any]:
    torch.manual_seed(4)
    photographs = data.Subset(datasets.ImageFolder(sys.argv[1], FIXED), range(COUNT))
    layers = [nn.Conv2d(3, 8, 5, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers, nn.Linear(32, 11)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    sampler: data.DistributedSampler[Any] = data.DistributedSampler(photographs)
    loader = kind(photographs, batch_size=8, sampler=sampler, **options)
    seen = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.append([labels.tolist(), loss.item()])
    if isinstance(loader, hr.DataLoader):
        loader.close()
    return seen


dist.init_process_group("gloo")
answer = [train(hr.DataLoader, num_workers=2, strict=True), train(data.DataLoader)]
Path(sys.argv[2], f"{os.environ['RANK']}.json").write_text(json.dumps(answer))
dist.destroy_process_group()
