"""Operations of a collate function on a stack of images: recorded if each value keeps its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchvision.transforms.functional as F
from torch.utils import data
from torch.utils.data import default_collate

import headrace as hr
from deferred.test_own_code import Opens, paths
from deferred.test_tensor_ops import MEAN, STD, WORKERS, Collates, batches, compared, opened, same
from headrace._deferred import parts
from headrace._deferred.tensor import PendingTensor

__all__ = ["paths"]  # a fixture


CALLS: list[int] = []  # lengths of the collate functions' calls; never reset by a restored state


def stacked(function: Callable[[Any], Any]) -> Collates:
    return counted(lambda samples: function(torch.stack(samples)))


def counted(function: Callable[[list[Any]], Any]) -> Collates:
    """Adds to the result whether it was made in the training process."""

    def collate(samples: list[Any]) -> Any:
        CALLS.append(len(samples))
        return function(samples), data.get_worker_info() is None

    return Collates(collate)


def natively(dataset: Any, collate: Collates, workers: int) -> list[Any]:
    """All batches, which must be torch's, with one call of the function for each."""
    expected = batches(
        data.DataLoader, dataset, batch_size=3, collate_fn=collate, num_workers=workers
    )
    CALLS.clear()
    found = batches(
        hr.DataLoader, dataset, batch_size=3, collate_fn=collate, num_workers=workers, strict=True
    )
    assert same(found, expected)
    assert workers or len(CALLS) == len(expected)
    return found


def assigned(x: Any) -> Any:
    x -= MEAN
    x /= STD
    x *= 2
    return x


def each_its_own(x: Any) -> Any:
    return x * torch.arange(1, len(x) + 1).view(-1, 1, 1, 1)


OF_FLOATS: dict[str, Callable[[Any], Any]] = {
    "normalised": lambda x: (x - MEAN) / STD,
    "with an axis for the batch": lambda x: (x - MEAN[None]) / STD[None],
    "from -1 to 1": lambda x: x * 2 - 1,
    "numbers first": lambda x: (2 * x - 1, 1 - x, -x),
    "by torchvision twice": lambda x: F.normalize(F.normalize(x, [0.5], [0.2]), [0.4], [0.3]),
    "by functions": lambda x: torch.div(torch.sub(x, 0.5), 0.25),
    "in place": lambda x: x.sub_(MEAN).div_(STD[None]),
    "in place by operators": assigned,
    "a number of each sample": each_its_own,
    "other dtypes": lambda x: (x.double() * 2.1, x.half(), x.to(torch.bfloat16)),
    "itself": lambda x: (x.float() is x, x.contiguous() is x, x),
    "copies": lambda x: (x.clone(), x * 2, x + 1, x),
    "a memory format": lambda x: x.to(memory_format=torch.contiguous_format).float(),
    "compared": lambda x: ((x > 0.5).float(), x.clamp(min=0.3), (x == 0)),
    "of copies": lambda x: ((y := x * 2), x.sub_(1), y + 1, y.mul_(3)),
}
OF_BYTES: dict[str, Callable[[Any], Any]] = {
    "divided": lambda x: x / 255,
    "fractions": lambda x: x.float().div(255.0),
    "fractions in place": lambda x: x.float().div_(255),
    "normalised": lambda x: (x.to(torch.float32) / 255 - MEAN) / STD,
    "other numbers": lambda x: (x.float() / 127.5 - 1, x * 3, x.long(), x + 0.5),
    "bytes in place": lambda x: x.mul_(3).add_(7),
}
DONE = {("floats", name): of for name, of in OF_FLOATS.items()}
DONE |= {("bytes", name): of for name, of in OF_BYTES.items()}


def image_of(kind: str) -> Callable[[str, int], Any]:
    def made(path: str, index: int) -> Any:
        image = opened(path)
        return F.to_tensor(image) if kind == "floats" else F.pil_to_tensor(image).contiguous()

    return made


@WORKERS
@pytest.mark.parametrize("what", DONE)
def test_arithmetic_on_a_stack_is_native_with_torchs_bytes(
    paths: list[str], what: tuple[str, str], workers: int
) -> None:
    natively(Opens(paths[:7], image_of(what[0])), stacked(DONE[what]), workers)


