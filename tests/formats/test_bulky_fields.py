"""Columns too large for an index, in compressed pages, buffers and shards of real writers."""

from __future__ import annotations

import random
import string
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chunks
import headrace as hr
import headrace.transforms as T
import images
import mds
from headrace import errors

ROWS = 24
RESIZE = [T.Resize((8, 8))]


def caption(row: int) -> str:
    """Words of 10 to 200 kB that no codec compresses well."""
    draw = random.Random(row)
    return "é " + "".join(draw.choices(string.ascii_letters, k=10_000 + 8_000 * row))


def table(rows: int = ROWS) -> Any:
    return pa.table(
        {
            "image": pa.array([images.jpeg(32, 24, seed=i) for i in range(rows)], pa.binary()),
            "label": pa.array([i % 3 for i in range(rows)]),
            "title": pa.array([f"title {i}" for i in range(rows)]),
            "caption": pa.array([caption(i) for i in range(rows)]),
            "second": pa.array(
                [images.jpeg(32, 24, seed=100 + i, quality=95) for i in range(rows)], pa.binary()
            ),
        }
    )


def parquet(path: Path, codec: str, version: str = "1.0", **options: Any) -> Path:
    pages = {"compression": codec, "data_page_version": version, "row_group_size": 7}
    pq.write_table(table(), path / f"{codec}.parquet", **(pages | options))
    return path / f"{codec}.parquet"


def arrow(path: Path, codec: str) -> Path:
    made, options = table(), pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_file(str(path / f"{codec}.arrow"), made.schema, options=options) as writer:
        writer.write_table(made, max_chunksize=7)
    return path / f"{codec}.arrow"


def shards(path: Path, _: str) -> Path:
    rows = [(images.jpeg(32, 24, seed=i), i % 3, caption(i)) for i in range(ROWS)]
    return mds.write(path / "mds", [rows[:10], rows[10:]])


def frames(path: Path, _: str) -> Path:
    items = [chunks.item(images.jpeg(32, 24, seed=i), i % 3, caption(i)) for i in range(ROWS)]
    return chunks.write(path / "litdata", [chunks.framed(items, 7)], ROWS)


KINDS = [
    (parquet, "snappy"),
    (parquet, "zstd"),
    (parquet, "gzip"),
    (arrow, "zstd"),
    (arrow, "lz4"),
    (shards, "mds"),
    (frames, "litdata"),
]


def check(dataset: hr.Dataset) -> None:
    """Every caption must be the written one, by item and by batch, in any order."""
    assert {"name": "caption", "type": "str"}.items() <= next(
        f for f in dataset.info["fields"] if f["name"] == "caption"
    ).items()
    for row in (ROWS - 1, 0, 11):
        assert dataset[row].fields["caption"] == caption(row)
    for options in ({"shuffle": True}, {"shuffle": "window"}, {}):
        seen: dict[int, str] = {}
        with hr.Loader(
            dataset, 5, transform=RESIZE, fields=["index", "caption"], output="numpy", **options
        ) as loader:
            for _, _, more in loader:
                seen |= dict(zip(map(int, more["index"]), more["caption"], strict=True))
        assert seen == {row: caption(row) for row in range(ROWS)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "codec"), KINDS, ids=lambda value: getattr(value, "__name__", value)
)
def test_bulky_captions_are_fields_of_scanned_indexed_and_packed_datasets(
    write: Any, codec: str, tmp_path: Path
) -> None:
    source = write(tmp_path, codec)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with hr.Dataset(source) as dataset:
            check(dataset)
        hr.index(source, tmp_path / "index.hr")
    with hr.Dataset(tmp_path / "index.hr") as dataset:
        check(dataset)
    assert hr.verify(tmp_path / "index.hr")["ok"]
    for number, unpacked in enumerate((source, tmp_path / "index.hr")):
        hr.pack(unpacked, tmp_path / f"packed{number}.hr")
        with hr.Dataset(tmp_path / f"packed{number}.hr") as dataset:
            check(dataset)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:no column is known as the label")
def test_an_index_of_bulky_captions_stays_small(tmp_path: Path) -> None:
    rows, text = 1000, caption(11)
    made = pa.table(
        {
            "image": pa.array([images.jpeg(16, 16, seed=i % 9) for i in range(rows)], pa.binary()),
            "caption": pa.array([f"{i} {text}" for i in range(rows)]),
        }
    )
    pq.write_table(made, tmp_path / "a.parquet", compression="snappy", use_dictionary=False)
    hr.index(tmp_path / "a.parquet", tmp_path / "index.hr")
    size = sum(file.stat().st_size for file in (tmp_path / "index.hr").iterdir())
    assert rows * len(text) > 90_000_000
    assert size < 400_000
    with hr.Dataset(tmp_path / "index.hr") as dataset:
        assert dataset[777].fields["caption"] == f"777 {text}"


