"""Tensors of bytes resized by torchvision's v2: the engine's bytes are torch's.

Here torch is asked for whole-number arithmetic, which every CPU has. Whether torchvision asks for
it depends on the CPU: if it does, the pipelines are translated; otherwise torchvision runs them.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import datasets
from torchvision.transforms import InterpolationMode, v2

import headrace as hr
import images
import processes
from headrace import transforms as t
from headrace._translate import tensors

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
OWN = torch.backends.cpu.get_cpu_capability()
IN_WHOLE_NUMBERS = pytest.mark.skipif(
    OWN not in ("AVX2", "AVX512"), reason=f"torchvision resizes tensors in floats with {OWN}"
)
FILTERS = ("bilinear", "bicubic")


def resized(image: torch.Tensor, height: int, width: int, name: str) -> torch.Tensor:
    """torch's own resize of a tensor of bytes."""
    assert image.dtype == torch.uint8
    # As in torchvision: for a batch of one torch could not tell the layout.
    batch = image.as_strided((1, *image.shape), (image.numel(), *image.stride()))
    interpolate: Any = torch.nn.functional.interpolate
    found: torch.Tensor = interpolate(batch, [height, width], mode=name, antialias=True)[0]
    return found


def cases(count: int) -> Iterator[tuple[np.ndarray[Any, Any], int, int]]:
    """Noise and stripes of any size from 1x1, and a size for the result; some keep one side."""
    draw = random.Random(3)
    for number in range(count):
        sides = [draw.randint(1, draw.choice((5, 30, 300, 700))) for _ in range(4)]
        if number % 5 == 0:
            sides[2] = sides[0]
        if number % 7 == 0:
            sides[3] = sides[1]
        pixels = np.random.default_rng(number).integers(0, 256, (*sides[:2], 3), dtype=np.uint8)
        yield (pixels // 128 * 255 if number % 3 == 0 else pixels), sides[2], sides[3]


@pytest.mark.parametrize("name", FILTERS)
def test_a_resize_of_a_byte_tensor_equals_torchs_in_every_byte(name: str) -> None:
    differ = 0
    for pixels, height, width in cases(250):
        tensor = torch.from_numpy(pixels).permute(2, 0, 1)
        found = hr.functional.resize(pixels, (height, width), f"tensor-{name}")
        # torch has a kernel for each layout. With the second one it fails if the result is one
        # pixel, and without AVX2 it repeats the first row of a result that is one pixel wide.
        for layout in (tensor, tensor.contiguous()) if width > 1 else (tensor,):
            wanted = resized(layout, height, width, name).permute(1, 2, 0).numpy()
            assert np.array_equal(found, wanted), (pixels.shape, height, width)
        pillows = hr.functional.resize(pixels, (height, width), name)
        differ += int((found != pillows).any())
    assert differ > 100  # else Pillow's filters would do as well


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tensors")
    for width, height in ((200, 133), (61, 130), (300, 9), (20, 23)):
        kinds = images.every_jpeg(width, height)
        files = {f"{kind}.jpg": kinds[kind] for kind in ("baseline-420", "grey", "cmyk")}
        images.write_tree(root / f"jpeg-{width}x{height}", files)
    files = {f"{name}.png": data for name, data in images.every_png(67, 52).items()}
    return images.write_tree(root / "png", files).parent


def tensor_of(path: Path) -> torch.Tensor:
    with Image.open(path) as opened:
        return v2.functional.pil_to_tensor(opened.convert("RGB"))


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("size", [(7, 7), (41, 40), (5, 90)])
def test_a_crop_of_a_resized_tensor_has_the_weights_of_the_whole_resize(
    folder: Path, name: str, size: tuple[int, int]
) -> None:
    # At the edges weights are greater than in the middle; there they may cost all weights a bit.
    steps = [t.Resize(size, f"tensor-{name}"), t.CenterCrop(3)]
    with hr.Loader(folder, 4, transform=steps, dtype="uint8", num_threads=2) as loader:
        found = torch.cat([batch.clone() for batch, _ in loader])
    paths = [Path(path) for path, _ in datasets.ImageFolder(str(folder)).samples]
    assert len(found) == len(paths)
    for part, path in zip(found, paths, strict=True):
        whole = resized(tensor_of(path), *size, name)
        assert torch.equal(part, v2.functional.center_crop(whole, [3])), path


@pytest.mark.parametrize("name", FILTERS)
def test_random_crops_of_tensors_equal_torchs_for_the_same_draws(folder: Path, name: str) -> None:
    recipe = [t.RandomResizedCrop((31, 40), (0.02, 1), interpolation=f"tensor-{name}")]
    recipe += [t.RandomHorizontalFlip()]
    paths = [Path(path) for path, _ in datasets.ImageFolder(str(folder)).samples]
    options = {"transform": recipe, "dtype": "uint8", "fields": ["index"], "num_threads": 2}
    with hr.Loader(folder, 4, seed=5, **options) as loader:
        for epoch in range(3):
            for batch, _labels, fields in loader:
                for found, index in zip(batch, fields["index"].tolist(), strict=True):
                    data, wanted = paths[index].read_bytes(), tensor_of(paths[index])
                    drawn = {"seed": 5, "epoch": epoch, "sample": index}
                    for function, arguments in hr.functional.replay(data, recipe, **drawn):
                        if function == "resize":
                            assert arguments["interpolation"] == f"tensor-{name}"
                            wanted = resized(wanted, *arguments["size"], name)
                        else:
                            wanted = getattr(v2.functional, function)(wanted, **arguments)
                    assert torch.equal(found, wanted), (epoch, paths[index])


def test_the_small_image_that_reveals_torchs_arithmetic_equals_the_engines_result() -> None:
    values = [97 * n % 256 for n in range(24)]
    pixels = np.repeat(np.array(values, np.uint8).reshape(6, 4, 1), 3, 2)
    for name in FILTERS:
        found = hr.functional.resize(pixels, (2, 3), f"tensor-{name}")
        assert found[..., 0].tobytes() == tensors._IN_WHOLE_NUMBERS[name]
        floats = torch.from_numpy(pixels[..., 0].astype(np.float32))[None, None]
        interpolate: Any = torch.nn.functional.interpolate
        rounded = interpolate(floats, [2, 3], mode=name, antialias=True).clamp(0, 255).round()
        assert (rounded[0, 0].numpy() != found[..., 0]).sum() >= 2


def behind_a_tensor(*steps: Any) -> Any:
    """torchvision's recommended order: uint8 until the last steps."""
    last = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD), v2.ToPureTensor()]
    return v2.Compose([v2.ToImage(), *steps, *last])


