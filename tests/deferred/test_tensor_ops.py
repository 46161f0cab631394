"""Views, dtypes and arithmetic of pending tensors stay pending, and give torch's bytes."""

from __future__ import annotations

import contextlib
import multiprocessing.forkserver
import pickle
import warnings
import weakref
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.utils import data
from torchvision import io as tv_io
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as v2

import headrace as hr
from deferred.at_once import AtOnce
from deferred.test_own_code import Opens, paths
from headrace._deferred import parts
from headrace._deferred.tensor import PendingTensor

__all__ = ["paths"]  # a fixture

WORKERS = pytest.mark.parametrize("workers", [0, 1])
# More values than torch handles in one thread.
SMALL, LARGE = tv.Resize((17, 20)), tv.Resize((181, 203))
MEAN, STD = torch.tensor([0.5, 0.4, 0.3])[:, None, None], torch.tensor([[[0.2]], [[0.3]], [[0.4]]])


def opened(path: str, resize: Any = SMALL) -> Any:
    return resize(Image.open(path).convert("RGB"))


def bits(tensor: torch.Tensor) -> bytes:
    plain = tensor.as_subclass(torch.Tensor).reshape(-1).contiguous()
    return plain.view(torch.uint8).numpy().tobytes()


def same(found: Any, expected: Any) -> bool:
    """Whether two batches have the same classes, values, strides and flags."""
    if isinstance(expected, torch.Tensor):
        return (
            type(found) is type(expected)
            and found.dtype == expected.dtype
            and found.shape == expected.shape
            and found.stride() == expected.stride()
            and found.requires_grad == expected.requires_grad
            and bits(found.detach()) == bits(expected.detach())
        )
    if isinstance(expected, dict):
        return list(found) == list(expected) and all(same(found[k], expected[k]) for k in expected)
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    return bool(type(found) is type(expected) and found == expected)


def batches(kind: Any, dataset: Any, **options: Any) -> list[Any]:
    if options.get("num_workers"):
        options = {"multiprocessing_context": "fork"} | options
    loader = kind(dataset, **options)
    with contextlib.closing(loader) if kind is hr.DataLoader else contextlib.nullcontext():
        return list(loader)


def compared(dataset: Any, strict: bool = True, **options: Any) -> list[Any]:
    """All batches, which must be torch's; with ``strict`` no pixels may be made in Python."""
    expected = batches(data.DataLoader, dataset, **options)
    with warnings.catch_warnings():
        if not strict:
            warnings.filterwarnings("ignore", "headrace.DataLoader")
        found = batches(hr.DataLoader, dataset, strict=strict, **options)
    assert same(found, expected)
    return found


NORMALIZED = tv.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4])

