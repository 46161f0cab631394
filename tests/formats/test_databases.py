"""LMDB by its own writer: named databases, and values that only Python can read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import headrace as hr
import images
from headrace import errors

lmdb = pytest.importorskip("lmdb")

DOCS = Path(__file__).parents[2] / "docs" / "formats.md"
IMAGES = [images.jpeg(40 + number, 50, seed=number) for number in range(6)]


def environment(path: Path, databases: dict[bytes | None, list[bytes]]) -> Path:
    """An environment with values in each of its databases; None is the unnamed one."""
    made = lmdb.open(str(path), max_dbs=len(databases), map_size=1 << 24)
    for name, values in databases.items():
        with made.begin(write=True, db=made.open_db(name)) as txn:
            for number, value in enumerate(values):
                txn.put(f"{number:04d}".encode(), value)
    made.close()
    return path


def read(dataset: hr.Dataset) -> list[bytes]:
    return [bytes(dataset.read(number)) for number in range(len(dataset))]


def test_a_named_database_of_an_lmdb_is_chosen_by_split_and_indexed_and_packed(
    tmp_path: Path,
) -> None:
    source = environment(tmp_path / "all.lmdb", {b"train": IMAGES[:4], b"val": IMAGES[4:]})
    with pytest.raises(errors.ArgumentError, match=r'\["train" "val"\]; split= chooses one'):
        hr.Dataset(source)
    with pytest.raises(errors.ArgumentError, match=r'split is "test" .*\["train" "val"\]'):
        hr.Dataset(source, split="test")
    for split, want in (("train", IMAGES[:4]), ("val", IMAGES[4:])):
        hr.index(source, tmp_path / f"{split}.index", split=split)
        hr.pack(source, tmp_path / f"{split}.hr", split=split)
        with (
            hr.Dataset(source, split=split) as scanned,
            hr.Dataset(tmp_path / f"{split}.index") as indexed,
            hr.Dataset(tmp_path / f"{split}.hr") as packed,
        ):
            assert read(scanned) == read(indexed) == read(packed) == want
        assert hr.verify(tmp_path / f"{split}.index", decode=True)["ok"]


def test_a_named_database_beside_entries_in_the_unnamed_one_is_chosen_by_its_name(
    tmp_path: Path,
) -> None:
    source = environment(tmp_path / "mixed.lmdb", {None: IMAGES[:4], b"val": IMAGES[4:]})
    with pytest.raises(errors.ArgumentError, match="beside entries of the environment's own"):
        hr.Dataset(source)
    with hr.Dataset(source, split="val") as dataset:
        assert read(dataset) == IMAGES[4:]


def serialised(image: bytes, label: int) -> bytes:
    """A table of one row in a frame of LZ4."""
    sink = pa.BufferOutputStream()
    table = pa.table({"image": [image], "label": [label]})
    with (
        pa.CompressedOutputStream(sink, "lz4") as frame,
        pa.ipc.new_stream(frame, table.schema) as writer,
    ):
        writer.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.slow
def test_the_documented_recipe_for_arrow_values_in_lz4_frames_packs_each_unchanged(
    tmp_path: Path,
) -> None:
    values = [serialised(image, number % 3) for number, image in enumerate(IMAGES)]
    environment(tmp_path / "train.lmdb", {None: values})
    with pytest.raises(errors.UnsupportedError, match=r"can be packed with headrace\.pack"):
        hr.Dataset(tmp_path / "train.lmdb")
    recipe = next(
        block
        for block in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
        if "import lmdb" in block
    )
    (tmp_path / "recipe.py").write_text(recipe)
    done = subprocess.run(
        [sys.executable, "recipe.py"],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with hr.Dataset(tmp_path / "packed.hr") as packed:
        assert read(packed) == IMAGES
        labels = [packed.facts(number)["label"] for number in range(len(packed))]
        assert labels == [number % 3 for number in range(len(IMAGES))]
