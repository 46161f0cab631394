"""A pending tensor has its values whenever a program needs them: in Python, in C++ and in NumPy."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import io
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from PIL import Image
from torch.utils import data

import headrace as hr
from deferred.test_own_code import EVALUATION, Opens, compared, equal, paths

__all__ = ["paths"]  # a fixture

Ask = Callable[[Any], Any]


def saved(tensor: Any) -> Any:
    file = io.BytesIO()
    torch.save({"image": tensor}, file)
    file.seek(0)
    return torch.load(file)


def through_numpy(tensor: Any) -> Any:
    """Writes to the array, which shares the tensor's memory."""
    np.asarray(tensor)[:, 0] = 7
    return tensor


def swapped(tensor: Any) -> Any:
    other = torch.zeros(2)
    torch.utils.swap_tensors(tensor, other)
    return tensor, other


def weak_reference_survives(tensor: Any) -> Any:
    """Whether a weak reference that was taken before the values came still leads to the tensor."""
    known = weakref.ref(tensor)
    total = float(tensor.double().sum())
    return known() is tensor, total


def written_to(tensor: Any) -> Any:
    tensor[0, :3] = 0
    tensor.clamp_(0, 1)
    return tensor


def as_out(tensor: Any) -> Any:
    torch.neg(torch.ones(()).expand(tensor.shape).to(tensor.dtype), out=tensor)
    return tensor


ASKED: dict[str, Ask] = {
    "numpy": lambda tensor: tensor.numpy(),
    "numpy, by force": lambda tensor: tensor.numpy(force=True),
    "asarray": np.asarray,
    "array": np.array,
    "a stack of NumPy's": lambda tensor: np.stack([tensor, tensor]),
    "a ufunc": lambda tensor: np.add(tensor, 1),
    "written to in NumPy": through_numpy,
    "tolist": lambda tensor: tensor.tolist(),
    "one number": lambda tensor: (float(tensor[0, 0, 0]), tensor[1, 2, 3].item()),
    "a condition": lambda tensor: bool((tensor > 0.5).any()),
    "its address": lambda tensor: ctypes.string_at(tensor.data_ptr(), 64),
    "its storage": lambda tensor: (
        tensor.untyped_storage().nbytes(),
        [*tensor.untyped_storage()][:64],
    ),
    "shared memory": lambda tensor: tensor.share_memory_(),
    "a deep copy": copy.deepcopy,
    "a copy": copy.copy,
    "a pickle": lambda tensor: pickle.loads(pickle.dumps(tensor)),
    "torch.save": saved,
    "its text": repr,
    "a format": lambda tensor: f"{tensor.float().mean():.6f}",
    "rows": list,
    "data": lambda tensor: tensor.data,
    "detached": lambda tensor: tensor.detach(),
    "torch.as_tensor": lambda tensor: torch.as_tensor(tensor, dtype=torch.float64),
    "torch.Tensor": lambda tensor: torch.Tensor(tensor.float()),
    "written to": written_to,
    "as out=": as_out,
    "swapped": swapped,
    "a weak reference": weak_reference_survives,
    "cat": lambda tensor: torch.cat([tensor, tensor], 1),
    "stacked in another dimension": lambda tensor: torch.stack([tensor, tensor], 1),
    "stacked into a tensor": lambda tensor: torch.stack(
        [tensor, tensor], out=torch.empty(2, *tensor.shape, dtype=tensor.dtype)
    ),
    "nested": lambda tensor: torch.nested.nested_tensor([tensor.float()]).unbind()[0],
    "sparse": lambda tensor: tensor.to_sparse().to_dense(),
    "vmap": lambda tensor: torch.func.vmap(torch.sum)(tensor.double()),
    "gradients": lambda tensor: gradient(tensor),
    "scripted": lambda tensor: SCRIPTED(tensor),
    "interpolated": lambda tensor: torch.nn.functional.interpolate(tensor[None].float(), (9, 8)),
    "equal": lambda tensor: (torch.equal(tensor, tensor.clone()), tensor.eq(tensor).all()),
    "a PIL image": lambda tensor: np.asarray(F.to_pil_image(tensor)),
    "viewed": lambda tensor: (tensor.view(-1)[5:9], tensor.permute(1, 2, 0), tensor[..., ::2]),
    "another dtype": lambda tensor: (tensor.half(), tensor.to(torch.float64), tensor.bool()),
    "pinned or not": lambda tensor: (tensor.is_pinned(), tensor.is_shared(), tensor.device),
}


def gradient(tensor: Any) -> Any:
    leaf = tensor.float().requires_grad_()
    (leaf**2).sum().backward()
    return leaf.grad


@torch.jit.script
def SCRIPTED(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * 2 + 1


OF: dict[str, Ask] = {
    "floats": EVALUATION,
    "bytes": tv.Compose([tv.Resize((20, 24)), tv.PILToTensor()]),
}
# torchvision's tensors of bytes are views of rows of pixels; pending tensors are contiguous.
OF_THE_LAYOUT = ("its address", "its storage", "viewed")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("what", "of"),
    [(what, of) for what in ASKED for of in OF if of == "floats" or what not in OF_THE_LAYOUT],
)
def test_every_question_to_a_pending_tensor_is_answered_with_its_values(
    paths: list[str], what: str, of: str
) -> None:
    dataset = Opens(paths[:2], lambda path, index: ASKED[what](OF[of](Image.open(path))))
    expected = list(data.DataLoader(dataset, None, collate_fn=same))
    with contextlib.closing(hr.DataLoader(dataset, None, collate_fn=same)) as loader:
        assert equal(list(loader), expected)