# Operations on a tensor of floats, and on one of bytes.
FLOATS: dict[str, Callable[[Any], Any]] = {
    "from -1 to 1": lambda x: x * 2 - 1,
    "numbers first": lambda x: (2 * x - 1, 1 - x, 0.5 + x),
    "by methods": lambda x: x.mul(2.0).sub(1).add(0.25).div(3).neg(),
    "by functions": lambda x: torch.permute(torch.div(torch.sub(x, 0.5), 0.25), (1, 2, 0)),
    "a part from another": lambda x: (x - MEAN) / STD,
    "one number of a tensor": lambda x: x / torch.tensor(0.3, dtype=torch.float64),
    "doubles of a tensor": lambda x: x * torch.tensor([0.1], dtype=torch.float64),
    "zeros and infinities": lambda x: (x * -0.0, x / 0, x + float("inf"), x * float("nan")),
    "rows of pixels": lambda x: (x.permute(1, 2, 0).contiguous(), x.permute(1, 2, 0)),
    "another dimension": lambda x: (x[None], x.unsqueeze(-1), x[None].squeeze(0)),
    "a part": lambda x: (x[:, 2:9, :7], x[0], x[..., ::2], x[1:2, None], x[0, 0, 0]),
    "turned": lambda x: (x.transpose(1, 2), x.movedim(0, -1), x.swapaxes(0, 1)),
    "one row": lambda x: (x.flatten(1), x.reshape(3, -1), x.view(-1), x.flatten(start_dim=1)),
    "rows that are moved": lambda x: (x.permute(1, 2, 0).reshape(-1, 3), x[:, ::2].flatten()),
    "one behind another": lambda x: -(x.permute(2, 0, 1)[3:8] / 3)[:, 1:].transpose(0, 1) * 2,
    "a part, doubled": lambda x: (x[:, 1::2, 2:9] * 2, x.permute(1, 2, 0) * 2),
    "other dtypes": lambda x: (x.double(), x.half(), x.to(torch.bfloat16), x.to(dtype=x.dtype)),
    "doubled doubles": lambda x: x.double() * 2.1,
    "itself": lambda x: (x.float(), x.contiguous(), x.clone()),
    "a copy and a view": lambda x: (x.clone() + 1, x.clone()[0]),
    "flipped": lambda x: (x.flip(-1), x.flip(1), torch.flip(x, [1, 2]), x.flip(0), x.flip(2, 0)),
    "flipped by name": lambda x: (x.fliplr(), torch.flipud(x), x.flip(dims=(-2,)), x.flip(0, 1, 2)),
    "flipped by torchvision": lambda x: (F.hflip(x), F.vflip(x), F.hflip(x * 2), v2.hflip(x)),
    "finished, then flipped": lambda x: (v2.hflip(NORMALIZED(x)), NORMALIZED(x)[[2, 1, 0]]),
    "erased, then flipped": lambda x: F.vflip(F.erase(NORMALIZED(x), 3, 4, 5, 6, MEAN)),
    "parts flipped": lambda x: (x.permute(1, 2, 0).flip(-1), x[:, ::2].flip(1), x[0].flip(0)),
    "results flipped": lambda x: ((x * 2).flip(-1) / 3, x.flip(-1) * 2, x.flip(1).flip(-1)[0]),
    "turned by a quarter": lambda x: (torch.rot90(x, 1, [1, 2]), x.rot90(2, (1, 2)), x.rot90()),
    "channels in an order": lambda x: (x[[2, 1, 0]], x[[1, 2, 0], ...], x[[0, -1, 1], :, :]),
    "channels by a tensor": lambda x: x[torch.tensor([2, 1, 0])],
    "some channels": lambda x: (x[[0, 0, 2]], x[[1]], x[[-1, 0], 2:9] * 2, (x * 2)[[2, 1, 0]]),
    "selected": lambda x: (
        x.index_select(0, torch.tensor([2, 1, 0])),
        torch.index_select(x, -3, torch.tensor([1, 1, 2])),
        x.index_select(dim=1, index=torch.tensor([3, 0, 3], dtype=torch.int32)) * 2,
        x.permute(1, 2, 0)[1:].index_select(1, torch.tensor([4])),
        (x * 2).index_select(-1, torch.tensor([0] * 5))[0],
    ),
    "columns of a list": lambda x: (x[..., [3, 1]], x[:, [2, 0, 5], ::2], x[:, :, [0] * 5]),
    "pixels in an order": lambda x: (x.permute(1, 2, 0)[..., [2, 1, 0]], x.permute(2, 0, 1)[[1]]),
    "of one channel three": lambda x: (x[0:1].expand(3, -1, -1), x[:1].repeat(3, 1, 1), x[:1]),
    "by methods of indices": lambda x: (
        x.select(0, 1),
        x.narrow(1, 2, length=3),
        x.narrow(0, 0, 1),
    ),
    "results normalised": lambda x: (
        F.normalize(x[:1].expand(3, -1, -1), [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]),
        F.normalize(x[:1].repeat(3, 1, 1), [0.5], [0.2]),
        v2.normalize(x * 2, [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]),
        NORMALIZED(NORMALIZED(x)),
    ),
    "a tensor whose values repeat": lambda x: (
        x.add(MEAN.expand_as(x)) * STD.expand(3, *x.shape[1:])
    ),
    "compared": lambda x: (x > 0.5, (x >= 0.5).float(), x.lt(0.25), torch.ne(x, 0), x == 1),
    "compared, then converted": lambda x: ((x > 0.5).long(), x.le(1).byte(), x[0].bool()),
    "bounded": lambda x: (x.clamp(0.2, 0.6), (x * 2 - 1).clamp(min=0), torch.clip(x, max=0.5)),
    "without a sign": lambda x: ((x - 0.5).abs(), torch.abs(x * -3)),
    "bounded in place": lambda x: x.sub_(0.5).clamp_(-0.2, 0.3).abs_(),
    "as another tensor": lambda x: (
        MEAN.expand_as(x) * 2,
        x[:1].expand_as(x),
        x.reshape_as(x.view(-1)),
        x.view_as(torch.empty(x.numel())),
        x.type_as(STD.double()),
        STD.long().type_as(x),
    ),
    "of the same form": lambda x: (
        torch.zeros_like(x),
        torch.full_like(x.permute(1, 2, 0), 0.3),
        torch.ones_like(x, dtype=torch.uint8),
        tuple(torch.randn_like(x).shape),
        x.new_ones(2, 3),
        x.new_tensor([1, 2]),
        x.new(2, 3).zero_(),
        x.new().resize_(3).zero_(),
    ),
    "former names of dtypes": lambda x: (
        x.type(torch.DoubleTensor),
        x.type("torch.HalfTensor"),
        x.type(torch.float64) * 3,
        x.type(),
    ),
    "a memory format that it has": lambda x: (
        x.to(memory_format=torch.contiguous_format),
        x.to(torch.float64, memory_format=torch.preserve_format),
        x.contiguous(memory_format=torch.contiguous_format),
        x.permute(1, 2, 0).clone(memory_format=torch.preserve_format),
    ),
    "numbers of NumPy": lambda x: (
        x * np.float64(0.3),
        np.float64(0.3) - x,
        x[np.int64(1), np.int32(2) : np.int64(9)],
        x.narrow(1, np.int64(2), np.int64(3)),
    ),
}


