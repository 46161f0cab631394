"""torchvision's pipelines, v1 and v2, through headrace.DataLoader: torch's batches, byte for byte.

The pipelines have no random draws: flips have p=1, and random crops have only one place to be.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import PIL
import PIL.Image
import pytest
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, tv_tensors
from torchvision import transforms as v1
from torchvision.transforms import v2

import headrace as hr
import images

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
Filter = v1.InterpolationMode


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every kind of JPEG and PNG, also grey and CMYK; landscape, portrait and small."""
    root = tmp_path_factory.mktemp("translation")
    for width, height in [(96, 70), (61, 130), (20, 23)]:
        kinds = images.every_jpeg(width, height)
        # Pillow hands a file over in blocks of 64 KB, which libjpeg's arithmetic decoder refuses.
        del kinds["arithmetic-420"]
        if width != 96:
            kinds = {kind: kinds[kind] for kind in ("baseline-420", "grey", "cmyk")}
        files = {f"{kind}.jpg": data for kind, data in kinds.items()}
        images.write_tree(root / f"jpeg-{width}x{height}", files)
    files = {f"{name}.png": data for name, data in images.every_png(67, 52).items()}
    return images.write_tree(root / "png", files).parent


def to_float(*steps: Any) -> list[Any]:
    return [*steps, v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]


PIPELINES: dict[str, Any] = {
    "v1 evaluation": v1.Compose(
        [v1.Resize(48), v1.CenterCrop(40), v1.ToTensor(), v1.Normalize(MEAN, STD)]
    ),
    "v1 bytes": v1.Compose([v1.Resize(48), v1.CenterCrop(40), v1.PILToTensor()]),
    "v1 convert": v1.Compose(
        [v1.CenterCrop(33), v1.PILToTensor(), v1.ConvertImageDtype(torch.float32)]
    ),
    "v1 flips": v1.Compose(
        [
            v1.CenterCrop((31, 45)),
            v1.RandomHorizontalFlip(1),
            v1.RandomVerticalFlip(1.0),
            v1.ToTensor(),
        ]
    ),
    "v1 flips of tensors": v1.Compose(
        [
            v1.ToTensor(),
            v1.CenterCrop(64),
            v1.RandomHorizontalFlip(1.0),
            v1.Normalize(MEAN, STD),
            v1.RandomVerticalFlip(1.0),
            v1.CenterCrop(20),
            v1.RandomCrop(20),
        ]
    ),
    "v1 one number for all channels": v1.Compose(
        [v1.CenterCrop(16), v1.ToTensor(), v1.Normalize([0.5], torch.tensor([0.25]))]
    ),
    "v1 max_size": v1.Compose([v1.Resize(50, max_size=60), v1.CenterCrop(48), v1.ToTensor()]),
    "v1 size of one": v1.Compose([v1.Resize([37]), v1.CenterCrop([24]), v1.ToTensor()]),
    "v1 Pillow's numbers": v1.Compose([v1.Resize((33, 44), PIL.Image.LANCZOS), v1.ToTensor()]),
    "v1 antialias": v1.Compose([v1.Resize((33, 44), antialias=None), v1.ToTensor()]),
    "v1 whole crop": v1.Compose(
        [
            v1.Resize((40, 40)),
            v1.RandomResizedCrop((30, 20), (1, 1), (1, 1), Filter.BICUBIC),
            v1.ToTensor(),
        ]
    ),
    "v1 only crop": v1.Compose([v1.Resize((40, 50)), v1.RandomCrop((40, 50)), v1.ToTensor()]),
    "v1 nested": v1.Compose(
        [v1.Compose([v1.Resize(48), v1.CenterCrop(32)]), v1.Compose([v1.ToTensor()])]
    ),
    "Sequential": torch.nn.Sequential(v2.CenterCrop(32), v2.PILToTensor()),
    "Sequential in Compose": v1.Compose(
        [torch.nn.Sequential(v1.Resize(48), v1.CenterCrop(32)), v1.ToTensor()]
    ),
    "v2 evaluation": v2.Compose(to_float(v2.Resize(48), v2.CenterCrop(40), v2.ToImage())),
    "v2 bytes": v2.Compose([v2.Resize((30, 41)), v2.PILToTensor()]),
    "v2 image": v2.Compose(
        [v2.Resize((30, 41), v1.InterpolationMode.BICUBIC), v2.ToImage(), v2.ToPureTensor()]
    ),
    "v2 crop of tensors": v2.Compose(
        to_float(v2.ToImage(), v2.CenterCrop(64), v2.RandomHorizontalFlip(1.0))
    ),
    "v2 convert": v2.Compose([v2.CenterCrop(20), v2.ToImage(), v2.ConvertImageDtype()]),
    "v2 half": v2.Compose([v2.CenterCrop(20), v2.ToImage(), v2.ToDtype(torch.float16, scale=True)]),
    "v2 half at the end": v2.Compose(
        [*to_float(v2.CenterCrop(20), v2.ToImage()), v2.ToDtype(torch.bfloat16)]
    ),
    "v2 max_size": v2.Compose(to_float(v2.Resize(50, max_size=60), v2.CenterCrop(9), v2.ToImage())),
    "v2 identity": v2.Compose([v2.Identity(), v2.CenterCrop(20), v2.PILToTensor(), v2.Identity()]),
    "v2 whole crop": v2.Compose(
        [v2.Resize((40, 40)), v2.RandomResizedCrop((30, 20), (1, 1), (1, 1), 0), v2.PILToTensor()]
    ),
}
for _mode in ["nearest", "nearest-exact", "box", "bilinear", "hamming", "bicubic", "lanczos"]:
    PIPELINES[f"v1 {_mode}"] = v1.Compose([v1.Resize((33, 44), Filter(_mode)), v1.PILToTensor()])
    PIPELINES[f"v2 {_mode}"] = v2.Compose(
        [v2.Resize((33, 44), v1.InterpolationMode(_mode)), v2.PILToTensor()]
    )