def same(sample: Any) -> Any:
    return sample


def of_two_sizes(path: str, index: int) -> Any:
    return F.to_tensor(Image.open(path).convert("RGB").resize((20, 20 + index % 2)))


def of_two_dtypes(path: str, index: int) -> Any:
    image = Image.open(path).convert("RGB").resize((20, 20))
    return F.to_tensor(image) if index % 2 else F.pil_to_tensor(image)


def of_one_channel_and_three(path: str, index: int) -> Any:
    return F.to_tensor(Image.open(path).convert("L" if index % 2 else "RGB").resize((20, 20)))


def of_a_tensor_and_none(path: str, index: int) -> Any:
    return F.to_tensor(Image.open(path).resize((20, 20))) if index % 2 else torch.zeros(3, 20, 21)


def outcome(loader: Any) -> Any:
    """All batches, or the message of the error that ends them."""
    try:
        return list(loader)
    except (RuntimeError, TypeError) as failure:
        return str(failure).splitlines()[-1].removeprefix(f"{type(failure).__name__}: ")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    "make", [of_two_sizes, of_two_dtypes, of_one_channel_and_three, of_a_tensor_and_none]
)
def test_tensors_that_do_not_match_are_stacked_or_refused_as_by_torch(
    paths: list[str], make: Any, workers: int
) -> None:
    """In a worker process torch stacks into shared memory, and has other error messages."""
    dataset = Opens(paths, make)
    expected = [outcome(data.DataLoader(dataset, 4, num_workers=n)) for n in (0, workers)]
    with contextlib.closing(hr.DataLoader(dataset, 4, num_workers=workers)) as loader:
        found = outcome(loader)
    assert any(equal(found, one) for one in expected)


def test_an_error_of_a_collate_function_names_the_worker_of_its_batch_as_torchs_does(
    paths: list[str],
) -> None:
    dataset = Opens(paths, of_two_sizes)
    with contextlib.closing(hr.DataLoader(dataset, 4, num_workers=2)) as loader:
        iterator = iter(loader)
        for worker in (0, 1):
            with pytest.raises(RuntimeError) as failure:
                next(iterator)
            first, *_, last = str(failure.value).strip().splitlines()
            assert first == f"Caught RuntimeError in DataLoader worker process {worker}."
            assert last.startswith("RuntimeError: stack expects each tensor to be equal size")
            assert failure.value.__context__ is None
        del iterator


class Scratch(data.Dataset[Any]):
    """Stacks each image with a buffer of its own that it has written to, then writes to it
    again."""

    def __init__(self, paths: list[str]) -> None:
        self.paths, self.scratch = paths, torch.zeros(3, 20, 24)
        self.rows = self.scratch.numpy()

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        image = F.to_tensor(Image.open(self.paths[index]).convert("RGB").resize((24, 20)))
        self.scratch.fill_(index)
        stacked = torch.stack([image, self.scratch, self.scratch[:, :1].expand(3, 20, 24)])
        self.scratch.fill_(99)
        self.rows[:] += 1
        return stacked


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stack_with_a_pending_tensor_keeps_the_other_tensors_values_at_that_time(
    paths: list[str], workers: int
) -> None:
    expected = list(data.DataLoader(Scratch(paths), 2, num_workers=workers))
    options: dict[str, Any] = {"num_workers": workers, "strict": True}
    with contextlib.closing(hr.DataLoader(Scratch(paths), 2, **options)) as loader:
        assert equal(list(loader), expected)


def test_assigning_a_pending_tensor_to_data_is_an_error_and_does_not_end_the_process(
    paths: list[str],
) -> None:
    """torch calls no hook when ``data`` is set."""

    def taken(path: str, index: int) -> Any:
        buffer = torch.zeros(3, 32, 32)
        buffer.data = EVALUATION(Image.open(path).convert("RGB"))
        try:
            return float(buffer.sum())
        except RuntimeError as error:
            return str(error)

    with contextlib.closing(hr.DataLoader(Opens(paths[:2], taken), 2)) as loader:
        (batch,) = loader
    assert all("copy_" in text for text in batch)


# Questions outside of torch's functions, where torch.device has no effect.
ELSEWHERE: dict[str, Ask] = {
    "dlpack": lambda x: torch.from_dlpack(torch.utils.dlpack.to_dlpack(x)),
    "swapped": lambda x: swapped(x)[1],
    "a stack of some": lambda x: torch.from_dlpack(torch.utils.dlpack.to_dlpack(torch.stack([x]))),
}


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("what", ELSEWHERE)
def test_values_are_on_the_cpu_with_any_default_device(
    paths: list[str], what: str, workers: int
) -> None:
    def asked(path: str, index: int) -> Any:
        image = Image.open(path).convert("RGB")
        with torch.device("meta"):
            return ELSEWHERE[what](EVALUATION(image))

    compared(Opens(paths[:2], asked), strict=False, batch_size=2, num_workers=workers)


def test_a_pending_tensor_that_was_used_in_inference_mode_can_be_trained_on(
    paths: list[str],
) -> None:
    def trained(path: str, index: int) -> Any:
        image = EVALUATION(Image.open(path).convert("RGB"))
        with torch.inference_mode():
            mean = float((image * 2).mean())
        weight = torch.ones(1, requires_grad=True)
        (image * weight).sum().backward()
        return mean, weight.grad

    compared(Opens(paths[:2], trained), strict=False, batch_size=2)
