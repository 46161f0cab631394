"""Tensors to come that a program trains on: views, leaves and errors of autograd are torch's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from torch.utils import data
from torchvision import datasets, tv_tensors

import headrace as hr
from deferred.test_own_code import Opens, paths
from deferred.test_tensor_ops import WORKERS, compared, opened, same

__all__ = ["paths"]  # a fixture


def weight() -> torch.Tensor:
    return torch.full((1,), 0.5, requires_grad=True)


def leaf(x: Any, of: Callable[[Any, Any], Any]) -> Any:
    """The gradient of what a program makes of a tensor, and of a view that was made before."""
    view = x[0]
    x.requires_grad_()
    of(x, view).sum().backward()
    return x.grad, view.requires_grad


def told(x: Any, *others: Any) -> tuple[Any, ...]:
    """What autograd says of tensors."""
    return tuple(
        (one.requires_grad, one.is_leaf, one._is_view(), one._base is x, type(one.grad_fn).__name__)
        for one in (x, *others)
    )


def in_place(x: Any, view: Any) -> Any:
    """Writes what has a gradient to a view; the tensor and its other views have it then, too."""
    other = x[1]
    by = weight()
    view.mul_(by)
    (x.sum() + other.sum()).backward()
    return by.grad, told(x, view, other)


def without_gradients(x: Any) -> Any:
    """Views whose values are first asked for where gradients are off."""
    view, copy = x[0], (x * 2)[1]
    with torch.no_grad():
        float(x.sum())
    by = weight()
    (view.mul_(by).sum() + copy.add_(by).sum()).backward()
    return by.grad


def inferred(x: Any) -> Any:
    view = x[0]
    with torch.inference_mode():
        float(x.sum())
    by = weight()
    view.mul_(by).sum().backward()
    return by.grad


def untouched(x: Any) -> Any:
    """A write to one tensor between the forward and the backward pass of another one."""
    other, by = x * 2, weight()
    loss = (x * by).sum()
    other.mul_(3)
    loss.backward()
    return by.grad, other


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "a leaf": lambda x: leaf(x, lambda x, view: x * x),
    "a view from before": lambda x: leaf(x, lambda x, view: x.sum() + view * 3),
    "a write to a view of a leaf": lambda x: leaf(x, lambda x, view: view.mul_(2)),
    "a write to a leaf": lambda x: leaf(x, lambda x, view: x.mul_(2)),
    "a view that is a leaf": lambda x: (
        (view := x[0]).requires_grad_(),
        (view * view).sum().backward(),
        view.grad,
        told(x, view),
    )[2:],
    "by the attribute": lambda x: (
        setattr(view := x.permute(1, 2, 0), "requires_grad", True),
        (view * 3).sum().backward(),
        view.grad,
    )[2:],
    "a write to a view": lambda x: in_place(x, x[0]),
    "a write to a view of a view": lambda x: in_place(x, x[0][2:].T),
    "a write to a view of a copy": lambda x: in_place(y := x * 2, y[0]),
    "a view times a weight": lambda x: ((x[0] * weight()).requires_grad, told(x, x[0])),
    "a weight times a view": lambda x: told(x, weight() * x[0]),
    "a view assigned to": lambda x: (x[0].__setitem__(0, weight()[0]), told(x))[1:],
    "detached": lambda x: (told(x, x[0].detach()), told(x, x.data, x[0].data)),
    "where gradients are off": without_gradients,
    "in inference": inferred,
    "a write to another tensor": untouched,
    "an image of tv_tensors": lambda x: (
        told(x, image := tv_tensors.Image(x)),
        image.requires_grad_() is image,
        told(x, image),
    ),
    "the same class": lambda x: (
        (y := x.as_subclass(torch.Tensor)).requires_grad_().requires_grad,
        y.unsqueeze_(0).shape,
        told(x, y),
        x,
    ),
    "a parameter": lambda x: told(torch.nn.Parameter(x), x),
    "of bytes": lambda x: x.to(torch.uint8)[0].requires_grad_(),
    "a hook": lambda x: x[0].register_hook(print),
}


def done(program: Callable[[Any], Any], x: Any) -> Any:
    try:
        return program(x)
    except RuntimeError as error:
        return str(error)


SEVERAL: dict[str, Callable[[Any], Any]] = {
    "a write to a result of unbind": lambda x: in_place(x, x.unbind()[0]),
    "a write to a row": lambda x: in_place(x, [*x][2]),
    "a write to a view of a chunk": lambda x: in_place(x, x.chunk(2, 1)[1][0]),
    "a write to a part of a copy": lambda x: in_place(y := x * 2, y.split(9, dim=2)[-1]),
}


@WORKERS
@pytest.mark.parametrize("what", PROGRAMS | SEVERAL)
def test_a_dataset_that_computes_gradients_has_torchs(
    paths: list[str], what: str, workers: int
) -> None:
    def of(path: str, index: int) -> Any:
        return done((PROGRAMS | SEVERAL)[what], F.to_tensor(opened(path)))

    compared(Opens(paths[:2], of), strict=False, batch_size=None, num_workers=workers)


def several(path: str, index: int) -> Any:
    """What shares memory in torch: a tensor, its views, a copy and a view of that."""
    x = F.to_tensor(opened(path))
    copy = x * 2
    return x, x[0], x.permute(1, 2, 0), copy, copy[1]


@contextlib.contextmanager
def batch_of(kind: Any, paths: list[str], gradients: bool, **options: Any) -> Any:
    loader = kind(Opens(paths[:2], several), **options)
    with contextlib.closing(loader) if kind is hr.DataLoader else contextlib.nullcontext():
        with torch.set_grad_enabled(gradients):
            made = next(iter(loader))
        yield made


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("batch_size", [None, 2])
@pytest.mark.parametrize("what", PROGRAMS)
def test_a_training_loop_that_computes_gradients_has_torchs(
    paths: list[str], what: str, batch_size: int | None, gradients: bool
) -> None:
    found = []
    for kind in (hr.DataLoader, data.DataLoader):
        with batch_of(kind, paths, gradients, batch_size=batch_size) as batch:
            found.append([done(PROGRAMS[what], one) for one in batch])
    # torch refuses writes to views that the dataset has made without gradients; ours come later.
    refused = "in no_grad mode"
    if not gradients and refused in str(found[1]):
        assert refused not in str(found[0])
    else:
        assert same(*found)


WRITES: dict[str, Callable[..., Any]] = {
    "to all": lambda x, view, turned, copy, part: x,
    "to a view": lambda x, view, turned, copy, part: view,
    "to another view": lambda x, view, turned, copy, part: turned,
    "to a copy": lambda x, view, turned, copy, part: copy,
    "to a view of a copy": lambda x, view, turned, copy, part: part,
}


def written(paths: list[str], what: str, required: bool, **options: Any) -> list[Any]:
    """What autograd says after a write to one of the tensors: with our loader, and with torch's."""
    found = []
    for kind in (hr.DataLoader, data.DataLoader):
        with batch_of(kind, paths, True, **options) as batch:
            by = weight()
            one = WRITES[what](*batch)
            if required:
                one.requires_grad_()
            error = done(lambda one, by=by: told(one.mul_(by)), one)
            found.append([error, *(told(one) for one in batch), [one.detach() for one in batch]])
    return found


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("what", WRITES)
@pytest.mark.parametrize("batch_size", [None, 2])
def test_a_write_with_gradients_is_known_to_the_tensors_that_share_memory_in_torch(
    paths: list[str], what: str, batch_size: int | None, required: bool
) -> None:
    assert same(*written(paths, what, required, batch_size=batch_size))


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("what", WRITES)
def test_tensors_that_a_worker_process_sends_share_memory_but_are_no_views_of_one_another(
    paths: list[str], what: str, required: bool
) -> None:
    assert same(*written(paths, what, required, batch_size=None, num_workers=1))


