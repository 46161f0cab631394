"""torchvision's augmentations, v1 and v2, as translated by from_torchvision."""

from __future__ import annotations

import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_kernels
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import datasets
from torchvision import transforms as v1
from torchvision.transforms import v2

import headrace as hr
import images
from headrace import errors
from headrace import transforms as t
from headrace._translate.reader import Reader

ROOT = Path(__file__).resolve().parents[2]

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("recipe-translation"), 12)


def same(kind: Any) -> list[tuple[Any, Any]]:
    """Transforms of one version of torchvision, and the translation of each."""
    nearest, bilinear = v1.InterpolationMode.NEAREST, v1.InterpolationMode.BILINEAR
    version = 1 if kind is v1 else 2
    return [
        (kind.Grayscale(3), t.Grayscale(3)),
        (kind.RandomGrayscale(0.2), t.RandomGrayscale(0.2)),
        (
            kind.ColorJitter(0.4, (0.5, 2.0), 0, 0.1),
            t.ColorJitter((0.6, 1.4), (0.5, 2.0), 0, (-0.1, 0.1)),
        ),
        (kind.RandomInvert(0.3), t.RandomInvert(0.3)),
        (kind.GaussianBlur((5, 9), 2), t.GaussianBlur((5, 9), (2.0, 2.0))),
        (kind.GaussianBlur(23), t.GaussianBlur((23, 23), (0.1, 2.0))),
        (kind.RandomPosterize(4, 0.3), t.RandomPosterize(4, 0.3)),
        (kind.RandomSolarize(99, 0.3), t.RandomSolarize(99.0, 0.3)),
        (kind.RandomAdjustSharpness(2, 0.3), t.RandomAdjustSharpness(2.0, 0.3)),
        (kind.RandomAutocontrast(0.3), t.RandomAutocontrast(0.3)),
        (kind.RandomEqualize(0.3), t.RandomEqualize(0.3)),
        (
            kind.RandomRotation(30, bilinear, fill=7),
            t.RandomRotation((-30.0, 30.0), "bilinear", False, None, 7),
        ),
        (
            kind.RandomAffine(10, (0.1, 0.2), (0.5, 2), (-3, 3, -4, 4), nearest, (1, 2, 3)),
            t.RandomAffine(
                (-10.0, 10.0),
                (0.1, 0.2),
                (0.5, 2.0),
                (-3.0, 3.0, -4.0, 4.0),
                "nearest",
                (1, 2, 3),
                version=version,
            ),
        ),
        (kind.RandomPerspective(0.4, 0.3), t.RandomPerspective(0.4, 0.3, "bilinear", 0)),
        (kind.AutoAugment(v1.AutoAugmentPolicy.SVHN), t.AutoAugment("svhn", "nearest", 0, version)),
        (kind.RandAugment(3, 7, 20, bilinear), t.RandAugment(3, 7, 20, "bilinear", 0, version)),
        (kind.TrivialAugmentWide(20), t.TrivialAugmentWide(20, "nearest", 0, version)),
        (kind.Pad([1, 2], 5), t.Pad([1, 2], 5, "constant")),
        (kind.AugMix(), t.AugMix(version=version)),
        (
            kind.AugMix(2, 4, 5, 0.5, False, nearest, (1, 2, 3)),
            t.AugMix(2, 4, 5, 0.5, False, "nearest", (1, 2, 3), version),
        ),
        (
            kind.RandomApply([kind.RandomInvert(1.0), kind.RandomEqualize(1.0)], 0.3),
            t.RandomApply([t.RandomInvert(1.0), t.RandomEqualize(1.0)], 0.3),
        ),
        (
            kind.RandomOrder([kind.RandomInvert(0.5), kind.Grayscale(3)]),
            t.RandomOrder([t.RandomInvert(0.5), t.Grayscale(3)]),
        ),
    ]