for _mode in ["constant", "edge", "reflect", "symmetric"]:
    for _v in (v1, v2):
        PIPELINES[f"{_v.__name__} padding {_mode}"] = _v.Compose(
            [
                _v.Resize((40, 40)),
                _v.RandomCrop((46, 49), (3, 2, 6, 4), False, 77, _mode),
                _v.PILToTensor(),
            ]
        )


def batches(loader: Any) -> list[list[torch.Tensor]]:
    return [[part.clone() for part in batch] for batch in loader]


def compare(folder: Path, transform: Any) -> None:
    """Every batch of headrace.DataLoader is torch's, in dtype, shape and every byte."""
    dataset = datasets.ImageFolder(str(folder), transform)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = batches(hr.DataLoader(dataset, 7, strict=True))
    expected = batches(DataLoader(dataset, 7))
    assert len(found) == len(expected)
    differing = []
    for number, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        for a, b in zip(mine, theirs, strict=True):
            assert (a.dtype, a.shape, type(a)) == (b.dtype, b.shape, type(b))
        for place in range(len(theirs[1])):
            if any(not torch.equal(a[place], b[place]) for a, b in zip(mine, theirs, strict=True)):
                differing.append(Path(dataset.samples[number * 7 + place][0]).relative_to(folder))
    assert differing == []


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.every(2)
def test_a_translated_pipeline_gives_torchs_batches_byte_for_byte(folder: Path, name: str) -> None:
    compare(folder, PIPELINES[name])