CUTS: dict[str, Callable[[Any], Any]] = {
    "unbind": lambda x: x.unbind(),
    "unbind the last axis": lambda x: torch.unbind(x[:, :, :3], -1),
    "rows": lambda x: [*x],
    "chunk": lambda x: x.chunk(3, dim=1),
    "one chunk": lambda x: x.chunk(1),
    "split": lambda x: torch.split(x * 2, [4, 5, 8], 1),
    "split a view": lambda x: x.permute(1, 2, 0).split(7),
    "parts of parts": lambda x: [part.chunk(2)[1][0] for part in x],
}


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("what", CUTS)
def test_a_write_with_gradients_to_one_of_several_views_is_refused_as_in_torch(
    paths: list[str], what: str, required: bool
) -> None:
    def of(path: str, index: int) -> Any:
        return CUTS[what](F.to_tensor(opened(path)))

    found = []
    for kind in (hr.DataLoader, data.DataLoader):
        loader = kind(Opens(paths[:1], of), batch_size=None)
        with contextlib.closing(loader) if kind is hr.DataLoader else contextlib.nullcontext():
            (batch,) = loader
        plain = [done(lambda one=one: one.mul_(2), one) for one in batch]
        if required:
            batch[0]._base.requires_grad_()
        by = weight()
        found.append([plain, *(done(lambda one, by=by: told(one.mul_(by)), one) for one in batch)])
    assert "returns multiple views" in str(found[1])
    assert same(*found)


