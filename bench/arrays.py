"""Images a second of arrays of pixels: Headrace, torch's DataLoader, and a loop over a tensor.

The first images are noise in memory, of the sizes of MNIST's and CIFAR-10's, in batches of 256.
MNIST is normalised; CIFAR is cropped from a padding of 4, flipped and normalised. The loop indexes
a tensor and lets torchvision's v2 transform whole batches, which draws one crop and one flip for
all images of a batch: it shows what tensors can do, and is not the same training. The floor is two
threads that take the same images in shuffled order from the same array, and write them normalised
to eight batches of existing memory, by torch's copy and two ops in place: no order is drawn, and
nothing is cropped or handed out. Other images, of 224 x 224 x 3, lie in a file; a crop of them is
resized to 176, flipped and normalised. The files are .npy, a .pt that torch.save wrote, HDF5 in one
piece, and Zarr in chunks of one image through zstd. The same images packed raw stand beside them,
and so does torch's DataLoader over a memory map, over h5py and over zarr-python, which each worker
opens for itself. The same images are also PNG files in HDF5's variable-length bytes, beside h5py,
Pillow and torch's DataLoader. FFCV's CIFAR loader (cifar.py) stands beside them if tools/peers.sh
has made its environment.

Each row is a fresh process on two cores, and a round measures every row once. A rate is taken
between two batches of a pipeline that is full at both. Beside it stands what a second of CPU gives,
for the process and its workers; other programs on the machine change that little.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FFCV = ROOT / ".build" / "peers" / "ffcv" / "bin" / "python"

_SIDE = """
import glob, io, os, sys, time
import numpy as np, torch
from PIL import Image
from torchvision import datasets, transforms as v1
from torchvision.transforms import v2
import headrace as hr
from headrace import transforms as T

side, images, folder, seconds = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
torch.set_num_threads(2)
noise = np.random.default_rng(0)
native = dict(batch_size=256, shuffle=True, num_threads=2)
if images == "MNIST":
    pixels = noise.integers(0, 256, (60_000, 28, 28), np.uint8)
    made = datasets.MNIST.__new__(datasets.MNIST)
    mean, std = [0.1307], [0.3081]
    python = v1.Compose([v1.ToTensor(), v1.Normalize(0.1307, 0.3081)])
    batch = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.1307], [0.3081])])
    ours = [T.Grayscale(1), T.Normalize([0.1307], [0.3081])]
    tensor = torch.from_numpy(pixels).unsqueeze(1)
elif images == "CIFAR":
    pixels = noise.integers(0, 256, (50_000, 32, 32, 3), np.uint8)
    made = datasets.CIFAR10.__new__(datasets.CIFAR10)
    mean, std = [0.49, 0.48, 0.45], [0.25, 0.24, 0.26]
    moves = v1.RandomCrop(32, padding=4), v1.RandomHorizontalFlip()
    python = v1.Compose([*moves, v1.ToTensor(), v1.Normalize(mean, std)])
    moves = v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip()
    batch = v2.Compose([*moves, v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)])
    ours = [T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.Normalize(mean, std)]
    tensor = torch.from_numpy(pixels.transpose(0, 3, 1, 2).copy())
else:
    pixels = np.load(folder + "/images.npy", mmap_mode="r")
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    ours = [T.RandomResizedCrop(176), T.RandomHorizontalFlip(), T.Normalize(mean, std)]
    moves = v1.RandomResizedCrop(176), v1.RandomHorizontalFlip()
    python = v1.Compose([v1.ToPILImage(), *moves, v1.ToTensor(), v1.Normalize(mean, std)])
labels = noise.integers(0, 10, len(pixels))

class Mapped(torch.utils.data.Dataset):
    source = None
    def __len__(self):
        return len(pixels)
    def __getitem__(self, index):
        if self.source is None:
            self.source = opened()
        image = self.source[index]
        if side == "encoded, h5py":
            image = np.asarray(Image.open(io.BytesIO(image)))
        return python(image), int(labels[index])

def opened():
    if side == "h5py":
        import h5py
        return h5py.File(folder + "/images.h5")["images"]
    if side == "encoded, h5py":
        import h5py
        return h5py.File(folder + "/encoded.h5")["images"]
    if side == "zarr-python":
        import zarr
        return zarr.open(folder + "/images.zarr", mode="r")
    return pixels

def loop():
    order = torch.randperm(len(tensor))
    numbers = torch.from_numpy(labels)
    for begin in range(0, len(order), 256):
        chosen = order[begin : begin + 256]
        yield batch(tensor[chosen]), numbers[chosen]