def test_v2_jpeg_is_translated_where_it_gets_a_pil_image() -> None:
    for theirs, ours in ((v2.JPEG(30), t.JPEG((30, 30))), (v2.JPEG((5, 95)), t.JPEG((5, 95)))):
        assert [step.to_dict() for step in hr.from_torchvision(theirs)] == [ours.to_dict()]
    with pytest.raises(hr.errors.UnsupportedError, match="here it works on a tensor"):
        hr.from_torchvision(v2.Compose([v2.ToImage(), v2.JPEG(30)]))


def test_v2_noise_is_translated_where_it_gets_bytes() -> None:
    noise, last = v2.GaussianNoise(0.1, 0.2, False), v2.ToDtype(torch.float32, scale=True)
    found = hr.from_torchvision(v2.Compose([v2.ToImage(), noise, last]))
    assert [step.to_dict() for step in found] == [t.GaussianNoise(0.1, 0.2, False).to_dict()]
    for pipeline, words in (
        (noise, "PIL image, which it refuses"),
        (v2.Compose([v2.ToImage(), last, noise]), "here it has no bytes"),
    ):
        with pytest.raises(hr.errors.UnsupportedError, match=words):
            hr.from_torchvision(pipeline)


@pytest.mark.parametrize("module", [v1, v2])
def test_elastic_transforms_are_translated_on_pil_images_and_on_bytes(module: Any) -> None:
    theirs = module.ElasticTransform(
        [40.0, 3.0], 2.0, module.InterpolationMode.NEAREST, fill=[7, 8, 9]
    )
    version = 1 if module is v1 else 2
    ours = t.ElasticTransform((40, 3), (2, 2), "nearest", (7, 8, 9), version=version)
    for pipeline in (theirs, module.Compose([module.PILToTensor(), theirs])):
        (found,) = hr.from_torchvision(pipeline)
        assert found.to_dict() == ours.to_dict()
    (found,) = hr.from_torchvision(module.RandomApply([module.ElasticTransform()]))
    assert found.transforms[0].to_dict()["alpha"] == [50.0, 50.0]


def test_v2_photometric_distortion_is_translated() -> None:
    for theirs, ours in (
        (v2.RandomPhotometricDistort(), t.RandomPhotometricDistort()),
        (
            v2.RandomPhotometricDistort([0.5, 1], (0, 2), (1, 1), (-0.5, 0.5), 1),
            t.RandomPhotometricDistort((0.5, 1.0), (0.0, 2.0), (1.0, 1.0), (-0.5, 0.5), 1.0),
        ),
    ):
        assert [step.to_dict() for step in hr.from_torchvision(theirs)] == [ours.to_dict()]


@pytest.mark.parametrize("kind", [v1, v2], ids=["v1", "v2"])
def test_solarize_of_a_policy_changes_exactly_the_values_that_torchvisions_changes(
    kind: Any,
) -> None:
    ramp = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, 1)[None]
    data = b"P6 256 1 255\n" + ramp.tobytes()
    for magnitude in range(31):
        most, factor = (1, 255.0) if kind is v2 else (255, 1.0)
        threshold = float(torch_kernels.linspace(most, 0, 31)[magnitude]) * factor
        steps = hr.from_torchvision(kind.RandAugment(1, magnitude))
        drawn = next(
            arguments["threshold"]
            for sample in itertools.count()
            for name, arguments in hr.functional.replay(data, list(steps), sample=sample)
            if name == "solarize"
        )
        found = hr.functional.solarize(ramp, drawn)
        wanted = kind.functional.solarize(Image.fromarray(ramp), threshold)
        assert (found == np.asarray(wanted)).all(), magnitude


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_each_augmentation_is_translated_with_its_arguments(version: str) -> None:
    for theirs, ours in same({"v1": v1, "v2": v2}[version]):
        found = hr.from_torchvision(theirs)
        assert [step.to_dict() for step in found] == [ours.to_dict()], theirs


