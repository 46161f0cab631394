"""A list of containers in a store is the dataset that a list of the same files is on disk."""

from __future__ import annotations

import io
import tarfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest

import headrace as hr
import images
from headrace import errors

Storage = dict[str, str | bool]

WORDS = ["cat", "dog", "ape"]


def archive(path: Path, members: Sequence[tuple[str, bytes]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def shard(path: Path, first: int, count: int = 3) -> None:
    """Samples of WebDataset with a word as label; the first shard has no word for its last one."""
    members = []
    for at in range(first, first + count):
        members.append((f"{at:03}.jpg", images.jpeg(20 + at, 24, seed=at)))
        if at != 2:
            members.append((f"{at:03}.cls", WORDS[at % 3].encode()))
        members.append((f"{at:03}.txt", f"photo {at}".encode()))
    archive(path, members)


@pytest.fixture
def shards(bucket: Path) -> Path:
    for number in range(4):
        shard(bucket / "set" / f"{number}.tar", 3 * number)
    shard(bucket / "other" / "a[1].tar", 12)
    shard(bucket / "other" / "b.tar", 15)
    shard(bucket / "twin" / "0.tar", 0)
    return bucket


def contents(index: Path, storage: Storage | None) -> tuple[list[str], list[object]]:
    with hr.Dataset(index, storage=storage) as dataset:
        samples = [dataset[at] for at in range(len(dataset))]
        return dataset.classes, [
            (one.key, bytes(one.image), one.label, one.fields) for one in samples
        ]


@pytest.mark.parametrize(
    "names",
    [
        ["set/2.tar", "set/0.tar"],
        ["set/{3,1}.tar", "other/b.tar", "set/0.tar"],
        ["other/*.tar", "set/[01].tar"],
        ["other/a[1].tar", "set"],
        ["twin/", "set"],
        ["set/0.tar", "twin/0.tar"],
        ["set/1.tar", "set/1.tar"],
        ["{set,other}"],
        ["{twin,set}/", "other/b.tar"],
        ["{other/b.tar,set}"],
    ],
)
def test_a_list_of_addresses_has_the_samples_and_warnings_of_the_same_list_on_disk(
    names: list[str], shards: Path, storage: Storage, tmp_path: Path
) -> None:
    lists: list[list[str]] = [
        [f"{root}/{name}" for name in names] for root in (shards, "s3://photos")
    ]
    made, said = [], []
    for number, sources in enumerate(lists):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            how = storage if number else None
            made.append(hr.index(sources, tmp_path / f"{number}.hr", storage=how))
            packed = hr.pack(sources, tmp_path / f"{number}.packed.hr", storage=how)
        said.append([str(one.message) for one in caught])
        assert packed["rows"] == made[-1]["rows"] > 0
    assert made[0]["fingerprint"] == made[1]["fingerprint"]
    assert said[0] == said[1]
    classes, found = contents(tmp_path / "1.hr", storage)
    assert (classes, found) == contents(tmp_path / "0.hr", None)
    assert (classes, found) == contents(tmp_path / "1.packed.hr", None)
    assert set(classes) <= set(WORDS)


@pytest.mark.parametrize(
    "names",
    [
        ["set/0.tar", "set/none.tar"],
        ["set/0.tar", "set/none-*.tar"],
        ["set/0.tar", "notes.txt"],
        ["set/0.tar", "blank.tar"],
        ["set/0.tar", "table.parquet"],
        ["set/0.tar", "cut.tar"],
        ["set/0.tar", "unclear.tar"],
        ["set/0.tar", "set/{1..2"],
        ["set", "notes.txt"],
        ["set", "blank.tar"],
        ["set", "nothing"],
        ["set", "deeper"],
        ["set", "packed.hr"],
        ["{set,none}/"],
        ["{set,none}"],
        ["{set,nothing}/"],
        ["{set,deeper}/"],
        ["{packed.hr,set}/"],
    ],
)
def test_a_list_of_addresses_ends_in_the_errors_of_the_same_list_on_disk(
    names: list[str], shards: Path, storage: Storage, tmp_path: Path
) -> None:
    (shards / "notes.txt").write_text("no container")
    (shards / "blank.tar").write_bytes(b"")
    (shards / "table.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    (shards / "cut.tar").write_bytes((shards / "set" / "1.tar").read_bytes()[:1500])
    archive(shards / "unclear.tar", [("1.jpg", b"x"), ("1.png", b"y")])
    for name in ("nothing", "deeper/set"):
        (shards / name).mkdir(parents=True)
        (shards / name / "README.md").write_text("no container")
    hr.pack(shards / "twin" / "0.tar", shards / "packed.hr")
    failures = []
    for root, how in ((str(shards), None), ("s3://photos", storage)):
        with pytest.raises(errors.HeadraceError) as caught:
            hr.index([f"{root}/{name}" for name in names], tmp_path / "set.hr", storage=how)
        failures.append((type(caught.value), str(caught.value).replace(root, "ROOT")))
    assert failures[0][0] is failures[1][0], failures
    if failures[0][0] is not errors.MissingFileError:  # a store has its own words for that
        assert failures[0][1] == failures[1][1]


def test_a_list_of_addresses_without_an_index_is_refused_with_what_makes_one(
    shards: Path, storage: Storage, tmp_path: Path
) -> None:
    some = [f"s3://photos/set/{number}.tar" for number in range(2)]
    with pytest.raises(errors.UnsupportedError) as caught:
        hr.Dataset(some, storage=storage)
    command = 'headrace index "s3://photos/set/0.tar" "s3://photos/set/1.tar" --out INDEX'
    assert str(caught.value).endswith(f"make one with: {command}")
    many = [f"s3://photos/set/{number}.tar" for number in range(9)]
    with pytest.raises(errors.UnsupportedError, match=r'headrace.index\(LIST, "INDEX"\)'):
        hr.Dataset(many, storage=storage)
    for sources in ([*some, shards / "set" / "0.tar"], [shards / "set" / "0.tar", *some]):
        for call in (hr.Dataset, lambda mixed, **how: hr.index(mixed, tmp_path / "x.hr", **how)):
            with pytest.raises(errors.ArgumentError, match="index them apart and concatenate them"):
                call([str(source) for source in sources], storage=storage)


@pytest.mark.parametrize(
    "names", [["set/{2..0..2}.tar", "twin/0.tar"], ["set/1.tar", "other/a[1].tar", "set/0.tar"]]
)
def test_addresses_joined_as_webdataset_joins_them_are_a_list(
    names: list[str], shards: Path, storage: Storage, tmp_path: Path
) -> None:
    found = []
    for number, root in enumerate((shards, "s3://photos")):
        sources = [f"{root}/{name}" for name in names]
        how = storage if number else None
        joined = hr.index("::".join(sources), tmp_path / f"{number}.joined.hr", storage=how)
        listed = hr.index(sources, tmp_path / f"{number}.listed.hr", storage=how)
        assert joined["rows"] == 9
        found += [joined["fingerprint"], listed["fingerprint"]]
    assert len(set(found)) == 1
