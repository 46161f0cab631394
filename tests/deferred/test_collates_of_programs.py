"""Datasets and collate functions as programs write them give torch's batches, native or not."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import io
import pickle
import random
import warnings
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as nn
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from PIL import Image
from torch.utils import data
from torch.utils.data import default_collate
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as v2f

import headrace as hr
from deferred.test_own_code import Opens, paths
from deferred.test_tensor_ops import WORKERS, same

__all__ = ["paths"]  # a fixture

SMALL = tv.Compose([tv.Resize((24, 32)), tv.ToTensor()])
BYTES = tv.Compose([tv.Resize((24, 32)), tv.PILToTensor()])
Point = namedtuple("Point", ["image", "label"])


def opened(path: str) -> Any:
    return Image.open(path).convert("RGB")


@dataclasses.dataclass
class Sample:
    image: torch.Tensor
    label: int
    views: list[Any] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Frozen:
    image: torch.Tensor


class Slots:
    __slots__ = ("image", "label")

    def __init__(self, image: Any, label: Any) -> None:
        self.image, self.label = image, label

    def to(self, device: Any) -> Slots:
        return Slots(self.image.to(device, non_blocking=True), self.label)


class Pair(NamedTuple):
    image: Any
    label: Any


def tensors(path: str, index: int) -> Any:
    return SMALL(opened(path)), index % 3


def of_bytes(path: str, index: int) -> Any:
    return BYTES(opened(path)), index % 3


def mixup(samples: list[Any]) -> Any:
    images, labels = default_collate(samples)
    generator = torch.Generator().manual_seed(len(samples))
    share = torch.rand(len(images), 1, 1, 1, generator=generator)
    order = torch.randperm(len(images), generator=generator)
    return images * share + images[order] * (1 - share), nn.one_hot(labels, 3).float()


def cutmix(samples: list[Any]) -> Any:
    images, labels = default_collate(samples)
    images[:, :, 5:10, 4:20] = images.roll(1, 0)[:, :, 5:10, 4:20]
    return images, labels


def padded(samples: list[Any]) -> Any:
    height = max(image.shape[1] for image, _ in samples)
    width = max(image.shape[2] for image, _ in samples)
    batch = samples[0][0].new_zeros(len(samples), 3, height, width)
    mask = torch.ones(len(samples), height, width, dtype=torch.bool)
    for image, room, hidden in zip((one for one, _ in samples), batch, mask, strict=True):
        room[:, : image.shape[1], : image.shape[2]].copy_(image)
        hidden[: image.shape[1], : image.shape[2]] = False
    return batch, mask


def resized_of_its_own(path: str, index: int) -> Any:
    return F.to_tensor(opened(path).resize((20 + index, 30 - index))), index


def as_albumentations(path: str, index: int) -> Any:
    array = np.array(opened(path).resize((32, 24)))
    array = np.ascontiguousarray(array[:, ::-1][2:20, 3:30])
    array = cv2_like(array)
    return torch.from_numpy(array.transpose(2, 0, 1)).float().div_(255), index


def cv2_like(array: Any) -> Any:
    return np.clip(array.astype(np.float32) * 1.1 - 3, 0, 255).astype(np.uint8)


def patches(path: str, index: int) -> Any:
    image = SMALL(opened(path))
    rows = image.reshape(3, 3, 8, 4, 8).permute(1, 3, 2, 4, 0).reshape(12, 8 * 8 * 3)
    return rows, image.unfold(1, 8, 8).unfold(2, 8, 8)


def of_views(path: str, index: int) -> Any:
    image = SMALL(opened(path))
    left, right = image.chunk(2, dim=2)
    red, green, blue = image.unbind(0)
    return torch.cat([right, left], 2), torch.stack([blue, green, red]), red


def seeded(path: str, index: int) -> Any:
    draw = random.Random(index)
    image = SMALL(opened(path))
    if draw.random() < 0.5:
        image = image.flip(-1)
    if draw.random() < 0.5:
        image = image[[2, 1, 0]]
    top, left = draw.randint(0, 8), draw.randint(0, 8)
    return image[:, top : top + 16, left : left + 16] * draw.uniform(0.5, 1.5)


def noisy(path: str, index: int) -> Any:
    image = SMALL(opened(path))
    noise = torch.randn(image.shape, generator=torch.Generator().manual_seed(index))
    return (image + 0.1 * noise).clamp_(0, 1), index


def kept(path: str, index: int) -> Any:
    image = SMALL(opened(path))
    return copy.copy(image), copy.deepcopy(image), pickle.loads(pickle.dumps(image)), image


def saved(samples: list[Any]) -> Any:
    batch, file = default_collate(samples), io.BytesIO()
    torch.save(batch, file)
    file.seek(0)
    return torch.load(file), batch


def known_weakly(path: str, index: int) -> Any:
    image = SMALL(opened(path))
    known = weakref.WeakValueDictionary({"image": image})
    return known["image"] is image, image * 2


def with_heads(path: str, index: int) -> Any:
    image = tv_tensors.Image(F.to_tensor(opened(path).resize((32, 24))))
    boxes = tv_tensors.BoundingBoxes([[1, 2, 9, 9]], format="XYXY", canvas_size=(24, 32))
    image = v2f.horizontal_flip(v2f.crop(image, 1, 2, 16, 20))
    return {"image": image, "boxes": v2f.horizontal_flip(boxes)}


def grey_as_three(path: str, index: int) -> Any:
    image = F.to_tensor(opened(path).convert("L").resize((32, 24)))
    return image.expand(3, -1, -1), image.repeat(3, 1, 1), torch.cat([image] * 3)


def normalised_by_itself(path: str, index: int) -> Any:
    image = SMALL(opened(path))
    mean, std = image.mean((1, 2), keepdim=True), image.std((1, 2), keepdim=True)
    return (image - mean) / std


def from_a_buffer(path: str, index: int) -> Any:
    buffer = torch.empty(2, 3, 24, 32)
    image = SMALL(opened(path))
    buffer[0] = image
    buffer[1].copy_(image.flip(-1), non_blocking=True)
    return buffer


def resized_in_floats(samples: list[Any]) -> Any:
    batch = torch.stack([image for image, _ in samples])
    return nn.interpolate(batch, size=(12, 16), mode="bilinear", antialias=True), batch


def in_chunks(samples: list[Any]) -> Any:
    batch, _ = default_collate(samples)
    return [part.contiguous(memory_format=torch.channels_last) for part in batch.split(2)]


def by_name(samples: list[Any]) -> Any:
    batch = OrderedDict(pixel_values=torch.stack([image for image, _ in samples]))
    batch["labels"] = torch.tensor([label for _, label in samples])
    return batch


def fast(samples: list[Any]) -> Any:
    """timm's and APEX's way: copies bytes into one tensor."""
    batch = torch.zeros((len(samples), 3, 24, 32), dtype=torch.uint8)
    for place, (image, _) in enumerate(samples):
        batch[place] += image
    return batch


def prefetched(samples: list[Any]) -> Any:
    """What APEX's prefetcher does to a batch on the device."""
    images = torch.stack([image for image, _ in samples])
    mean = torch.tensor([0.485 * 255, 0.456 * 255, 0.406 * 255]).view(1, 3, 1, 1)
    std = torch.tensor([0.229 * 255, 0.224 * 255, 0.225 * 255]).view(1, 3, 1, 1)
    return images.float().sub_(mean).div_(std)