def erased(x: Any) -> Any:
    """As programs erased before torchvision had RandomErasing."""
    x[0, 3:9, 2:7] = 0.4914
    x[1, 3:9, 2:7] = 0
    x[2, np.int64(3) : np.int64(9), 2:7] = torch.tensor(0.25)
    return x


ASSIGNED: dict[str, Callable[[Any], Any]] = {
    "a number": erased,
    "then computed with": lambda x: erased(x) * 2 - 1,
    "then seen": lambda x: (erased(x).permute(1, 2, 0), x[1:]),
    "of what was computed": lambda x: erased(x.mul_(2)),
    "a row": lambda x: x.__setitem__((slice(None), 3, slice(15)), torch.arange(15) / 3) or x,
    "all of a channel": lambda x: x.__setitem__(..., MEAN) or x,
    "behind a normalization": lambda x: erased(NORMALIZED(x)),
    "nothing": lambda x: x.__setitem__((0, slice(5, 5)), 1.0) or x,
}
OF_BYTES: dict[str, Callable[[Any], Any]] = {
    "fractions": lambda x: (x / 255, x / 255.0, x.float() / 255, x.to(torch.float32).div(255)),
    "other fractions": lambda x: (x / 254, x * (1 / 255), x.float() / 127.5 - 1, x.double() / 255),
    "bytes that wrap": lambda x: (x * 3 + 7, 5 - x, -x, x - 300, x + 2**40),
    "bytes and floats": lambda x: (x + 0.5, x * MEAN, x - torch.tensor([2], dtype=torch.int64)),
    "selected": lambda x: (
        x.index_select(0, torch.tensor([2, 1, 0])),
        torch.index_select(x, 0, torch.tensor([2, 1, 0])) / 255,
    ),
    "blue first": lambda x: (x[[2, 1, 0]], x[[2, 1, 0]].float() / 255, x.flip(0), x.flip(-1) / 255),
    "numbers of classes": lambda x: (x.long(), x[0].long(), x.to(torch.int32) * 3, x.int() / 3),
}


def of_tensor(path: str, of: Callable[[Any], Any], resize: Any) -> Any:
    return of(F.to_tensor(opened(path, resize)))


def of_bytes(path: str, of: Callable[[Any], Any], resize: Any) -> Any:
    return of(F.pil_to_tensor(opened(path, resize)).contiguous())


MADE = {name: (of_tensor, of) for name, of in FLOATS.items()}
MADE |= {name: (of_bytes, of) for name, of in OF_BYTES.items()}


MADE |= {f"assigned: {name}": (of_tensor, of) for name, of in ASSIGNED.items()}


@pytest.mark.parametrize(("resize", "workers"), [(LARGE, 0), (SMALL, 1)])
@pytest.mark.parametrize("what", MADE)
def test_views_and_arithmetic_with_numbers_are_native_with_torchs_bytes(
    paths: list[str], what: str, resize: Any, workers: int
) -> None:
    made, of = MADE[what]
    dataset = Opens(paths[:4], lambda path, index: (made(path, of, resize), index))
    compared(dataset, batch_size=3, num_workers=workers)


@pytest.mark.parametrize("what", MADE)
def test_views_and_arithmetic_on_a_single_sample_have_torchs_strides(
    paths: list[str], what: str
) -> None:
    made, of = MADE[what]
    compared(Opens(paths[:2], lambda path, index: made(path, of, SMALL)), batch_size=None)


ARRAYS: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda x: x[()],
    "a mask": lambda x: x[:, np.arange(17) % 2 == 0],
    "rows and columns": lambda x: x[:, np.array([1, 5, 2]), np.array([0, 3, 3])],
    "the last axis": lambda x: x[..., np.array([4, 0])],
    "channels": lambda x: x[np.array([2, 1, 0])],
    "a list and an array": lambda x: x[[2, 1, 0], np.array([4, 0, 1])],
    "a slice of numbers of NumPy": lambda x: x[[2, 1, 0], np.int64(2) : np.int64(9)],
}


@pytest.mark.parametrize("what", ARRAYS)
def test_an_index_may_be_of_any_type_that_torch_takes(paths: list[str], what: str) -> None:
    of = ARRAYS[what]
    dataset = Opens(paths[:4], lambda path, index: of_tensor(path, of, SMALL))
    compared(dataset, strict=False, batch_size=2)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_spawned_workers_send_derived_pending_tensors(paths: list[str], method: str) -> None:
    compared(Centred(paths), batch_size=3, num_workers=2, multiprocessing_context=method)
    if method == "forkserver":  # it would stay alive for the next processes
        multiprocessing.forkserver._forkserver._stop()  # type: ignore[attr-defined]


