"""How fast photographs reach a GPU's memory, from how many cores, what it costs a training, and how
exact they are: Headrace beside loaders that decode on the GPU.

    make bench-gpu PART=feed IMAGES=DIR

The task is RandomResizedCrop(224), flip and normalise to float16, channels last, in the device's
memory. Each side runs in a process of its own (`bench/peers`) that is bound to as many cores as a
row says, with a thread or worker for each core; the sides take turns. Then comes a training with
each side's batches on the largest number of cores, beside a training with one batch that is always
there: while the GPU decodes, it cannot train. Last, the whole images that each side decodes are
compared value by value with Pillow's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import facts
import sets
import training

ROOT = Path(__file__).resolve().parent.parent
GPU_PYTHON = ROOT / ".build/peers/gpu/bin/python"  # if missing: this program's own
TIMEOUT_S = 120
EPOCH = 8192  # files


@dataclass(frozen=True)
class Side:
    """One way to feed a GPU."""

    name: str
    module: str  # a module of bench/peers
    variant: str = ""
    dtype: str = "float16"
    trains: bool = False  # whether a training is fed by it, too
    few_cores: bool = True  # whether it is also measured on fewer cores


SIDES = (
    Side("Headrace", "headrace", trains=True),
    Side("Headrace, bytes over the bus", "headrace", dtype="uint8", trains=True),
    Side("DALI mixed, the crop is decoded", "dali_gpu", "roi", trains=True),
    Side("DALI mixed, whole images", "dali_gpu", "whole", few_cores=False),
    Side("DALI mixed, the JPEG engine decodes all", "dali_gpu", "whole 1.0", trains=True),
    Side("DALI mixed, it decodes none", "dali_gpu", "roi 0.0", trains=True),
    Side("nvImageCodec and torch", "nvimagecodec", "roi", trains=True),
    Side("nvImageCodec alone, decoding only", "nvimagecodec", "alone", few_cores=False),
    Side("torchvision's decode_jpeg on the GPU", "torchvision_gpu", few_cores=False),
    Side("torchvision's DataLoader", "torchvision", dtype="float32", few_cores=False),
)
SYNTHETIC = Side("synthetic", "synthetic")
DECODERS = (
    Side("Headrace", "headrace"),
    Side("DALI mixed", "dali_gpu", "whole"),
    Side("DALI mixed, jpeg_fancy_upsampling", "dali_gpu", "fancy"),
    Side("DALI mixed, without the JPEG engine", "dali_gpu", "whole 0.0"),
    Side("nvImageCodec", "nvimagecodec", "whole"),
    Side("nvImageCodec, kernels", "nvimagecodec", "whole kernels"),
    Side("torchvision's decode_jpeg on the GPU", "torchvision_gpu"),
)


class LeftOut(Exception):
    """The reason why a side is not measured."""


def ask(side: Side, source: Path, *arguments: str) -> dict[str, Any]:
    """Returns the answer of a fresh process."""
    ours = side.module in ("headrace", "torchvision", "synthetic") or not GPU_PYTHON.exists()
    command = [sys.executable if ours else str(GPU_PYTHON), "-m", f"peers.{side.module}"]
    command += [str(source), "--device", "cuda", "--dtype", side.dtype, "--variant", side.variant]
    paths = [str(ROOT / "bench"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    try:
        done = subprocess.run(
            [*command, *arguments], env=environment, capture_output=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise LeftOut(f"it took longer than {TIMEOUT_S} s") from None
    lines = [line for line in done.stdout.decode().splitlines() if line.startswith("{")]
    if done.returncode or len(lines) != 1:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-4:]
        raise LeftOut(f"it ended with {done.returncode}: {' | '.join(said)}")
    answer: dict[str, Any] = json.loads(lines[0])
    if "refused" in answer:
        raise LeftOut(answer["refused"])
    return answer


class Feeds:
    """The sides that are asked for, and their answers."""

    def __init__(
        self, options: argparse.Namespace, sides: list[Side], machine: dict[str, Any]
    ) -> None:
        self.options, self.sides = options, sides
        self.result: dict[str, Any] = {"rates": {}, "training": {}, "pixels": {}, "left_out": {}}
        self.result["machine"] = machine
        made = sets.Sets(options.photographs.resolve(), options.work / "sets", 2000, EPOCH)
        self.photographs = [photograph.path for photograph in made.photographs]
        self.folder, self.packed = made.packed()

    def save(self) -> None:
        """Saves after each answer, so that a run that is interrupted keeps the answers that it
        had."""
        if self.options.json:
            self.options.json.parent.mkdir(parents=True, exist_ok=True)
            self.options.json.write_text(json.dumps(self.result, indent=1) + "\n")

    def _source(self, side: Side) -> Path:
        return self.packed if side.module == "headrace" else self.folder

    def rate(self, side: Side, cores: int, *arguments: str) -> dict[str, Any] | None:
        """Measures one round; returns None, and prints a reason, if the side cannot be measured."""
        form = ["--cores", *map(str, sorted(os.sched_getaffinity(0))[:cores]), "--warm-up", "8"]
        form += ["--batch-size", str(self.options.batch_size)]
        form += ["--seconds", str(self.options.seconds), "--batches", "1"]
        try:
            return ask(side, self._source(side), *form, *arguments)
        except LeftOut as reason:
            self.result["left_out"][f"{side.name}, {cores} cores"] = str(reason)
            print(f"left out: {side.name}, {cores} cores: {reason}", flush=True)
            return None

    def all_rates(self) -> None:
        for _ in range(self.options.rounds):
            for cores in self.options.cores:
                for side in self.sides:
                    if cores < max(self.options.cores) and not side.few_cores:
                        continue
                    if found := self.rate(side, cores):
                        key = f"{side.name}, {cores} cores"
                        self.result["rates"].setdefault(key, []).append(found)
                        self.save()
                        print(f"{key}: {found['rate']:,.0f} images/s, CPU "
                              f"{1e3 * found['cpu_seconds'] / found['images']:.3f} ms an image",
                              flush=True)  # fmt: skip

    def all_trainings(self) -> None:
        """Measures the GPU time of a feed: how much longer a thousand images take than with a batch
        that is always there.

        This is GPU time if the feed alone is faster than the training.
        """
        cores, model = max(self.options.cores), self.options.model
        for _ in range(self.options.rounds):
            for side in (SYNTHETIC, *(side for side in self.sides if side.trains)):
                if found := self.rate(side, cores, "--train", model):
                    self.result["training"].setdefault(side.name, []).append(found["rate"])
                    self.save()
        whole = self.result["training"].get(SYNTHETIC.name)
        for name, rates in self.result["training"].items() if whole else ():
            rate, most = statistics.median(rates), statistics.median(whole)
            print(f"{model} fed by {name}: {facts.line(rates, 'images/s')}, "
                  f"{100 * rate / most:.1f} % of synthetic, {1e6 / rate - 1e6 / most:.0f} ms "
                  "more a thousand images", flush=True)  # fmt: skip

    def all_pixels(self) -> None:
        """Measures how far whole images are from those that Pillow decodes."""
        with tempfile.TemporaryDirectory(dir=self.options.work) as scratch:
            place = Path(scratch)
            folder = place / "photographs" / "all"
            folder.mkdir(parents=True)
            for number, path in enumerate(self.photographs):
                (folder / f"{number:06}.jpg").symlink_to(path)
            for side in DECODERS:
                if side.module not in {each.module for each in self.sides}:
                    continue
                file = place / "decoded.npz"
                try:
                    ask(side, folder.parent, "--decoded", str(file))
                    self.result["pixels"][side.name] = found = compared(file, folder)
                    self.save()
                except LeftOut as reason:
                    self.result["left_out"][f"{side.name}, pixels"] = str(reason)
                    print(f"left out: {side.name}, pixels: {reason}", flush=True)
                    continue
                print(f"{side.name}: {found['differ']:,} of {found['values']:,} values are others "
                      f"than Pillow's ({100 * found['differ'] / found['values']:.2f} %), by "
                      f"{found['most']} at most, {found['mean']:.3f} on average over all; "
                      f"{found['images']} images, {found['shapes']} of another shape",
                      flush=True)  # fmt: skip


def compared(file: Path, folder: Path) -> dict[str, Any]:
    """Returns how a file of decoded images differs from what Pillow makes of a folder."""
    values = differ = total = most = shapes = 0
    with np.load(file) as images:
        paths = sorted(folder.iterdir())
        if len(images.files) != len(paths):
            raise LeftOut(f"it decoded {len(images.files)} of {len(paths)} images")
        for number, path in enumerate(paths):
            with Image.open(path) as opened:
                expected = np.asarray(opened.convert("RGB")).astype(np.int16)
            found = images[str(number)]
            if found.shape != expected.shape:
                shapes += 1
                continue
            distance = np.abs(found.astype(np.int16) - expected)
            values += distance.size
            differ += int(np.count_nonzero(distance))
            total += int(distance.sum(dtype=np.int64))
            most = max(most, int(distance.max()))
    return {
        "images": len(paths),
        "shapes": shapes,
        "values": max(values, 1),
        "differ": differ,
        "mean": total / max(values, 1),
        "most": most,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("photographs", type=Path, help="an image folder")
    usable = len(os.sched_getaffinity(0))
    cores = [cores for cores in (4, 8, 16) if cores <= usable] or [usable]
    parser.add_argument("--cores", type=int, nargs="+", default=cores)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=2.5, help="timed a side and round")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--model", default="resnet50", help="what is trained beside")
    parser.add_argument("--only", action="append", help="sides whose names have this in them")
    parser.add_argument("--parts", nargs="+", default=["rates", "training", "pixels"],
                        choices=("rates", "training", "pixels"))  # fmt: skip
    parser.add_argument("--work", type=Path, default=ROOT / ".build/bench", help="what is made")
    parser.add_argument("--json", type=Path, help="where all figures go")
    options = parser.parse_args()
    machine = training.machine("feed")
    wanted = options.only or [""]
    feeds = Feeds(options, [s for s in SIDES if any(word in s.name for word in wanted)], machine)
    for part in options.parts:
        {
            "rates": feeds.all_rates,
            "training": feeds.all_trainings,
            "pixels": feeds.all_pixels,
        }[part]()
    feeds.save()


if __name__ == "__main__":
    main()