JOINED: dict[str, Callable[[list[Any]], Any]] = {
    "unsqueeze": lambda xs: torch.cat([x.unsqueeze(0) for x in xs], dim=0),
    "an index": lambda xs: torch.concatenate([x[None] for x in xs]) * 2 - 1,
    "results": lambda xs: torch.concat([(x * 2).unsqueeze(dim=0) for x in xs]),
    "one channel of each": lambda xs: torch.cat([x[1:2] for x in xs], 0),
    "another tensor": lambda xs: torch.cat([*(x[None] for x in xs), torch.ones(1, 3, 17, 20)]),
}


@WORKERS
@pytest.mark.parametrize("what", JOINED)
def test_images_concatenated_along_an_axis_of_length_one_are_a_stack(
    paths: list[str], what: str, workers: int
) -> None:
    natively(Opens(paths[:7], image_of("floats")), counted(JOINED[what]), workers)


def test_a_stack_of_bytes_divided_by_255_is_made_by_the_engine(paths: list[str]) -> None:
    seen = []

    def divided(x: Any) -> Any:
        made = x.float() / 255
        if isinstance(made, PendingTensor):
            seen.extend(map(type, made.parts))
        return made

    natively(Opens(paths[:4], image_of("bytes")), stacked(divided), 0)
    assert {*seen} == {parts.Part}


def test_the_result_of_default_collate_is_a_stack_too(paths: list[str]) -> None:
    def collate(samples: list[Any]) -> Any:
        batch = default_collate(samples)
        batch["image"] = (batch["image"] - MEAN) / STD
        return batch

    made = image_of("floats")
    dataset = Opens(paths, lambda path, index: {"image": made(path, index), "label": index})
    natively(dataset, counted(collate), 1)


@WORKERS
def test_the_programs_own_tensors_in_a_stack_are_treated_like_images(
    paths: list[str], workers: int
) -> None:
    made = image_of("floats")

    def sometimes(path: str, index: int) -> Any:
        return torch.full((3, 17, 20), index / 7) if index % 3 == 1 else made(path, index)

    collate = stacked(lambda x: (each_its_own(x - MEAN), x.half(), F.normalize(x, [0.5], [0.2])))
    natively(Opens(paths, sometimes), collate, workers)


NEEDING: dict[str, Callable[[list[Any]], Any]] = {
    "views": lambda xs: ((s := torch.stack(xs)), s[0].zero_(), s.permute(0, 2, 3, 1), s * 2),
    "a memory format": lambda xs: torch.stack(xs).to(memory_format=torch.channels_last),
    "more axes": lambda xs: torch.stack(xs) * torch.ones(2, 1, 1, 1, 1),
    "another axis": lambda xs: torch.stack(xs, 1) * 2,
    "images of two": lambda xs: torch.stack(xs) * 0.3 + torch.stack(xs[::-1]) * 0.7,
    "joined": lambda xs: torch.cat([torch.stack(xs) * 2, torch.stack(xs[:1])]),
    "joined along channels": lambda xs: torch.cat(xs),
    "joined of other sides": lambda xs: torch.cat([x[..., n:] for n, x in enumerate(xs)], -1),
    "joined with none": lambda xs: torch.cat([torch.empty(0), xs[0][None]]),
    "numbers": lambda xs: torch.stack([x[0, 0, 0] for x in xs]) * torch.ones(1, dtype=torch.double),
    "a row": lambda xs: torch.stack([x[0, 0, :1] for x in xs]) * torch.ones(4),
    "a gradient": lambda xs: torch.stack(xs) * torch.ones(1, requires_grad=True),
    "doubles in place": lambda xs: torch.stack(xs).mul_(torch.ones(1, dtype=torch.double)),
}


@pytest.mark.parametrize("what", NEEDING)
def test_operations_on_a_stack_that_need_values_give_torchs_bytes(
    paths: list[str], what: str
) -> None:
    dataset = Opens(paths[:6], image_of("floats"))
    collate = Collates(NEEDING[what])
    compared(dataset, strict=False, batch_size=3, collate_fn=collate)


