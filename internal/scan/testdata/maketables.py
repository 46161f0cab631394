"""Writes the tables of this folder with their official writers, and what their readers find.

Run it where datasets, pyarrow, numpy and Pillow are. The files are committed, so that the tests of
Go need none of these.
"""

from __future__ import annotations

import base64
import datetime
import io
import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import ClassLabel, Dataset, Features, List, Value
from PIL import Image
from pyarrow.parquet.encryption import (
    CryptoFactory,
    EncryptionConfiguration,
    KmsClient,
    KmsConnectionConfig,
)

HERE = Path(__file__).parent
ROWS = 7


def jpeg(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 4, (16, 16, 3), dtype=np.uint8) * 60
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=50)
    return out.getvalue()


def text(value: Any) -> str:
    return format(value, "g") if isinstance(value, float) else str(value)


def found(rows: list[dict[str, Any]], image: str, keys: list[str]) -> list[dict[str, Any]]:
    """What a reader found: a CRC-32 of each image, and of each other value as text."""
    samples = []
    for key, row in zip(keys, rows, strict=True):
        members = {image: zlib.crc32(row.pop(image))}
        members |= {n: zlib.crc32(text(v).encode()) for n, v in row.items() if v is not None}
        samples.append({"key": key, "members": members})
    return samples


def saved() -> dict[str, Any]:
    """Dataset.save_to_disk's folder of Arrow streams, and to_parquet's file."""
    columns: dict[str, Any] = {"photo": datasets.Image(), "kind": ClassLabel(names=["cat", "dog"])}
    for name in ("uint64", "bool", "date32", "binary", "large_string", "float16", "int8", "string"):
        columns[name] = Value(name)
    columns |= {"list": List(Value("float32")), "nested": {"depth": Value("int16")}}
    day = datetime.date(1970, 1, 1)
    rows = [
        {
            "photo": {"bytes": jpeg(i), "path": f"folder/photo {i}.jpg"},
            "kind": i % 2,
            "uint64": i,
            "bool": i % 3 == 0,
            "date32": day + datetime.timedelta(days=i),
            "binary": bytes(i),
            "large_string": "é" * i,
            "float16": i / 2,
            "int8": -i,
            "string": None if i == 2 else f"note {i}",
            "list": [0.5] * i,
            "nested": {"depth": i * 100},
        }
        for i in range(ROWS)
    ]
    dataset = Dataset.from_list(rows, features=Features(columns))
    dataset.to_parquet(HERE / "photos.parquet", batch_size=3)
    shutil.rmtree(HERE / "saved", ignore_errors=True)
    dataset.save_to_disk(HERE / "saved", num_shards=2)
    read = datasets.load_from_disk(str(HERE / "saved")).with_format("arrow")[:].to_pylist()
    for row in read:
        row["photo"] = row["photo"]["bytes"]
        row["date32"] = (row["date32"] - day).days
        row["bool"] = int(row["bool"])
        row["nested.depth"] = row.pop("nested")["depth"]
        del row["list"], row["binary"]
    return {"saved": found(read, "photo", [f"photo {i}" for i in range(ROWS)])}


def arrow() -> dict[str, Any]:
    """PyArrow's file: batches, a slice, wide offsets, one width, nulls, classes as texts."""
    words = ["a", "b", "a", "b", "a", "b", "a" * 20]
    times = [None if i == 3 else i * 1000 for i in range(ROWS)]
    table = pa.table(
        {
            "jpg": pa.array([jpeg(i) for i in range(ROWS)], pa.large_binary()),
            "cls": pa.array(["dog", "cat", None, "dog", "ant", "cat", "dog"]),
            "fixed": pa.array([b"%04d" % i for i in range(ROWS)], pa.binary(4)),
            "when": pa.array(times, pa.timestamp("ms")),
            "word": pa.array(words).dictionary_encode(),
            "view": pa.array(words, pa.string_view()),
            "pair": pa.array([[i, i] for i in range(ROWS)], pa.list_(pa.int32(), 2)),
        }
    )
    path = HERE / "table.arrow"
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table.slice(1), max_chunksize=4)
    views = table.select(["jpg", "view"]).set_column(
        0, "jpg", table["jpg"].cast(pa.binary()).cast(pa.binary_view())
    )
    with pa.ipc.new_stream(str(HERE / "views.arrow"), views.schema) as writer:
        writer.write_table(views.slice(1), max_chunksize=4)
    for codec in ("lz4", "zstd"):
        packed = pa.ipc.IpcWriteOptions(compression=codec)
        with pa.ipc.new_file(str(HERE / f"{codec}.arrow"), table.schema, options=packed) as writer:
            writer.write_table(table.slice(1), max_chunksize=4)
    # The forms of before Arrow 0.15.
    early = pa.ipc.IpcWriteOptions(
        metadata_version=pa.ipc.MetadataVersion.V4, use_legacy_format=True
    )
    plain = table.select(["jpg", "cls", "fixed", "when", "word"]).slice(1)
    for name, new in (("early", pa.ipc.new_file), ("earlystream", pa.ipc.new_stream)):
        with new(str(HERE / f"{name}.arrow"), plain.schema, options=early) as writer:
            writer.write_table(plain, max_chunksize=4)
    with pa.ipc.open_file(str(path)) as reader:
        rows = reader.read_all().select(["jpg", "fixed", "view"]).to_pylist()
    for row in rows:
        row["fixed"] = row["fixed"].decode()
    return {"table.arrow": found(rows, "jpg", [f"table/{i}" for i in range(ROWS - 1)])}