@pytest.mark.parametrize("version", [v1, v2], ids=["v1", "v2"])
def test_a_random_crop_that_needs_its_padding_shows_torchvisions_pixels(
    folder: Path, version: Any
) -> None:
    # The place is random; the pixels around the middle belong to the padding.
    transform = version.Compose(
        [version.Resize((8, 8)), version.RandomCrop(40, 1, True, 9), version.PILToTensor()]
    )
    dataset = datasets.ImageFolder(str(folder), transform)
    [(batch, _)] = batches(hr.DataLoader(dataset, len(dataset), strict=True))
    eights = version.Compose([version.Resize((8, 8)), version.PILToTensor()])
    plain = datasets.ImageFolder(str(folder), eights)
    compared = 0
    for number, image in enumerate(batch):
        source, _ = plain[number]
        if (source == 9).all(0).any():
            continue  # an image pixel of this value would look like padding
        # The 8 x 8 pixels are in the crop at any place, with padding all around.
        inside = (image != 9).any(0).nonzero()
        top, left = inside.min(0).values.tolist()
        assert inside.max(0).values.tolist() == [top + 7, left + 7]
        assert torch.equal(image[:, top : top + 8, left : left + 8], source)
        compared += 1
    assert compared > 20


def test_a_resize_of_a_tensor_in_floats_is_left_to_torchvision(folder: Path) -> None:
    transform = v1.Compose([v1.ToTensor(), v1.Resize(48), v1.CenterCrop(40)])
    dataset = datasets.ImageFolder(str(folder), transform)
    with pytest.warns(UserWarning, match="Resize"):
        found = batches(hr.DataLoader(dataset, 7))
    for mine, theirs in zip(found, batches(DataLoader(dataset, 7)), strict=True):
        assert torch.equal(mine[0], theirs[0])
    with pytest.raises(hr.HeadraceError, match="Resize"):
        list(hr.DataLoader(dataset, 7, strict=True))


@pytest.mark.parametrize("module", [v1, v2], ids=["v1", "v2"])
def test_a_linear_transformation_runs_in_torch_after_native_images(
    folder: Path, module: Any
) -> None:
    noise = torch.Generator().manual_seed(3)
    whitening = module.LinearTransformation(
        torch.rand(3 * 8 * 9, 3 * 8 * 9, generator=noise), torch.rand(3 * 8 * 9, generator=noise)
    )
    native = [v1.RandomHorizontalFlip(1), v1.Resize((8, 9)), v1.ToTensor()]
    dataset = datasets.ImageFolder(str(folder), v1.Compose([*native, whitening]))
    with pytest.warns(UserWarning, match="LinearTransformation.*torch's.*no room for the matrix"):
        found = batches(hr.DataLoader(dataset, 7))
    for mine, theirs in zip(found, batches(DataLoader(dataset, 7)), strict=True):
        assert torch.equal(mine[0], theirs[0])
        assert torch.equal(mine[1], theirs[1])
    with pytest.raises(hr.HeadraceError, match="LinearTransformation"):
        list(hr.DataLoader(dataset, 7, strict=True))


class Subclass(v1.CenterCrop):
    """A subclass may do anything."""


def with_another_forward() -> Any:
    crop = v1.CenterCrop(8)
    crop.forward = lambda image: image.rotate(90)
    return crop


def with_a_hook() -> Any:
    crop = v2.CenterCrop(8)
    crop.register_forward_hook(lambda _module, _given, image: image.rotate(90))
    return crop


