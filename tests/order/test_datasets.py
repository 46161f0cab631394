"""Several datasets as one: concatenated or mixed."""

from __future__ import annotations

import json
import pickle
import resource
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import headrace as hr
import images
from headrace import errors
from headrace.errors import ArgumentError

CLASSES = 3


class Sources(NamedTuple):
    """A packed dataset of several shards with seek points, an indexed folder, and a folder without
    index."""

    packed: Path
    indexed: Path
    listed: Path
    files: list[Path]

    def datasets(self, **settings: Any) -> list[hr.Dataset]:
        files = hr.Dataset.from_files(self.files, range(len(self.files)), **settings)
        return [*(hr.Dataset(path, **settings) for path in self[:3]), files]


def made(root: Path) -> Sources:
    trees = [
        images.write_tree(
            root / name,
            {
                f"class{i % CLASSES}/{name}{i:02d}.jpg": images.jpeg(
                    160 + i % 5, 120 + i % 7, seed=begin + i
                )
                for i in range(count)
            },
        )
        for name, count, begin in (("a", 14, 0), ("b", 7, 100), ("c", 9, 200), ("d", 4, 300))
    ]
    hr.pack(trees[0], root / "a.hr", shard_size="40KiB")
    hr.index(trees[1])
    return Sources(root / "a.hr", trees[1], trees[2], sorted(trees[3].rglob("*.jpg"))[:3])


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    return made(tmp_path_factory.mktemp("datasets"))


def loader(dataset: Any, **options: Any) -> hr.Loader:
    settings = {"batch_size": 4, "num_threads": 2, "dtype": "uint8", "fields": ["index"]}
    crop = [hr.transforms.RandomResizedCrop(16)]
    return hr.Loader(dataset, output="numpy", **{"transform": crop, **settings, **options})


def samples(batches: Any) -> list[tuple[int, int, bytes]]:
    """Each sample's number, label and pixels."""
    return [
        (int(index), int(label), image.tobytes())
        for pixels, labels, fields in batches
        for index, label, image in zip(fields["index"], labels, pixels, strict=True)
    ]


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_a_concatenation_has_the_samples_of_its_parts_one_after_the_other(
    sources: Sources, backend: str
) -> None:
    parts = sources.datasets(backend=backend)
    whole = hr.Dataset.concat(parts)
    assert whole.kind == "concatenated"
    assert len(whole) == sum(map(len, parts)) == 33
    assert [len(numbers) for numbers in whole.parts] == [14, 7, 9, 3]
    assert whole.classes == [f"class{i}" for i in range(CLASSES)]
    with loader(whole, transform=[hr.transforms.CenterCrop(50)]) as source:
        loaded = samples(source)
    for part, numbers in zip(parts, whole.parts, strict=True):
        for number, sample in zip(numbers, part, strict=True):
            found = whole[number]
            assert (found.key, found.path, found.label) == (sample.key, sample.path, sample.label)
            assert np.array_equal(found.image, sample.image)
            assert whole.read(number) == part.read(number - numbers.start)
        with loader(part, transform=[hr.transforms.CenterCrop(50)]) as source:
            alone = samples(source)
        assert [one[1:] for one in loaded[numbers.start : numbers.stop]] == [
            one[1:] for one in alone
        ]


def test_a_loader_over_a_list_reads_the_concatenation_and_draws_by_its_sample_numbers(
    sources: Sources,
) -> None:
    with loader(list(sources[:3]), shuffle=True) as source:
        found = samples(source)
        assert sorted(number for number, *_ in found) == list(range(30))
    with loader(hr.Dataset.concat(sources[:3]), shuffle=True) as source:
        assert samples(source) == found
    with loader(sources.packed, transform=[hr.transforms.RandomCrop(40)]) as source:
        alone = samples(source)
    options = {"transform": [hr.transforms.RandomCrop(40)]}
    with loader([sources.packed, sources.packed], **options) as source:
        twice = samples(source)
    assert twice[:14] == alone
    assert [one[2] for one in twice[14:]] != [one[2] for one in alone]  # different draws


def test_datasets_are_mixed_in_proportion_to_their_weights_over_all_ranks(
    sources: Sources,
) -> None:
    mix = hr.samplers.Mix(weights=[3, 1, 4], length=320)
    counts: Counter[int] = Counter()
    for rank in range(3):
        with loader(list(sources[:3]), sampler=mix, rank=rank, world_size=3) as source:
            counts.update(index for index, *_ in samples(source))
    whole = hr.Dataset.concat(sources[:3])
    assert [sum(counts[i] for i in numbers) for numbers in whole.parts] == [120, 40, 160]
    for numbers, share in zip(whole.parts, (120, 40, 160), strict=True):
        for number in numbers:  # all samples of a part equally often
            assert counts[number] == pytest.approx(share / len(numbers), abs=1)
    spelled = hr.samplers.Mix(whole.parts, [3, 1, 4], 320)
    with loader(whole, sampler=spelled) as source, loader(whole, sampler=mix) as other:
        assert samples(source) == samples(other)
    with pytest.raises(ArgumentError, match="3 parts have 2 weights"):
        loader(whole, sampler=hr.samplers.Mix(weights=[1, 1]))
    with pytest.raises(ArgumentError, match="1 parts have 2 weights"):
        loader(sources.packed, sampler=hr.samplers.Mix(weights=[1, 1]))


