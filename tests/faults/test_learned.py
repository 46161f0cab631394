"""The cache of learned seek points: shared, killed, full, read-only, damaged, switched off."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision.transforms as tv
from PIL import Image
from torch.utils import data
from torchvision.datasets import ImageFolder

import forking
import headrace as hr
import images
from processes import in_mount_namespace, run

COUNT = 24
CROP = tv.Compose([tv.RandomResizedCrop(16), tv.RandomHorizontalFlip(), tv.ToTensor()])

# Prints a hash of several epochs of a folder, read with headrace.DataLoader.
PROGRAM = """
    import os, sys
    from faults.test_learned import folder_hash
    os.environ["HEADRACE_CACHE"] = sys.argv[3]
    print(folder_hash(sys.argv[1], int(sys.argv[2])))
"""

# Prints for each epoch a hash of each file's image.
EACH = """
    import os, sys
    from faults.test_learned import each_file
    os.environ["HEADRACE_CACHE"] = sys.argv[3]
    for hashes in each_file(sys.argv[1], int(sys.argv[2])):
        print(*hashes, flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    for number in range(COUNT):
        path = root / f"class {number % 3}" / f"{number:03}.jpg"
        path.parent.mkdir(exist_ok=True)
        pixels = images.pixels(300 + 7 * number, 250 - 5 * number, seed=number)
        Image.fromarray(pixels).save(path, quality=90)
        os.utime(path, (1e9, 1e9))  # new files may still change, and are held as bytes
    return root


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "cache"
    monkeypatch.setenv("HEADRACE_CACHE", str(place))
    return place


def epochs_hash(dataset: data.Dataset[Any], epochs: int, native: bool) -> str:
    torch.manual_seed(3)
    total = hashlib.sha256()
    with contextlib.closing(
        hr.DataLoader(dataset, batch_size=4, shuffle=True, strict=native)
    ) as loader:
        for _ in range(epochs):
            for pixels, labels in loader:
                total.update(pixels.numpy().tobytes())
                total.update(str(labels.tolist()).encode())
    return total.hexdigest()


def folder_hash(folder: str | Path, epochs: int) -> str:
    return epochs_hash(ImageFolder(str(folder), CROP), epochs, native=True)


def each_file(folder: str | Path, epochs: int) -> Iterator[list[str]]:
    """For each epoch, with a seed, a hash of each image in the order of the files."""
    dataset = ImageFolder(str(folder), CROP)
    with contextlib.closing(hr.DataLoader(dataset, batch_size=4, seed=3, strict=True)) as loader:
        for _ in range(epochs):
            yield [
                hashlib.sha256(image.numpy().tobytes()).hexdigest()
                for pixels, _ in loader
                for image in pixels
            ]


class Opened(data.Dataset[Any]):
    """The same files, opened by the program by path or from bytes."""

    def __init__(self, folder: Path, as_bytes: bool = False) -> None:
        self.paths, self.as_bytes = sorted(folder.rglob("*.jpg")), as_bytes

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        path = self.paths[index]
        source: Any = io.BytesIO(path.read_bytes()) if self.as_bytes else path
        return CROP(Image.open(source).convert("RGB")), index


@contextlib.contextmanager
def switched_off() -> Iterator[None]:
    before = os.environ["HEADRACE_CACHE"]
    os.environ["HEADRACE_CACHE"] = "off"
    try:
        yield
    finally:
        os.environ["HEADRACE_CACHE"] = before


def size(cache: Path) -> int:
    return sum(file.stat().st_size for file in cache.iterdir()) if cache.exists() else 0


def test_a_folder_is_learned_in_its_first_epoch_and_every_epoch_has_the_same_pixels(
    folder: Path, cache: Path
) -> None:
    with switched_off():
        expected = [folder_hash(folder, epochs) for epochs in (1, 3)]
    assert not cache.exists()
    assert folder_hash(folder, 1) == expected[0]
    learned = size(cache)
    assert learned > 100 * COUNT
    assert folder_hash(folder, 3) == expected[1]
    assert size(cache) == learned, "nothing is learned twice"


@pytest.mark.parametrize("as_bytes", [False, True], ids=["by path", "as bytes"])
def test_files_that_a_program_opens_are_learned_and_have_the_same_pixels(
    folder: Path, cache: Path, as_bytes: bool
) -> None:
    dataset = Opened(folder, as_bytes)
    with switched_off():
        expected = epochs_hash(dataset, 2, native=True)
    assert epochs_hash(dataset, 2, native=True) == expected
    learned = size(cache)
    assert learned > 100 * COUNT
    assert epochs_hash(dataset, 2, native=True) == expected
    assert size(cache) == learned


def test_points_learned_by_a_folders_loader_serve_programs_that_open_the_files_themselves(
    folder: Path, cache: Path
) -> None:
    folder_hash(folder, 1)
    learned = size(cache)
    epochs_hash(Opened(folder, as_bytes=False), 1, native=True)
    assert size(cache) == learned


@pytest.fixture
def indexed(folder: Path, tmp_path: Path) -> Path:
    """A copy of the folder with an index beside it."""
    root = tmp_path / "indexed"
    shutil.copytree(folder, root)  # keeps file times
    hr.index(root)
    return root


def programs(root: Path) -> list[data.Dataset[Any]]:
    """Both ways of changing torch's import line over a folder's files."""
    return [ImageFolder(str(root), CROP), Opened(root)]


def test_an_index_beside_the_images_is_used_and_nothing_is_learned(
    indexed: Path, cache: Path
) -> None:
    for dataset in programs(indexed):
        for part in (dataset, data.Subset(dataset, range(3, COUNT, 2))):
            with switched_off():
                expected = epochs_hash(part, 2, native=True)
            assert epochs_hash(part, 2, native=True) == expected
            assert size(cache) <= 32, "the head of a segment without values"


def test_points_are_learned_for_files_that_were_changed_or_added_since_the_index(
    indexed: Path, cache: Path, folder: Path
) -> None:
    folder_hash(folder, 1)
    whole, learned = size(cache), 0
    paths = sorted(indexed.rglob("*.jpg"))
    shutil.copyfile(paths[5], paths[2])  # another size and time
    os.utime(paths[7], (2e9, 2e9))
    shutil.copyfile(paths[3], paths[3].with_name("new.jpg"))
    for dataset in programs(indexed):
        with switched_off():
            expected = epochs_hash(dataset, 2, native=True)
        before = size(cache)
        assert epochs_hash(dataset, 2, native=True) == expected
        learned = max(learned, size(cache) - before)
    assert 0 < learned < whole / 2, "three files of 25"


@pytest.mark.parametrize("name", ["headrace.json", "headrace-index-*", "headrace-seek-*"])
def test_a_damaged_index_is_ignored_and_points_are_learned(
    indexed: Path, cache: Path, name: str
) -> None:
    (file,) = indexed.glob(name)
    content = bytearray(file.read_bytes())
    for at in range(len(content) // 3, len(content), 7):
        content[at] ^= 0x55
    file.write_bytes(content)
    for dataset in programs(indexed):
        with switched_off():
            expected = epochs_hash(dataset, 2, native=True)
        assert epochs_hash(dataset, 2, native=True) == expected
        assert size(cache) > 100


def test_an_index_elsewhere_is_not_found_and_points_are_learned(
    folder: Path, cache: Path, tmp_path: Path
) -> None:
    hr.index(folder, index_dir=tmp_path / "elsewhere")
    assert folder_hash(folder, 1)
    assert size(cache) > 100 * COUNT


@pytest.mark.parametrize("way", ["learned", "indexed"])
def test_files_that_are_replaced_with_their_size_and_time_kept_give_their_own_pixels(
    folder: Path, cache: Path, tmp_path: Path, way: str
) -> None:
    root = tmp_path / "replaced"
    shutil.copytree(folder, root)
    paths = sorted(root.rglob("*.jpg"))
    most = max(path.stat().st_size for path in paths)

    def write(contents: list[bytes]) -> None:
        """Writes each file anew with the same size and time; bytes after an image pad it."""
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content.ljust(most, b"\0"))
            os.utime(path, (1e9, 1e9))

    contents = [path.read_bytes() for path in paths]
    write(contents)
    if way == "indexed":
        hr.index(root)
    old = [epochs_hash(dataset, 2, native=True) for dataset in programs(root)]
    write(contents[1:] + contents[:1])
    for dataset, before in zip(programs(root), old, strict=True):
        with switched_off():
            expected = epochs_hash(dataset, 2, native=True)
        assert expected != before
        assert epochs_hash(dataset, 2, native=True) == expected
        learned = size(cache)
        assert learned > 100 * COUNT
        assert epochs_hash(dataset, 2, native=True) == expected
        assert size(cache) == learned, "what was learned anew is used"


class Tolerant(Opened):
    """A part of each file, which is black where the file cannot be read."""

    def __getitem__(self, index: int) -> Any:
        draw = random.Random(index)
        box = (draw.randrange(100), draw.randrange(60), 40, 60)
        try:
            path = self.paths[index]
            source: Any = io.BytesIO(path.read_bytes()) if self.as_bytes else path
            image = Image.open(source).convert("RGB")
            return tv.functional.pil_to_tensor(tv.functional.crop(image, *box)), index
        except OSError:
            return torch.zeros(3, *box[2:], dtype=torch.uint8), index


@pytest.mark.parametrize("as_bytes", [False, True], ids=["by path", "as bytes"])
def test_a_file_that_is_damaged_with_its_size_and_time_kept_is_what_it_is_without_a_cache(
    folder: Path, cache: Path, tmp_path: Path, as_bytes: bool
) -> None:
    root = tmp_path / "damaged"
    shutil.copytree(folder, root)
    dataset, draw = Tolerant(root, as_bytes), random.Random(9)
    whole = [path.read_bytes() for path in dataset.paths]

    def damaged(content: bytes) -> bytes:
        """Cut, with an early end, or with other bits, anywhere behind the headers."""
        at, kind = draw.randrange(700, len(content) - 2), draw.randrange(3)
        other = [
            bytes(len(content) - at),
            b"\xff\xd9",
            bytes([content[at] ^ 1 << draw.randrange(8)]),
        ]
        return content[:at] + other[kind] + content[at + len(other[kind]) :]

    def outcome(contents: list[bytes]) -> str:
        """Each file is written in place, and read with what was learned of all before it."""
        for path, content in zip(dataset.paths, contents, strict=True):
            with path.open("r+b") as file:
                file.write(content)
            os.utime(path, (1e9, 1e9))
        with switched_off():
            expected = epochs_hash(dataset, 1, native=False)
        for _ in range(2):  # while it is learned, and with what was learned
            assert epochs_hash(dataset, 1, native=False) == expected
        return expected

    sound = outcome(whole)
    assert size(cache) > 100 * COUNT
    for _ in range(3):
        assert outcome([damaged(content) for content in whole]) != sound
    assert outcome(whole) == sound


def test_four_processes_at_once_give_the_same_pixels(
    folder: Path, cache: Path, forked: forking.Parent
) -> None:
    with switched_off():
        expected = folder_hash(folder, 3)
    running = [forked.start(PROGRAM, folder, 3, cache) for _ in range(4)]
    for process in running:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out.strip()) == (0, expected), err
    learned = size(cache)
    assert folder_hash(folder, 3) == expected
    assert size(cache) == learned, "one of the four has learned each file"