WRONG: dict[str, Callable[[Any], Any]] = {
    "fractions of bytes in place": lambda x: x.div_(2),
    "a batch of another length": lambda x: x * torch.ones(5, 1, 1, 1),
    "shapes": lambda x: x + torch.ones(5),
    "a large number": lambda x: x.int() + 2**31,
    "kinds": lambda x: x.mul_(0.5),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_error_of_an_operation_on_a_stack_is_torchs(paths: list[str], what: str) -> None:
    def tried(samples: list[Any]) -> Any:
        try:
            return WRONG[what](torch.stack(samples)), "no error"
        except RuntimeError as error:
            return str(error)

    dataset = Opens(paths[:3], image_of("bytes"))
    compared(dataset, strict=False, batch_size=3, collate_fn=tried)


@WORKERS
def test_a_collate_function_that_is_called_again_finds_samples_that_it_changed_restored(
    paths: list[str], workers: int
) -> None:
    def collate(samples: list[Any]) -> Any:
        for sample in samples:
            sample.mul_(2)
        batch = torch.stack(samples)
        return batch - batch.mean()

    dataset = Opens(paths[:6], image_of("floats"))
    compared(dataset, strict=False, batch_size=3, collate_fn=collate, num_workers=workers)


GRADIENTS: dict[str, Callable[[list[Any]], Any]] = {
    "asked for": lambda xs: [x.requires_grad_() for x in xs],
    "set": lambda xs: [setattr(x, "requires_grad", True) or x for x in xs],
    "of the stack": lambda xs: torch.stack(xs).requires_grad_(),
}
BEHIND: dict[str, Callable[[list[Any]], Any]] = {
    "of one beside it": lambda xs: torch.stack([xs[0], torch.ones(3, 17, 20, requires_grad=True)]),
    "of each": lambda xs: torch.stack([x.requires_grad_() * 2 for x in xs]),
}


def of_gradients(kind: Any, paths: list[str], collate: Any, workers: int) -> Any:
    dataset = Opens(paths[:2], image_of("floats"))
    options = {"batch_size": 2, "collate_fn": Collates(collate), "num_workers": workers}
    tensors = [
        tensor
        for batch in batches(kind, dataset, **options)
        for tensor in (batch if type(batch) is list else [batch])
    ]
    return [(tensor.requires_grad, tensor.is_leaf, tensor.detach()) for tensor in tensors]


@pytest.mark.parametrize(
    ("what", "workers"),
    [
        *((what, workers) for what in GRADIENTS for workers in (0, 1)),
        *((what, 0) for what in BEHIND),
    ],
)
def test_gradients_of_a_stack_equal_torchs(paths: list[str], what: str, workers: int) -> None:
    collate = (GRADIENTS | BEHIND)[what]
    expected = of_gradients(data.DataLoader, paths, collate, workers)
    assert same(of_gradients(hr.DataLoader, paths, collate, workers), expected)


@pytest.mark.parametrize("what", BEHIND)
def test_a_stack_with_gradients_which_workers_cannot_send_is_made_in_the_training_process(
    paths: list[str], what: str
) -> None:
    """torch's own loader waits for ever, because the worker's error is only printed."""
    expected = of_gradients(data.DataLoader, paths, BEHIND[what], 0)
    assert same(of_gradients(hr.DataLoader, paths, BEHIND[what], 1), expected)


def turned_and_changed(samples: list[Any]) -> Any:
    x = torch.stack([sample.transpose(1, 2) for sample in samples])
    x.contiguous().mul_(2)
    return x


@WORKERS
def test_a_stack_of_transposed_images_is_contiguous_and_contiguous_returns_itself(
    paths: list[str], workers: int
) -> None:
    natively(Opens(paths[:7], image_of("floats")), counted(turned_and_changed), workers)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_stack_accepts_numpys_axis_argument(paths: list[str], axis: int) -> None:
    collate = Collates(lambda samples: torch.stack(samples, axis=axis))
    dataset = Opens(paths[:4], image_of("floats"))
    compared(dataset, strict=False, batch_size=2, collate_fn=collate)
