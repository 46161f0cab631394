"""Writes LitData's chunks of each kind with its own writer, and what its reader finds.

Run it where litdata, torch, pyarrow, zstd, numpy and Pillow are. The files are committed, so that
the tests of Go need none of these.
"""

from __future__ import annotations

import io
import json
import shutil
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from litdata import StreamingDataset
from litdata.streaming.writer import BinaryWriter
from PIL import Image

HERE = Path(__file__).parent
ROOT = HERE / "litdata"
ROWS = 7


def jpeg(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 4, (16, 16, 3), dtype=np.uint8) * 60
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=50)
    return out.getvalue()


def text(value: Any) -> str:
    return format(value, "g") if isinstance(value, float) else str(value)


def write(name: str, rows: list[Any], **options: Any) -> list[Any]:
    """A folder of chunks; its items as the reader gives them."""
    place = ROOT / name
    writer = BinaryWriter(str(place), **{"chunk_size": 4, **options})
    for number, row in enumerate(rows):
        writer[number] = row
    writer.done()
    writer.merge()
    index = json.loads((place / "index.json").read_text())
    index.pop("updated_at")  # or each run would change it
    (place / "index.json").write_text(json.dumps(index, sort_keys=True) + "\n")
    with tempfile.TemporaryDirectory() as folder:  # the reader puts other files in their place
        copy = shutil.copytree(place, Path(folder, "copy"))
        dataset = StreamingDataset(str(copy), cache_dir=str(Path(folder, "cache")))
        return [dataset[i] for i in range(len(dataset))]


def found(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A CRC-32 of each value, as text where it is no bytes."""
    return [
        {
            "key": f"chunk-0-{i // 4}/{i % 4}",
            "members": {
                name: zlib.crc32(value if isinstance(value, bytes) else text(value).encode())
                for name, value in row.items()
            },
        }
        for i, row in enumerate(rows)
    ]


def leaves(folder: Path) -> list[dict[str, Any]]:
    """Samples of leaves of many kinds; `photo` is kept as the file that it was opened from."""
    rows = []
    for i in range(ROWS):
        (folder / f"{i}.jpg").write_bytes(jpeg(i))
        rows.append(
            {
                "photo": Image.open(folder / f"{i}.jpg"),
                "label": i - 1,
                "half": i / 2,
                "flag": i % 3 == 0,
                "caption": "é" * i,
                "raw": bytes(i),
                "nested": {"depth": i * 100, "list": [[1, 2], [i]]},
                "array": np.zeros((2, i)),
                "vector": np.arange(i),
                "pickled": {1, i},
            }
        )
    return rows


def read(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What of them Headrace reads, as its fields are called. litdata decodes its images."""
    flat = []
    for i, row in enumerate(rows):
        value = {name: row[name] for name in ("label", "half", "caption")}
        value |= {"flag": int(row["flag"]), "nested.depth": row["nested"]["depth"]}
        value |= {"photo": jpeg(i), "raw": bytes(row["raw"])}
        pixels = np.asarray(Image.open(io.BytesIO(jpeg(i))))
        assert np.abs(row["photo"].numpy().transpose(1, 2, 0) - pixels.astype(int)).max() < 4
        flat.append(value)
    return flat


def pixels() -> dict[str, Any]:
    """Images that litdata stores as pixels: of PIL, and as arrays and tensors."""
    expected = {}
    for name, options in (("pixels", {}), ("pixels-framed", {"compression": "zstd"})):
        rows, values = [], []
        for i in range(ROWS):
            noise = np.random.default_rng(i).integers(0, 256, (3 + i, 5, 4), dtype=np.uint8)
            planes = torch.from_numpy(noise[..., :3].transpose(2, 0, 1).copy())
            rows.append({"image": Image.fromarray(noise), "label": i, "hwc": noise, "chw": planes})
            value = {"image": noise.tobytes(), "label": i, "hwc": noise.tobytes()}
            values.append(value | {"chw": planes.numpy().tobytes()})
        write(name, rows, **options)
        expected[f"litdata/{name}"] = found(values)
    return expected


def scalars() -> dict[str, Any]:
    """Tensors of no axes, which are numbers."""
    with tempfile.TemporaryDirectory() as place:
        Path(place, "0.jpg").write_bytes(jpeg(0))
        rows = [
            {
                "image": Image.open(Path(place, "0.jpg")),
                "label": torch.tensor(i * 1000),
                "real": torch.tensor(i / 4, dtype=torch.float32),
            }
            for i in range(ROWS)
        ]
        got = write("scalars", rows)
    read = [{"label": int(row["label"]), "real": float(row["real"])} for row in got]
    return {"litdata/scalars": found(read)}


def main() -> None:
    shutil.rmtree(ROOT, ignore_errors=True)
    expected = {}
    with tempfile.TemporaryDirectory() as place:
        levels = {"classic": {}, "framed": {"compression_batch_size": 3}}
        levels |= {"sample": {"compression_level": "sample"}}
        levels |= {"whole": {"compression_level": "chunk"}}
        for name, options in levels.items():
            if name != "classic":
                options["compression"] = "zstd"
            rows = write(name, leaves(Path(place)), **options)
            expected[f"litdata/{name}"] = found(read(rows))
            for sample in expected[f"litdata/{name}"] if name == "whole" else []:
                sample["key"] = sample["key"].replace("/", ".zstd/")
        pair = [(Image.open(Path(place, f"{i}.jpg")), i % 2) for i in range(ROWS)]
        pairs = write("pair", pair)
        assert [label for _, label in pairs] == [label for _, label in pair]
        expected["litdata/pair"] = found([{"0": jpeg(i), "1": i % 2} for i in range(ROWS)])
    rows = [
        {
            "image": {"bytes": jpeg(i), "path": f"folder/{i}.jpg"},
            "label": i % 3,
            "caption": f"caption {i} " * (200 * packed),
        }
        for packed in (0, 1)
        for i in range(ROWS)
    ]
    for name, some, options in (
        ("footer", rows[:ROWS], {}),
        ("footer-zstd", rows[ROWS:], {"compression": "zstd"}),
    ):
        got = write(name, some, **options)
        for row in got:
            row["image.path"], row["image"] = row["image"]["path"], row["image"]["bytes"]
        expected[f"litdata/{name}"] = found(got)
        for i, sample in enumerate(expected[f"litdata/{name}"]):
            sample["key"] = str(i)
    expected |= pixels()
    expected |= scalars()
    (HERE / "litdata.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