UNKNOWN = {
    "another class": [torch.nn.ReLU()],
    "a forward of its own": [with_another_forward()],
    "a hook": [with_a_hook()],
    "a subclass": [Subclass(8)],
    "a function": [lambda image: image],
    "Lambda": [v1.Lambda(lambda image: image)],
    "RandomApply of it": [v1.RandomApply([v1.Lambda(lambda image: image)])],
    "tensor resize": [v1.ToTensor(), v1.Resize(8)],
    "tensor of v1": [v1.PILToTensor(), v1.RandomResizedCrop(8)],
    "max_size below size": [v1.Resize(9, max_size=8)],
    "max_size with two sizes": [v1.Resize((9, 8), max_size=10)],
    "scale of nothing": [v1.RandomResizedCrop(8, scale=(0, 1))],
    "fractional size": [v1.Resize((8.5, 3))],
    "flip beyond 1": [v1.RandomHorizontalFlip(1.5)],
    "padded tensor": [v1.ToTensor(), v1.RandomCrop(8, 2)],
    "fill by type": [v2.RandomCrop(8, 2, fill={tv_tensors.Image: 3})],
    "fill in float": [v2.RandomCrop(8, 2, fill=0.5)],
    "negative padding": [v1.RandomCrop(8, -2)],
    "mirrored twice": [v2.RandomCrop(8, 2, True, 0, "reflect")],
    "crop behind Normalize": [v1.ToTensor(), v1.Normalize(MEAN, STD), v1.CenterCrop(300)],
    "Normalize of bytes": [v1.PILToTensor(), v1.Normalize(MEAN, STD)],
    "Normalize twice": [v1.ToTensor(), v1.Normalize(MEAN, STD), v1.Normalize(MEAN, STD)],
    "Normalize of two channels": [v1.ToTensor(), v1.Normalize((1, 2), (1, 2))],
    "Normalize by nothing": [v1.ToTensor(), v1.Normalize((0.0,), (0.0,))],
    "Normalize in half": [v2.ToImage(), v2.ToDtype(torch.float16, True), v2.Normalize(MEAN, STD)],
    "float of bytes": [v2.ToImage(), v2.ToDtype(torch.float32)],
    "double": [v2.ToImage(), v2.ToDtype(torch.float64, scale=True)],
    "dtype by type": [v2.ToImage(), v2.ToDtype({"others": torch.float32}, scale=True)],
    "ToTensor twice": [v1.ToTensor(), v1.ToTensor()],
    "back to PIL": [v1.ToTensor(), v1.ToPILImage()],
    "v1 behind ToImage": [v2.ToImage(), v1.CenterCrop(8)],
}


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.every(3)
def test_transforms_not_known_to_be_equal_are_refused_by_name(name: str) -> None:
    steps = UNKNOWN[name]
    kind = type(steps[-1]).__name__
    called = "the function <lambda>" if kind == "function" else kind
    with pytest.raises(hr.errors.UnsupportedError, match=f"^{called} "):
        hr.from_torchvision(v1.Compose(steps))


def test_a_printed_translation_shows_the_engines_transforms() -> None:
    found = hr.from_torchvision(
        v1.Compose(
            [
                v1.RandomResizedCrop(224),
                v1.RandomHorizontalFlip(),
                v1.ToTensor(),
                v1.Normalize(MEAN, STD),
            ]
        )
    )
    assert found == [
        hr.transforms.RandomResizedCrop(224),
        hr.transforms.RandomHorizontalFlip(),
        hr.transforms.Normalize(MEAN, STD),
    ]
    assert (found.dtype, found.scale) == ("float32", "div")
    for word in ("RandomResizedCrop(size=224", "RandomHorizontalFlip(p=0.5)", "scale='div'"):
        assert word in repr(found)
    assert hr.from_torchvision(v2.Compose([v2.CenterCrop(8), v2.ToImage()])).dtype == "uint8"
    assert hr.from_torchvision(v2.Compose(to_float(v2.ToImage()))).scale == "mul"


def test_a_translation_has_a_loaders_arguments(folder: Path) -> None:
    transform = PIPELINES["v2 evaluation"]
    dataset = datasets.ImageFolder(str(folder), transform)
    paths, labels = zip(*dataset.samples, strict=True)
    files = hr.Dataset.from_files(paths, labels)
    with hr.Loader(files, 7, **hr.from_torchvision(transform).keywords) as loader:
        for mine, theirs in zip(loader, DataLoader(dataset, 7), strict=True):
            assert torch.equal(mine[0], theirs[0])


def test_translating_needs_no_torchvision() -> None:
    class Compose:
        transforms = ()

    with pytest.raises(hr.errors.UnsupportedError, match=r"^Compose "):
        hr.from_torchvision(Compose())