class Centred(data.Dataset[Any]):
    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        made = F.to_tensor(opened(self.paths[index]))
        return {"image": (made - MEAN) * 2, "first": made[0:1], "last": made[-1:]}


@WORKERS
def test_functions_in_a_compose_keep_tensors_pending(paths: list[str], workers: int) -> None:
    compose = tv.Compose([LARGE, tv.ToTensor(), tv.Lambda(lambda x: x * 2 - 1)])
    dataset = Opens(paths, lambda path, index: compose(Image.open(path).convert("RGB")))
    compared(dataset, batch_size=4, num_workers=workers)


@WORKERS
def test_bytes_divided_by_255_are_made_by_the_engine_and_can_be_normalised(
    paths: list[str], workers: int
) -> None:
    seen = []

    def read(path: str, index: int) -> Any:
        made = tv_io.read_image(path, tv_io.ImageReadMode.RGB)[:, :40, :40]
        other = F.pil_to_tensor(opened(path)).contiguous() / 255.0
        if isinstance(other, PendingTensor):
            seen.append(type(other.parts[0]))
        return made.float() / 255, F.normalize(other, [0.5], [0.2])

    compared(Opens(paths[:4], read), batch_size=2, num_workers=workers)
    assert workers or set(seen) == {parts.Part}


@pytest.mark.parametrize("workers", [0, 2])
def test_numbers_in_arithmetic_are_each_samples_own(paths: list[str], workers: int) -> None:
    def drawn(path: str, index: int) -> Any:
        return F.to_tensor(opened(path)) * (index / 7) + (index - 3)

    compared(Opens(paths, drawn), batch_size=4, num_workers=workers)


def test_positive_and_negative_zero_are_told_apart(paths: list[str]) -> None:
    def added(path: str, index: int) -> Any:
        return (F.to_tensor(opened(path)) * -0.0) + (0.0 if index % 2 else -0.0)

    compared(Opens(paths, added), batch_size=4)


def test_a_constant_has_the_values_that_it_had_when_it_was_used(paths: list[str]) -> None:
    constant = torch.zeros(3, 1, 1)

    def shifted(path: str, index: int) -> Any:
        constant.fill_(index)
        made = F.to_tensor(opened(path)) + constant
        constant.fill_(-1)
        return made

    compared(Opens(paths, shifted), batch_size=4)


@WORKERS
def test_a_batch_may_mix_pending_tensors_with_tensors_made_in_python(
    paths: list[str], workers: int
) -> None:
    def made(path: str, index: int) -> Any:
        tensor = F.to_tensor(opened(path))
        if index % 3 == 0:
            float(tensor.mean())
        return tensor * 2 if index % 2 else tensor

    compared(Opens(paths, made), strict=False, batch_size=6, num_workers=workers)


# ---- memory in common ----------------------------------------------------------------------------


def zeroed(part: Any) -> Any:
    part.zero_()
    return part


SHARING: dict[str, Callable[[Any], Any]] = {
    "a view": lambda x: (zeroed(x.permute(1, 2, 0)), x),
    "a view of a view": lambda x: (zeroed(x[None].transpose(2, 3)[..., :4]), x),
    "its views": lambda x: (x.flatten(), x[0], zeroed(x[:, :3]), x),
    "the base": lambda x: (x.view(-1), x[1], x.mul_(2)),
    "itself": lambda x: (x.float() is x, x.contiguous() is x, zeroed(x.float()), x),
    "a result": lambda x: (x * 2, x.clone(), zeroed(x)),
    "a view of a result": lambda x: ((y := x * 2), zeroed(y[0]), x, y.permute(1, 2, 0)),
    "a result of a view": lambda x: ((y := x[:, ::2] + 1), zeroed(x), y[0]),
    "two results": lambda x: (x * 2, zeroed(x * 2), x),
    "a stack": lambda x: (torch.stack([x[0], x[0]]), zeroed(x)),
    "by an index": lambda x: (x[0].__setitem__(0, 1), x, x.flatten(1)),
    "by a function of torchvision's": lambda x: (F.erase(x[:2], 1, 1, 4, 5, STD[:2], True), x),
    "a value": lambda x: ((y := x * 2), float(y[0, 1, 1]), x[0], y[0]),
    "a crop": lambda x: ((y := F.crop(x, 1, 2, 8, 9)), zeroed(y[0]), y * 2, x),
    "a flip": lambda x: ((y := x.flip(-1)), zeroed(x), y, zeroed(y[0].flip(0))),
    "channels in an order": lambda x: ((y := x[[2, 1, 0]]), zeroed(x[1:]), x[[0, 0]], y),
    "of one channel three": lambda x: ((y := x[:1].expand(3, -1, -1)), zeroed(x), y * 2),
    "in place, before a view": lambda x: (x.mul_(2).sub_(1), x[0], x * 3),
    "moved": lambda x: ((y := x.permute(1, 2, 0).reshape(-1)), zeroed(x), y),
}


