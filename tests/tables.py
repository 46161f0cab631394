"""Tables as written by Hugging Face's datasets, made with PyArrow.

Images are structs of bytes and path, and the features are in the schema's metadata.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def table(images: list[bytes], labels: list[int], names: list[str]) -> Any:
    features = {
        "image": {"_type": "Image"},
        "label": {"names": names, "_type": "ClassLabel"},
        "caption": {"dtype": "string", "_type": "Value"},
        "weight": {"dtype": "float32", "_type": "Value"},
    }
    struct = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = range(len(images))
    columns = {
        "image": pa.array(
            [{"bytes": data, "path": f"{i:04d}.jpg"} for i, data in enumerate(images)], struct
        ),
        "label": pa.array(labels, pa.int64()),
        "caption": pa.array([f"été {i}" for i in rows]),
        "weight": pa.array([i / 4 for i in rows], pa.float32()),
    }
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return pa.table(columns).replace_schema_metadata(metadata)


def save(root: Path, tables: list[Any], batch: int = 3) -> Path:
    """A folder like that of Dataset.save_to_disk."""
    root.mkdir(parents=True)
    files = []
    for i, part in enumerate(tables):
        files.append({"filename": f"data-{i:05d}-of-{len(tables):05d}.arrow"})
        with pa.ipc.new_stream(str(root / files[-1]["filename"]), part.schema) as writer:
            writer.write_table(part, max_chunksize=batch)
    (root / "state.json").write_text(json.dumps({"_data_files": files}))
    (root / "dataset_info.json").write_text("{}")
    return root


def parquet(root: Path, tables: list[Any], split: str = "train", **options: Any) -> list[Path]:
    """Files like those of a repository of Hugging Face: images PLAIN and uncompressed."""
    root.mkdir(parents=True, exist_ok=True)
    plain = {"compression": {"image.bytes": "none", "image.path": "none"}}
    plain |= {"use_dictionary": ["label", "caption", "weight"], "row_group_size": 3}
    paths = []
    for i, part in enumerate(tables):
        paths.append(root / f"{split}-{i:05d}-of-{len(tables):05d}.parquet")
        pq.write_table(part, paths[-1], **(plain | options))
    return paths
