"""Pairs of PNG files a second: Headrace, and torch's DataLoader with two workers.

"pairs" are for super resolution, in DIV2K's form: the large image's longer side is 2,040 pixels,
and the small one is a quarter of it by Pillow's bicubic. A sample is RandomCrop(48) of the small
image and the corresponding 192 pixels of the large one. Both are randomly flipped across and down
and turned by quarters, and are float32 between 0 and 1, in batches of 16.

"masks" are the large images with 21 classes in Pascal VOC's form: a palette PNG of the same size. A
sample is RandomCrop(192) of both, flipped across and down; the image is float32 and the classes are
uint8.

The DataLoader's dataset decodes with Pillow, crops before anything else, and draws with Python's
random. Each row is a fresh process on two cores, and a round measures every row once. A rate is
taken between two batches of a pipeline that is full at both. The page cache is warm.
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

_SIDE = """
import os, random, sys, time
from pathlib import Path

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
import torch
from PIL import Image
from torchvision.transforms import functional as F

side, task, folder, seconds = sys.argv[1], sys.argv[2], Path(sys.argv[3]), float(sys.argv[4])
torch.set_num_threads(2)
FLIPS = [Image.Transpose.FLIP_LEFT_RIGHT, Image.Transpose.FLIP_TOP_BOTTOM]

class Pairs(torch.utils.data.Dataset):
    def __init__(self):
        self.names = sorted(path.name for path in (folder / "high").iterdir())
    def __len__(self):
        return len(self.names)
    def __getitem__(self, index):
        name = self.names[index]
        low = Image.open(folder / "low" / name.replace(".png", "x4.png")).convert("RGB")
        high = Image.open(folder / "high" / name).convert("RGB")
        x, y = random.randint(0, low.width - 48), random.randint(0, low.height - 48)
        low = low.crop((x, y, x + 48, y + 48))
        high = high.crop((4 * x, 4 * y, 4 * x + 192, 4 * y + 192))
        chosen = [move for move in FLIPS if random.random() < 0.5]
        if turns := random.randrange(4):
            chosen.append((Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180,
                           Image.Transpose.ROTATE_270)[turns - 1])
        for move in chosen:
            low, high = low.transpose(move), high.transpose(move)
        return F.to_tensor(low), F.to_tensor(high)

class Masks(Pairs):
    def __getitem__(self, index):
        name = self.names[index]
        image = Image.open(folder / "high" / name).convert("RGB")
        mask = Image.open(folder / "masks" / name)
        x, y = random.randint(0, image.width - 192), random.randint(0, image.height - 192)
        both = [each.crop((x, y, x + 192, y + 192)) for each in (image, mask)]
        for move in FLIPS:
            if random.random() < 0.5:
                both = [each.transpose(move) for each in both]
        return F.to_tensor(both[0]), F.pil_to_tensor(both[1])

def native():
    import headrace as hr
    from headrace import transforms as T

    if task == "masks":
        pairs = hr.Dataset.from_pairs(folder / "high", folder / "masks", kind="mask")
        recipe = [T.RandomCrop(192), T.RandomHorizontalFlip(), T.RandomVerticalFlip()]
        labels = {"mask": T.Mask()}
        return hr.Loader(pairs, 16, shuffle=True, transform=recipe, labels=labels, num_threads=2)
    turns = T.RandomChoice([T.RandomRotation((angle, angle)) for angle in (0, 90, 180, 270)])
    recipe = [T.RandomCrop(48), T.RandomHorizontalFlip(), T.RandomVerticalFlip(), turns]
    pairs = hr.Dataset.from_pairs(folder / "low", folder / "high", suffixes=("x4", ""))
    labels = {"target": T.Image(scale=4)}
    return hr.Loader(pairs, 16, shuffle=True, transform=recipe, labels=labels, num_threads=2)

if side == "torch":
    torchs = dict(batch_size=16, shuffle=True, num_workers=2, persistent_workers=True)
    epoch = torch.utils.data.DataLoader(Masks() if task == "masks" else Pairs(), **torchs)