@WORKERS
@pytest.mark.parametrize("what", SHARING)
def test_a_write_changes_all_views_and_no_copy(paths: list[str], what: str, workers: int) -> None:
    dataset = Opens(paths[:2], lambda path, index: SHARING[what](F.to_tensor(opened(path))))
    compared(dataset, strict=False, batch_size=None, num_workers=workers)


VIEWED: dict[str, Callable[[Any], Any]] = {
    "views": lambda x: [x[0:1], x[1:2], x.permute(1, 2, 0)],
    "base and views": lambda x: [x, x[1:2], x[None]],
    "a result and its views": lambda x: [(y := x * 2), y[0], y[1:].transpose(0, 1)],
    "views of a result": lambda x: [(y := x * 2 - 1)[0], y[0]],
    "results": lambda x: [x, x * 2, x * 2, x.clone()],
    "a stack": lambda x: [x, torch.stack([x]), torch.stack([x[0], x[1]])],
}


@WORKERS
@pytest.mark.parametrize("what", VIEWED)
def test_tensors_that_share_memory_in_torch_share_it_in_the_batch(
    paths: list[str], what: str, workers: int
) -> None:
    def changed(kind: Any) -> list[Any]:
        dataset = Opens(paths[:2], lambda path, index: VIEWED[what](F.to_tensor(opened(path))))
        found = []
        for sample in batches(kind, dataset, batch_size=None, num_workers=workers):
            for place, tensor in enumerate(sample):
                tensor.add_(place + 1)
            found.append(sample)
        return found

    assert same(changed(hr.DataLoader), changed(data.DataLoader))


@WORKERS
def test_all_views_of_an_image_are_decoded_once_into_shared_memory(
    paths: list[str], workers: int, at_once: AtOnce
) -> None:
    def channels(path: str, index: int) -> Any:
        made = F.to_tensor(opened(path, LARGE))
        return [made[0], made[1], made[2], made.permute(1, 2, 0)]

    found = compared(Opens(paths[:2], channels), batch_size=None, num_workers=workers)
    for sample in found:
        storages = {tensor.untyped_storage().data_ptr() for tensor in sample}
        assert len(storages) == 1
        assert sample[0].untyped_storage().nbytes() == 3 * 181 * 203 * 4


def test_a_batch_of_parts_of_images_takes_memory_for_these_parts_only(paths: list[str]) -> None:
    dataset = Opens(paths[:4], lambda path, index: F.to_tensor(opened(path, LARGE))[0:1])
    (batch,) = compared(dataset, batch_size=4)
    assert batch.untyped_storage().nbytes() == batch.nbytes


def test_a_worker_sends_an_image_with_many_views_once(paths: list[str]) -> None:
    sent = []

    def parted(count: int) -> Callable[[list[Any]], Any]:
        def collate(samples: list[Any]) -> Any:
            made = [torch.stack([x[n : n + 1] * 2 for x in samples]) for n in range(count)]
            sent.append(len(bytes(ForkingPickler.dumps(made))))
            return made

        return collate

    for count in (1, 3):
        dataset = Opens(paths, lambda path, index: F.to_tensor(opened(path)))
        batches(hr.DataLoader, dataset, batch_size=12, collate_fn=parted(count), strict=True)
    assert sent[1] < sent[0] + 2 * 12 * 80


# ---- when, where and by whom ---------------------------------------------------------------------

