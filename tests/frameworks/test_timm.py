"""timm: its prefetcher, models, optimizers and schedules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import timm
import timm.data
import timm.loss
import timm.optim
import torch
import torchvision
from frameworks_support import FOLDER, learns
from torchvision import transforms as tv

import headrace as hr

BYTES = tv.Compose([tv.RandomResizedCrop(64), tv.RandomHorizontalFlip(), tv.PILToTensor()])


def test_a_timm_model_learns(photographs: Path, example: Callable[[str], ModuleType]) -> None:
    assert learns(example("timm_training").train(str(photographs), 3))


def test_timms_prefetcher_gives_the_same_batches_as_timms_own_loader(
    photographs: Path, example: Callable[[str], ModuleType]
) -> None:
    dataset = hr.Dataset(photographs)
    ours = example("timm_training").loader_for(dataset, training=False, size=56, batch_size=10)
    folder = torchvision.datasets.ImageFolder(FOLDER)
    theirs = timm.data.create_loader(
        folder,
        input_size=(3, 56, 56),
        batch_size=10,
        interpolation="bicubic",
        crop_pct=0.875,
        num_workers=0,
        device=torch.device("cpu"),
    )
    assert len(ours) == len(theirs) == 26
    assert len(ours.dataset) == len(theirs.dataset) == 256
    for (a, b), (c, d) in zip(ours, theirs, strict=True):
        assert torch.equal(a, c)
        assert torch.equal(b, d)
    ours.loader.close()
    dataset.close()


def test_the_drop_in_fulfils_the_contract_of_timms_training_loader() -> None:
    """FastCollateMixup, which a script switches off; RepeatAugSampler; set_epoch; the
    prefetcher."""
    photographs = torchvision.datasets.ImageFolder(FOLDER, BYTES)
    sampler = timm.data.distributed_sampler.RepeatAugSampler(photographs, num_replicas=2, rank=1)
    mixup = timm.data.FastCollateMixup(mixup_alpha=0.8, num_classes=11)
    own = hr.DataLoader(
        photographs, 16, sampler=sampler, collate_fn=mixup, drop_last=True, strict=True
    )
    loader = timm.data.loader.PrefetchLoader(own, device=torch.device("cpu"))
    assert loader.sampler is sampler
    assert loader.dataset is photographs
    assert len(loader) == len(sampler) // 16
    torch.manual_seed(0)
    model = timm.create_model("test_resnet", num_classes=11)
    optimizer = timm.optim.create_optimizer_v2(model, "adamw", lr=2e-3)
    hard, soft = torch.nn.CrossEntropyLoss(), timm.loss.SoftTargetCrossEntropy()
    orders = []
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        loader.mixup_enabled = epoch < 2  # as in timm's train.py near the end
        assert loader.mixup_enabled == (epoch < 2)
        orders.append([photographs.targets[index] for index in sampler])
        for step, (images, labels) in enumerate(loader):
            assert images.shape == (16, 3, 64, 64)
            assert labels.shape == (16, 11)  # soft labels, also if nothing is mixed
            classes = orders[-1][16 * step :][:16]
            if epoch == 2:
                assert labels.argmax(1).tolist() == classes
            loss = soft(model(images), labels)
            assert torch.isfinite(loss)
            assert torch.isfinite(hard(model(images), labels.argmax(1)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert orders[0] != orders[1] != orders[2]
    own.close()


def test_the_drop_in_with_timms_collate_gives_the_same_batches_as_torchs_loader() -> None:
    fixed = tv.Compose([tv.Resize(64), tv.CenterCrop(56), tv.PILToTensor()])
    photographs = torchvision.datasets.ImageFolder(FOLDER, fixed)
    options = {"batch_size": 10, "collate_fn": timm.data.loader.fast_collate}
    own = hr.DataLoader(photographs, **options, strict=True)
    theirs = torch.utils.data.DataLoader(photographs, **options)
    cpu = torch.device("cpu")
    found = [timm.data.loader.PrefetchLoader(each, device=cpu) for each in (own, theirs)]
    for (a, b), (c, d) in zip(*found, strict=True):
        assert torch.equal(a, c)
        assert torch.equal(b, d)
    own.close()
