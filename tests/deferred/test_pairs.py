"""Images with boxes, masks and labels, through torchvision's v2: the images are the
engine's, and what is beside them moves as torchvision moves it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import PIL.Image
import pytest
import torch
from PIL import Image
from torch.utils import data
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

import headrace as hr
import images
from deferred.test_own_code import equal
from headrace.errors import UnsupportedError

pytestmark = pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"),
    reason="torchvision resizes tensors in floats here",
)
WORKERS = pytest.mark.parametrize("workers", [0, 2])
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
FLOATS = {tv_tensors.Image: torch.float32, "others": None}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("pairs")
    files = {f"{n}.jpg": images.jpeg(60 + n, 75 - 2 * n, seed=n) for n in range(8)}
    images.write_tree(root, files)
    return sorted(root.rglob("*.jpg"))


class Pairs(data.Dataset[Any]):
    """Each image with two boxes, their classes and a mask, as in detection datasets."""

    def __init__(self, paths: list[Path], transform: Any, opened: Callable[[Any], Any]) -> None:
        self.paths, self.transform, self.opened = paths, transform, opened

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        image = self.opened(Image.open(self.paths[index]).convert("RGB"))
        height, width = v2.functional.get_size(image)
        boxes = [[1, 2, 20, 30], [5, 5, width - 1, height - 1]]
        mask = torch.arange(height * width).reshape(1, height, width) % 7
        target = {
            "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(height, width)),
            "labels": torch.tensor([1, 2]),
            "mask": tv_tensors.Mask(mask),
        }
        return self.transform(image, target)


def together(samples: list[Any]) -> list[Any]:
    """Collates detection samples without stacking them, as torchvision's references do."""
    return samples


OPENED: dict[str, Callable[[Any], Any]] = {
    "tv_tensors": tv_tensors.Image,
    "PIL": lambda image: image,
}
FLIP = v2.RandomHorizontalFlip(0.5)
PIPELINES: dict[str, list[Any]] = {
    "segmentation": [
        v2.RandomResizedCrop((32, 40), (0.3, 1.0), antialias=True),
        *(FLIP, v2.ToImage(), v2.ToDtype(FLOATS, scale=True), v2.Normalize(MEAN, STD)),
    ],
    "detection": [
        *(v2.ToImage(), v2.Resize((50, 60)), FLIP, v2.RandomIoUCrop(), v2.Resize((48, 48))),
        *(v2.SanitizeBoundingBoxes(), v2.ToDtype(torch.float32, scale=True), v2.ToPureTensor()),
    ],
    "crops": [
        *(v2.ToImage(), v2.RandomVerticalFlip(0.5), v2.RandomCrop(40), v2.CenterCrop((50, 30))),
        v2.ToDtype(torch.float32, scale=True),
    ],
    "another order": [
        *(v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)),
        *(FLIP, v2.RandomCrop(40)),
    ],
}


# Composed as in torchvision's references, with sizes that suit these images.
MOSTLY_MEAN = {tv_tensors.Mask: 0, "others": (123, 117, 104)}
LAST = [
    v2.ToDtype(torch.float, scale=True),
    v2.ConvertBoundingBoxFormat("XYXY"),
    v2.SanitizeBoundingBoxes(),
    v2.ToPureTensor(),
]
PRESETS: dict[str, list[Any]] = {
    "detection hflip": [FLIP, *LAST],
    "detection multiscale": [v2.RandomShortestSize((40, 50, 60), 90), FLIP, *LAST],
    "detection ssdlite": [v2.RandomIoUCrop(), FLIP, *LAST],
    "detection zoomed out": [v2.RandomZoomOut(MOSTLY_MEAN), v2.RandomIoUCrop(), FLIP, *LAST],
    "segmentation": [
        *(v2.RandomResize(30, 90), FLIP, v2.Pad(40, {tv_tensors.Mask: 255, "others": 0})),
        v2.RandomCrop(48),
        v2.ToDtype(
            {
                torch.Tensor: torch.float32,
                tv_tensors.Image: torch.float32,
                tv_tensors.Mask: torch.int64,
                "others": None,
            },
            scale=True,
        ),
        *(v2.Normalize(MEAN, STD), v2.ToPureTensor()),
    ],
    "detection large-scale jitter": [
        v2.ScaleJitter((64, 64)),
        v2.RandomCrop(64, pad_if_needed=True, fill=MOSTLY_MEAN),
        *(FLIP, *LAST),
    ],
    "filled by class": [
        v2.Pad(5, {tv_tensors.Image: 9, torch.Tensor: 8, tv_tensors.Mask: 7, "others": 6}),
        *LAST,
    ],
}
BACKENDS: dict[str, list[Any]] = {"tv_tensor": [v2.ToImage()], "tensor": [v2.PILToTensor()]}