def floor():
    # Chosen before the clock starts; each thread makes every second batch.
    from concurrent.futures import ThreadPoolExecutor
    torch.set_num_threads(1)
    order = torch.randperm(len(tensor)).split(256)[:-1]
    shape = 1, tensor.shape[1], 1, 1
    scale = (1 / (255 * torch.tensor(std))).view(shape)
    shift = -(torch.tensor(mean) / torch.tensor(std)).view(shape)
    taken = [torch.empty(256, *tensor.shape[1:], dtype=torch.uint8) for _ in range(2)]
    made = [torch.empty(256, *tensor.shape[1:]) for _ in range(8)]
    def half(first):
        for number in range(first, len(order), 2):
            torch.index_select(tensor, 0, order[number], out=taken[first])
            made[number % 8].copy_(taken[first]).mul_(scale).add_(shift)
    with ThreadPoolExecutor(2) as threads:
        while True:
            list(threads.map(half, range(2)))
            yield from ((made[0], None) for _ in order)

if images != "file":
    datasets.VisionDataset.__init__(made, "/nowhere", transform=python)
    made.data = torch.from_numpy(pixels) if images == "MNIST" else pixels
    made.targets = torch.from_numpy(labels) if images == "MNIST" else labels.tolist()
else:
    made = Mapped()
torchs = dict(batch_size=256, shuffle=True, num_workers=2, persistent_workers=True)
epoch = {
    "Loader": lambda: hr.Loader(hr.Dataset.from_arrays(pixels, labels), transform=ours, **native),
    "DataLoader": lambda: hr.DataLoader(made, 256, shuffle=True, num_workers=2, strict=True),
    **dict.fromkeys(
        ("torch", "h5py", "zarr-python", "encoded, h5py"),
        lambda: torch.utils.data.DataLoader(made, **torchs)
    ),
    **dict.fromkeys(("loop", "floor"), lambda: None),
    **{
        kind: lambda kind=kind: hr.Loader(
            hr.Dataset(folder + "/images." + kind), transform=ours, **native
        )
        for kind in ("npy", "h5", "zarr", "pt")
    },
    "encoded": lambda: hr.Loader(
        hr.Dataset(folder + "/encoded.h5"), transform=ours, **native
    ),
    "packed": lambda: hr.Loader(folder + "/packed", transform=ours, **native),
}[side]()
if side in ("loop", "floor"):
    rounds = {"loop": loop, "floor": floor}[side]
else:
    rounds = lambda: epoch
def batches():
    while True:
        yield from rounds()

def spent():
    # Seconds of CPU of this process and its workers.
    lists = [open(file).read() for file in glob.glob("/proc/self/task/*/children")]
    ticks = 0
    for number in [os.getpid(), *" ".join(lists).split()]:
        fields = open(f"/proc/{number}/stat").read().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")

count, begun, timed = 0, time.perf_counter(), None
for number, (found, _) in enumerate(batches()):
    now = time.perf_counter()
    if timed is None:
        if number >= 8 and now - begun > 1:
            timed, before = now, spent()
    else:
        count += len(found)
        if now - timed > seconds:
            break
