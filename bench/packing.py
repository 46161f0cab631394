"""Images a second and core that `headrace pack` reads, checks and writes.

Photographs in the page cache, shards to the same file system, every image's entropy data read once
for its verdict. Rounds alternate between one core and two, with seek points and without.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import facts
import report

# A fresh process: what is timed is the job, not loading the library.
_PACK = """
import json, os, resource, sys, time
import headrace as hr
source, destination, threads, seek = sys.argv[1:]
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(threads)])
hr.Writer(destination + ".unused").abort()  # the library is loaded at its first use
def used():
    found = resource.getrusage(resource.RUSAGE_SELF)
    return found.ru_utime + found.ru_stime
begun, spent = time.perf_counter(), used()
made = hr.pack(source, destination, num_threads=int(threads), seek=seek == "seek")
took = time.perf_counter() - begun
print(json.dumps({"images": made["rows"], "seconds": took, "cpu_seconds": used() - spent,
                  "bytes": made["bytes"], "seek_bytes": made.get("seek_bytes", 0)}))
"""


def measure(folder: Path, rounds: int, scratch: Path) -> dict[str, Any]:
    """Rates on one core and on two, a list of rounds each."""
    found: dict[str, Any] = {}
    cores = len(os.sched_getaffinity(0))
    for _ in range(rounds):
        for name, threads, seek in (
            ("one core, seek points", 1, "seek"),
            ("one core, no seek points", 1, "none"),
            (f"{min(2, cores)} cores, seek points", min(2, cores), "seek"),
        ):
            place = scratch / "packing.hr"
            command = [sys.executable, "-c", _PACK, str(folder), str(place), str(threads), seek]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            found.setdefault(name, []).append(json.loads(output) | {"threads": threads})
            shutil.rmtree(place)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", type=Path, help="an image folder, one folder a class")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(json.dumps(facts.machine()))
    with tempfile.TemporaryDirectory(prefix="headrace-packing-") as scratch:
        found = measure(options.images, options.rounds, Path(scratch))
    print("\n".join(report.packing_table(found)))
    if options.json:
        options.json.write_text(json.dumps({"machine": facts.machine()} | found, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