PIPELINES: dict[str, Any] = {
    "evaluation": behind_a_tensor(v2.Resize(48), v2.CenterCrop(40)),
    "bicubic": behind_a_tensor(v2.Resize(48, v2.InterpolationMode.BICUBIC), v2.CenterCrop(40)),
    "training": behind_a_tensor(
        v2.RandomResizedCrop((31, 40), (4.0, 4.0)), v2.RandomHorizontalFlip(1.0)
    ),
    "a longest side": behind_a_tensor(v2.Resize(50, max_size=60), v2.CenterCrop(30)),
    "bytes": v2.Compose([v2.PILToTensor(), v2.Resize((33, 44)), v2.RandomVerticalFlip(1.0)]),
    "flipped and cropped first": v2.Compose(
        [v2.ToImage(), v2.RandomHorizontalFlip(1.0), v2.CenterCrop((60, 35)), v2.Resize((33, 20))]
    ),
    "twice": v2.Compose(
        [v2.PILToTensor(), v2.Resize((60, 61)), v2.Resize((33, 20), InterpolationMode.BICUBIC)]
    ),
    "both ways": v2.Compose([v2.Resize((60, 61)), v2.ToImage(), v2.Resize((33, 20))]),
    "grey": v2.Compose(
        [v2.Grayscale(1), v2.ToImage(), v2.Resize((33, 20), InterpolationMode.BICUBIC)]
    ),
    "a shortest size": v2.Compose([v2.ToImage(), v2.RandomShortestSize(40, 60), v2.CenterCrop(20)]),
}


@IN_WHOLE_NUMBERS
@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("workers", [0, 1])
def test_a_pipeline_that_begins_with_a_tensor_gives_torchs_batches(
    folder: Path, name: str, workers: int
) -> None:
    dataset = datasets.ImageFolder(str(folder), PIPELINES[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = list(hr.DataLoader(dataset, 4, strict=True, num_workers=workers))
    for mine, theirs in zip(found, DataLoader(dataset, 4), strict=True):
        assert (mine[0].dtype, type(mine[0])) == (theirs[0].dtype, type(theirs[0]))
        assert torch.equal(mine[0], theirs[0])
        assert torch.equal(mine[1], theirs[1])


@pytest.mark.parametrize(
    ("pipeline", "words"),
    [
        (
            [v2.ToImage(), v2.Resize(8, v2.InterpolationMode.NEAREST)],
            "differently with interpolation=",
        ),
        ([v2.ToImage(), v2.RandomResizedCrop(8, antialias=False)], "antialias=False of a tensor"),
        (
            [v2.ToImage(), v2.ToDtype(torch.float32, True), v2.Resize(8)],
            "it resizes a tensor of float32",
        ),
        ([v2.ToImage(), v2.ColorJitter(0.3)], "here it works on a tensor"),
    ],
)
def test_transforms_that_differ_on_tensors_are_left_to_torchvision(
    pipeline: Any, words: str
) -> None:
    with pytest.raises(hr.errors.UnsupportedError, match=words):
        hr.from_torchvision(v2.Compose(pipeline))


@pytest.mark.slow
def test_a_resize_in_floats_is_left_to_torchvision() -> None:
    """Without AVX2 torchvision uses floats for bilinear, and whole numbers for bicubic."""
    told = processes.run(
        """
        import headrace as hr
        from torchvision.transforms import v2

        for name in ("bilinear", "bicubic"):
            pipeline = v2.Compose([v2.ToImage(), v2.Resize(8, v2.InterpolationMode(name))])
            try:
                print(name, hr.from_torchvision(pipeline)[0].interpolation)
            except hr.errors.UnsupportedError as failure:
                print(name, failure)
        """,
        prefix=("env", "ATEN_CPU_CAPABILITY=default"),
        timeout=240,
    )
    assert "torch resizes tensors in floats on this CPU" in told.splitlines()[0]
    assert told.splitlines()[1] == "bicubic tensor-bicubic"