print(count / (now - timed), count / (spent() - before), flush=True)
os._exit(0)  # workers that are in the middle of an epoch end with it
"""

ROWS = (
    *((images, side) for images in ("MNIST", "CIFAR") for side in ("Loader", "DataLoader")),
    *((images, side) for images in ("MNIST", "CIFAR") for side in ("torch", "loop", "floor")),
    *((("CIFAR", "ffcv"),) if FFCV.exists() else ()),
    *(("file", side) for side in ("packed", "npy", "pt", "h5", "zarr", "encoded")),
    *(("file", side) for side in ("torch", "h5py", "zarr-python", "encoded, h5py")),
)
# What is divided by what, and the least value of the ratio.
TARGETS = (
    (("MNIST", "DataLoader"), ("MNIST", "torch"), 20.0),
    (("CIFAR", "DataLoader"), ("CIFAR", "torch"), 20.0),
    (("MNIST", "Loader"), ("MNIST", "loop"), 1.5),
    (("CIFAR", "Loader"), ("CIFAR", "loop"), 2.5),
    (("MNIST", "Loader"), ("MNIST", "floor"), 0.0),
    (("CIFAR", "Loader"), ("CIFAR", "floor"), 0.0),
    *(((("CIFAR", "Loader"), ("CIFAR", "ffcv"), 1.0),) if FFCV.exists() else ()),
    (("file", "npy"), ("file", "packed"), 0.9),
    (("file", "pt"), ("file", "packed"), 0.9),
    (("file", "h5"), ("file", "packed"), 0.9),
    (("file", "npy"), ("file", "torch"), 1.0),
    (("file", "h5"), ("file", "h5py"), 1.0),
    (("file", "zarr"), ("file", "zarr-python"), 1.0),
    (("file", "encoded"), ("file", "encoded, h5py"), 1.0),
)


def prepare(folder: Path, count: int = 1500) -> None:
    """Makes an array of images in files, the same packed raw, and as encoded images."""
    import io

    import h5py
    import numpy as np
    import torch
    import zarr
    from PIL import Image

    import headrace as hr

    path = folder / "images.npy"
    # Coarse noise with a little fine noise: zstd halves it, as it does smooth photographs.
    noise = np.random.default_rng(1)
    coarse = noise.integers(0, 240, (count, 28, 28, 3), np.uint8)
    images = coarse.repeat(8, 1).repeat(8, 2) + noise.integers(
        0, 16, (count, 224, 224, 3), np.uint8
    )
    np.save(path, images)
    with h5py.File(folder / "images.h5", "w") as file:
        file["images"] = images
    form = {"shape": images.shape, "dtype": "uint8", "chunks": (1, 224, 224, 3)}
    zarr.create_array(folder / "images.zarr", **form)[:] = images
    torch.save({"images": torch.from_numpy(images)}, folder / "images.pt")
    with h5py.File(folder / "encoded.h5", "w") as file:
        encoded = file.create_dataset("images", count, h5py.vlen_dtype(np.uint8))
        for number, pixels in enumerate(images):
            Image.fromarray(pixels).save(png := io.BytesIO(), "PNG")
            encoded[number] = np.frombuffer(png.getvalue(), np.uint8)
    hr.pack(path, folder / "packed")


def measure(
    rounds: int, scratch: Path, seconds: float = 3.0, only: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns the rates of all rows, by "IMAGES, SIDE", and the ratios of each round.

    Args:
        only: rows of these images; if it is empty, all rows.
    """
    folder = Path(tempfile.mkdtemp(dir=scratch))
    rows = [row for row in ROWS if not only or row[0] in only]
    if any(images == "file" for images, _ in rows):
        prepare(folder)
    rates: dict[str, list[float]] = {f"{images}, {side}": [] for images, side in rows}
    of_cpu: dict[str, list[float]] = {name: [] for name in rates}
    loads = []
    for _ in range(rounds):
        for images, side in rows:
            command = [sys.executable, "-c", _SIDE, side, images, str(folder), str(seconds)]
            if side == "ffcv":
                script = str(ROOT / "bench" / "cifar.py")
                command = [str(FFCV), script, str(folder / "cifar.beton"), str(seconds)]
            answer = subprocess.run(
                command, capture_output=True, text=True, check=True, timeout=600
            )
            rate, each = map(float, answer.stdout.split()[-2:])
            rates[f"{images}, {side}"].append(rate)
            of_cpu[f"{images}, {side}"].append(each)
        loads.append(os.getloadavg()[0])
    ratios = []
    for ours, theirs, least in TARGETS:
        names = [f"{images}, {side}" for images, side in (ours, theirs)]
        if not rates.keys() >= set(names):
            continue
        found: dict[str, Any] = {"of": names, "least": least}
        for what, of in (("ratio", rates), ("ratio_of_cpu", of_cpu)):
            each = [a / b for a, b in zip(of[names[0]], of[names[1]], strict=True)]
            found[what] = statistics.median(each)
        ratios.append(found)
    return {"rates": rates, "of_cpu": of_cpu, "ratios": ratios, "loads": loads}


def table(found: dict[str, Any]) -> list[str]:
    """Returns both as Markdown."""
    lines = ["| images, side | images/s | images a second of CPU |", "|---|---|---|"]
    lines += [
        f"| {name} | {statistics.median(each):,.0f} | {statistics.median(cpu):,.0f} |"
        for (name, each), cpu in zip(found["rates"].items(), found["of_cpu"].values(), strict=True)
    ]
    lines += ["", "| ratio | of images/s | of CPU | at least |", "|---|---|---|---|"]
    for entry in found["ratios"]:
        ours, theirs = entry["of"]
        both = f"{entry['ratio']:.2f} | {entry['ratio_of_cpu']:.2f}"
        lines.append(f"| {ours} over {theirs} | {both} | {entry['least']:g} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", choices=("MNIST", "CIFAR", "file"), action="append", default=[])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = measure(options.rounds, Path(scratch), options.seconds, options.only)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    print("\n".join(table(found)))


if __name__ == "__main__":
    sys.exit(main())
