"""Several views of a sample, and FiveCrop and TenCrop: torchvision's tensors for the same draws."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from test_recipe_parity import MEAN, STD, finished
from torchvision import transforms as v1

import headrace as hr
from headrace import transforms as t
from headrace._engine import _lib, abi
from headrace.errors import ArgumentError
from images import jpeg, photographs, pixels

GLOBAL = [
    t.RandomResizedCrop(64, scale=(0.4, 1)),
    t.RandomHorizontalFlip(),
    t.RandomApply([t.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
    t.RandomGrayscale(0.2),
    t.Normalize(MEAN, STD),
]
LOCAL = [
    t.RandomResizedCrop(32, scale=(0.05, 0.4), interpolation="bicubic"),
    t.RandomSolarize(128, p=0.3),
    t.RandomAffine(10),
    t.Normalize(MEAN, STD),
    t.RandomErasing(0.5),
]
MULTI_CROP = t.Views(GLOBAL, [t.Resize(70), t.RandomCrop(48), *GLOBAL[1:]], LOCAL, repeat=(1, 1, 4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photographs for every way of decoding: with and without entropy data to skip, and PNG."""
    root = tmp_path_factory.mktemp("views") / "photos"
    (root / "all").mkdir(parents=True)
    for number, array in enumerate(photographs()):
        cut = Image.fromarray(array).resize((260 + 31 * number, 230 - 9 * number))
        form = {"quality": 90, "progressive": number % 3 == 1}
        name = f"{number}.png" if number % 4 == 3 else f"{number}.jpg"
        cut.save(root / "all" / name, **(form if name.endswith("jpg") else {}))
    return root


@pytest.fixture(scope="module")
def sources(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder in place, and packed with seek points."""
    packed = tmp_path_factory.mktemp("views") / "packed.hr"
    hr.pack(folder, packed)
    return {"listed": folder, "packed": packed}


@pytest.mark.parametrize("source", ["listed", "packed"])
def test_every_view_equals_torchvisions_for_the_same_draws(
    source: str, sources: dict[str, Path]
) -> None:
    options = {"transform": MULTI_CROP, "seed": 7, "num_threads": 2, "fields": ["index"]}
    seen = set()
    with hr.Dataset(sources[source]) as dataset, hr.Loader(dataset, 3, **options) as loader:
        for epoch in range(2):
            for views, _, fields in loader:
                assert [tuple(view.shape[1:]) for view in views] == (
                    [(3, 64, 64), (3, 48, 48)] + [(3, 32, 32)] * 4
                )
                for place, index in enumerate(fields["index"].tolist()):
                    data = bytes(dataset.read(index))
                    drawn = hr.functional.replay(
                        data, MULTI_CROP, seed=7, epoch=epoch, sample=index
                    )
                    with Image.open(io.BytesIO(data)) as opened:
                        image = opened.convert("RGB")
                    for view, steps in zip(views, drawn, strict=True):
                        seen.add(str(steps))
                        assert torch.equal(view[place], finished(image, steps, True)), steps
    # Each view of each sample and epoch must have its own draws.
    assert len(seen) == 2 * len(photographs()) * len(MULTI_CROP)


def alone(data: bytes, steps: Any, key: dict[str, int], **form: Any) -> bytes:
    """The engine's result for one view's transforms alone, with that view's draws."""
    buffer = np.frombuffer(data, np.uint8)
    config = {"transform": steps, **form, **key}

    def room(image: abi.Image) -> tuple[Any, Any]:
        made = np.empty(image.bytes, np.uint8)
        return made, made.ctypes.data

    return _lib.decode(buffer.ctypes.data, buffer.size, config, room).tobytes()


@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_views_have_the_same_bytes_as_each_recipe_alone(
    dtype: str, layout: str, mode: str, folder: Path
) -> None:
    lists = [GLOBAL[:-1], LOCAL[:-2], [t.Resize((40, 30))], GLOBAL[:-1]]
    form = {"dtype": dtype, "layout": layout, "mode": mode}
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    with hr.Loader(folder, 4, transform=t.Views(*lists), seed=3, **form) as loader:
        views, _ = next(iter(loader))
    for number, (view, steps) in enumerate(zip(views, t.Views(*lists), strict=True)):
        for index in range(4):
            key = {"seed": 3, "epoch": 0, "sample": index, "view": number}
            found = view[index].contiguous().view(torch.uint8).numpy().tobytes()
            assert found == alone(files[index].read_bytes(), steps, key, **form), (number, index)


def test_the_first_view_equals_its_plain_list_whatever_the_other_views_are(folder: Path) -> None:
    with hr.Loader(folder, 8, shuffle=True, seed=5, transform=GLOBAL) as loader:
        plain, _ = next(iter(loader))
    for views in (t.Views(GLOBAL), t.Views(GLOBAL, LOCAL), t.Views(GLOBAL, repeat=2)):
        with hr.Loader(folder, 8, shuffle=True, seed=5, transform=views) as loader:
            found, _ = next(iter(loader))
        assert len(found) == len(views)
        assert torch.equal(found[0], plain)
        assert not any(torch.equal(other, plain) for other in found[1:])


def test_draws_of_views_never_change_for_a_seed(tmp_path: Path) -> None:
    """Hashes of two views of two samples: a promise between versions."""
    (tmp_path / "a").mkdir()
    for number in range(2):
        Image.fromarray(pixels(90, 70, seed=number)).save(tmp_path / "a" / f"{number}.png")
    recipe = t.Views([t.RandomResizedCrop(16), t.RandomHorizontalFlip()], repeat=2)
    with hr.Loader(tmp_path, 2, transform=recipe, dtype="uint8", seed=1, output="numpy") as loader:
        views, _ = next(iter(loader))
    found = [hashlib.sha256(image.tobytes()).hexdigest()[:16] for view in views for image in view]
    assert found == GOLDEN


GOLDEN = ["44ffde187e6dde93", "250e940f7d998f45", "e13de4fbe1791157", "5098f662f8f5c524"]


CROPS = {
    "five": (t.FiveCrop((40, 50)), v1.FiveCrop((40, 50))),
    "ten": (t.TenCrop(41), v1.TenCrop(41)),
    "ten upside down": (t.TenCrop((50, 33), True), v1.TenCrop((50, 33), vertical_flip=True)),
}


@pytest.mark.parametrize("name", CROPS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "channels_last"])
def test_fivecrop_and_tencrop_equal_torchvisions_stacked_crops(
    name: str, layout: str, folder: Path
) -> None:
    ours, theirs = CROPS[name]
    pipeline = v1.Compose(
        [
            v1.Resize(55),
            theirs,
            v1.Lambda(lambda crops: torch.stack([v1.functional.to_tensor(crop) for crop in crops])),
            v1.Normalize(MEAN, STD),
        ]
    )
    steps = [t.Resize(55), ours, t.Normalize(MEAN, STD)]
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    with hr.Loader(folder, 4, transform=steps, layout=layout) as loader:
        images, _ = next(iter(loader))
    assert images.shape[:2] == (4, 10 if "ten" in name else 5)
    for found, path in zip(images, files, strict=False):
        with Image.open(path) as opened:
            wanted = pipeline(opened.convert("RGB"))
        if layout == "NHWC":
            wanted = wanted.permute(0, 2, 3, 1)
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.every(4)
def test_functional_five_crop_and_ten_crop_give_torchvisions_bytes(seed: int) -> None:
    random = np.random.default_rng(seed)
    image = pixels(*random.integers(20, 90, 2).tolist(), seed=seed)
    size = [int(random.integers(1, side + 1)) for side in image.shape[:2]]
    opened = Image.fromarray(image)
    pairs = [(hr.functional.five_crop(image, size), v1.functional.five_crop(opened, size))]
    for vertical in (False, True):
        ten = v1.functional.ten_crop(opened, size, vertical)
        pairs.append((hr.functional.ten_crop(image, size, vertical), ten))
    for ours, theirs in pairs:
        assert isinstance(ours, tuple)
        assert len(ours) == len(theirs)
        for found, wanted in zip(ours, theirs, strict=True):
            assert np.array_equal(found, np.asarray(wanted))


