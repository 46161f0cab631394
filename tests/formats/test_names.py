"""Files whose names are any bytes: in place, packed, in messages, and in the drop-in."""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch.utils import data
from torchvision import datasets
from torchvision import transforms as tv

import headrace as hr
import images
from headrace import errors

STEPS = [tv.Resize((16, 16)), tv.ToTensor()]
CROP = [hr.transforms.CenterCrop(8)]
# With a plain escape the two files of each pair would share a name, and with a replacement
# character three files would.
NAMES = [
    b"c/\xff.jpg",
    b"c/\xfe.jpg",
    b"c/%FF.jpg",
    b"c/100%.jpg",
    b"d\xff/\xc3\xa9.jpg",
    b"d%FF/x.jpg",
]


def tree(root: Path, names: list[bytes], content: bytes = b"") -> Path:
    """Files with those names, each with a different picture unless content is given."""
    for number, name in enumerate(names):
        path = os.path.join(os.fsencode(root), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content or images.jpeg(20, 20, seed=number))
    return root


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image folder of such names in a directory with such a name."""
    return tree(tmp_path_factory.mktemp("names") / os.fsdecode(b"phot\xf6s"), NAMES)


def keys(dataset: hr.Dataset) -> list[str]:
    return [dataset.facts(number)["key"] for number in range(len(dataset))]


def test_keys_and_classes_are_unique_text_and_the_same_in_place_and_packed(
    named: Path, tmp_path: Path
) -> None:
    hr.pack(named, tmp_path / "d.hr")
    packed, listed = hr.Dataset(tmp_path / "d.hr"), hr.Dataset(named)
    assert keys(listed) == keys(packed)
    assert keys(listed) == ["c/%25FF", "c/100%", "c/%FE", "c/%FF", "d%25FF/x", "d%FF/é"]
    assert listed.classes == packed.classes == ["c", "d%25FF", "d%FF"]
    assert hr.verify(tmp_path / "d.hr")["ok"]
    for number, sample in enumerate(listed):
        assert sample.key == packed[number].key
        assert sample.label == packed[number].label
        assert (sample.image == packed[number].image).all()


def test_random_names_come_in_torchvisions_order_and_each_path_opens(tmp_path: Path) -> None:
    chance = random.Random(11)
    pieces = [
        b"\xff",
        b"\xed\xb3\xbf",
        b"\xc3",
        "é".encode(),
        "\U0001f600".encode(),
        b"\xef\xbf\xbd",
    ]
    pieces += [b"%", b"%FF", b"%25", b"F", b"2", b"a", b" ", b"\n"]

    def name() -> bytes:
        return b"".join(chance.choices(pieces, k=chance.randint(1, 4)))

    tree(tmp_path, [name() + b"/" + name() + b".jpg" for _ in range(150)], images.png(4, 4, 2))
    theirs = datasets.ImageFolder(str(tmp_path))
    mine = hr.Dataset(tmp_path)
    assert [mine.facts(i)["path"] for i in range(len(mine))] == [path for path, _ in theirs.samples]
    assert [mine.facts(i)["label"] for i in range(len(mine))] == theirs.targets
    assert len(mine.classes) == len(set(mine.classes)) == len(theirs.classes)
    assert len(set(keys(mine))) == len(mine) > 100
    for sample in mine:
        assert "".join([sample.key, *mine.classes]).encode()
        assert Path(sample.path).is_file()


def test_the_drop_in_gives_torchs_batches_of_files_of_any_name(named: Path) -> None:
    folder = datasets.ImageFolder(str(named), tv.Compose(STEPS))
    for dataset in (folder, data.Subset(folder, [5, 0, 2]), data.ConcatDataset([folder, folder])):
        mine = hr.DataLoader(dataset, 4, strict=True)
        theirs = data.DataLoader(dataset, 4)
        for batch, expected in zip(mine, theirs, strict=True):
            assert all(a.equal(b) for a, b in zip(batch, expected, strict=True))
        loader = pickle.loads(pickle.dumps(mine))
        assert torch.cat([labels for _, labels in loader]).equal(
            torch.cat([labels for _, labels in theirs])
        )


def test_a_state_resumes_over_files_of_any_name_and_tells_the_names_apart(named: Path) -> None:
    folder = datasets.ImageFolder(str(named), tv.Compose(STEPS))
    loader = hr.DataLoader(folder, 2, shuffle=True, strict=True, seed=3)
    iterator = iter(loader)
    next(iterator)
    state = json.loads(json.dumps(loader.state_dict()))
    expected = list(iterator)
    again = hr.DataLoader(folder, 2, shuffle=True, strict=True, seed=3)
    again.load_state_dict(state)
    for batch, other in zip(again, expected, strict=True):
        assert batch[0].equal(other[0])
    other = copy.copy(folder)
    other.samples = [(path.replace("\udcfe", "\udcfd"), label) for path, label in folder.samples]
    with pytest.raises(hr.HeadraceError, match="fingerprint"):
        hr.DataLoader(other, 2, shuffle=True, strict=True, seed=3).load_state_dict(state)


def test_a_path_that_no_file_can_have_raises_the_same_error_as_under_torchs_loader(
    tmp_path: Path,
) -> None:
    folder = datasets.ImageFolder(str(tree(tmp_path, [b"c/a.jpg"])), tv.Compose(STEPS))
    folder.samples.append(("\ud800.jpg", 0))
    for kind in (data.DataLoader, hr.DataLoader):
        with pytest.raises(UnicodeEncodeError, match=r"ud800.*surrogates not allowed"):
            list(kind(folder, 2))
    with pytest.raises(
        errors.ArgumentError, match=r"path='.ud800': a path that can be said in utf-8"
    ):
        hr.Dataset("\ud800")


@pytest.mark.parametrize("kind", [os.fspath, os.fsencode, Path])
def test_every_function_takes_paths_that_are_not_utf8(
    named: Path, tmp_path: Path, kind: Any
) -> None:
    place = os.path.join(os.fspath(tmp_path), os.fsdecode(b"pl\xe4ce"))
    made = hr.pack(kind(named), kind(place))
    assert made["destination"] == place
    assert hr.verify(kind(place))["path"] == place
    for source in (named, Path(place)):
        dataset = hr.Dataset(kind(source))
        assert dataset.info["path"] == str(source)
        assert all(Path(sample.path).is_file() for sample in dataset)
        assert len(pickle.loads(pickle.dumps(dataset))) == 6
        with hr.Loader(kind(source), 6, transform=CROP, output="numpy", fields=["path"]) as loader:
            [batch] = loader
        assert list(batch[2]["path"]) == [sample.path for sample in dataset]
    files = [kind(os.path.join(named, os.fsdecode(name))) for name in NAMES]
    assert [s.label for s in hr.Dataset.from_files(files, range(6))] == list(range(6))
    assert len(hr.Dataset.concat([kind(named), kind(place)])) == 12
    with hr.Writer(kind(place + "2")) as writer:
        writer.add(image=images.jpeg(8, 8), label=0)
    assert writer.result is not None
    assert writer.result["destination"] == place + "2"


def test_an_index_of_a_folder_of_any_name_can_be_written_anywhere(tmp_path: Path) -> None:
    folder = tree(tmp_path / os.fsdecode(b"f\xff"), [b"c/a.jpg", b"c/b.jpg"])
    place = tmp_path / os.fsdecode(b"x\xff")
    assert hr.index(folder, index_dir=place)["destination"] == str(place)
    assert hr.Dataset(folder, index_dir=place).kind == "indexed"
    (folder / "c" / "b.jpg").write_bytes(b"none")
    found = hr.verify(folder, index_dir=place)
    assert [fault["file"] for fault in found["faults"]["listed"]] == [str(folder / "c" / "b.jpg")]


def test_messages_escape_names_of_any_bytes_and_attributes_hold_the_real_names(
    tmp_path: Path,
) -> None:
    tree(tmp_path / "f", [b"c/a.jpg", b"c/b.jpg", b"c/d.jpg"])
    tree(tmp_path / "f", [b"c/\xff.jpg", b"c/\xfe.jpg"], b"none")
    bad = [str(tmp_path / "f" / "c" / os.fsdecode(name)) for name in (b"\xfe.jpg", b"\xff.jpg")]
    made = hr.pack(tmp_path / "f", tmp_path / "d.hr")
    assert [fault["file"] for fault in made["faults"]["listed"]] == bad
    with pytest.raises(errors.BadImageError) as failure:
        hr.Dataset(tmp_path / "f")[4]
    assert failure.value.file == bad[1]
    with (
        hr.Loader(tmp_path / "f", 5, transform=CROP, output="numpy") as loader,
        pytest.raises(errors.BadImageError) as failed,
    ):
        list(loader)
    assert failed.value.file == bad[0]
    for error, key in ((failure.value, "%FF"), (failed.value, "%FE")):
        name = "\\x" + key[1:].lower()
        assert f"/f/c/{name}.jpg: record" in str(error)
        assert f"(c/{key})" in str(error)
        assert pickle.loads(pickle.dumps(error)).file == error.file
    for source in (tmp_path / "f", tmp_path / "d.hr"):
        with hr.Loader(
            source, 5, transform=CROP, output="numpy", on_error="replace", shuffle=False
        ) as loader:
            list(loader)
            report = loader.report()
        assert [line["key"] for line in report] == ["c/%FE", "c/%FF"]
        assert all(line["error"].encode() for line in report)
    known = hr.verify(tmp_path / "d.hr")["known"]
    assert [place["key"] for place in known] == ["c/%FE", "c/%FF"]
    missing = tmp_path / os.fsdecode(b"n\xffne")
    with pytest.raises(errors.MissingFileError, match=r"/n\\xffne: ") as gone:
        hr.Dataset(missing)
    assert gone.value.filename == str(missing)


def command(*arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headrace", *map(os.fsencode, arguments)],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_the_command_line_takes_and_prints_names_of_any_bytes(named: Path, tmp_path: Path) -> None:
    place = tmp_path / os.fsdecode(b"pl\xe4ce")
    assert r"/pl\xe4ce" in command("pack", named, place).stdout
    assert json.loads(command("info", place, "--json").stdout)["path"] == str(place)
    assert r"\xfe.jpg" in command("info", named, "--sample", "2").stdout
    picture = tmp_path / os.fsdecode(b"sheet\xff.png")
    assert command("view", named, picture).stdout == f"Wrote {tmp_path}/sheet\\xff.png\n"
    assert picture.is_file()
    refused = command("index", named)
    assert refused.returncode == 1
    assert "is no UTF-8, so the index of a folder cannot hold it; packing can" in refused.stderr
    assert r"/phot\xf6s/c/\xfe.jpg: record 2 (c/%FE): " in refused.stderr


def test_names_are_read_correctly_in_a_locale_that_is_not_utf8(named: Path) -> None:
    program = (
        "import sys, os, headrace as hr\n"
        "assert sys.getfilesystemencoding() != 'utf-8'\n"
        "dataset = hr.Dataset(sys.argv[1])\n"
        "files = hr.Dataset.from_files([s.path for s in dataset], [0] * 6)\n"
        "assert len(list(files)) == 6\n"
        "crop = [hr.transforms.CenterCrop(8)]\n"
        "with hr.Loader(sys.argv[1], 6, transform=crop, output='numpy') as loader:\n"
        "    assert len(list(loader)) == 1\n"
    )
    environment = os.environ | {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    subprocess.run([sys.executable, "-c", program, named], env=environment, check=True, timeout=60)


def test_warnings_with_names_of_any_bytes_can_be_printed(tmp_path: Path) -> None:
    tree(tmp_path, [b"c/\xff.ppm"], images.png(20, 20, 2))
    Image.new("RGB", (20, 20)).save(os.path.join(os.fsencode(tmp_path), b"c/\xff.ppm"), "PPM")
    folder = datasets.ImageFolder(str(tmp_path), tv.Compose(STEPS))
    with pytest.warns(UserWarning, match=r"/c/\\xff\.ppm is not a JPEG, PNG, WebP") as caught:
        [batch] = hr.DataLoader(folder, 2)
    assert batch[1].tolist() == [0]
    assert all(str(warning.message).encode() for warning in caught)