def channels_last(samples: list[Any]) -> Any:
    return torch.stack([image.permute(1, 2, 0) for image, _ in samples])


def plain(samples: list[Any]) -> list[Any]:
    return samples


Case = tuple[Callable[[str, int], Any], Callable[[list[Any]], Any] | None]
CASES: dict[str, Case] = {
    "mixup": (tensors, mixup),
    "cutmix": (tensors, cutmix),
    "padding": (resized_of_its_own, padded),
    "arrays": (as_albumentations, None),
    "patches": (patches, None),
    "views joined": (of_views, None),
    "flips, swaps and crops that Python draws": (seeded, None),
    "noise": (noisy, None),
    "copies": (kept, None),
    "saved": (tensors, saved),
    "weak references": (known_weakly, None),
    "images and boxes": (with_heads, plain),
    "grey as three": (grey_as_three, None),
    "its own mean": (normalised_by_itself, None),
    "a buffer": (from_a_buffer, None),
    "resized as a batch": (tensors, resized_in_floats),
    "chunks": (tensors, in_chunks),
    "an ordered dict": (tensors, by_name),
    "bytes in one tensor": (of_bytes, fast),
    "normalised as a batch": (of_bytes, prefetched),
    "rows of pixels": (tensors, channels_last),
    "a namedtuple": (lambda path, index: Point(*tensors(path, index)), None),
    "a named tuple": (lambda path, index: Pair(*tensors(path, index)), None),
    "a dataclass": (lambda path, index: Sample(*tensors(path, index)), plain),
    "replaced": (
        lambda path, index: dataclasses.replace(Sample(*tensors(path, index)), views=[1]),
        plain,
    ),
    "a dict of a dataclass": (
        lambda path, index: dataclasses.asdict(Sample(*tensors(path, index))),
        None,
    ),
    "frozen": (lambda path, index: Frozen(tensors(path, index)[0]), plain),
    "slots": (lambda path, index: Slots(*tensors(path, index)).to("cpu"), plain),
    "a namespace": (lambda path, index: SimpleNamespace(image=tensors(path, index)[0]), plain),
    "a parameter": (lambda path, index: torch.nn.Parameter(tensors(path, index)[0]), plain),
    "shared memory": (lambda path, index: tensors(path, index)[0].share_memory_(), None),
    "sparse": (lambda path, index: tensors(path, index)[0].to_sparse().to_dense(), None),
    "a mask": (lambda path, index: (x := tensors(path, index)[0], x > 0.5, x[x > 0.5].sum()), None),
    "a nested tensor": (
        tensors,
        lambda xs: torch.nested.nested_tensor([x for x, _ in xs]).to_padded_tensor(0),
    ),
    "one of several": (
        lambda path, index: random.Random(index).choice(patches(path, index)),
        plain,
    ),
    "a list of dicts": (lambda path, index: [{"x": tensors(path, index)[0]}] * 2, None),
    "the same twice": (lambda path, index: [tensors(path, index)[0]] * 2, None),
}