def of_its_class(x: Any) -> Any:
    return x.as_subclass(torch.Tensor)


@pytest.mark.parametrize("batch_size", [None, 1])
@pytest.mark.parametrize(
    "view", [of_its_class, tv_tensors.Image, lambda x: of_its_class(of_its_class(x))[...]]
)
def test_a_view_of_a_whole_tensor_is_one_also_if_nobody_has_that_tensor_any_more(
    paths: list[str], view: Callable[[Any], Any], batch_size: int | None
) -> None:
    def of(path: str, index: int) -> Any:
        early = view(F.to_tensor(opened(path)))
        early.sum()
        return view(F.to_tensor(opened(path))), early

    found = []
    for kind in (hr.DataLoader, data.DataLoader):
        loader = kind(Opens(paths[:2], of), batch_size=batch_size, collate_fn=lambda one: one)
        with contextlib.closing(loader) if kind is hr.DataLoader else contextlib.nullcontext():
            batches = [batch if batch_size is None else batch[0] for batch in loader]
        found.append([[told(one), one._base is None, one] for batch in batches for one in batch])
    assert same(*found)


def listed(samples: Any) -> Any:
    return [image for image, _ in samples], torch.tensor([label for _, label in samples])


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("collate", [None, listed])
def test_batches_of_a_folder_are_no_views_of_one_another(
    paths: list[str], collate: Any, gradients: bool
) -> None:
    pipeline = tv.Compose([tv.Resize((20, 20)), tv.ToTensor()])
    dataset = datasets.ImageFolder(str(Path(paths[0]).parents[1]), pipeline)
    found = []
    for kind in (hr.DataLoader, data.DataLoader):
        loader = kind(dataset, 4, collate_fn=collate)
        with contextlib.closing(loader) if kind is hr.DataLoader else contextlib.nullcontext():
            with torch.set_grad_enabled(gradients):
                images, labels = next(iter(loader))
            several, by = [*images] if collate else [images], weight()
            before = told(several[-1])
            loss = (several[-1] * by).sum()
            if collate:
                several[0].mul_(2)
            labels.add_(1)
            loss.backward()
            written = done(lambda one: told(one.mul_(weight())), several[0])
            found.append([before, by.grad, written, told(several[-1]), labels])
    assert same(*found)