else:
    epoch = native()

def batches():
    while True:
        yield from epoch

count, begun, timed = 0, time.perf_counter(), None
for number, found in enumerate(batches()):
    now = time.perf_counter()
    if timed is None:
        timed = now if number >= 8 and now - begun > 1 else None
    else:
        count += len(found[0])
        if now - timed > seconds:
            break
print(count / (now - timed), flush=True)
os._exit(0)  # workers that are in the middle of an epoch end with it
"""

TASKS = ("pairs", "masks")
SIDES = ("Headrace", "torch")
LEAST = 5.0  # the least ratio of the first to the second


def prepare(photographs: Path, folder: Path, most: int) -> None:
    """Makes PNG pairs of the photographs below a folder."""
    import numpy as np
    from PIL import Image

    # The palette of Pascal VOC: each number's bits, spread over the three channels.
    palette = [
        sum((n >> 3 * place + c & 1) << 7 - place for place in range(3))
        for n in range(256)
        for c in range(3)
    ]
    for name in ("low", "high", "masks"):
        (folder / name).mkdir()
    files = sorted(
        path for path in photographs.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg")
    )
    for number, path in enumerate(files[:most]):
        with Image.open(path) as opened:
            image = opened.convert("RGB")
        scale = 2040 / max(image.size)
        width, height = (max(192, round(side * scale) // 4 * 4) for side in image.size)
        high = image.resize((width, height), Image.Resampling.LANCZOS)
        high.save(folder / "high" / f"{number:04}.png")
        low = high.resize((width // 4, height // 4), Image.Resampling.BICUBIC)
        low.save(folder / "low" / f"{number:04}x4.png")
        smooth = low.convert("L").resize((width // 16, height // 16)).resize(high.size)
        classes = Image.fromarray((np.asarray(smooth) // 13).clip(0, 20).astype(np.uint8), "P")
        classes.putpalette(palette)
        classes.save(folder / "masks" / f"{number:04}.png")


def measure(
    photographs: Path, rounds: int, scratch: Path, seconds: float = 6.0, most: int = 48
) -> dict[str, Any]:
    """Returns for each task the rates of both sides, and the median of the rounds' ratios."""
    folder = Path(tempfile.mkdtemp(dir=scratch))
    prepare(photographs, folder, most)
    tasks: dict[str, Any] = {
        task: {"rates": {side: [] for side in SIDES}, "loads": [], "least": LEAST} for task in TASKS
    }
    for _ in range(rounds):
        for task, found in tasks.items():
            for side in SIDES:
                command = [sys.executable, "-c", _SIDE, side, task, str(folder), str(seconds)]
                answer = subprocess.run(
                    command, capture_output=True, text=True, check=True, timeout=600
                )
                found["rates"][side].append(float(answer.stdout))
            found["loads"].append(os.getloadavg()[0])
    for found in tasks.values():
        both = zip(found["rates"]["Headrace"], found["rates"]["torch"], strict=True)
        found["ratio"] = statistics.median(ours / theirs for ours, theirs in both)
    return tasks


def table(found: dict[str, Any]) -> list[str]:
    """Returns the same as Markdown."""
    lines = ["| task | side | pairs/s | least to greatest |", "|---|---|---|---|"]
    for task, measured in found.items():
        lines += [
            f"| {task} | {name} | {statistics.median(each):,.1f} "
            f"| {min(each):,.1f} to {max(each):,.1f} |"
            for name, each in measured["rates"].items()
        ]
    lines += [""]
    lines += [
        f"{task}: {measured['ratio']:.2f} times, at least {measured['least']:g} is wanted."
        for task, measured in found.items()
    ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photographs", type=Path, help="a folder of JPEGs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--most", type=int, default=48, help="pairs; of more photographs the first")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        chosen = options.seconds, options.most
        found = measure(options.photographs, options.rounds, Path(scratch), *chosen)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    print("\n".join(table(found)))


if __name__ == "__main__":
    sys.exit(main())