def test_a_choice_keeps_its_weights() -> None:
    parts = [v1.RandomInvert(1.0), v1.Compose([v1.Grayscale(3), v1.RandomEqualize(1.0)])]
    (found,) = hr.from_torchvision(v1.RandomChoice(parts, p=[1, 3]))
    ours = [t.RandomInvert(1.0), t.RandomApply([t.Grayscale(3), t.RandomEqualize(1.0)], 1.0)]
    assert found.to_dict() == t.RandomChoice(ours, [1.0, 3.0]).to_dict()


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_erasings_stay_before_or_after_normalize(version: str) -> None:
    kind: Any = {"v1": v1, "v2": v2}[version]
    cast = [v1.ToTensor()] if kind is v1 else [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    before, after = kind.RandomErasing(0.1, value=0.5), kind.RandomErasing(0.2, value="random")
    pipeline = kind.Compose([kind.CenterCrop(9), *cast, before, kind.Normalize(MEAN, STD), after])
    found = hr.from_torchvision(pipeline)
    names = [type(step).__name__ for step in found]
    assert names == ["CenterCrop", "RandomErasing", "Normalize", "RandomErasing"]
    assert found[1].to_dict()["value"] == [0.5]
    assert found[3].to_dict()["value"] == "random"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (v2.Resize(None, max_size=9), t.Resize(None, "bilinear", 9)),
        (v1.RandomRotation(9, expand=True), t.RandomRotation((-9, 9), "nearest", True)),
        (v2.RandomShortestSize([7, 8], 9), t.RandomShortestSize([7, 8], 9)),
        (v2.RandomResize(7, 9, "bicubic"), t.RandomResize(7, 9, "bicubic")),
        (v2.ScaleJitter((7, 9)), t.ScaleJitter((7, 9))),
        (v2.RandomZoomOut(3, (1.0, 2.0), 0.3), t.RandomZoomOut(3, (1.0, 2.0), 0.3)),
    ],
)
def test_transforms_with_a_variable_output_size_are_translated(theirs: Any, ours: Any) -> None:
    found = hr.from_torchvision(v2.Compose([v2.Resize((60, 50)), theirs]))
    assert found[1].to_dict() == ours.to_dict()
    assert found.size == ((9, 7) if type(theirs) is v2.Resize else None)
    assert hr.from_torchvision(v2.Compose([theirs, v2.CenterCrop(5)])).size == (5, 5)


