"""Images a second of arrays of pixels: Headrace, torch's DataLoader, and a loop over a tensor.

Images of MNIST's and CIFAR-10's sizes, of noise, in memory: in batches of 256, MNIST normalised,
CIFAR cropped from a padding of 4, flipped and normalised. The loop indexes a tensor and lets
torchvision's v2 transform whole batches, which draws one crop and one flip for all images of one:
it is what tensors can do, not the same training. And images of 224 x 224 x 3 in a file, a crop
resized to 176, flipped and normalised: .npy in place beside the same packed raw, and a memory map.

Each row is a fresh process on two cores, and a round measures every row once. A rate is taken
between two batches of a pipeline that is full at both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

BATCH = 256

_SIDE = """
import os, sys, time
import numpy as np, torch
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
    def __len__(self):
        return len(pixels)
    def __getitem__(self, index):
        return python(pixels[index]), int(labels[index])

def loop():
    order = torch.randperm(len(tensor))
    numbers = torch.from_numpy(labels)
    for begin in range(0, len(order), 256):
        chosen = order[begin : begin + 256]
        yield batch(tensor[chosen]), numbers[chosen]

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
    "torch": lambda: torch.utils.data.DataLoader(made, **torchs),
    "loop": lambda: None,
    "npy": lambda: hr.Loader(hr.Dataset(folder + "/images.npy"), transform=ours, **native),
    "packed": lambda: hr.Loader(folder + "/packed", transform=ours, **native),
}[side]()
if side == "loop":
    rounds = loop
else:
    rounds = lambda: epoch
def batches():
    while True:
        yield from rounds()

count, begun, timed = 0, time.perf_counter(), None
for number, (found, _) in enumerate(batches()):
    now = time.perf_counter()
    if timed is None:
        timed = now if number >= 8 and now - begun > 1 else None
    else:
        count += len(found)
        if now - timed > seconds:
            break
print(count / (now - timed), flush=True)
os._exit(0)  # workers that are in the middle of an epoch end with it
"""

ROWS = (
    *((images, side) for images in ("MNIST", "CIFAR") for side in ("Loader", "DataLoader")),
    *((images, side) for images in ("MNIST", "CIFAR") for side in ("torch", "loop")),
    *(("file", side) for side in ("npy", "packed", "torch")),
)
# What is divided by what, and what the ratio is to be at least.
TARGETS = (
    (("MNIST", "DataLoader"), ("MNIST", "torch"), 20.0),
    (("CIFAR", "DataLoader"), ("CIFAR", "torch"), 20.0),
    (("MNIST", "Loader"), ("MNIST", "loop"), 1.5),
    (("CIFAR", "Loader"), ("CIFAR", "loop"), 2.5),
    (("file", "npy"), ("file", "packed"), 0.9),
    (("file", "npy"), ("file", "torch"), 1.0),
)


def prepare(folder: Path, count: int = 1500) -> None:
    """An array of images in a file, and the same packed raw."""
    import numpy as np

    import headrace as hr

    path = folder / "images.npy"
    # Smooth, as photographs are: noise would be no different, for nothing is encoded.
    np.save(path, np.random.default_rng(1).integers(0, 256, (count, 224, 224, 3), np.uint8))
    hr.pack(path, folder / "packed")


def measure(rounds: int, scratch: Path, seconds: float = 3.0) -> dict[str, Any]:
    """The rates of all rows, by "IMAGES, SIDE", and the ratios of each round."""
    folder = Path(tempfile.mkdtemp(dir=scratch))
    prepare(folder)
    rates: dict[str, list[float]] = {f"{images}, {side}": [] for images, side in ROWS}
    loads = []
    for _ in range(rounds):
        for images, side in ROWS:
            command = [sys.executable, "-c", _SIDE, side, images, str(folder), str(seconds)]
            answer = subprocess.run(
                command, capture_output=True, text=True, check=True, timeout=600
            )
            rates[f"{images}, {side}"].append(float(answer.stdout))
        loads.append(os.getloadavg()[0])
    ratios = []
    for ours, theirs, least in TARGETS:
        names = [f"{images}, {side}" for images, side in (ours, theirs)]
        each = [a / b for a, b in zip(rates[names[0]], rates[names[1]], strict=True)]
        ratios.append({"of": names, "least": least, "ratio": statistics.median(each)})
    return {"rates": rates, "ratios": ratios, "loads": loads}


def table(found: dict[str, Any]) -> list[str]:
    """Both as Markdown."""
    lines = ["| images, side | images/s |", "|---|---|"]
    lines += [
        f"| {name} | {statistics.median(each):,.0f} |" for name, each in found["rates"].items()
    ]
    lines += ["", "| ratio | found | at least |", "|---|---|---|"]
    for entry in found["ratios"]:
        ours, theirs = entry["of"]
        lines.append(f"| {ours} over {theirs} | {entry['ratio']:.2f} | {entry['least']:g} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = measure(options.rounds, Path(scratch), options.seconds)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    print("\n".join(table(found)))


if __name__ == "__main__":
    sys.exit(main())