@pytest.mark.parametrize("order", ["mix", "window", "shuffle"])
def test_every_batch_boundary_of_mixed_datasets_can_be_resumed_by_any_number_of_ranks(
    sources: Sources, order: str
) -> None:
    options: dict[str, Any] = {
        "mix": {"sampler": hr.samplers.Mix(weights=[1, 2, 1])},
        "window": {"shuffle": "window", "window": 10},
        "shuffle": {"shuffle": True},
    }[order]
    whole = hr.Dataset.concat(sources[:3])
    with loader(whole, seed=5, **options) as source:
        expected, following = samples(source), samples(source)
    with loader(whole, seed=5, **options) as first:
        iterator = iter(first)
        taken = 0
        while taken < len(expected):
            text = json.dumps(first.state_dict())
            assert len(text) <= 1024
            for world, threads in ((1, 1), (3, 2)):
                rest = []
                for rank in range(world):
                    part = {"rank": rank, "world_size": world, "num_threads": threads}
                    with loader(list(sources[:3]), **options, **part) as one:
                        one.load_state_dict(json.loads(text))
                        rest += samples(one)
                assert sorted(rest) == sorted(expected[taken:])
            taken += len(samples([next(iterator)]))
        assert samples(first) == following


def test_a_state_is_refused_if_the_parts_or_their_order_differ(sources: Sources) -> None:
    a, b, c = sources[:3]
    with loader([a, b, c]) as source:
        state = source.state_dict()
    for parts in ([a, c, b], [a, b], [a, b, c, c]):
        with loader(parts) as other, pytest.raises(ArgumentError, match="another dataset"):
            other.load_state_dict(state)
    # Only the parts matter, not their nesting.
    nested = hr.Dataset.concat([hr.Dataset.concat([a, b]), c])
    assert nested.fingerprint == hr.Dataset.concat([a, b, c]).fingerprint
    assert [len(numbers) for numbers in nested.parts] == [21, 9]
    assert nested[25].path == hr.Dataset(c)[4].path
    with loader(nested) as other:
        other.load_state_dict(state)


def test_different_classes_are_refused_unless_classes_is_given(
    sources: Sources, tmp_path: Path
) -> None:
    other = images.write_tree(
        tmp_path / "other", {f"{name}/1.jpg": images.jpeg() for name in ("class0", "zebra")}
    )
    with pytest.raises(ArgumentError, match="zebra") as caught:
        hr.Dataset.concat([sources.packed, other])
    assert caught.value.file == str(other)
    assert "class 1" in str(caught.value)
    assert "Dataset.concat(..., classes=[])" in str(caught.value)
    fewer = images.write_tree(tmp_path / "fewer", {"class0/1.jpg": images.jpeg()})
    with pytest.raises(ArgumentError, match=r"expected 3, found 1"):
        loader([sources.packed, fewer])
    kept = hr.Dataset.concat([sources.packed, other], classes=[])
    assert kept.classes == []
    assert [kept[number].label for number in kept.parts[1]] == [0, 1]
    named = hr.Dataset.concat([sources.packed, other], classes=["x", "y", "z"])
    assert named.classes == ["x", "y", "z"]
    with pytest.raises(ArgumentError, match="classes has 1 names"):
        hr.Dataset.concat([sources.packed, other], classes=["x"])


def test_impossible_parts_are_refused(sources: Sources, tmp_path: Path) -> None:
    slow = hr.Dataset(sources.packed, backend="pread")
    strict = hr.Dataset(sources.listed, limits={"max_pixels": 100})
    unverified = hr.Dataset(sources.packed, verify_crc=False)
    for parts, words in (
        ([], "empty list"),
        ([sources.packed, 3], r"datasets\[1\]"),
        (str(sources.packed), "datasets"),
        ([slow, hr.Dataset(sources.listed)], r"datasets\[1\] has backend='auto'"),
        ([strict, slow], "backend"),
        ([strict, unverified], "limits"),
        ([unverified, sources.indexed, hr.Dataset(sources.indexed)], "verify_crc"),
    ):
        with pytest.raises(ArgumentError, match=words):
            hr.Dataset.concat(parts)
    with pytest.raises(errors.MissingFileError, match="nowhere"):
        hr.Dataset.concat([sources.packed, tmp_path / "nowhere"])
    # Paths are opened with the options of the other parts; files in place have no checksums to
    # verify.
    files = hr.Dataset.from_files(sources.files, [0, 1, 2])
    assert hr.Dataset.concat([slow, sources.listed]).info["backend"] == "pread"
    assert len(hr.Dataset.concat([unverified, files])) == 17


