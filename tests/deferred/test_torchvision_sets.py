"""torchvision's datasets of photographs, over small folders of their layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from torchvision import datasets
from torchvision import transforms as tv

import images
from deferred.test_own_code import compared

STEPS = tv.Compose([tv.Resize(20), tv.CenterCrop(16), tv.ToTensor()])


def photograph(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(images.jpeg(40 + seed, 32, seed=seed))


def pets(root: Path) -> Any:
    base = root / "oxford-iiit-pet"
    lines = []
    for number, name in enumerate(["Abyssinian_1", "Abyssinian_2", "beagle_1", "beagle_2"]):
        photograph(base / "images" / f"{name}.jpg", number)
        trimap = base / "annotations" / "trimaps" / f"{name}.png"
        trimap.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images.pixels(40, 32, 1)[..., 0] % 3 + 1).save(trimap)
        lines.append(f"{name} {1 + number // 2} {1 + number // 2} 1\n")
    (base / "annotations" / "trainval.txt").write_text("".join(lines))
    return datasets.OxfordIIITPet(root, transform=STEPS)


def caltech(root: Path) -> Any:
    names = [
        "BACKGROUND_Google/image_0001",
        "ant/image_0001",
        "ant/image_0002",
        "wrench/image_0001",
    ]
    for number, name in enumerate(names):
        photograph(root / "caltech101" / "101_ObjectCategories" / f"{name}.jpg", number)
    (root / "caltech101" / "Annotations").mkdir()
    return datasets.Caltech101(root, transform=STEPS)


def sun(root: Path) -> Any:
    base = root / "SUN397"
    for number, name in enumerate(["a/abbey", "a/abbey", "b/bar/indoor"]):
        photograph(base / name[0] / name[2:] / f"sun_{number}.jpg", number)
    # torchvision takes the part of a path after the letter.
    (base / "ClassName.txt").write_text("/a/abbey\n/b/bar/indoor\n")
    return datasets.SUN397(root, transform=STEPS)


def celebrities(root: Path) -> Any:
    base = root / "celeba"
    names = [f"{number:06d}.jpg" for number in range(1, 5)]
    for number, name in enumerate(names):
        photograph(base / "img_align_celeba" / name, number)
    tables = {
        "list_eval_partition.txt": ("", "0"),
        "identity_CelebA.txt": ("", "7"),
        "list_bbox_celeba.txt": ("4\nimage_id x_1 y_1 width height\n", "1 2 3 4"),
        "list_landmarks_align_celeba.txt": ("4\nleft right\n", "5 6"),
        "list_attr_celeba.txt": ("4\nSmiling Young\n", "-1 1"),
    }
    for name, (heading, cells) in tables.items():
        rows = [f"{image} {cells}\n" for image in names]
        (base / name).write_text(heading + "".join(rows))
    return datasets.CelebA(root, transform=STEPS)


@pytest.mark.parametrize("make", [pets, caltech, sun, celebrities])
@pytest.mark.parametrize("workers", [0, 2])
def test_torchvisions_datasets_of_photographs_are_native(
    tmp_path: Path, make: Any, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The real files' checksums.
    monkeypatch.setattr(datasets.CelebA, "_check_integrity", lambda self: True)
    dataset = make(tmp_path)
    assert len(dataset) > 2
    compared(dataset, num_workers=workers, batch_size=2)