@pytest.mark.parametrize(
    ("pipeline", "words"),
    [
        (v1.Compose([v1.ToTensor(), v1.GaussianBlur(5)]), "it works on a tensor"),
        (v1.GaussianBlur(1025), "kernel_size=1025"),
        (
            v1.RandomApply([v2.LinearTransformation(torch.eye(3), torch.ones(3))]),
            "LinearTransformation in it",
        ),
        (v2.ElasticTransform(interpolation="bicubic"), "interpolation="),
        (v2.ElasticTransform(sigma=128.0), "sigma="),
        (v1.Compose([v1.ToTensor(), v1.ElasticTransform()]), "here it has no bytes"),
        (v1.RandomApply([v1.Grayscale(1)]), "num_output_channels=3"),
        (v2.RandomRotation(9, expand=True, center=(1, 2)), "leaves the centre out"),
        (v2.RandomShortestSize(list(range(1, 14))), "min_size="),
        (v1.Compose([v1.ToTensor(), v1.ColorJitter(0.5)]), "it works on a tensor"),
        (v1.Compose([v1.ToTensor(), v1.RandomErasing(), v1.CenterCrop(3)]), "behind RandomErasing"),
        (v1.Compose([v1.ToTensor(), v1.RandomErasing(value="random")]), "in front of Normalize"),
        (v1.RandomApply([v1.ToTensor()]), "a tensor of some images"),
        (v1.RandomPerspective(fill=300), "fill=300"),
        (v2.RandomRotation(9, fill={"others": 3}), "fill={'others': 3}"),
        (v1.RandomInvert(1.5), "p=1.5"),
        (v1.AugMix(interpolation=v1.InterpolationMode.BICUBIC), "interpolation="),
        (v2.RandomResize(9, 8), "min_size=9 with max_size=8"),
        (v1.RandomResizedCrop(9, ratio=(2, 3)), "ratio=.* a pixel wide"),
        (v2.RandomResizedCrop(9, ratio=(0.1, 0.5)), "ratio=.* a pixel wide"),
    ],
)
def test_transforms_without_an_equivalent_are_named(pipeline: Any, words: str) -> None:
    with pytest.raises(hr.errors.UnsupportedError, match=words):
        hr.from_torchvision(pipeline)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_recipe_without_random_draws_gives_torchs_batches(folder: Path, version: str) -> None:
    kind: Any = {"v1": v1, "v2": v2}[version]
    last = [v1.ToTensor()] if kind is v1 else [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    pipeline = kind.Compose(
        [
            kind.Resize((50, 60)),
            kind.ColorJitter((1.3, 1.3)),
            kind.RandomSolarize(120, 1.0),
            kind.RandomEqualize(1.0),
            kind.RandomRotation((30, 30), v1.InterpolationMode.BILINEAR, fill=9),
            kind.Pad([2, 4]),
            kind.RandomApply([kind.RandomPosterize(3, 1.0), kind.RandomHorizontalFlip(1.0)], 1.0),
            kind.RandomAdjustSharpness(2.5, 1.0),
            kind.Grayscale(3),
            kind.RandomAutocontrast(1.0),
            *last,
            kind.Normalize(MEAN, STD),
        ]
    )
    dataset = datasets.ImageFolder(str(folder), pipeline)
    wanted = DataLoader(dataset, 5)
    loader = hr.DataLoader(dataset, 5, strict=True)
    for (found, labels), (their_images, their_labels) in zip(loader, wanted, strict=True):
        assert torch.equal(found, their_images)
        assert torch.equal(labels, their_labels)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_draw_between_equal_numbers_is_that_number_in_single_precision_as_in_torch(
    tmp_path: Path, version: str
) -> None:
    kind: Any = {"v1": v1, "v2": v2}[version]
    photographs = {f"{n}.jpg": images.jpeg(220 + n, 200, seed=n) for n in range(6)}
    images.write_tree(tmp_path / "photos" / "class", photographs)
    bilinear = v1.InterpolationMode.BILINEAR
    for warp in (
        kind.RandomRotation((35.71930044430964,) * 2, bilinear, expand=True),
        kind.RandomAffine((-86.00728540075156,) * 2, None, (1.1, 1.1), (5.1, 5.1), bilinear),
        kind.RandomAffine((3.3, 3.3), None, None, (1.7, 1.7, -7.9, -7.9), bilinear, 0, (3, 4)),
        kind.RandomAffine((56.611213547635344,) * 2, None, (1.5, 1.5), None, bilinear, 9, (3, 4)),
    ):
        pipeline = kind.Compose([warp, v1.PILToTensor()])
        dataset = datasets.ImageFolder(str(tmp_path / "photos"), pipeline)
        loader = hr.DataLoader(dataset, 1, strict=True)
        for mine, theirs in zip(loader, DataLoader(dataset, 1), strict=True):
            assert torch.equal(mine[0], theirs[0])


def test_a_jitter_without_arguments_is_left_out() -> None:
    for kind in (v1, v2):
        assert hr.from_torchvision(kind.Compose([kind.ColorJitter(), kind.CenterCrop(8)])) == [
            t.CenterCrop(8)
        ]


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("crops", ["FiveCrop", "TenCrop"])
def test_fivecrop_and_tencrop_and_a_function_that_stacks_them_give_torchs_batches(
    folder: Path, version: str, crops: str
) -> None:
    kind: Any = {"v1": v1, "v2": v2}[version]

    def stack(images: Any) -> torch.Tensor:
        assert isinstance(images, tuple)
        return torch.stack([v1.functional.to_tensor(image) for image in images])

    last = v1.Lambda(stack) if kind is v1 else stack  # v2's Lambda gets the images one by one
    pipeline = kind.Compose([kind.Resize(40), getattr(kind, crops)(24), last])
    dataset = datasets.ImageFolder(str(folder), pipeline)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        batches = list(hr.DataLoader(dataset, 5))
    said = [str(w.message) for w in warned if "headrace" in str(w.message)]
    # After a Compose that ends so, Python makes the crops; before a known class all is recorded.
    assert [f"{crops} has no translation" in text for text in said] == [True] * (kind is v2)
    for mine, theirs in zip(batches, DataLoader(dataset, 5), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


def test_v2_rgb_of_an_image_that_is_rgb_is_native(folder: Path) -> None:
    pipeline = v2.Compose([v2.RGB(), v2.CenterCrop(24), v2.ToImage(), v2.RGB()])
    dataset = datasets.ImageFolder(str(folder), pipeline)
    for mine, theirs in zip(
        hr.DataLoader(dataset, 5, strict=True), DataLoader(dataset, 5), strict=True
    ):
        assert torch.equal(mine[0], theirs[0])


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_blur_in_a_recipe_gives_torchs_batches_but_for_a_few_bytes_that_differ_by_one(
    folder: Path, version: str
) -> None:
    kind: Any = {"v1": v1, "v2": v2}[version]
    parts = [kind.Resize((200, 240)), kind.GaussianBlur((9, 5), 1.3), v1.PILToTensor()]
    dataset = datasets.ImageFolder(str(folder), kind.Compose(parts))
    loader = hr.DataLoader(dataset, 12, strict=True)
    ((found, _),) = loader
    ((wanted, _),) = DataLoader(dataset, 12)
    off = (found.int() - wanted.int()).abs()
    assert off.max() <= 1
    assert (off > 0).sum() * 10_000 < off.numel()


# Transforms of the table that are not translated, and the reason.
NOT_TRANSLATED = {
    "FiveCrop": "a tuple of images, of which a Lambda makes a tensor",
    "TenCrop": "as FiveCrop",
    "MixUp": "takes batches, in a collate_fn",
    "CutMix": "as MixUp",
    "Mixup": "as MixUp",
    "RandomIoUCrop": "looks at boxes, which a pipeline of one image has not",
    "RandomPillowBlur": "a class of each program's own around Pillow's filter",
    "Cutout": "no class of torchvision's or timm's",
    "Native": "a function of the user's own",
}
# timm's classes with names that differ from the table's.
OF_TIMM = {
    "TimmAugment": ("TimmRandAugment", "TimmAutoAugment", "TimmAugMixAugment"),
    "TimmErasing": ("TimmRandomErasing",),
}


def test_every_transform_of_the_table_is_translated_or_has_a_reason_in_this_file() -> None:
    table = json.loads((ROOT / "internal/transform/transforms.json").read_text())
    for entry in table["transforms"]:
        name = entry["name"]
        if entry.get("internal"):
            continue
        read = all(
            hasattr(Reader, f"_{known}") or Reader.is_augmentation(known)
            for known in OF_TIMM.get(name, (name,))
        )
        assert read != (name in NOT_TRANSLATED), name


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        (v2.FiveCrop(16), "tuple of images.*for Loader"),
        (v2.TenCrop(16), "tuple of images.*for Loader"),
        (v2.MixUp(num_classes=3), "takes batches.*collate_fn"),
        (v2.CutMix(num_classes=3), "takes batches.*collate_fn"),
        (v2.RandomIoUCrop(), "boxes beside an image.*for a Loader with labels"),
        (v2.LinearTransformation(torch.eye(3), torch.ones(3)), "torch's.*no room for the matrix"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_transform_that_headrace_has_elsewhere_is_refused_with_its_place(
    op: Any, reason: str
) -> None:
    with pytest.raises(errors.UnsupportedError, match=f"{type(op).__name__} has no.*{reason}"):
        hr.from_torchvision(v2.Compose([op]))


@pytest.mark.parametrize("given", [v1.Compose([v1.CenterCrop(8)]), [v2.CenterCrop(8)]])
def test_a_loader_given_torchvisions_transforms_says_how_to_translate_them(
    folder: Path, given: Any
) -> None:
    with pytest.raises(errors.ArgumentError, match=r"transform.*headrace\.from_torchvision"):
        hr.Loader(folder, 2, transform=given)
    compose = given if isinstance(given, v1.Compose) else v2.Compose(given)
    with hr.Loader(folder, 2, **hr.from_torchvision(compose).keywords) as loader:
        assert next(iter(loader))[0].shape == (2, 3, 8, 8)
