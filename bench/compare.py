"""Images a second of Headrace, its peers and its bare kernel: same photographs and cores, one run.

A round measures every row once, each in a fresh process, one after the other, so that a machine
that slows down slows all of them. Medians over the rounds are compared. A ratio is taken within
each round, and the median of the ratios is given. A rate is taken between two batches of a pipeline
that is full at both, so neither start nor end counts. The page cache is warm.

Without options it measures the headline table, RandomResizedCrop(224) + flip + Normalize in batches
of 128. `--recipe NAME` measures a recipe of augmentation instead: RandAugment and erasing,
SimCLR's, or what MixUp and CutMix cost. `--all` adds the other groups and the sweep. A peer that is
not installed is left out by name.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import arrays
import facts
import packing
import pairs
import report
from rows import GROUPS, RECIPES, TARGETS, Row, Target
from sets import ImageSet, Sets, read_all
from sides import ROOT, LeftOut, Sides

PROGRAMS = ("packing", "stages", "arrays", "pairs")  # groups that are not rows
SHORTER = 0.6  # rows without a target are timed for this share of the time


class Comparison:
    """Everything that one run measures; `result` is what goes to the JSON file."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.groups, rows = chosen(options)
        work = options.work
        scratch = work / "run"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        cores = sorted(os.sched_getaffinity(0))[: options.threads]
        self.sets = Sets(options.images, work / "sets", options.photographs, options.epoch)
        self.sides = Sides(cores, self.sets.work, scratch)
        self.rows = list({row.name: row for row in rows}.values())
        self.made: dict[str, ImageSet] = {}
        self.answers: dict[str, list[list[dict[str, Any]]]] = {}
        self.result: dict[str, Any] = {
            "machine": facts.machine(),
            "options": {k: str(v) for k, v in vars(options).items()},
            "cores": cores,
            "left_out_images": self.sets.left_out,
            "sets": {},
            "left_out": {},
            "loads": [],
        }

    def prepare(self) -> None:
        """Makes what the rows read, and leaves out rows that cannot run."""
        left_out, kept, paths = self.result["left_out"], [], set()
        # Sets come first: forked processes make them, and this process must not have threads then.
        for name in dict.fromkeys(row.images for row in self.rows):
            images = self.made[name] = self.sets.named(name)
            about = {"images": images.images, "distinct": images.distinct, "bytes": images.bytes}
            self.result["sets"][name] = about
            mean = about["bytes"] / images.images / 1e3
            print(f"set {name}: {images.distinct:,} photographs of {mean:,.0f} KB, "
                  f"{images.images:,} files an epoch", flush=True)  # fmt: skip
        for row in self.rows:
            try:
                self.sides.check(row)
                images = self.made[row.images]
                paths |= {images.folder, self.sides.source(row, images)[0]}
                kept.append(row)
            except LeftOut as reason:
                left_out[row.name] = str(reason)
        self.rows = kept
        if self.sets.left_out:
            print(f"photographs left out for all: {self.sets.left_out}")
        for name, reason in left_out.items():
            print(f"left out: {name}: {reason}")
        print(f"page cache: {read_all(paths) / 1e6:,.0f} MB read", flush=True)

    def round(self, number: int, rows: Sequence[Row], seconds: float) -> None:
        """Measures each of the rows once."""
        self.result["loads"].append(os.getloadavg()[0])
        for row in rows:
            if row.name in self.result["left_out"]:
                continue
            images = self.made[row.images]
            full = row.group == "headline" or row.group in RECIPES
            timed = seconds if full else SHORTER * seconds
            try:
                answers = self.sides.measure(row, images, timed, self.options.batches)
            except LeftOut as reason:
                self.result["left_out"][row.name] = str(reason)
                self.answers.pop(row.name, None)
                print(f"left out: {row.name}: {reason}", flush=True)
                continue
            self.answers.setdefault(row.name, []).append(answers)
            rates = " ".join(f"{answer['rate']:,.0f}" for answer in answers)
            print(f"round {number}: {row.name}: {rates} images/s", flush=True)

    def summarise(self) -> None:
        """Computes medians and spreads, and gives each row in terms that are valid on other
        machines."""
        entries, byname = [], {row.name: row for row in self.rows}
        for name, rounds in self.answers.items():
            row = byname[name]
            for place, scale in enumerate(row.scales):
                answers = [answers[place] for answers in rounds]
                entries.append(self._entry(row, place, scale, answers))
        self.result["rows"] = entries
        self.result["ratios"] = [
            asdict(target) | {"ratio": ratio, "cpu_ratio": self._cpu_ratio(target)}
            for target in TARGETS
            if (ratio := self._ratio(target.ours, target.theirs, 0)) is not None
        ]

    def _entry(
        self, row: Row, place: int, scale: float, answers: Sequence[dict[str, Any]]
    ) -> dict[str, Any]:
        rate = facts.spread([answer["rate"] for answer in answers])
        milliseconds = [1e3 * answer["cpu_seconds"] / answer["images"] for answer in answers]
        threads = row.threads or len(self.sides.cores)
        return {
            "name": row.name,
            "group": row.group,
            "peer": row.peer,
            "set": row.images,
            "min_scale": scale,
            "rate": rate,
            "rates": [answer["rate"] for answer in answers],
            "cpu_ms_per_image": facts.spread(milliseconds)["median"],
            "cores_for_1000_per_s": 1e3 * threads / rate["median"],
            "kernel_share": self._ratio(row.name, row.kernel, place),
            "dtype": answers[-1]["dtype"],
            "shape": answers[-1]["shape"],
            "versions": answers[-1].get("versions", {}),
        }

    def _ratio(self, ours: str, theirs: str, place: int) -> dict[str, float] | None:
        """Returns the ratio of pairs of one round, which ran within minutes of each other."""
        a, b = self.answers.get(ours), self.answers.get(theirs)
        if not a or not b:
            return None
        pairs = zip(a, b, strict=False)
        return facts.spread([x[place]["rate"] / y[place]["rate"] for x, y in pairs])

    def _cpu_ratio(self, target: Target) -> float:
        """Returns the ratio of the work, not of the time: other programs on the machine do not
        change it."""
        ours, theirs = (
            facts.spread([x[0]["cpu_seconds"] / x[0]["images"] for x in self.answers[name]])
            for name in (target.ours, target.theirs)
        )
        return theirs["median"] / ours["median"]

    def write(self) -> None:
        if self.options.json:
            self.options.json.parent.mkdir(parents=True, exist_ok=True)
            self.options.json.write_text(json.dumps(self.result, indent=2) + "\n")


