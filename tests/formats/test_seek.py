"""Seek points: what a user sees of them, and that they change no pixel."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import headrace as hr


def stream(source: Path, index_dir: Path | None = None) -> str:
    """A hash of two shuffled, augmented epochs."""
    dataset = hr.Dataset(source, index_dir=index_dir)
    digest = hashlib.sha256()
    crops = [hr.transforms.RandomResizedCrop(48), hr.transforms.RandomHorizontalFlip()]
    with hr.Loader(
        dataset, batch_size=7, shuffle=True, seed=5, transform=crops, output="numpy"
    ) as loader:
        for _ in range(2):
            for images, labels in loader:
                digest.update(images.tobytes() + labels.tobytes())
    dataset.close()
    return digest.hexdigest()


def test_pixels_are_the_same_with_and_without_seek_points(folder: Path, tmp_path: Path) -> None:
    made = hr.pack(folder, tmp_path / "with")
    bare = hr.pack(folder, tmp_path / "without", seek=False)
    assert made["seek_bytes"] > 0
    assert made["seek_share"] == pytest.approx(made["seek_bytes"] / made["bytes"])
    assert (bare["seek_bytes"], bare["seek_share"]) == (0, 0)
    assert made["fingerprint"] == bare["fingerprint"]
    assert (tmp_path / "with" / "headrace-seek-00000.bin").exists()
    assert not list((tmp_path / "without").glob("*seek*"))
    hr.index(folder, index_dir=tmp_path / "index")
    assert (tmp_path / "index" / "headrace-seek-00000.bin").exists()
    expected = stream(tmp_path / "without")
    assert stream(tmp_path / "with") == expected
    assert stream(folder, tmp_path / "index") == expected
    assert stream(folder) == expected  # listed: no index at all


def test_info_says_how_many_bytes_seek_points_take(folder: Path, tmp_path: Path) -> None:
    made = hr.pack(folder, tmp_path / "packed")
    with hr.Dataset(tmp_path / "packed") as dataset:
        assert dataset.info["seek_bytes"] == made["seek_bytes"]
        lengths = [dataset.facts(number)["seek_length"] for number in range(len(dataset))]
    assert sum(lengths) == made["seek_bytes"]


def test_facts_have_the_extent_of_a_samples_seek_points(folder: Path, packed: Path) -> None:
    with hr.Dataset(packed) as dataset:
        facts = [dataset.facts(number) for number in range(len(dataset))]
    file = packed / "headrace-seek-00000.bin"
    assert {fact["seek_path"] for fact in facts} == {str(file)}
    ends = [fact["seek_offset"] + fact["seek_length"] for fact in facts]
    assert [fact["seek_offset"] for fact in facts] == [facts[0]["seek_offset"], *ends[:-1]]
    assert ends[-1] == file.stat().st_size
    with hr.Dataset(folder) as listed:
        assert "seek_path" not in listed.facts(0)


def test_verify_names_the_sample_and_offset_of_altered_seek_points(packed: Path) -> None:
    path = packed / "headrace-seek-00000.bin"
    data = bytearray(path.read_bytes())
    whole, expected = bytes(data), stream(packed)
    data[-1] ^= 1
    path.write_bytes(data)
    found = hr.verify(packed)
    assert [fault["file"] for fault in found["faults"]["listed"]] == [str(path)]
    assert found["faults"]["listed"][0]["offset"] >= 16
    assert stream(packed) == expected
    path.write_bytes(whole)
    assert hr.verify(packed)["ok"]


def test_a_missing_or_truncated_seek_file_is_an_error_when_the_dataset_opens(
    folder: Path, tmp_path: Path
) -> None:
    hr.pack(folder, tmp_path / "packed")
    path = tmp_path / "packed" / "headrace-seek-00000.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(hr.errors.TruncatedError, match=r"seek-00000\.bin"):
        hr.Dataset(tmp_path / "packed")
    path.unlink()
    with pytest.raises(hr.errors.HeadraceError, match=r"seek-00000\.bin"):
        hr.Dataset(tmp_path / "packed")


def test_a_writers_samples_have_seek_points_unless_seek_is_false(
    folder: Path, tmp_path: Path
) -> None:
    image = next(folder.rglob("*.jpg")).read_bytes()
    for name, seek in (("with", True), ("without", False)):
        with hr.Writer(tmp_path / name, seek=seek) as writer:
            writer.add(image=image, label=0)
        with hr.Dataset(tmp_path / name) as dataset:
            assert (dataset.info["seek_bytes"] > 0) == seek