def passed(kind: Any, dataset: Any, **options: Any) -> list[Any]:
    torch.manual_seed(5)
    loader = kind(dataset, 3, collate_fn=together, **options)
    with contextlib.closing(loader) if hasattr(loader, "close") else contextlib.nullcontext():
        return [sample for batch in loader for sample in batch]


@WORKERS
@pytest.mark.parametrize("opened", OPENED)
@pytest.mark.parametrize("name", PIPELINES)
def test_the_image_of_a_pair_is_native_and_the_whole_pair_equals_torchvisions(
    paths: list[Path], name: str, opened: str, workers: int
) -> None:
    dataset = Pairs(paths, v2.Compose(PIPELINES[name]), OPENED[opened])
    options = {"num_workers": workers}
    # In the training process, with nothing made ahead, draws come in torch's order.
    found = passed(hr.DataLoader, dataset, strict=True, ahead=0, **options)
    wanted = passed(data.DataLoader, dataset, **options)
    assert equal(found, wanted)
    for (mine, target), (theirs, other) in zip(found, wanted, strict=True):
        assert type(mine) is type(theirs)
        assert [type(part) for part in target.values()] == [type(part) for part in other.values()]


@WORKERS
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PRESETS)
def test_detection_and_segmentation_presets_are_native_and_equal_torchvisions(
    paths: list[Path], name: str, backend: str, workers: int
) -> None:
    transform = v2.Compose([*BACKENDS[backend], *PRESETS[name]])
    dataset = Pairs(paths, transform, lambda image: image)
    found = passed(hr.DataLoader, dataset, strict=True, ahead=0, num_workers=workers)
    assert equal(found, passed(data.DataLoader, dataset, num_workers=workers))


@WORKERS
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [name for name in PRESETS if name.startswith("detection")])
def test_detection_presets_are_native_and_equal_torchvisions_for_keypoints(
    paths: list[Path], name: str, backend: str, workers: int
) -> None:
    steps = v2.Compose([*BACKENDS[backend], *PRESETS[name]])

    def with_points(image: Any, target: Any) -> Any:
        sides = target["boxes"].canvas_size
        points = tv_tensors.KeyPoints([[3.0, 4.0], [17.0, 30.5]], canvas_size=sides)
        return steps(image, target | {"points": points})

    dataset = Pairs(paths, with_points, lambda image: image)
    found = passed(hr.DataLoader, dataset, strict=True, ahead=0, num_workers=workers)
    wanted = passed(data.DataLoader, dataset, num_workers=workers)
    assert equal(found, wanted)
    assert all("points" in target for _, target in found)


@WORKERS
def test_the_ssd_preset_of_pil_images_is_native(paths: list[Path], workers: int) -> None:
    distorted = [v2.RandomPhotometricDistort(), v2.RandomZoomOut(MOSTLY_MEAN), v2.RandomIoUCrop()]
    by_class = v2.Pad(3, {PIL.Image.Image: 9, "others": 6})
    transform = v2.Compose([*distorted, by_class, FLIP, v2.ToImage(), *LAST])
    dataset = Pairs(paths, transform, lambda image: image)
    found = passed(hr.DataLoader, dataset, strict=True, ahead=0, num_workers=workers)
    assert equal(found, passed(data.DataLoader, dataset, num_workers=workers))


@WORKERS
def test_stacked_images_of_pairs_are_native(paths: list[Path], workers: int) -> None:
    steps = [v2.Resize((30, 40)), v2.ToDtype(torch.float32, scale=True)]

    class Alone(Pairs):
        def __getitem__(self, index: int) -> Any:
            image, target = super().__getitem__(index)
            return image, target["mask"]

    dataset = Alone(paths, v2.Compose(steps), tv_tensors.Image)
    options = {"num_workers": workers}
    with contextlib.closing(hr.DataLoader(dataset, 3, strict=True, **options)) as loader:
        assert equal(list(loader), list(data.DataLoader(dataset, 3, **options)))


