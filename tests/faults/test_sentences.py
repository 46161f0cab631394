"""Every kind of error that the public interface gives has the form of internal/fault."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import headrace as hr
import images
from headrace import errors

CROP = [hr.transforms.CenterCrop(16)]

# Names from the engine's source that mean nothing to a user: packages, functions, types.
INTERNALS = re.compile(
    r"(^|: )(op \d+|capi|catalog|configuration|fault|formats|json|csv|mmap|native|order|pack|"
    r"pinned|pipeline|store|strconv|syscall|transform): |"
    r"read_delay_ms|\bsample \d|%!|<nil>|0x[0-9a-f]{6}"
)


def loader(source: object, **options: object) -> None:
    settings = {"batch_size": 4, "transform": CROP, "num_threads": 1, "output": "numpy", **options}
    with hr.Loader(source, **settings) as made:
        for _ in made:
            pass


def edit(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def flip(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return images.plain_tree(tmp_path / "images", 8, 2, side=48)


@pytest.fixture
def packed(folder: Path, tmp_path: Path) -> Path:
    hr.pack(folder, tmp_path / "d.hr")
    return tmp_path / "d.hr"


def shard(packed: Path) -> Path:
    return packed / "shard-00000.tar"


def manifest(root: Path, text: str, **options: object) -> None:
    (root / "list.csv").write_text(text)
    hr.pack(root / "list.csv", root / "out.hr", **options)


# name: (the fault, its class, words of its message in order)
OF_FOLDERS: dict[str, tuple[Callable[[Path], object], type[Exception], str]] = {
    "cut image": (
        lambda f: [edit(f / "class0/image0000.jpg", lambda b: b[: len(b) // 2]), loader(f)],
        errors.TruncatedError,
        r"image0000\.jpg: record 0 \(class0/image0000\) at byte \d+: bad: the file is truncated in",
    ),
    "no image": (
        lambda f: [(f / "class0/image0000.jpg").write_text("text"), loader(f)],
        errors.BadImageError,
        r"image0000\.jpg: record 0 \(class0/image0000\).*: bad: ",
    ),
    "unread type": (
        lambda f: [
            (f / "class0/image0000.jpg").write_bytes(b"\0\0\0\x18ftypavif" + bytes(30)),
            loader(f),
        ],
        errors.UnsupportedError,
        r"record 0 \(class0/image0000\).*: unsupported: AVIF",
    ),
    "limit": (
        lambda f: loader(hr.Dataset(f, limits={"max_pixels": 100})),
        errors.LimitError,
        r"record 0 \(class0/image0000\).*: unsupported: .*max_pixels is 100",
    ),
    "missing file": (
        lambda f: loader([hr.Dataset(f), (f / "class0/image0000.jpg").unlink()][0]),
        errors.MissingFileError,
        r"image0000\.jpg: record 0 \(class0/image0000\): cannot read it: no such file",
    ),
    "missing folder": (
        lambda f: hr.Dataset(f / "nowhere"),
        errors.MissingFileError,
        r"nowhere: .*: no such file",
    ),
    "empty folder": (
        lambda f: [(f / "e").mkdir(), hr.Dataset(f / "e")],
        errors.EmptyDatasetError,
        r"/e: couldn't find any class folder",
    ),
    "two of one key": (
        lambda f: [
            shutil.copy(f / "class0/image0000.jpg", f / "class0/image0000.png"),
            hr.pack(f, f.parent / "x.hr"),
        ],
        errors.DuplicateKeyError,
        r"image0000\.png: record 1 \(class0/image0000\): bad: two samples of one key, .*0000\.jpg",
    ),
    "destination exists": (
        lambda f: hr.pack(f, f),
        errors.ArgumentError,
        r"images: the destination exists",
    ),
    "manifest without rows": (
        lambda f: manifest(f, "path,label\n"),
        errors.EmptyDatasetError,
        r"list\.csv: the list of files has no rows",
    ),
    "manifest of another separator": (
        lambda f: manifest(f, "path;label\nclass0/image0000.jpg;1\n"),
        errors.BadFileError,
        r"list\.csv: bad: .*separated by commas",
    ),
    "manifest of addresses": (
        lambda f: manifest(f, "path,label\nclass0/image0000.jpg,1\nHTTPS://u:p@host/a.jpg?k=v,2\n"),
        errors.UnsupportedError,
        r'list\.csv: record 1 at byte \d+: unsupported: the path "https?://host/a\.jpg\S*" is',
    ),
    "manifest that names nothing": (
        lambda f: manifest(f, "path\nclass0/image0000.jpg\ngone.jpg\n"),
        errors.MissingFileError,
        r"gone\.jpg: record 1 \(gone\): cannot open it, named by row 1, line 3 of .*list\.csv: no",
    ),
    "sizes": (
        lambda f: [
            (f / "class0/image0000.jpg").write_bytes(images.jpeg(40, 60)),
            loader(f, transform=[hr.transforms.Resize(30)]),
        ],
        errors.ArgumentError,
        r"record 0 \(class0/image0000\): .* as 45x30 pixels .*record 1 \(class0/image0002\) as 30x",
    ),
    "large crop": (
        lambda f: loader(f, transform=[hr.transforms.RandomCrop(5000)]),
        errors.ArgumentError,
        r"record 0 .*: transform 0 \(RandomCrop\): size is 5000x5000 \(expected at most \d+x\d+",
    ),
}

OF_PACKED: dict[str, tuple[Callable[[Path], object], type[Exception], str]] = {
    "flipped bit": (
        lambda p: [edit(shard(p), flip(700)), loader(p)],
        errors.ChecksumError,
        r"shard-00000\.tar: record 0 \(class0/image0000\) at byte 512: bad: .*CRC-32C.*expected",
    ),
    "read of a flipped bit": (
        lambda p: [edit(shard(p), flip(700)), hr.Dataset(p).read(0)],
        errors.ChecksumError,
        r"shard-00000\.tar: record 0 \(class0/image0000\) at byte 512: bad: .*CRC-32C.*expected",
    ),
    "cut shard": (
        lambda p: [edit(shard(p), lambda b: b[:2000]), loader(p)],
        errors.TruncatedError,
        r"shard-00000\.tar: record 0 \(class0/image0000\) at byte 2000: bad: .*truncated.*"
        r"\(expected \d+ bytes, found 2000\)",
    ),
    "another shard": (
        lambda p: [edit(shard(p), lambda b: b + bytes(512)), loader(p)],
        errors.BadFileError,
        r"shard-00000\.tar: record 0 .* at byte \d+: bad: this is not the shard that was packed",
    ),
    "missing shard": (
        lambda p: [shard(p).unlink(), loader(p)],
        errors.MissingFileError,
        r"shard-00000\.tar: record 0 \(class0/image0000\): cannot read it: no such file",
    ),
    "tampered index": (
        lambda p: [edit(p / "headrace-index-00000.arrow", flip(900)), loader(p)],
        errors.HeadraceError,
        r"headrace-index-00000\.arrow: .*bad: ",
    ),
    "cut index": (
        lambda p: [edit(p / "headrace-index-00000.arrow", lambda b: b[:-9]), loader(p)],
        errors.TruncatedError,
        r"headrace-index-00000\.arrow: at byte \d+: bad: the index is truncated, it ends here",
    ),
    "tampered manifest": (
        lambda p: [edit(p / "headrace.json", flip(60)), loader(p)],
        errors.HeadraceError,
        r"headrace\.json: .*bad: ",
    ),
    "manifest of the future": (
        lambda p: [
            (p / "headrace.json").write_text(
                json.dumps({**json.loads((p / "headrace.json").read_text()), "min_reader": 99})
            ),
            loader(p),
        ],
        errors.UnsupportedError,
        r"headrace\.json: unsupported: .*version 99",
    ),
    "missing manifest": (
        lambda p: [(p / "headrace.json").unlink(), loader(p)],
        errors.HeadraceError,
        r"d\.hr: bad: shards without a manifest",
    ),
}

OF_ARGUMENTS = {
    "num_threads": ({"num_threads": -3}, r"^num_threads=-3: an int of at least 0 was expected$"),
    "many num_threads": ({"num_threads": 5000}, r"^num_threads is 5000 \(expected 1 to 1024\)$"),
    "read_ahead": ({"read_ahead": -1}, r"^read_ahead=-1: an int of at least 0 was expected$"),
    "prefetch": ({"prefetch": 0}, r"^prefetch=0: an int of at least 1 was expected$"),
    "batch_size": ({"batch_size": 0}, r"^batch_size=0: an int of at least 1 was expected$"),
    "no number": (
        {"batch_size": 2.5},
        r"^batch_size=2\.5 is of type float: an int of at least 1 was",
    ),
    "huge batch_size": (
        {"batch_size": 2**62},
        r"^batch_size is \d+ \(expected at most \d+ ",
    ),
    "on_error": ({"on_error": "skip"}, r"^on_error='skip': one of raise, replace was expected$"),
    "scale": ({"scale": "half"}, r"^scale='half': one of div, mul was expected$"),
    "unknown transform": (
        {"transform": [{"name": "Sharpen"}]},
        r"^transform 0 \(Sharpen\): there is no such transform \(expected one of .*CenterCrop",
    ),
    "CenterCrop": (
        {"transform": [{"name": "CenterCrop", "size": -1}]},
        r"^transform 0 \(CenterCrop\): size is -1 \(expected a whole number from 1 to 65535",
    ),
    "max_size": (
        {"transform": [{"name": "Resize", "size": 256, "max_size": 200}]},
        r"^transform 0 \(Resize\): max_size is 200 \(expected more than size, which is 256\)$",
    ),
    "Normalize": (
        {"transform": [{"name": "Normalize", "mean": 0.5, "std": 0.5}], "dtype": "uint8"},
        r'^transform 0 \(Normalize\): dtype is "uint8" \(expected a float',
    ),
}


def caught(work: Callable[[], object], kind: type[Exception]) -> str:
    with pytest.raises(kind) as failure:
        work()
    text = str(failure.value)
    assert not INTERNALS.search(text), text
    assert "\n" not in text
    assert not text.endswith(".")
    return text


def check(entry: tuple[Callable[[Path], object], type[Exception], str], where: Path) -> None:
    fault, kind, words = entry
    text = caught(lambda: fault(where), kind)
    assert re.search(words, text), text


@pytest.mark.parametrize("name", OF_FOLDERS)
def test_a_fault_of_a_folder_is_one_sentence_of_the_common_form(folder: Path, name: str) -> None:
    check(OF_FOLDERS[name], folder)


@pytest.mark.parametrize("name", OF_PACKED)
def test_a_fault_of_a_packed_dataset_is_one_sentence_of_the_common_form(
    packed: Path, name: str
) -> None:
    check(OF_PACKED[name], packed)


@pytest.mark.parametrize("name", OF_ARGUMENTS)
def test_an_impossible_argument_is_named_with_its_value_and_the_allowed_values(
    packed: Path, name: str
) -> None:
    arguments, words = OF_ARGUMENTS[name]
    text = caught(lambda: loader(packed, **arguments), errors.ArgumentError)
    assert re.search(words, text), text


def test_a_decoded_images_fault_has_family_and_offset_and_no_file() -> None:
    whole = images.jpeg(64, 48)
    text = caught(lambda: hr.functional.decode(whole[:-200]), errors.TruncatedError)
    assert re.search(r"^at byte \d+: bad: ", text), text
    text = caught(lambda: hr.functional.decode(b"\xff\x0a" + bytes(60)), errors.UnsupportedError)
    assert re.search(r"unsupported: JPEG XL", text), text


@pytest.mark.parametrize("name", ["a\nb", "\r\x1b[2K", "\u2028\x85"])
def test_a_fault_with_control_characters_in_a_name_is_one_line(tmp_path: Path, name: str) -> None:
    """The message has them escaped; the attribute with which a program opens the file has them
    unescaped."""
    folder = tmp_path / "images" / "class"
    folder.mkdir(parents=True)
    (folder / f"{name}.jpg").write_text("text")
    (folder / "good.jpg").write_bytes(images.jpeg(32, 32))
    hr.pack(folder.parent, tmp_path / "d.hr")
    for source in (folder.parent, tmp_path / "d.hr"):
        with pytest.raises(errors.BadImageError) as failure:
            loader(source, batch_size=1)
        assert len(str(failure.value).splitlines()) == 1
        assert "\x1b" not in str(failure.value)
        assert Path(failure.value.file or "").is_file()
        with hr.Loader(source, 2, transform=CROP, on_error="replace", output="numpy") as made:
            list(made)
            (entry,) = made.report()
        assert len(entry["error"].splitlines()) == 1
    with pytest.raises(errors.MissingFileError) as failure:
        hr.Dataset.from_files([tmp_path / name], [0])[0]
    assert len(str(failure.value).splitlines()) == 1
    assert failure.value.filename == str(tmp_path / name)


def test_a_writers_fault_names_record_and_key(tmp_path: Path) -> None:
    def write(**second: object) -> None:
        with hr.Writer(tmp_path / "w.hr", classes=["a", "b"]) as writer:
            writer.add(images.jpeg(20, 20), 0, key="one")
            writer.add(images.jpeg(20, 20), **second)

    text = caught(lambda: write(label=7, key="two"), errors.ArgumentError)
    assert text == "record 1 (two): label is 7 (expected 0 to 1, there are 2 classes)"
    text = caught(lambda: write(label=1, key="one"), errors.DuplicateKeyError)
    assert text == "record 1 (one): bad: two samples of one key, record 0 has it already"


def test_every_fault_that_verify_lists_has_separate_parts_and_no_internal_names(
    packed: Path,
) -> None:
    edit(shard(packed), lambda data: flip(700)(data)[:-3000])
    faults = hr.verify(packed)["faults"]["listed"]
    assert len(faults) >= 2
    for fault in faults:
        assert Path(fault["file"]).name == "shard-00000.tar"
        text = f"{fault['text']} (expected {fault['expected']}, found {fault['found']})"
        assert not INTERNALS.search(text), text
        assert not fault["text"].startswith("/")
