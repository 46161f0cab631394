"""How fast do datasets come out of an object store, beside a plain client of the same ranges?

A real S3 server (versitygw, `make stores`) runs on this machine, behind the program's own link
(`link/`), which adds 20 ms before each answer's first byte and limits all answers together to 100
and to 400 MB/s. All sides have the same server and the same bytes, and are interleaved over several
rounds:

- plain: signed GETs of the records' ranges in the loader's shuffled order by Go's net/http, without
  checksums; the best of several numbers of requests in flight;
- fetch: hr.Loader over records of the same lengths that take almost no time to decode (an image of
  16 pixels, and bytes behind it up to the length), with checksums compared;
- decode: hr.Loader with RandomResizedCrop(224), flip and Normalize, over the photographs;
- second: the second epoch of the same loader. Without a cache it is fetched again;
- kept: the second epoch through a cache on disk that holds everything, and "local" is that epoch of
  the dataset on disk: both read the page cache, and nothing through the link.

Peers (MosaicML streaming, LitData, WebDataset) read other files: `remote_peers.py` has them.
`farthest.py` says what an ideal cache would fetch.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

import facts
import headrace as hr

ROOT = Path(__file__).parents[1]
ACCESS, SECRET = "an-access-key", "a-secret-key"
AT_ONCE = (16, 32, 64, 128)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Yields the address of a server that shows the folders of a folder as buckets."""
    built = ROOT / ".build" / "bin" / "versitygw"
    program = str(built) if built.is_file() else shutil.which("versitygw")
    if program is None:
        raise SystemExit("versitygw is not built: make stores")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    keys = {"ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET}
    command = [program, "--port", address, "--quiet", "posix", str(folder)]
    with subprocess.Popen(command, env={**os.environ, **keys}) as server:
        try:
            for _ in range(500):
                with contextlib.suppress(OSError):
                    socket.create_connection(address.split(":"), 1).close()  # type: ignore[arg-type]
                    break
                time.sleep(0.02)
            yield address
        finally:
            server.kill()


@contextlib.contextmanager
def linked(program: Path, address: str, rate: float) -> Iterator[str]:
    """Yields the address of a link to a server."""
    command = [str(program), "-target", address, "-rate", str(rate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as link:
        try:
            assert link.stdout is not None
            yield link.stdout.readline().strip()
        finally:
            link.kill()


def light(photographs: Path, to: Path) -> Path:
    """Makes as many files of the same lengths that take no time to decode: what is behind an image
    is read and compared, but not decoded."""
    small = io.BytesIO()
    Image.new("RGB", (4, 4)).save(small, "JPEG")
    draw = random.Random(0)
    for path in sorted(photographs.rglob("*")):
        if path.suffix.lower() not in (".jpg", ".jpeg"):
            continue
        into = to / path.relative_to(photographs)
        into.parent.mkdir(parents=True, exist_ok=True)
        rest = max(path.stat().st_size - small.tell(), 0)
        into.write_bytes(small.getvalue() + draw.randbytes(rest))
    return to


def loader(
    source: str | Path, storage: dict[str, Any] | None, crop: int, options: Any, **kept: Any
) -> hr.Loader:
    steps: list[Any] = [hr.transforms.Resize((crop, crop))]
    if crop > 16:
        steps = [hr.transforms.RandomResizedCrop(crop), hr.transforms.RandomHorizontalFlip()]
        steps.append(hr.transforms.Normalize(MEAN, STD))
    return hr.Loader(
        source,
        options.batch_size,
        shuffle=True,
        seed=1,
        transform=steps,
        output="numpy",
        fields=["index"],
        storage=storage,
        **kept,
    )


def epochs(made: hr.Loader, count: int) -> list[dict[str, float]]:
    """Returns seconds, images and fetched bytes of some epochs, and seconds to the first batch."""
    rows = []
    for _ in range(count):
        before, began, images, first = made.stats(), time.perf_counter(), 0, 0.0
        for pixels, _, _ in made:
            first = first or time.perf_counter() - began
            images += len(pixels)
        took, after = time.perf_counter() - began, made.stats()
        fetched = after["remote_bytes"] - before["remote_bytes"]
        asked = after["remote_requests"] - before["remote_requests"]
        rows.append(
            {"seconds": took, "images": images, "bytes": fetched, "requests": asked, "first": first}
        )
    return rows


def steady(made: hr.Loader, count: int = 8) -> float:
    """Returns images a second over some epochs in a row. The first epoch, whose batches waited,
    does not count."""
    rows = epochs(made, count + 1)[1:]
    return sum(row["images"] for row in rows) / sum(row["seconds"] for row in rows)


def settled(made: hr.Loader) -> None:
    """Waits until no more seek points come."""
    before = -1
    while (now := made.stats()["remote_seek_bytes"]) != before:
        before = now
        time.sleep(0.5)


def wanted(dataset: Path, bucket: str, to: Path, options: Any) -> int:
    """Writes the ranges of an epoch in the loader's order; returns the bytes of all."""
    total = 0
    with hr.Dataset(dataset) as opened, to.open("w") as lines:
        with loader(dataset, None, 16, options) as made:
            order = [int(number) for *_, fields in made for number in fields["index"]]
        for number in order:
            found = opened.facts(number)
            path = f"/{bucket}/{dataset.name}/{Path(found['path']).name}"
            total += int(found["length"])
            lines.write(json.dumps([path, found["offset"], found["length"]]) + "\n")
    return total


def plain(program: Path, link: str, ranges: Path, at_once: int) -> float:
    """Returns the bytes a second of the plain client."""
    command = [str(program), "-target", link, "-ranges", str(ranges), "-at-once", str(at_once)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    return float(found["bytes"] / found["seconds"])


def measured(rate: float, address: str, work: Path, options: Any) -> dict[str, Any]:
    """Measures all sides over one link, round by round."""
    program = work / "link"
    rows: dict[str, list[float]] = {name: [] for name, *_ in SIDES}
    firsts: list[float] = []
    opened: list[float] = []  # the time for making the loader, before the first batch
    bare: list[float] = []  # the first batch's bytes alone, which the plain client asks for at once
    best = AT_ONCE[0]
    sizes = {name: wanted(work / "photos" / name, "photos", work / name, options) for name in NAMES}
    lines = (work / NAMES[1]).read_text().splitlines()[: options.batch_size]
    (work / "first").write_text("\n".join(lines))
    size = sum(json.loads(line)[2] for line in lines)
    with linked(program, address, rate) as link:
        storage = {"endpoint": f"http://{link}", "path_style": True, "region": "us-east-1"}
        rates = {n: plain(program, link, work / NAMES[0], n) for n in AT_ONCE}
        best = max(rates, key=lambda n: rates[n])
        for _ in range(options.rounds):
            rows["plain"].append(plain(program, link, work / NAMES[0], best))
            with loader(f"s3://photos/{NAMES[0]}", storage, 16, options) as made:
                found = epochs(made, 1)[0]
            rows["fetch"].append(sizes[NAMES[0]] / found["seconds"])
            began = time.perf_counter()
            with loader(f"s3://photos/{NAMES[1]}", storage, options.size, options) as made:
                opened.append(time.perf_counter() - began)
                first, second = epochs(made, 2)
            rows["decode"].append(first["images"] / first["seconds"])
            rows["second"].append(second["images"] / second["seconds"])
            firsts.append(first["first"])
            bare.append(size / plain(program, link, work / "first", options.batch_size))
            kept = {"cache": work / "cache", "cache_size": "16GB"}
            with loader(f"s3://photos/{NAMES[1]}", storage, options.size, options, **kept) as made:
                epochs(made, 1)
                settled(made)
                rows["kept"].append(steady(made))
            shutil.rmtree(work / "cache")
            with loader(work / "photos" / NAMES[1], None, options.size, options) as made:
                epochs(made, 1)
                rows["local"].append(steady(made))
    share = statistics.median(rows["fetch"]) / statistics.median(rows["plain"])
    print(f"\nlink of {rate / 1e6:.0f} MB/s, 20 ms; plain client with {best} requests at once")
    for side, unit, by in SIDES:
        print(f"  {side:8} {facts.line([value / by for value in rows[side]], unit, 1)}")
    kept_share = statistics.median(rows["kept"]) / statistics.median(rows["local"])
    opening, first, alone = (statistics.median(all) * 1e3 for all in (opened, firsts, bare))
    print(
        f"  fetch / plain {share:.3f}; first batch {first:.0f} ms, behind {opening:.0f} of opening"
    )
    print(f"  the plain client has its bytes after {alone:.0f} ms")
    print(f"  kept / local {kept_share:.3f}")
    return {
        "rate": rate,
        "at_once": best,
        **rows,
        "fetch_share": share,
        "first_batch_s": firsts,
        "opening_s": opened,
        "first_bytes_s": bare,
    }


NAMES = ("light.hr", "train.hr")
SIDES = (
    ("plain", "MB/s", 1e6),
    ("fetch", "MB/s", 1e6),
    ("decode", "images/s", 1.0),
    ("second", "images/s", 1.0),
    ("kept", "images/s", 1.0),
    ("local", "images/s", 1.0),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, required=True, help="a folder of class folders")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rates", default="100,400", help="MB/s, several by commas")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.update(AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET)
    os.environ.update(AWS_EC2_METADATA_DISABLED="true", AWS_CONFIG_FILE=os.devnull)
    print(" ".join(f"{name}={value}" for name, value in facts.machine().items()))
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        work = Path(folder)
        build = ["go", "build", "-o", str(work / "link"), "./bench/link"]
        subprocess.run(build, check=True, cwd=ROOT)
        (work / "photos").mkdir()
        with serving(work) as address:
            storage = {"endpoint": f"http://{address}", "path_style": True, "region": "us-east-1"}
            sources = (light(options.images, work / "files"), options.images)
            for name, source in zip(NAMES, sources, strict=True):
                hr.pack(source, f"s3://photos/{name}", shard_size="64MB", storage=storage)
            found = [
                measured(float(rate) * 1e6, address, work, options)
                for rate in options.rates.split(",")
            ]
    if options.json:
        options.json.write_text(json.dumps({"machine": facts.machine(), "links": found}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