AS_EVER: dict[str, list[Any]] = {
    "colours": [v2.ColorJitter((1.3, 1.3)), v2.Resize(30)],
    "not antialiased": [v2.Resize(30, antialias=False)],
    "grey": [v2.RandomGrayscale(1.0), v2.Resize((30, 40))],
    "turned": [v2.RandomRotation((90, 90)), v2.CenterCrop(20)],
    "a function": [v2.Lambda(lambda image: image * 2, tv_tensors.Image), v2.CenterCrop(20)],
}


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", AS_EVER)
def test_operations_on_a_pair_that_are_not_recorded_run_in_torchvision(
    paths: list[Path], name: str, workers: int
) -> None:
    steps = [v2.Resize((50, 60)), *AS_EVER[name], v2.ToDtype(torch.float32, scale=True)]
    dataset = Pairs(paths, v2.Compose(steps), tv_tensors.Image)
    with pytest.warns(UserWarning, match="needs the pixels"):
        found = passed(hr.DataLoader, dataset, num_workers=workers)
    wanted = passed(data.DataLoader, dataset, num_workers=workers)
    assert equal(found, wanted)
    assert [type(image) for image, _ in found] == [type(image) for image, _ in wanted]
    with pytest.raises(UnsupportedError, match="strict=True"):
        passed(hr.DataLoader, dataset, strict=True, num_workers=workers)


def test_the_programs_own_code_sees_a_tv_tensor(paths: list[Path]) -> None:
    seen = []

    class Asking(data.Dataset[Any]):
        def __len__(self) -> int:
            return len(paths)

        def __getitem__(self, index: int) -> Any:
            image = v2.functional.to_image(Image.open(paths[index]).convert("RGB"))
            small = v2.functional.resize(image, [20, 30], antialias=True)
            flipped = v2.functional.horizontal_flip(small)
            kinds = (isinstance(image, tv_tensors.Image), isinstance(flipped, torch.Tensor))
            seen.append((*kinds, tuple(flipped.shape), flipped.dtype, flipped.ndim))
            return flipped, flipped.as_subclass(torch.Tensor), float(small[0, 0, 0])

    found = passed(hr.DataLoader, Asking())
    assert set(seen) == {(True, True, (3, 20, 30), torch.uint8, 3)}
    wanted = passed(data.DataLoader, Asking())
    assert equal(found, wanted)
    assert [tuple(map(type, sample)) for sample in found] == [
        (tv_tensors.Image, torch.Tensor, float)
    ] * len(paths)


def zeroed(part: Any) -> Any:
    part.zero_()
    return part


SHARING: dict[str, Callable[[Any], Any]] = {
    "a crop": lambda x: (zeroed(F.crop(x, 2, 3, 10, 10)), x)[1],
    "the middle": lambda x: (zeroed(F.center_crop(x, [9, 8])), x)[1],
    "a crop of a crop": lambda x: (zeroed(F.crop(F.crop(x, 2, 3, 20, 20), 1, 1, 5, 5)), x)[1],
    "an image of it": lambda x: (tv_tensors.Image(x), zeroed(x[:, :10]))[0],
    "a plain tensor of it": lambda x: (x.as_subclass(torch.Tensor), zeroed(x))[0],
    "two crops": lambda x: (F.crop(x, 0, 0, 20, 20), zeroed(F.crop(x, 5, 5, 9, 9)))[0],
    "a copy": lambda x: (zeroed(F.horizontal_flip(x)), x)[1],
    "beyond": lambda x: (zeroed(F.crop(x, -1, 0, 20, 20)), x)[1],
}


@pytest.mark.parametrize("what", SHARING)
def test_a_write_to_a_view_is_visible_wherever_it_is_in_torch(paths: list[Path], what: str) -> None:
    class Writes(data.Dataset[Any]):
        def __len__(self) -> int:
            return len(paths)

        def __getitem__(self, index: int) -> Any:
            return SHARING[what](F.to_image(Image.open(paths[index])))

    expected = list(data.DataLoader(Writes(), batch_size=None))
    with contextlib.closing(hr.DataLoader(Writes(), batch_size=None)) as loader:
        found = list(loader)
    assert equal(found, expected)
