"""How many requests does a store of objects answer for a thousand images, by the order of samples?

Stores charge for each request, and full shuffling finds few neighbours that can be asked for
together. A real S3 server (versitygw, `make stores`) on this machine has records as long as a
folder's photographs, or a fraction of that (an image of 16 pixels, and bytes behind it up to the
length), in shards of 64 MB. hr.Loader reads them in order, windowed and fully shuffled, and counts
requests. What is fetched beyond the records is reported, too.

    python bench/merging.py --images FOLDER [--records 40000] [--fraction 4]
"""

from __future__ import annotations

import argparse
import io
import os
import random
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

import facts
import headrace as hr
from remote import ACCESS, SECRET, serving

ORDERS: dict[str, Any] = {"in order": False, 'shuffle="window"': "window", "shuffle=True": True}


def made(photographs: Path, to: Path, records: int, fraction: int) -> int:
    """Writes so many records as long as the photographs in turn; returns the bytes of all."""
    files = [path for path in sorted(photographs.rglob("*")) if path.suffix.lower() == ".jpg"]
    files = files or [path for path in sorted(photographs.rglob("*")) if path.is_file()]
    lengths = [path.stat().st_size // fraction for path in files]
    small, draw, total = io.BytesIO(), random.Random(0), 0
    Image.new("RGB", (4, 4)).save(small, "JPEG")
    with hr.Writer(to, shard_size="64MB") as writer:
        for number in range(records):
            rest = max(lengths[number % len(lengths)] - small.tell(), 0)
            writer.add(image=small.getvalue() + draw.randbytes(rest), label=0)
            total += small.tell() + rest
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--records", type=int, default=40_000)
    parser.add_argument("--fraction", type=int, default=4, help="of the lengths, and of the memory")
    options = parser.parse_args()
    os.environ.update(AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET)
    os.environ.update(AWS_EC2_METADATA_DISABLED="true", AWS_CONFIG_FILE=os.devnull)
    print(" ".join(f"{name}={value}" for name, value in facts.machine().items()))
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        root = Path(folder)
        (root / "photos").mkdir()
        whole = made(options.images, root / "photos" / "set.hr", options.records, options.fraction)
        print(f"{options.records:,} records, {whole / options.records / 1e3:,.1f} kB each")
        with serving(root) as address:
            storage = {"endpoint": f"http://{address}", "path_style": True, "region": "us-east-1"}
            for name, shuffle in ORDERS.items():
                with hr.Loader(
                    "s3://photos/set.hr",
                    256,
                    shuffle=shuffle,
                    seed=1,
                    transform=[hr.transforms.CenterCrop(4)],
                    dtype="uint8",
                    output="numpy",
                    storage=storage,
                    fetch_ahead=(512 << 20) // options.fraction,
                ) as loader:
                    images = sum(len(labels) for _, labels in loader)
                    found = loader.stats()
                # This includes requests for the next epoch's first batches.
                asked = found["remote_requests"] / images * 1000
                beyond = found["remote_bytes"] / whole - 1
                print(f"  {name:18} {asked:7,.1f} requests a thousand images, {beyond:+.1%} bytes")


if __name__ == "__main__":
    main()