def stages(folder: Path, scratch: Path) -> dict[str, Any]:
    """Runs bench/kernel/stages: where the time of one sample goes."""
    file = scratch / "stages.json"
    command = ["make", "-s", "-C", str(ROOT / "bench/kernel/stages"), "run", f"IMAGES={folder}"]
    command += [f"JSON={file}", f"BUILD={scratch / 'stages'}"]
    subprocess.run(command, check=True)
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def chosen(options: argparse.Namespace) -> tuple[list[str], list[Row]]:
    """The groups that are asked for, and the rows of these groups or with matching names."""
    every = [*GROUPS, *PROGRAMS]
    asked = {*options.only, *options.recipe}
    groups = every if options.all else [name for name in every if name in asked]
    if options.sweep:
        groups = list(dict.fromkeys([*groups, "sweep"]))
    if not asked and not options.all:
        groups = ["headline", *groups]
    words = [word.lower() for word in options.only if word not in every]
    rows = [
        row
        for name, group in GROUPS.items()
        for row in group
        if name in groups or (name != "sweep" and any(word in row.name.lower() for word in words))
    ]
    return groups, rows


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("images", type=Path, help="an image folder, one folder a class")
    every = [*GROUPS, *PROGRAMS]
    parser.add_argument("--only", action="append", metavar="WORD", default=[],
                        help=f"groups ({', '.join(every)}), or parts of rows' names")  # fmt: skip
    parser.add_argument("--recipe", action="append", choices=tuple(RECIPES), default=[],
                        help="a recipe of augmentation, by itself")  # fmt: skip
    parser.add_argument("--all", action="store_true", help="every group, the sweep included")
    parser.add_argument("--sweep", action="store_true", help="add the sweep")
    parser.add_argument("--rounds", type=int, default=3, help="of all rows but the sweep's")
    parser.add_argument("--seconds", type=float, default=4.0, help="timed a headline row")
    parser.add_argument("--batches", type=int, default=4, help="the same in batches")
    parser.add_argument("--threads", type=int, default=2, help="cores, and threads on them")
    parser.add_argument("--photographs", type=int, default=2000, help="at most so many are used")
    parser.add_argument("--epoch", type=int, default=2560, help="images, by repeating, at least")
    parser.add_argument("--work", type=Path, default=ROOT / ".build/bench", help="what is made")
    parser.add_argument("--json", type=Path, help="where all figures go")
    options = parser.parse_args()
    options.images, options.work = options.images.resolve(), options.work.resolve()
    return options


def main() -> None:
    options = parse()
    begun = time.perf_counter()
    comparison = Comparison(options)
    groups = comparison.groups
    result = comparison.result
    print(json.dumps(result["machine"]))
    comparison.prepare()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # and ends the running row with it
    rows = [row for row in comparison.rows if row.group != "sweep"]
    if result["machine"]["load"] > 0.5:
        print(f"this machine is not quiet: load {result['machine']['load']:.2f}")
    for number in range(options.rounds if rows else 0):
        comparison.round(number + 1, rows, options.seconds)
        comparison.summarise()
        comparison.write()
    sweep = [row for row in comparison.rows if row.group == "sweep"]
    if sweep:
        comparison.round(1, sweep, options.seconds)
    comparison.summarise()
    if "packing" in groups:
        folder = comparison.sets.original().folder
        result["packing"] = packing.measure(folder, options.rounds, comparison.sides.scratch)
    if "stages" in groups:
        result["stages"] = stages(comparison.sets.original().folder, comparison.sides.scratch)
    if "arrays" in groups:
        result["arrays"] = arrays.measure(options.rounds, comparison.sides.scratch)
    if "pairs" in groups:
        photographs = comparison.sets.original().folder
        result["pairs"] = pairs.measure(photographs, options.rounds, comparison.sides.scratch)
    result["seconds"] = time.perf_counter() - begun
    comparison.write()
    print("\n" + report.markdown(result))
    shutil.rmtree(comparison.sides.scratch)


if __name__ == "__main__":
    sys.exit(main())
