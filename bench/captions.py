"""What does a text beside each image cost that lies in compressed pages, by the order of samples?

Two Parquet files are made, of images of 64 x 64 and captions of 2 kB in pages of 1 MB that are
compressed by zstd. In one file the images of the same rows lie in such pages, too. In the other
they are uncompressed, as Hugging Face's datasets writes them since 4.6. The loader may keep a fifth
of the captions' pages decoded. A new loader reads each order; rounds take turns.

    python bench/captions.py [--samples 20000] [--rounds 3] [--most 10] [--json FILE]
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

import facts
import headrace as hr

LENGTH = 2000  # bytes of a caption
PAGE = 1 << 20
ORDERS: dict[str, Any] = {"in order": False, "windows": "window", "shuffled": True}


def table(samples: int) -> pa.Table:
    """Returns images and captions, no two alike."""
    random = np.random.default_rng(1)
    images = []
    for _ in range(256):
        file = io.BytesIO()
        pixels = random.integers(0, 256, (8, 8, 3), np.uint8)
        Image.fromarray(pixels).resize((64, 64), Image.Resampling.BICUBIC).save(file, "JPEG")
        images.append(file.getvalue())
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz      ", np.uint8)
    texts = letters[random.integers(0, len(letters), (samples, LENGTH))]
    return pa.table(
        {
            "image": pa.array([images[n % len(images)] for n in range(samples)], pa.binary()),
            "caption": pa.array([bytes(text).decode() for text in texts]),
            "label": pa.array([n % 10 for n in range(samples)]),
        }
    )


def write(path: Path, rows: pa.Table, images: str) -> Path:
    pq.write_table(
        rows,
        path,
        compression={"image": images, "caption": "zstd", "label": "zstd"},
        use_dictionary=False,
        data_page_size=PAGE,
        row_group_size=len(rows),
        write_batch_size=64,  # pages end only between batches
    )
    return path


def rate(source: Path, shuffle: Any, kept: int, most: float) -> float:
    """The samples a second of an epoch, or of the part of it that fits into so many seconds."""
    with (
        hr.Dataset(source, limits={"max_cached_bytes": kept}) as dataset,
        hr.Loader(
            dataset,
            64,
            shuffle=shuffle,
            fields=["caption"],
            transform=[hr.transforms.Resize((32, 32))],
            output="numpy",
        ) as loader,
    ):
        begun, samples = time.perf_counter(), 0
        for _, labels, _ in loader:
            samples += len(labels)
            if time.perf_counter() - begun > most:
                break
        return samples / (time.perf_counter() - begun)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--samples", type=int, default=20_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--most", type=float, default=10, help="seconds of an epoch")
    options.add_argument("--json", type=Path)
    asked = options.parse_args()
    found: dict[str, Any] = {"machine": facts.machine(), "samples": asked.samples, "rates": {}}
    kept = asked.samples * LENGTH // 5
    with tempfile.TemporaryDirectory() as place:
        rows = table(asked.samples)
        sources = {
            "in pages of the same rows": write(Path(place) / "same.parquet", rows, "zstd"),
            "uncompressed": write(Path(place) / "apart.parquet", rows, "none"),
        }
        sides = [(kind, order) for kind in sources for order in ORDERS]
        rates: dict[tuple[str, str], list[float]] = {side: [] for side in sides}
        for number in range(asked.rounds):
            for kind, order in sides[number % len(sides) :] + sides[: number % len(sides)]:
                figure = rate(sources[kind], ORDERS[order], kept, asked.most)
                rates[kind, order].append(figure)
    for (kind, order), figures in rates.items():
        print(f"images {kind}, {order}: {facts.line(figures, 'samples/s')}")
        found["rates"][f"{kind}, {order}"] = facts.spread(figures)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
