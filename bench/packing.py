"""Images a second and core that `headrace pack` and `headrace index` read, check and write.

Containers of the same images are indexed beside the folder, if the environments that write them
exist (`make bench-peers`).

The photographs are in the page cache, shards go to the same file system, and every image's entropy
data is read once for its verdict. A small folder is repeated by links until there are enough images
for a rate. So the rate includes what a job costs once (a thread for each core, the last sync), but
that does not decide it. Rounds alternate between all rows.

What two cores can do at all is measured beside it: by two jobs that know nothing of each other, and
by a loop that touches no memory. On a machine whose cores are two threads of one core, these are
the ceiling.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import facts
import report
import sets
import sides
from rows import Row

# A fresh process, so that the job is timed and not loading the library.
_JOB = """
import json, os, resource, sys, time
import headrace as hr
job, source, destination, first, threads, seek = sys.argv[1:]
first, threads = int(first), int(threads)
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[first : first + threads])
hr.Writer(destination + ".unused").abort()  # the library is loaded at its first use
def used():
    found = resource.getrusage(resource.RUSAGE_SELF)
    return found.ru_utime, found.ru_stime
options = {"num_threads": threads, "seek": seek == "seek"}
begun, spent = time.perf_counter(), used()
if job == "pack":
    made = hr.pack(source, destination, **options)
else:
    where = {"index_dir" if job == "index" else "out": destination}
    made = hr.index(source, **where, **options)
took, (user, system) = time.perf_counter() - begun, (b - a for a, b in zip(spent, used()))
print(json.dumps({"images": made["rows"], "seconds": took, "user_seconds": user,
                  "system_seconds": system, "threads": threads, "bytes": made["bytes"],
                  "seek_bytes": made.get("seek_bytes", 0)}))
"""

# Turns of a loop in a second of wall time, on one core.
_LOOP = """
import os, sys, time
os.sched_setaffinity(0, [sorted(os.sched_getaffinity(0))[int(sys.argv[1])]])
end, turns = time.perf_counter() + 1, 0
while time.perf_counter() < end:
    for _ in range(10000): pass
    turns += 1
print(turns)
"""


def measure(folder: Path, rounds: int, scratch: Path) -> dict[str, Any]:
    """Returns the answers of each row's jobs, a list for each round; for rows of two jobs, both."""
    made = containers(folder, scratch)
    sets.read_all(made.values())
    cores = min(2, len(os.sched_getaffinity(0)))
    rows = [
        ("pack, one core", folder, "pack", [(0, 1)], "seek"),
        ("pack, one core, no seek points", folder, "pack", [(0, 1)], "none"),
        ("index in place, one core", folder, "index", [(0, 1)], "seek"),
        *(
            (f"index {form} in place, one core", source, "index containers", [(0, 1)], "seek")
            for form, source in made.items()
        ),
    ]
    if cores > 1:
        rows += [
            ("pack, two cores", folder, "pack", [(0, 2)], "seek"),
            ("index in place, two cores", folder, "index", [(0, 2)], "seek"),
            *(
                (f"index {form} in place, two cores", source, "index containers", [(0, 2)], "seek")
                for form, source in made.items()
            ),
            ("pack, two jobs of one core each", folder, "pack", [(0, 1), (1, 1)], "seek"),
        ]
    found: dict[str, Any] = {}
    for _ in range(rounds):
        for name, source, job, places, seek in rows:
            found.setdefault(name, []).append(_together(source, scratch, job, places, seek))
        if cores > 1:
            found.setdefault("loop", []).append([_loop([0]), _loop([0, 1])])
    return found


def _together(
    source: Path, scratch: Path, job: str, places: list[tuple[int, int]], seek: str
) -> list[dict[str, Any]]:
    """Runs one job, or several at once, each on its own cores."""
    made = [scratch / f"packing-{first}.hr" for first, _ in places]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _JOB, job, source, to, str(first), str(threads), seek],
            stdout=subprocess.PIPE,
            text=True,
        )
        for to, (first, threads) in zip(made, places, strict=True)
    ]
    outputs = [process.communicate()[0] for process in processes]
    for place in made:
        shutil.rmtree(place)
    return [json.loads(output) for output in outputs]


def _loop(cores: list[int]) -> float:
    """Returns turns a second for each core."""
    processes = [
        subprocess.Popen([sys.executable, "-c", _LOOP, str(core)], stdout=subprocess.PIPE)
        for core in cores
    ]
    return sum(int(process.communicate()[0]) for process in processes) / len(cores)


def repeated(folder: Path, images: int, to: Path) -> Path:
    """Makes a folder with so many images or more: each is linked, or copied, as often as
    necessary."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    times = -(-images // max(1, len(files)))
    for path in files:
        for repeat in range(times):
            link = to / path.parent.relative_to(folder) / f"{path.stem}-{repeat}{path.suffix}"
            link.parent.mkdir(parents=True, exist_ok=True)
            try:
                link.hardlink_to(path)
            except OSError:  # another file system, or one that has no links
                shutil.copyfile(path, link)
    return to


def containers(folder: Path, scratch: Path) -> dict[str, Path]:
    """Writes the folder's images into containers, by kind; what cannot be written here is left
    out."""
    made: dict[str, Path] = {}
    count = sum(1 for path in folder.rglob("*") if path.is_file())
    images = sets.ImageSet("images", folder, count, count)
    writers = sides.Sides(sorted(os.sched_getaffinity(0)), scratch, scratch)
    for form in ("webdataset", "tfrecord"):
        try:
            made[form], _ = writers.source(Row(form, "packing", "headrace", form), images)
        except sides.LeftOut as reason:
            print(f"{form} is left out: {reason}")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", type=Path, help="an image folder, one folder a class")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--at-least", type=int, default=3000, help="images, by repeating")
    parser.add_argument("--work", type=Path, help="where shards go; default: the temporary folder")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(json.dumps(facts.machine()))
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="headrace-packing-", dir=options.work) as scratch:
        folder = repeated(options.images, options.at_least, Path(scratch) / "images")
        print(f"page cache: {sets.read_all([folder]) / 1e6:,.0f} MB read")
        found = measure(folder, options.rounds, Path(scratch))
    print("\n".join(report.packing_table(found)))
    print(f"The whole run took {time.perf_counter() - begun:.0f} seconds.")
    if options.json:
        options.json.write_text(json.dumps({"machine": facts.machine()} | found, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
