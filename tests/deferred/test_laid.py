"""What a program does to tensors by shape and numbers alone is native, with torch's values."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from PIL import Image
from torch.utils import data
from torchvision.transforms.v2 import functional as F2

import headrace as hr
from deferred.test_own_code import Opens, equal, paths

__all__ = ["paths"]  # a fixture

SMALL = tv.Compose([tv.Resize((17, 20)), tv.ToTensor()])
BYTES = tv.Compose([tv.Resize((17, 20)), tv.PILToTensor()])
NORMALIZED = tv.Compose([*SMALL.transforms, tv.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))])
INPLACE = tv.Normalize([0.5] * 3, [0.2] * 3, inplace=True)


def opened(path: str) -> Any:
    return Image.open(path).convert("RGB")


def scaled(tensor: Any) -> Any:
    tensor.sub_(0.5)
    tensor /= 0.5
    return tensor


# What becomes of a tensor of floats, and of one of bytes.
FLOATS: dict[str, Callable[[Any], Any]] = {
    "from -1 to 1": lambda x: (x * 2) - 1,
    "numbers first": lambda x: (2 * x - 1, 1 - x, 0.5 + x),
    "scaled by methods": lambda x: x.mul(2.0).sub(1).add(0.25, alpha=2).clamp(-0.5, 1),
    "changed in place": scaled,
    "normalised in place": lambda x: INPLACE(x),
    "rows of pixels": lambda x: x.permute(1, 2, 0).contiguous(),
    "another dimension": lambda x: (x[None], x.unsqueeze(0), x[None].squeeze(0)),
    "blue first": lambda x: (x[[2, 1, 0]], x[[2, 1, 0], :, :], x.flip(0)),
    "a part": lambda x: (x[:, 2:9, :7], x[0], x[..., ::2]),
    "turned": lambda x: x.transpose(1, 2).flip(-1),
    "one row": lambda x: (x.flatten(1), x.reshape(3, -1), x.view(-1)),
    "a step behind another": lambda x: -(x.permute(2, 0, 1)[3:8] / 3),
}
OF_BYTES: dict[str, Callable[[Any], Any]] = {
    "divided": lambda x: (x / 255.0, x.float() / 255, x.float().div(127.5).sub(1)),
    "bytes that wrap": lambda x: x * 3 + 7,
    "another dtype": lambda x: (x.to(torch.float32), x.to(torch.float64), x.to(torch.uint8)),
}
MADE: dict[str, Callable[[str], Any]] = {
    **{name: lambda path, of=of: of(SMALL(opened(path))) for name, of in FLOATS.items()},
    **{name: lambda path, of=of: of(BYTES(opened(path))) for name, of in OF_BYTES.items()},
    "clips": lambda path: torch.stack([SMALL(opened(path))] * 4).permute(1, 0, 2, 3) * 2 - 1,
    "finished, then turned": lambda path: F2.vflip(F2.hflip(NORMALIZED(opened(path)))),
    "finished, then cropped": lambda path: F2.crop(NORMALIZED(opened(path)), 3, 4, 10, 12),
    "not scaled": lambda path: F2.to_dtype(BYTES(opened(path)), torch.float32),
    "doubles": lambda path: F.convert_image_dtype(BYTES(opened(path)), torch.float64),
    "ten crops": lambda path: torch.stack(
        [F.to_tensor(crop) * 2 for crop in F.ten_crop(opened(path).resize((30, 30)), 20)]
    ),
}


def batches(kind: Any, dataset: Any, **options: Any) -> list[Any]:
    loader = kind(dataset, **options)
    with contextlib.closing(loader) if kind is hr.DataLoader else contextlib.nullcontext():
        return list(loader)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("what", MADE)
def test_views_and_arithmetic_with_numbers_are_native_with_torchs_values(
    paths: list[str], what: str, workers: int
) -> None:
    dataset = Opens(paths, lambda path, index: (MADE[what](path), index))
    options: dict[str, Any] = {"batch_size": 3, "num_workers": workers}
    if workers:
        options["multiprocessing_context"] = "fork"
    expected = batches(data.DataLoader, dataset, **options)
    assert equal(batches(hr.DataLoader, dataset, strict=True, **options), expected)


def test_collate_functions_may_lay_out_what_they_stack(paths: list[str]) -> None:
    def collate(samples: list[Any]) -> Any:
        return torch.stack(samples).permute(0, 2, 3, 1) * 2, torch.stack(samples)[:, None]

    dataset = Opens(paths, lambda path, index: SMALL(opened(path)))
    options: dict[str, Any] = {"batch_size": 3, "collate_fn": collate}
    expected = batches(data.DataLoader, dataset, **options)
    assert equal(batches(hr.DataLoader, dataset, strict=True, **options), expected)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_collate_function_that_changes_tensors_and_then_needs_values_changes_them_once(
    paths: list[str], workers: int
) -> None:
    dataset = Opens(paths, lambda path, index: SMALL(opened(path)))
    options: dict[str, Any] = {"batch_size": 3, "collate_fn": changing, "num_workers": workers}
    if workers:
        options["multiprocessing_context"] = "fork"
    expected = batches(data.DataLoader, dataset, **options)
    assert equal(batches(hr.DataLoader, dataset, **options), expected)


def changing(samples: list[Any]) -> Any:
    return torch.cat([INPLACE(sample).mul_(2) for sample in samples])


def zeroed(part: Any) -> Any:
    part.zero_()
    return part


SHARING: dict[str, Callable[[Any], Any]] = {
    "a view": lambda x: (zeroed(x.permute(1, 2, 0)), x)[1],
    "a view of a view": lambda x: (zeroed(x[None].transpose(2, 3)[..., :4]), x)[1],
    "its views": lambda x: (x.flatten(), x[0], zeroed(x[:, :3]))[:2],
    "what it was changed to": lambda x: (x.view(-1), x.mul_(2))[0],
    "itself": lambda x: (x.float() is x, x.contiguous() is x, zeroed(x.float()), x)[::3],
    "a result": lambda x: (x * 2, x.clone(), x[[2, 1, 0]], zeroed(x))[:3],
    "a stack": lambda x: (torch.stack([x, x]), zeroed(x))[0],
    "normalised in place behind a view": lambda x: (x[0], INPLACE(x)),
}


@pytest.mark.parametrize("what", SHARING)
def test_a_write_is_seen_in_views_and_in_no_copy(paths: list[str], what: str) -> None:
    dataset = Opens(paths, lambda path, index: SHARING[what](SMALL(opened(path))))
    expected = batches(data.DataLoader, dataset, batch_size=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = batches(hr.DataLoader, dataset, batch_size=None)
    assert equal(found, expected)


def test_a_stack_keeps_the_values_that_a_plain_tensor_in_it_had(paths: list[str]) -> None:
    buffer = torch.zeros(3, 17, 20)

    def stacked(path: str, index: int) -> Any:
        buffer.fill_(index)
        made = torch.stack([SMALL(opened(path)), buffer])
        buffer.fill_(-1)
        return made

    expected = batches(data.DataLoader, Opens(paths, stacked), batch_size=2)
    assert equal(batches(hr.DataLoader, Opens(paths, stacked), batch_size=2), expected)


def test_a_view_has_torchs_strides_before_it_has_values(paths: list[str]) -> None:
    def asked(path: str, index: int) -> Any:
        turned = SMALL(opened(path)).permute(1, 2, 0)
        return turned.stride(), turned.is_contiguous(), turned.shape, len(turned)

    expected = batches(data.DataLoader, Opens(paths, asked), batch_size=None)
    assert equal(batches(hr.DataLoader, Opens(paths, asked), batch_size=None), expected)
