"""Writes tables of this folder with DuckDB, Polars, pandas and fastparquet, and what PyArrow finds.

Run it where duckdb, polars, fastparquet, pandas, pyarrow, numpy and Pillow are. The files are
committed, so that the tests of Go need none of these.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import duckdb
import fastparquet
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from maketables import HERE, found, jpeg

ROWS = 60


def table() -> Any:
    day = datetime.date(2026, 1, 1)
    return pa.table(
        {
            "image": pa.array([jpeg(i % 4) + bytes([i]) for i in range(ROWS)], pa.binary()),
            "label": pa.array([f"kind {i % 3}" for i in range(ROWS)]),
            "small": pa.array([i - 30 for i in range(ROWS)], pa.int8()),
            "large": pa.array([i * 10**15 for i in range(ROWS)], pa.int64()),
            "real": pa.array([i / 4 for i in range(ROWS)], pa.float32()),
            "flag": pa.array([i % 3 == 0 for i in range(ROWS)]),
            "day": pa.array([day + datetime.timedelta(days=i) for i in range(ROWS)]),
            "text": pa.array([None if i % 7 == 3 else f"é {i // 2}" for i in range(ROWS)]),
        }
    )


def as_numbers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row in rows:
        row["flag"] = int(row["flag"])
        if isinstance(row["day"], datetime.datetime):
            row["day"] = int(row["day"].replace(tzinfo=datetime.UTC).timestamp()) * 10**6
        else:
            row["day"] = (row["day"] - datetime.date(1970, 1, 1)).days
    return rows


def write(made: Any) -> list[Path]:
    paths = []
    connection = duckdb.connect()
    connection.register("made", made)
    for version, codec in (("V1", "uncompressed"), ("V2", "uncompressed"), ("V2", "zstd")):
        paths.append(HERE / f"duckdb{version}{codec}.parquet")
        options = f"FORMAT parquet, PARQUET_VERSION '{version}', CODEC '{codec}'"
        connection.execute(f"COPY made TO '{paths[-1]}' ({options})")
    frame = pl.from_arrow(made).with_columns(label=pl.col("label").cast(pl.Categorical))
    for codec in ("uncompressed", "zstd"):
        paths.append(HERE / f"polars{codec}.parquet")
        frame.write_parquet(paths[-1], compression=codec, row_group_size=25)
        paths.append(HERE / f"polars{codec}.arrow")
        frame.write_ipc(paths[-1], compression=codec)
    pandas = made.to_pandas().astype({"label": "category", "day": "datetime64[us]"})
    paths.append(HERE / "pandas.arrow")
    pandas.to_feather(paths[-1], compression="uncompressed")
    paths.append(HERE / "fastparquet.parquet")
    fastparquet.write(str(paths[-1]), pandas, compression="SNAPPY", row_group_offsets=25)
    return paths


if __name__ == "__main__":
    said = {}
    for path in write(table()):
        read = pq.read_table(path) if path.suffix == ".parquet" else pa.feather.read_table(path)
        keys = [f"{path.stem}/{i}" for i in range(ROWS)]
        said[path.name] = found(as_numbers(read.to_pylist()), "image", keys)
    (HERE / "writers.json").write_text(json.dumps(said, indent=1) + "\n")