def test_a_replay_reports_several_crops() -> None:
    data = jpeg(80, 60)
    for op, function, more in (
        (t.FiveCrop(40), "five_crop", {}),
        (t.TenCrop(40, True), "ten_crop", {"vertical_flip": True}),
    ):
        steps = hr.functional.replay(data, [t.RandomResizedCrop(50), op])
        assert steps[-1] == (function, {"size": [40, 40], **more})


@pytest.mark.parametrize(
    "steps",
    [
        [t.FiveCrop(8), t.RandomHorizontalFlip()],
        [t.FiveCrop(8), t.RandomErasing()],
        [t.TenCrop(8), t.FiveCrop(4)],
        [t.RandomApply([t.TenCrop(8)])],
        [t.RandomChoice([t.FiveCrop(8)])],
        [t.Normalize(MEAN, STD), t.FiveCrop(8)],
        [t.RandomErasing(), t.FiveCrop(8)],
    ],
)
def test_only_normalize_may_follow_several_crops(steps: list[Any], folder: Path) -> None:
    with pytest.raises(ArgumentError, match=r"not the last transform|stands inside of another"):
        hr.Loader(folder, 2, transform=steps)


def test_an_image_smaller_than_its_crops_is_an_error_of_that_sample(folder: Path) -> None:
    small = [t.Resize((30, 40)), t.FiveCrop(36)]
    sentence = r"36x36 \(height x width\).*larger than the image"
    with (
        hr.Loader(folder, 2, transform=small) as loader,
        pytest.raises(ArgumentError, match=sentence),
    ):
        next(iter(loader))
    with pytest.raises(ArgumentError, match="larger than the image"):
        hr.functional.five_crop(pixels(20, 20), 21)