WRONG: dict[str, Callable[[Any], Any]] = {
    "an index": lambda x: x[3],
    "an index behind another": lambda x: x.permute(1, 2, 0)[0, 99],
    "too many": lambda x: x[0, 0, 0, 0],
    "a shape": lambda x: x.view(7, -1),
    "a view of what is turned": lambda x: x.permute(1, 2, 0).view(-1),
    "dimensions": lambda x: x.permute(0, 1),
    "a dimension": lambda x: x.unsqueeze(9),
    "a list": lambda x: x[[0, 3]],
    "a list of another axis": lambda x: x[..., [0, -99]],
    "a place to select": lambda x: x.index_select(0, torch.tensor([0, 3])),
    "a place to select, counted from the end": lambda x: x.index_select(0, torch.tensor([-1])),
    "fractions to select": lambda x: x.index_select(0, torch.tensor([0.0])),
    "an axis to select from": lambda x: x.index_select(3, torch.tensor([0])),
    "places to select in two axes": lambda x: x.index_select(0, torch.tensor([[0]])),
    "an axis twice": lambda x: x.flip(1, -2),
    "an axis that is not there": lambda x: x.flip(3),
    "fractions of bytes in place": lambda x: x.to(torch.uint8).div_(2),
    "more axes in place": lambda x: x.mul_(torch.ones(2, 3, 1, 1)),
    "a part too long": lambda x: x.narrow(1, 9, 99),
    "a step": lambda x: x[::-1],
    "a large number": lambda x: x.mul(2**70),
    "shapes": lambda x: x + torch.ones(5),
    "a place to assign to": lambda x: x.__setitem__((0, 99), 1),
    "a shape to assign": lambda x: x.__setitem__(0, torch.ones(5)),
    "a number too large to assign": lambda x: x.to(torch.uint8).__setitem__(0, 2**40),
    "a shape to assign to a list": lambda x: x.__setitem__([0, 1], torch.ones(3, 1, 1)),
    "a dtype to assign to a list": lambda x: x.to(torch.uint8).__setitem__(
        [0, 1], torch.tensor(0.5)
    ),
    "three means of one channel": lambda x: F.normalize(x[:1], [0.5] * 3, [0.5] * 3),
    "bounds": lambda x: x.clamp(),
    "a form": lambda x: torch.ones(2, 1, 1).expand_as(x),
    "a former name": lambda x: x.type("torch.NoTensor"),
}


@WORKERS
@pytest.mark.parametrize("what", WRONG)
def test_an_operations_error_is_torchs_and_is_raised_in_the_datasets_own_code(
    paths: list[str], what: str, workers: int
) -> None:
    def tried(path: str, index: int) -> Any:
        made = F.to_tensor(opened(path))
        try:
            return WRONG[what](made), "no error"
        except (IndexError, RuntimeError, ValueError, OverflowError) as error:
            return type(error).__name__, str(error)

    ((kind, told), *_) = compared(
        Opens(paths[:1], tried), strict=False, batch_size=None, num_workers=workers
    )
    assert kind.endswith("Error")
    assert told


def test_shape_dtype_and_strides_are_known_without_values(paths: list[str]) -> None:
    def asked(path: str, index: int) -> Any:
        made = F.to_tensor(opened(path)).permute(1, 2, 0)[2:, ::3].double()
        kind = str(made.dtype)
        return made.stride(), tuple(made.shape), kind, made.is_contiguous(), len(made), made.dim()

    compared(Opens(paths[:2], asked), batch_size=None)


OF_TV_TENSORS: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: x * 2,
    "a part": lambda x: x[:, 1:9],
    "a dtype": lambda x: x.to(torch.float64),
    "the same dtype": lambda x: x.to(torch.float32),
    "floats": lambda x: x.float(),
    "a copy": lambda x: x.clone(),
    "rows of pixels": lambda x: x.permute(1, 2, 0),
    "wrapped again": lambda x: tv_tensors.wrap(x * 2, like=x),
    "plain": lambda x: x.as_subclass(torch.Tensor)[0],
}


KEPT = ("a dtype", "the same dtype", "a copy", "wrapped again")


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("what", OF_TV_TENSORS)
@WORKERS
def test_a_tv_tensor_image_keeps_its_class_where_torchvision_keeps_it(
    paths: list[str], what: str, kept: bool, workers: int
) -> None:
    def made(path: str, index: int) -> Any:
        image = tv_tensors.Image(F.to_tensor(opened(path)))
        with tv_tensors.set_return_type("TVTensor" if kept else "Tensor"):
            return OF_TV_TENSORS[what](image)

    found = compared(Opens(paths[:3], made), batch_size=2, num_workers=workers, collate_fn=list)
    is_image = what != "plain" and (kept or what in KEPT)
    assert isinstance(found[0][0], tv_tensors.Image) == is_image


def test_a_tensor_that_outlives_its_batch_has_values(paths: list[str]) -> None:
    kept: list[Any] = []

    def keeping(path: str, index: int) -> Any:
        made = F.to_tensor(opened(path))
        before = kept[-1] if kept else made
        kept.append(made)
        view = before[0]
        before.add_(1)
        return view, before * 2

    expected = batches(data.DataLoader, Opens(paths, keeping), batch_size=2)
    kept.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert same(batches(hr.DataLoader, Opens(paths, keeping), batch_size=2), expected)


class Collates:
    """A program's own collate function."""

    def __init__(self, made: Callable[[list[Any]], Any]) -> None:
        self.made = made

    def __call__(self, samples: list[Any]) -> Any:
        return self.made(samples)


COLLATED: dict[str, Callable[[list[Any]], Any]] = {
    "stacks what it makes": lambda xs: torch.stack([x.permute(1, 2, 0) * 2 for x in xs]),
    "changes what it stacked": lambda xs: torch.stack([x - 1 for x in xs]).permute(0, 2, 3, 1) / 2,
    "joins": lambda xs: torch.cat([x[None] * 2 for x in xs]),
    "changes samples": lambda xs: torch.stack([x[0:1].mul_(3) for x in xs]),
    "lists": lambda xs: [x * 2 for x in xs] + [x[0] for x in xs],
}