def test_short_texts_in_blocks_are_read_without_decoding_a_page(tmp_path: Path) -> None:
    path = parquet(tmp_path, "snappy")
    hr.index(path, tmp_path / "index.hr", fields=["title"])
    path.unlink()
    with hr.Dataset(tmp_path / "index.hr") as dataset:
        assert dataset.facts(7)["fields"] == {"title": "title 7"}


def test_a_second_image_in_compressed_pages_follows_the_first(tmp_path: Path) -> None:
    path = parquet(tmp_path, "zstd")
    labels = {"second": T.Image(scale=1)}
    with hr.Loader(path, ROWS, transform=RESIZE, labels=labels, output="numpy") as loader:
        _, _, more = next(iter(loader))
    plain = parquet(tmp_path, "none")
    with hr.Loader(plain, ROWS, transform=RESIZE, labels=labels, output="numpy") as loader:
        _, _, same = next(iter(loader))
    assert (more["second"] == same["second"]).all()


def test_a_damaged_page_of_captions_is_an_error_and_no_wrong_text(tmp_path: Path) -> None:
    path = parquet(tmp_path, "zstd", use_dictionary=False)
    hr.index(path, tmp_path / "index.hr")
    meta = pq.ParquetFile(path).metadata
    column = meta.row_group(1).column(3)
    assert column.path_in_schema == "caption"
    data = bytearray(path.read_bytes())
    middle = column.data_page_offset + column.total_compressed_size // 2
    data[middle : middle + 64] = bytes(64)
    path.write_bytes(data)
    says = r'zstd\.parquet: record 7 \(.*\) at byte \d+: bad: field "caption": the block cannot be'
    with hr.Dataset(tmp_path / "index.hr") as dataset:
        assert dataset[6].fields["caption"] == caption(6)
        with pytest.raises(errors.BadFileError, match=says):
            _ = dataset[7].fields
        assert dataset.read(7)[:2] == b"\xff\xd8"  # these batches need no caption
        with (
            hr.Loader(dataset, ROWS, transform=RESIZE, fields=["caption"]) as loader,
            pytest.raises(errors.BadFileError, match=r'field "caption": '),
        ):
            next(iter(loader))
    found = hr.verify(tmp_path / "index.hr")
    assert not found["ok"]
    assert found["faults"]["total"] == 7
    assert 'field "caption"' in found["faults"]["listed"][0]["text"]
    with pytest.raises(errors.BadFileError, match=says):
        hr.pack(tmp_path / "index.hr", tmp_path / "packed.hr")


def test_a_changed_letter_in_a_page_without_a_checksum_is_found(tmp_path: Path) -> None:
    path = parquet(tmp_path, "snappy", use_dictionary=False)
    hr.index(path, tmp_path / "index.hr")
    data = bytearray(path.read_bytes())
    at = data.index(caption(9)[5000:5040].encode())  # letters that snappy left uncompressed
    data[at] ^= 1
    path.write_bytes(data)
    says = r'snappy\.parquet: record 9 \(.*\) at byte \d+: .*field "caption": the checksum of the'
    with hr.Dataset(tmp_path / "index.hr") as dataset:
        assert [dataset.facts(row)["fields"]["caption"] for row in (8, 10)] == [
            caption(8),
            caption(10),
        ]
        with pytest.raises(errors.ChecksumError, match=says):
            dataset.facts(9)
    found = hr.verify(tmp_path / "index.hr")["faults"]
    assert [place["record"] for place in found["listed"]] == [9]
    with hr.Dataset(tmp_path / "index.hr", verify_crc=False) as dataset:
        assert len(dataset.facts(9)["fields"]["caption"]) == len(caption(9))


def test_a_page_of_captions_over_max_block_bytes_is_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path, "zstd", use_dictionary=False)
    hr.index(path, tmp_path / "index.hr")
    limits = {"max_block_bytes": 60_000}
    says = r'record 20 .*: field "caption": the block has \d+ bytes, max_block_bytes is 60000'
    with (
        hr.Dataset(tmp_path / "index.hr", limits=limits) as dataset,
        pytest.raises(errors.LimitError, match=says),
    ):
        _ = dataset[20].fields
