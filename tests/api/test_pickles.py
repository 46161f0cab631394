"""Pickles of public objects: those of earlier versions load, and new ones name public modules."""

from __future__ import annotations

import base64
import json
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torchvision import transforms as v1

import headrace as hr
from headrace import samplers as s
from headrace import transforms as t
from headrace._torch.place import Standing
from headrace.torch import Normalize

# Made when all modules stood directly in headrace/, in a folder with the image folder "photos".
BEFORE = json.loads(Path(__file__).with_name("pickles.json").read_text())

CLASSES = [
    hr.Loader,
    hr.DataLoader,
    hr.IterableDataset,
    hr.Dataset,
    hr.Sample,
    hr.Writer,
    Normalize,
]
# Transforms added since then, of which there is no old pickle.
SINCE = (
    "ElasticTransform",
    "Image",
    "RandomIoUCrop",
    "RandomPillowBlur",
    "elastic",
    "elastic_displacement",
    "reduce",
    "resize_box",
)
OBJECTS: dict[str, Callable[[], Any]] = {
    "a transform": lambda: t.RandomResizedCrop(224, interpolation="bicubic"),
    "a list of transforms": lambda: [
        t.RandomApply([t.ColorJitter(0.4)]),
        t.Normalize(0.5, 0.5),
        t.MixUp(num_classes=10),
    ],
    "labels": lambda: {
        "boxes": t.Boxes(sanitize=1),
        "classes": t.Along("boxes"),
        "mask": t.Mask(),
        "points": t.KeyPoints(),
    },
    "views": lambda: t.Views(a=[t.CenterCrop(8)], b=[t.Resize(8)], repeat={"b": 2}),
    "a schedule": lambda: t.Schedule({0: 128, 10: [160, 192]}, by="step"),
    "samplers": lambda: [
        *(s.Subset([2, 0]), s.Weighted([1.0, 2.0]), s.ClassBalanced(), s.Repeated(3)),
    ],
    "an error": lambda: hr.HeadraceError("said"),
    "an error of a file": lambda: hr.errors.ArgumentError("said"),
    "a dataset": lambda: hr.Dataset("photos"),
    "a translation": lambda: hr.from_torchvision(v1.Compose([v1.Resize((8, 8)), v1.ToTensor()])),
    "an IterableDataset": lambda: hr.IterableDataset(
        "photos", 4, transform=[t.CenterCrop(8)], shuffle=True, rank=0, world_size=1
    ),
    "what a DataLoader keeps": lambda: (
        hr.DataLoader(hr.Dataset("photos"), 4, transform=[t.CenterCrop(8)]).standing
    ),
    "functions of one image": lambda: [
        getattr(hr.functional, name) for name in hr.functional.__all__ if name not in SINCE
    ],
    "functions": lambda: [hr.from_torchvision, hr.pack, hr.index, hr.verify],
    "classes": lambda: [
        *CLASSES,
        *(getattr(t, name) for name in t.__all__ if name not in SINCE),
    ],
}
# Objects whose content only the package itself uses.
OF_ROOMS = {"a translation", "an IterableDataset", "what a DataLoader keeps", "functions"}


def told(value: Any) -> Any:
    """The comparable content of an object whose class has no ``==``."""
    if isinstance(value, type):
        return value
    if isinstance(value, list):
        return [told(part) for part in value]
    if isinstance(value, dict):
        return {name: told(part) for name, part in value.items()}
    if isinstance(value, hr.IterableDataset):
        return [type(value), told(value._arguments), value._next_epoch[0]]
    if hasattr(value, "to_list"):
        return [type(value), value.to_list(), value.names]
    if isinstance(value, hr.Dataset):
        return [len(value), value.fingerprint]
    if isinstance(value, Exception):
        return [type(value), str(value)]
    if isinstance(value, t.Schedule | Standing):
        return [type(value), told(vars(value))]
    return value


@pytest.fixture(autouse=True)
def _beside_the_photographs(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "photos").symlink_to(folder)
    monkeypatch.chdir(tmp_path)


def test_there_is_an_old_pickle_of_every_public_object() -> None:
    assert BEFORE.keys() == OBJECTS.keys()


@pytest.mark.parametrize("name", OBJECTS)
def test_an_old_pickle_loads_as_the_same_object(name: str) -> None:
    loaded, made = pickle.loads(base64.b64decode(BEFORE[name])), OBJECTS[name]()
    assert type(loaded) is type(made)
    assert told(loaded) == told(made)


@pytest.mark.parametrize("name", [name for name in OBJECTS if name not in OF_ROOMS])
def test_a_pickle_names_only_public_modules(name: str) -> None:
    said = pickletools.genops(pickle.dumps(OBJECTS[name](), 4))
    modules = {text for _, text, _ in said if str(text).startswith("headrace")}
    assert modules
    assert not any("._" in module for module in modules)
    for module in modules:
        assert (Path(hr.__file__).parent / f"{module.removeprefix('headrace.')}.py").is_file()


@pytest.mark.parametrize("name", OBJECTS)
def test_a_new_pickle_loads_as_the_same_object(name: str) -> None:
    made = OBJECTS[name]()
    assert told(pickle.loads(pickle.dumps(made))) == told(made)