def test_a_concatenation_has_the_fields_that_all_parts_have(tmp_path: Path) -> None:
    for name, extra in (("a", {"only": 1}), ("b", {})):
        with hr.Writer(tmp_path / name) as writer:
            for i in range(3):
                shared = {"age": i + (10 if name == "b" else 0), "box": np.zeros((i + 1, 4))}
                fields = {**shared, "kind": i if name == "a" else "text", **extra}
                writer.add(images.jpeg(20, 20), i, key=f"{i}", **fields)
    whole = hr.Dataset.concat([tmp_path / "a", tmp_path / "b"])
    assert [field["name"] for field in whole.info["fields"]] == ["age", "box"]
    assert [whole[i].fields["age"] for i in range(6)] == [0, 1, 2, 10, 11, 12]
    options = {"transform": [hr.transforms.CenterCrop(8)], "batch_size": 6}
    with loader(whole, fields=["age"], **options) as source:
        [(_, _, fields)] = source
        assert fields["age"].tolist() == [0, 1, 2, 10, 11, 12]
    with pytest.raises(ArgumentError, match="only"):
        loader(whole, fields=["only"], **options)


def damage(shard: Path, at: int) -> None:
    data = bytearray(shard.read_bytes())
    data[at] ^= 1
    shard.write_bytes(data)


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_a_fault_names_the_file_of_its_part_and_the_number_in_the_whole(
    tmp_path: Path, backend: str
) -> None:
    sources = made(tmp_path)
    alone = hr.Dataset(sources.packed)
    place = alone.facts(9)
    damage(Path(place["path"]), place["offset"] + place["length"] // 2)
    (Path(sources.listed) / "class1" / "c04.jpg").write_bytes(b"no image")
    packed = hr.Dataset(sources.packed, backend=backend)
    whole = hr.Dataset.concat([sources.listed, sources.indexed, packed])
    with pytest.raises(errors.ChecksumError) as caught:
        whole[16 + 9]
    source = loader(whole, sampler=range(16, 30))
    with source, pytest.raises(errors.ChecksumError) as seen:
        list(source)
    for failure in (caught.value, seen.value):
        assert failure.file == place["path"]
        assert failure.record == 16 + 9
        assert place["key"] in str(failure)
    with loader(whole, on_error="replace", shuffle=True) as source:
        found = samples(source)
        report = source.report()
    assert len(found) == 30
    told = {line["index"]: line for line in report}
    [bad] = [i for i in whole.parts[0] if whole.facts(i)["key"] == "class1/c04"]
    assert set(told) == {bad, 16 + 9}
    assert told[bad]["key"] == "class1/c04"
    assert place["path"] in told[16 + 9]["error"]
    assert {bad, 16 + 9}.isdisjoint(index for index, *_ in found)


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_with_replace_the_readable_samples_of_a_parts_truncated_shard_are_read(
    tmp_path: Path, backend: str
) -> None:
    sources = made(tmp_path)
    shards = sorted(sources.packed.glob("*.tar"))
    assert len(shards) > 1
    place = hr.Dataset(sources.packed).facts(13)
    assert place["path"] == str(shards[-1])
    shards[-1].write_bytes(shards[-1].read_bytes()[: place["offset"] + 10])
    packed = hr.Dataset(sources.packed, backend=backend)
    whole = hr.Dataset.concat([sources.listed, packed, sources.indexed])
    with loader(whole, on_error="replace") as source:
        assert len(samples(source)) == 30
        [line] = source.report()
    assert line["index"] == 9 + 13
    assert str(shards[-1]) in line["error"]
    assert "truncated" in line["error"]


def test_a_concatenation_can_be_sent_to_another_process_and_outlives_its_parts(
    sources: Sources,
) -> None:
    parts = sources.datasets()
    whole = hr.Dataset.concat(parts)
    for part in parts:
        part.close()
    with loader(whole, shuffle=True) as source:
        found = samples(source)
    again = pickle.loads(pickle.dumps(whole))
    assert again.fingerprint == whole.fingerprint
    whole.close()
    with loader(again, shuffle=True) as source:
        assert samples(source) == found


def test_parts_may_have_more_shards_in_all_than_the_process_may_open(
    sources: Sources, tmp_path: Path
) -> None:
    copies = [shutil.copytree(sources.packed, tmp_path / f"{i}.hr") for i in range(12)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 120), hard))
        with loader(copies, shuffle=True) as source:
            assert len(samples(source)) == 12 * 14
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