def test_a_process_that_is_killed_at_any_moment_leaves_a_cache_that_works(
    folder: Path, cache: Path, forked: forking.Parent
) -> None:
    with switched_off():
        expected = folder_hash(folder, 2)
    for _ in range(3):
        process = forked.start(PROGRAM, folder, 100_000, cache)
        deadline = time.monotonic() + 60
        while size(cache) == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(random.random() / 5)
        process.kill()
        process.communicate(60)
        assert folder_hash(folder, 2) == expected


@pytest.mark.slow
def test_files_replaced_while_four_processes_learn_and_are_killed_have_their_own_pixels(
    folder: Path, cache: Path, tmp_path: Path, forked: forking.Parent
) -> None:
    most = max(path.stat().st_size for path in folder.rglob("*.jpg"))
    roots = [tmp_path / name for name in ("old", "new", "live")]
    contents = [path.read_bytes().ljust(most, b"\0") for path in sorted(folder.rglob("*.jpg"))]
    names = [path.relative_to(folder) for path in sorted(folder.rglob("*.jpg"))]
    for number, root in enumerate(roots):
        order = contents[1:] + contents[:1] if number == 1 else contents
        images.write_tree(root, {str(n): c for n, c in zip(names, order, strict=True)})
        for name in names:
            os.utime(root / name, (1e9, 1e9))
    old, new, live = roots
    epochs, draw = 20, random.Random(7)
    with switched_off():
        allowed = [list(each_file(root, epochs)) for root in (old, new)]
    running = [forked.start(EACH, live, epochs, cache) for _ in range(4)]
    for number in range(600):
        name, here = draw.choice(names), tmp_path / "here"
        shutil.copy2(draw.choice((old, new)) / name, here)
        here.replace(live / name)
        if number in (200, 400):
            running[number // 400].kill()
        time.sleep(0.005)
    compared = 0
    for number, process in enumerate(running):
        out, err = process.communicate(timeout=120)
        assert number < 2 or process.returncode == 0, err
        for epoch, line in enumerate(out.splitlines()):
            for place, found in enumerate(line.split()) if len(line) == 65 * COUNT - 1 else ():
                assert found in (allowed[0][epoch][place], allowed[1][epoch][place])
                compared += 1
    assert compared >= 2 * epochs * COUNT
    with switched_off():
        expected = folder_hash(live, 2)
    assert folder_hash(live, 2) == expected


@pytest.mark.slow
def test_with_a_full_disk_or_a_read_only_cache_only_the_learning_is_lost(
    folder: Path, cache: Path
) -> None:
    with switched_off():
        expected = folder_hash(folder, 2)
    cache.mkdir(mode=0o700)
    full = in_mount_namespace(f"mount -t tmpfs -o size=8k,mode=700 none {cache}")
    read_only = in_mount_namespace(f"mount -t tmpfs -o ro,mode=700 none {cache}")
    for prefix in (full, read_only):
        assert run(PROGRAM, folder, 2, cache, prefix=prefix).strip() == expected
    assert folder_hash(folder, 1)
    learned = size(cache)
    bound = in_mount_namespace(f"mount --bind {cache} {cache}", f"mount -o remount,bind,ro {cache}")
    assert run(PROGRAM, folder, 2, cache, prefix=bound).strip() == expected
    assert size(cache) == learned


def test_a_cache_of_any_bytes_gives_the_same_pixels(folder: Path, cache: Path) -> None:
    with switched_off():
        expected = folder_hash(folder, 2)
    folder_hash(folder, 2)
    for seed in range(3):
        draw = random.Random(seed)
        for file in cache.iterdir():
            content = bytearray(file.read_bytes())
            for _ in range(len(content) // 500):
                content[draw.randrange(len(content))] ^= draw.randrange(1, 256)
            file.write_bytes(content)
        assert folder_hash(folder, 2) == expected


def test_off_makes_no_cache_and_without_the_variable_the_users_cache_is_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HEADRACE_CACHE", "off")
    folder_hash(folder, 1)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.delenv("HEADRACE_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    folder_hash(folder, 1)
    assert size(tmp_path / ".cache" / "headrace") > 100 * COUNT
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    folder_hash(folder, 1)
    assert size(tmp_path / "xdg" / "headrace") > 100 * COUNT


def test_the_size_limit_is_kept_and_an_invalid_one_gives_a_warning(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CACHE_SIZE", str(1 << 20))
    folder_hash(folder, 1)
    assert 0 < size(cache) <= 1 << 20
    monkeypatch.setenv("HEADRACE_CACHE_SIZE", "1 GB")
    with pytest.warns(UserWarning, match='HEADRACE_CACHE_SIZE is "1 GB"'):
        folder_hash(folder, 1)