DELTAS: dict[str, Any] = {
    "use_dictionary": False,
    "data_page_size": 900,
    "column_encoding": {
        "image.bytes": "DELTA_LENGTH_BYTE_ARRAY",
        "image.path": "DELTA_BYTE_ARRAY",
        "label": "DELTA_BINARY_PACKED",
        "text": "DELTA_BYTE_ARRAY",
        "flag": "RLE",
        "small": "DELTA_BINARY_PACKED",
        "real": "BYTE_STREAM_SPLIT",
        "half": "BYTE_STREAM_SPLIT",
        "four": "DELTA_BYTE_ARRAY",
        "list.list.element": "DELTA_BINARY_PACKED",
        "price": "BYTE_STREAM_SPLIT",
    },
}


def parquet() -> dict[str, Any]:
    """PyArrow's pages of each kind, all of one table with nulls; images in dictionaries, too."""
    count = 40
    texts = [None if i % 5 == 4 else f"é {i // 3}" for i in range(count)]
    table = pa.table(
        {
            "image": pa.array(
                [{"bytes": jpeg(i % 9), "path": f"{i}.jpg"} for i in range(count)],
                pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
            ),
            "label": pa.array([i % 4 for i in range(count)], pa.int32()),
            "text": pa.array(texts),
            "flag": pa.array([i % 7 == 1 for i in range(count)]),
            "small": pa.array([i * 1000 for i in range(count)], pa.uint16()),
            "real": pa.array([None if i == 30 else i / 4 for i in range(count)], pa.float64()),
            "half": pa.array(np.arange(count, dtype=np.float16) / 2, pa.float16()),
            "four": pa.array([b"%04d" % i for i in range(count)], pa.binary(4)),
            "list": pa.array([[i, i] for i in range(count)], pa.list_(pa.int32())),
            "price": pa.array(list(range(count)), pa.decimal128(9, 2)),
        }
    )
    kinds: dict[str, dict[str, Any]] = {
        "plain1": {"compression": "none", "use_dictionary": False, "data_page_size": 900},
        "plain2": {"compression": "none", "use_dictionary": False, "data_page_version": "2.0"},
        "entries": {"compression": "none", "write_page_checksum": True},
        "snappy": {"compression": "snappy", "row_group_size": 16, "write_page_checksum": True},
        "zstd2": {"compression": "zstd", "data_page_version": "2.0", "row_group_size": 16},
        "gzip": {"compression": "gzip", "use_dictionary": False},
        "lz4": {"compression": "lz4"},
        "brotli": {"compression": "brotli"},
        "delta": {"compression": "none"} | DELTAS,
        "deltazstd": {"compression": "zstd", "data_page_version": "2.0"} | DELTAS,
    }
    all_found = []
    for name, options in kinds.items():
        path = HERE / f"{name}.parquet"
        pq.write_table(table, path, write_batch_size=8, store_schema=False, **options)
        rows = pq.read_table(path).drop_columns(["list", "price", "label"]).to_pylist()
        for row in rows:
            row |= {"image": row["image"]["bytes"], "four": list(row["four"])}
            row |= {"half": float(row["half"]), "flag": int(row["flag"])}
            row["four"] = "[" + " ".join(map(str, row["four"])) + "]"
        all_found.append(found(rows, "image", [str(i) for i in range(count)]))
    assert all(one == all_found[0] for one in all_found)
    return {"pages": all_found[0]}


def vectors() -> None:
    """Lists of numbers: as they are, of few bits, with nulls, of one number many times."""
    count = 24
    some = [None if i % 6 == 5 else [i, -i, 7][: i % 4] for i in range(count)]
    gaps = [[1, None] if i % 5 == 2 else [i, i] for i in range(count)]
    table = pa.table(
        {
            "image": pa.array([jpeg(i % 3) for i in range(count)], pa.binary()),
            "label": pa.array([[i / 4, 0.5, -i] for i in range(count)], pa.list_(pa.float32())),
            "some": pa.array(some, pa.list_(pa.int64())),
            "few": pa.array([[i, -1] for i in range(count)], pa.list_(pa.int8(), 2)),
            "halves": pa.array([[np.float16(i / 2)] for i in range(count)], pa.list_(pa.float16())),
            "gaps": pa.array(gaps, pa.large_list(pa.uint16())),
            "zeros": pa.array([[0] * 40 for i in range(count)], pa.list_(pa.int32())),
            "deep": pa.array([[[i], [i]] for i in range(count)], pa.list_(pa.list_(pa.int32()))),
            "days": pa.array([[i] for i in range(count)], pa.list_(pa.date32())),
            "in": pa.array([{"it": [i]} for i in range(count)]),
        }
    )
    kinds: dict[str, dict[str, Any]] = {
        "vectors": {"compression": "none", "use_dictionary": False, "data_page_size": 100},
        "vectorssnappy": {"compression": "snappy", "data_page_version": "2.0"},
        "vectorsdelta": {
            "compression": "zstd",
            "use_dictionary": False,
            "column_encoding": {
                "label.list.element": "BYTE_STREAM_SPLIT",
                "some.list.element": "DELTA_BINARY_PACKED",
            },
        },
    }
    for name, options in kinds.items():
        path = HERE / f"{name}.parquet"
        pq.write_table(table, path, write_batch_size=4, row_group_size=10, **options)


