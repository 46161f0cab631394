"""Memory, descriptors, maps and threads over many epochs; status 1 when one of them grows.

It counts RssAnon and RssShmem, where heaps and batches are; mapped shards (RssFile) belong to the
page cache. Growth is measured from the end of the second epoch, when everything is warm.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import facts

ALLOWED_MB = 4.0
ALLOWED_MAPS = 4


def world() -> dict[str, float]:
    """Returns what this process holds."""
    status = dict(
        line.split(":\t", 1)
        for line in Path("/proc/self/status").read_text().splitlines()
        if ":\t" in line
    )
    kilobytes = sum(int(status[name].split()[0]) for name in ("RssAnon", "RssShmem"))
    return {
        "memory_mb": kilobytes * 1024 / 1e6,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "maps": len(Path("/proc/self/maps").read_text().splitlines()),
        "threads": int(status["Threads"]),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", type=Path, help="an image folder, one folder a class")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--leave-early", action="store_true", help="break in every other epoch")
    parser.add_argument("--rest", type=float, default=0.5, help="seconds before each reading")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    import headrace as hr

    history: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="headrace-soak-") as scratch:
        packed = Path(scratch) / "packed.hr"
        hr.pack(options.images, packed)
        loader = hr.Loader(
            packed,
            batch_size=options.batch_size,
            shuffle=True,
            num_threads=options.threads,
            transform=[hr.transforms.RandomResizedCrop(224), hr.transforms.RandomHorizontalFlip()],
        )
        for epoch in range(options.epochs):
            for step, _batch in enumerate(loader):
                if options.leave_early and epoch % 2 and step == len(loader) // 2:
                    break
            del _batch
            gc.collect()
            time.sleep(options.rest)  # wait until the next epoch's first batches are made
            history.append(world())
            if epoch in (0, 1) or epoch % 10 == 9:
                print(f"epoch {epoch + 1}: {json.dumps(history[-1])}", flush=True)
        stats = loader.stats()
        loader.close()

    base, rest = history[1], history[2:]
    growth = {name: max(entry[name] for entry in rest) - base[name] for name in base}
    print(json.dumps(facts.machine()))
    print(f"growth after the second of {options.epochs} epochs: {json.dumps(growth)}")
    if options.json:
        result = {"machine": facts.machine(), "history": history, "growth": growth, "stats": stats}
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    grown = growth["memory_mb"] > ALLOWED_MB * 1.048576
    # Neighbouring anonymous mappings merge and split, so their number moves by a few.
    more = growth["descriptors"] > 0 or growth["threads"] > 0 or growth["maps"] > ALLOWED_MAPS
    return int(grown or more)


if __name__ == "__main__":
    sys.exit(main())
