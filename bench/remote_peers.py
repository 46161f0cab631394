"""How fast is the first epoch of a set in S3 behind a link, beside three peers?

The peers are MosaicML streaming, LitData and WebDataset. versitygw on this machine serves the
photographs, `--copies` of each, in the form of each loader. Every loader reads all of them once,
shuffled, through its own cache on the disk, which is empty at first. It makes 224 x 224 float32
tensors by RandomResizedCrop, flip and Normalize on two cores. The link (`link/`) adds 20 ms before
each answer's first byte and limits all answers together. Rounds are interleaved.

The rate counts the images after the first batch; the time to the first batch is reported
separately.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import facts
import headrace as hr
from peers.protocol import image_files
from remote import ACCESS, MEAN, ROOT, SECRET, STD, linked, serving
from sides import PEERS, python_of

BUCKET = "photos"
LOADERS = ("mosaic", "litdata", "webdataset")


def headrace_epoch(link: str, cache: Path, options: Any) -> dict[str, float]:
    """Measures a first epoch through an empty cache that holds everything."""
    import time

    steps = [hr.transforms.RandomResizedCrop(224), hr.transforms.RandomHorizontalFlip()]
    steps.append(hr.transforms.Normalize(MEAN, STD))
    storage = {"endpoint": f"http://{link}", "path_style": True, "region": "us-east-1"}
    began, first, head, images = time.perf_counter(), 0.0, 0, 0
    with hr.Loader(
        f"s3://{BUCKET}/headrace.hr",
        options.batch_size,
        shuffle=True,
        seed=1,
        transform=steps,
        output="numpy",
        storage=storage,
        cache=cache,
        cache_size="4GB",
    ) as loader:
        for pixels, _ in loader:
            images += len(pixels)
            if not first:
                first, head = time.perf_counter() - began, images
        took = time.perf_counter() - began
    return {
        "images": images,
        "first": first,
        "seconds": took,
        "rate": (images - head) / (took - first),
    }


def peer_epoch(peer: str, link: str, cache: Path, work: Path, options: Any) -> dict[str, float]:
    """Measures the same with a peer, in its own environment."""
    where = f"s3://{BUCKET}/{peer}"
    environment = {**os.environ, "AWS_ENDPOINT_URL": f"http://{link}"}
    environment |= {"S3_ENDPOINT_URL": f"http://{link}", "PYTHONPATH": str(ROOT / "bench")}
    if peer == "webdataset":  # its http:// reader does not sign, so the addresses are signed
        folder = work / BUCKET / peer
        urls = [signed(f"/{BUCKET}/{peer}/{path.name}", link) for path in sorted(folder.iterdir())]
        (work / "urls").write_text("\n".join(urls))
        where = str(work / "urls")
    command = [python_of(peer), "-m", "peers.away", peer, where, str(cache)]
    command += ["--batch-size", str(options.batch_size)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise SystemExit(f"{peer}: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def signed(path: str, host: str) -> str:
    """Returns a presigned address that is valid for an hour (AWS Signature Version 4)."""
    import hashlib
    import hmac
    from datetime import datetime, timezone
    from urllib.parse import quote, urlencode

    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{stamp[:8]}/us-east-1/s3/aws4_request"
    query = {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{ACCESS}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": "3600",
        "X-Amz-SignedHeaders": "host",
    }
    encoded = urlencode(sorted(query.items()), quote_via=quote, safe="")
    request = f"GET\n{quote(path)}\n{encoded}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"
    key = f"AWS4{SECRET}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    return f"http://{host}{quote(path)}?{encoded}&X-Amz-Signature={key.hex()}"


def prepare(photographs: Path, work: Path, copies: int) -> tuple[int, int]:
    """Writes the set in each loader's form below the bucket; returns its number of images and
    bytes."""
    folder = work / "images"
    paths, _ = image_files(photographs)
    for path in paths:
        source = Path(path)
        into = folder / source.parent.name
        into.mkdir(parents=True, exist_ok=True)
        for number in range(copies):
            os.symlink(source.resolve(), into / f"{source.stem}-{number}{source.suffix}")
    (work / BUCKET).mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "bench")}
    for peer in LOADERS:
        command = [python_of(peer), "-m", f"peers.{peer}", str(folder)]
        command += ["--prepare", str(work / BUCKET / peer)]
        subprocess.run(command, check=True, env=environment, capture_output=True)
    made = hr.pack(folder, work / "headrace.hr", shard_size="64MB")
    return int(made["rows"]), int(made["bytes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, required=True, help="a folder of class folders")
    parser.add_argument("--copies", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rates", default="100,400", help="MB/s, several by commas")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    for peer in LOADERS:
        if not Path(python_of(peer)).exists():
            raise SystemExit(f"{PEERS} has no environment for {peer}: make bench-peers")
    os.environ.update(AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET)
    os.environ.update(AWS_EC2_METADATA_DISABLED="true", AWS_CONFIG_FILE=os.devnull)
    os.environ["AWS_DEFAULT_REGION"] = os.environ["AWS_REGION"] = "us-east-1"
    print(" ".join(f"{name}={value}" for name, value in facts.machine().items()))
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as place:
        work = Path(place)
        build = ["go", "build", "-o", str(work / "program"), "./bench/link"]
        subprocess.run(build, check=True, cwd=ROOT)
        images, size = prepare(options.images, work, options.copies)
        print(f"{images:,} images, {size / 1e6:,.0f} MB")
        with serving(work) as address:
            direct = {"endpoint": f"http://{address}", "path_style": True, "region": "us-east-1"}
            # It is packed through the protocol, so that its objects have versions.
            hr.pack(
                work / "images", f"s3://{BUCKET}/headrace.hr", shard_size="64MB", storage=direct
            )
            for rate in options.rates.split(","):
                rows: dict[str, list[dict[str, float]]] = {
                    "headrace": [],
                    **{p: [] for p in LOADERS},
                }
                with linked(work / "program", address, float(rate) * 1e6) as link:
                    for _ in range(options.rounds):
                        for name, row in rows.items():
                            cache = work / "cache"
                            if name == "headrace":
                                row.append(headrace_epoch(link, cache, options))
                            else:
                                row.append(peer_epoch(name, link, cache, work, options))
                            shutil.rmtree(cache)
                            print(f"  {rate} MB/s {name} {row[-1]}", flush=True)
                report(rate, rows)
                found.append({"rate": float(rate), **rows})
    if options.json:
        options.json.write_text(json.dumps({"machine": facts.machine(), "links": found}, indent=1))


def report(rate: str, rows: dict[str, list[dict[str, float]]]) -> None:
    print(f"\nlink of {rate} MB/s, 20 ms; first epoch through an empty cache")
    own = statistics.median(one["rate"] for one in rows["headrace"])
    for name, row in rows.items():
        rates = [one["rate"] for one in row]
        first = statistics.median(one["first"] for one in row)
        times = own / statistics.median(rates)
        print(
            f"  {name:11} {facts.line(rates, 'images/s')}; first batch {first:.2f} s; {times:.2f}x"
        )


if __name__ == "__main__":
    sys.exit(main())