def halves() -> None:
    """Lists of numbers of two bytes, in the encodings that take them apart."""
    count = 40
    lists = [
        [np.float16(i / 4), np.float16(-i), np.float16(i * 100)][: i % 4] for i in range(count)
    ]
    names = ("split", "shared", "plain")
    columns = {name: pa.array(lists, pa.list_(pa.float16())) for name in names}
    table = pa.table({"image": pa.array([jpeg(i % 3) for i in range(count)]), **columns})
    encodings = {
        "split.list.element": "BYTE_STREAM_SPLIT",
        "shared.list.element": "DELTA_BYTE_ARRAY",
    }
    pq.write_table(
        table,
        HERE / "halves.parquet",
        compression="none",
        use_dictionary=["image"],
        column_encoding=encodings,
        data_page_size=30,
        write_batch_size=3,
        row_group_size=25,
    )


class NoKeys(KmsClient):
    """A key service whose wrapped keys are the keys themselves."""

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: str, master_key_identifier: str) -> bytes:
        return base64.b64decode(wrapped_key)


def structs() -> None:
    """Images in structs without any path; a file of which one column is encrypted."""
    images = [jpeg(i) for i in range(4)]
    table = pa.table(
        {
            "image": pa.array([{"bytes": image, "path": None} for image in images]),
            "label": pa.array([3, 1, 2, 0]),
        }
    )
    pq.write_table(table, HERE / "pathless.parquet", compression="none")
    table = pa.table({"image": images, "label": [3, 1, 2, 0], "secret": ["a", "b", "c", "d"]})
    factory = CryptoFactory(lambda config: NoKeys())
    properties = factory.file_encryption_properties(
        KmsConnectionConfig(),
        EncryptionConfiguration(
            footer_key="f", column_keys={"c": ["secret"]}, plaintext_footer=True
        ),
    )
    path = HERE / "encrypted.parquet"
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)


def dictionaries() -> None:
    """Dictionaries: of several types in a file, such that grow, and such that are replaced."""
    kinds: dict[str, Any] = {
        "dictionaries": pa.ipc.new_file,
        "grown": pa.ipc.new_stream,
        "replaced": pa.ipc.new_stream,
    }
    for name, writer in kinds.items():
        batches, words = [], []
        for i in range(3):
            words = [f"a{i}", f"b{i}"] if name == "replaced" else [*words, f"a{i}", f"b{i}"]
            rows = pa.array([0, len(words) - 1, None, 1], pa.int8())
            columns = {
                "image": pa.array([jpeg(n) for n in range(4)]),
                "label": pa.DictionaryArray.from_arrays(rows, pa.array(words)),
                "view": pa.DictionaryArray.from_arrays(rows, pa.array(words, pa.string_view())),
                "blob": pa.DictionaryArray.from_arrays(
                    rows.cast(pa.uint32()), pa.array([w.encode() for w in words], pa.large_binary())
                ),
                "size": pa.DictionaryArray.from_arrays(
                    rows, pa.array([len(words) * 10 + n for n in range(len(words))], pa.int16())
                ),
                "deep": pa.DictionaryArray.from_arrays(
                    rows, pa.array([[n] for n in range(len(words))], pa.list_(pa.int32()))
                ),
            }
            if name == "grown":
                columns["size"] = pa.DictionaryArray.from_arrays(
                    rows, pa.array(range(len(words)), pa.int16())
                )
            batches.append(pa.record_batch(columns))
        if name == "dictionaries":  # a file has one of each column
            batches = batches[2:]
        for codec in ("", "zstd"):
            options = pa.ipc.IpcWriteOptions(
                compression=codec or None, emit_dictionary_deltas=name == "grown"
            )
            with writer(
                str(HERE / f"{name}{codec}.arrow"), batches[0].schema, options=options
            ) as out:
                for batch in batches:
                    out.write_batch(batch)


if __name__ == "__main__":
    vectors()
    halves()
    structs()
    dictionaries()
    said = saved() | arrow() | parquet()
    (HERE / "tables.json").write_text(json.dumps(said, indent=1) + "\n")