@WORKERS
@pytest.mark.parametrize("what", COLLATED)
def test_a_collate_function_may_use_views_and_arithmetic(
    paths: list[str], what: str, workers: int
) -> None:
    dataset = Opens(paths[:6], lambda path, index: F.to_tensor(opened(path)) * 2)
    collate = Collates(COLLATED[what])
    compared(dataset, strict=False, batch_size=3, collate_fn=collate, num_workers=workers)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="pinned memory needs a device")
def test_batches_of_derived_tensors_are_pinned(paths: list[str]) -> None:
    def made(path: str, index: int) -> Any:
        tensor = F.to_tensor(opened(path))
        return tensor * 2, tensor[0]

    for batch in batches(hr.DataLoader, Opens(paths, made), batch_size=3, pin_memory=True):
        assert all(tensor.is_pinned() for tensor in batch)


def test_the_number_of_torchs_threads_stays_unchanged(paths: list[str]) -> None:
    before = torch.get_num_threads()
    dataset = Opens(paths, lambda path, index: F.to_tensor(opened(path, LARGE)) * 2 - 1)
    for _ in batches(hr.DataLoader, dataset, batch_size=4):
        assert torch.get_num_threads() == before


def test_a_bad_file_is_found_where_the_program_catches_its_error_also_after_arithmetic(
    paths: list[str], tmp_path: Any
) -> None:
    cut = tmp_path / "cut.jpg"
    content = Path(paths[0]).read_bytes()
    cut.write_bytes(content[: len(content) // 2])

    def made(path: str, index: int) -> Any:
        try:
            return F.to_tensor(opened(path)) * 2
        except OSError:
            return torch.zeros(3, 17, 20)

    compared(Opens([*paths[:3], str(cut)], made), strict=False, batch_size=4)


def test_explain_calls_views_and_arithmetic_native(paths: list[str]) -> None:
    dataset = Opens(paths, lambda path, index: (F.to_tensor(opened(path)) * 2 - 1)[None])
    with contextlib.closing(hr.DataLoader(dataset, 2)) as loader:
        assert loader.explain().native


# ---- any of them ---------------------------------------------------------------------------------

# Recorded or not, of a tensor of any shape with one value at least.
CHAINED: dict[str, Callable[[Any], Any]] = {
    **{f"times {n}": lambda x, n=n: x * n for n in (2, -3, 0.1)},
    "less 0.5": lambda x: x.sub(0.5),
    "of 1": lambda x: 1 - x,
    "by 3": lambda x: x / 3,
    "by 255": lambda x: x / 255,
    "negative": lambda x: -x,
    "by a tensor": lambda x: x * torch.tensor([0.3]),
    "floats": lambda x: x.float(),
    "doubles": lambda x: x.to(torch.float64),
    "halves": lambda x: x.half(),
    "bytes": lambda x: x.to(torch.uint8) if not x.is_floating_point() else x,
    "another axis": lambda x: x[None],
    "no axes of one": lambda x: x.squeeze(),
    "turned": lambda x: x.permute(*reversed(range(x.dim()))),
    "half of it": lambda x: x[..., : (x.shape[-1] + 1) // 2] if x.dim() else x,
    "every other": lambda x: x[::2] if x.dim() else x,
    "first": lambda x: x[0] if x.dim() > 1 else x,
    "flat": lambda x: x.flatten(),
    "in two": lambda x: x.reshape(-1, 1),
    "rows": lambda x: x.contiguous(),
    "a copy": lambda x: x.clone(),
    "clamped": lambda x: x.clamp(0, 2),
    "flipped": lambda x: x.flip(0) if x.dim() else x,
    "flipped at the end": lambda x: x.flip(-1) if x.dim() else x,
    "a list of it": lambda x: x[[-1, 0]] if x.dim() else x,
    "the end by a list": lambda x: x[..., [0, -1, 0]] if x.dim() else x,
    "two of one": lambda x: x[None].expand(2, *x.shape),
    "repeated": lambda x: x.repeat(2, *[1] * (x.dim() - 1)) if x.dim() else x,
    "absolute": lambda x: x.abs(),
    "two in a stack": lambda x: torch.stack([x, x * 2]),
    "itself in a stack": lambda x: torch.stack([x, x]),
    "stacks joined": lambda x: torch.cat([torch.stack([x, x]), torch.stack([x])[[0, 0]]]),
    "the last part": lambda x: x.chunk(2)[-1] if x.dim() else x,
    "the last of all": lambda x: [*x][-1] if x.dim() else x,
    "ends": lambda x: x.split(2, -1)[0] if x.dim() else x,
    "channels last": lambda x: (
        x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
    ),
}
WRITES: dict[str, Callable[[Any], Any]] = {
    "zeroed": lambda x: x if 0 in x.stride() else x.zero_(),
    "added to": lambda x: x.clone() if 0 in x.stride() else x.add_(1),
    "less a half": lambda x: x.sub_(0.5) if x.is_floating_point() and 0 not in x.stride() else x,
    "first set": lambda x: x[..., :1].fill_(2) if x.dim() and 0 not in x.stride() else x,
    "row set": lambda x: x.view(-1).__setitem__(0, 3) if x.is_contiguous() else x,
}


class Chained(data.Dataset[Any]):
    """Makes tensors of one another: each op takes one of those made so far, and some are written to
    in between or at the end."""

    def __init__(self, paths: list[str], steps: list[tuple[str, int]], wanted: list[int]) -> None:
        self.paths, self.steps, self.wanted = paths, steps, wanted

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        image = opened(self.paths[index])
        made = [F.to_tensor(image), F.pil_to_tensor(image).contiguous()]
        for name, of in self.steps:
            taken = made[of % len(made)]
            if name in WRITES:
                WRITES[name](taken)
            else:
                made.append(CHAINED[name](taken))
        return [made[place % len(made)] for place in self.wanted]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:headrace.DataLoader")
@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(
        st.tuples(st.sampled_from([*CHAINED, *CHAINED, *WRITES]), st.integers(0, 9)), max_size=7
    ),
    st.lists(st.integers(0, 9), min_size=1, max_size=4),
    st.sampled_from([None, 2]),
    st.sampled_from([0, 0, 0, 1]),
)
def test_any_chain_of_ops_and_writes_gives_torchs_bytes(
    paths: list[str],
    steps: list[tuple[str, int]],
    wanted: list[int],
    batch_size: int | None,
    workers: int,
) -> None:
    dataset = Chained(paths[:3], steps, wanted)
    found, expected = (
        batches(kind, dataset, batch_size=batch_size, num_workers=workers)
        for kind in (hr.DataLoader, data.DataLoader)
    )
    assert same(found, expected)
    for tensors in (found, expected):
        for place, tensor in enumerate(one for batch in tensors for one in batch):
            if 0 not in tensor.stride():
                tensor.add_(place % 5 + 1)
    assert same(found, expected), "written to later, one is not seen in another"


def in_a_long_chain(x: Any, step: Callable[[Any], Any]) -> Any:
    for _ in range(1500):
        x = step(x)
    return x


LONG: dict[str, Callable[[Any], Any]] = {
    "views": lambda x: (x, (y := in_a_long_chain(x, lambda x: x[None][0])), zeroed(y[1:])),
    "results": lambda x: (zeroed(x[0]), (y := in_a_long_chain(x, lambda x: x + 1)), zeroed(y[1:])),
    "flips": lambda x: in_a_long_chain(x * 2, lambda x: x.flip(-1)),
}


@WORKERS
@pytest.mark.parametrize("what", LONG)
def test_a_chain_of_fifteen_hundred_ops_gives_torchs_bytes(
    paths: list[str], what: str, workers: int
) -> None:
    dataset = Opens(paths[:1], lambda path, index: LONG[what](F.to_tensor(opened(path))))
    compared(dataset, strict=False, batch_size=None, num_workers=workers)


def test_intermediate_results_are_freed_with_their_sample(
    paths: list[str],
) -> None:
    made: list[Any] = []
    alive: list[int] = []

    def asked(path: str, index: int) -> Any:
        alive.append(sum(known() is not None for known in made))
        first = F.to_tensor(opened(path))
        made.append(weakref.ref(first))
        return float((first * 2).sum())

    compared(Opens(paths[:6], asked), strict=False, batch_size=6)
    assert max(alive) <= 1


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.permutations([0, 1, 2]),
    st.sampled_from([(3, 181, 203), (7, 1, 33000), (40000, 1, 1), (2, 130, 129)]),
    st.integers(0, 3),
)
def test_ops_applied_block_by_block_give_the_bytes_of_the_whole(
    order: list[int], shape: tuple[int, ...], step: int
) -> None:
    whole = torch.from_numpy(np.random.default_rng(1).random(shape, np.float32)).permute(*order)
    whole = whole[:: step + 1]
    expected = whole * 2.1 / 3 - 0.7
    made = torch.empty_strided(expected.shape, expected.stride())
    op = parts.TensorOp("mul", (2.1,), (), False, True, (), torch.float32, (), False)
    ops = (op, op._replace(name="div", arguments=(3,)), op._replace(name="sub", arguments=(0.7,)))
    parts.fill(made, whole, ops)
    assert made.numpy().tobytes() == expected.numpy().tobytes()


def test_recorded_tensor_ops_can_be_pickled() -> None:
    op = parts.TensorOp("mul", (2,), (), False, True, (1,), torch.float32, (1,), True)
    assert pickle.loads(pickle.dumps(op)) == op