def compared(found: Any, expected: Any) -> bool:
    """Compares like ``same``, also within objects, and the types of dicts and lists."""
    if dataclasses.is_dataclass(expected) or isinstance(expected, SimpleNamespace):
        return type(found) is type(expected) and compared(vars(found), vars(expected))
    if isinstance(expected, Slots):
        return compared([found.image, found.label], [expected.image, expected.label])
    if isinstance(expected, dict):
        alike = type(found) is type(expected) and list(found) == list(expected)
        return alike and all(compared(found[key], expected[key]) for key in expected)
    if isinstance(expected, list | tuple):
        alike = type(found) is type(expected) and len(found) == len(expected)
        return alike and all(map(compared, found, expected))
    return same(found, expected)


def outcome(kind: Any, dataset: Any, **options: Any) -> Any:
    loader = kind(dataset, batch_size=3, **options)
    closing = contextlib.closing(loader) if kind is hr.DataLoader else contextlib.nullcontext()
    with closing, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(3)
        return list(loader)


@WORKERS
@pytest.mark.parametrize("what", CASES)
def test_collate_functions_of_programs_give_torchs_batches(
    paths: list[str], what: str, workers: int
) -> None:
    made, collate = CASES[what]
    options: dict[str, Any] = {"collate_fn": collate, "num_workers": workers}
    if workers:
        options["multiprocessing_context"] = "fork"
    expected = outcome(data.DataLoader, Opens(paths[:8], made), **options)
    assert compared(outcome(hr.DataLoader, Opens(paths[:8], made), **options), expected)


NATIVE = (
    *("flips, swaps and crops that Python draws", "normalised as a batch", "rows of pixels"),
    *("a namedtuple", "a dataclass", "an ordered dict"),
)


@pytest.mark.parametrize("what", NATIVE)
def test_usual_collate_functions_of_programs_run_natively(paths: list[str], what: str) -> None:
    made, collate = CASES[what]
    outcome(hr.DataLoader, Opens(paths[:8], made), collate_fn=collate, strict=True)
