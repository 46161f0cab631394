"""Does `headrace doctor` name the limit that was put there, and does what it predicts come true?

Each case creates one bottleneck (bottlenecks.py), so its limit is known beforehand. That it is a
real limit is shown without the doctor: the loader is run with the bottleneck and without it, and
has to be 1.1 times as fast without. In each of three rounds the doctor is asked, and the loader is
run as it is, without the bottleneck, and with each remedy that can be followed. Each of these is a
process of its own, one right after the other, so that other programs affect all of them in the same
way. In each round a prediction is divided by the result, and the median counts. A case that a
machine does not allow is reported as not run.

On a busy machine a rate also depends on the other programs that needed the cores in those seconds.
So rates that cores limit are compared a second time, each divided by the share of the cores that
its process had.

    python bench/doctor_cases.py IMAGES [--rounds 3] [--only "one core"] [--json FILE]

With `--json` a run adds to the cases that are in the file.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import facts
import headrace as hr
from bottlenecks import CROP, NotRun, Sets, Situation, followed, opened, rate, tiny, within

MANY = 1e9  # images a second that nothing reaches
SECONDS, OF_A_DISK = 6.0, 15.0  # a disk of 500 ms brings few images in six
BITES = 1.1  # times as fast without the bottleneck
NEAR = 0.15  # how far a prediction may be from a measured rate, as a share of it
EVALUATION = [hr.transforms.Resize(256), hr.transforms.CenterCrop(224), CROP[-1]]
RANDAUGMENT = [*CROP[:2], hr.transforms.RandAugment(), CROP[-1]]
Answer = dict[str, Any]
# A case: its limit, the situation, and what removes the bottleneck.
Case = tuple[str, Callable[[Sets], Situation], Callable[[Situation, Sets], Situation]]


def undo(**changed: Any) -> Callable[[Situation, Sets], Situation]:
    return lambda situation, sets: situation.but(**changed)


def no_decoding(situation: Situation, sets: Sets) -> Situation:
    """Uses pixels in place of encoded images."""
    return situation.but(source=sets.packed(raw=True, resize=256), transform=list(CROP))


def smaller(situation: Situation, sets: Sets) -> Situation:
    return situation.but(source=sets.packed(situation.source, resize=256))


def nothing(batch: Any) -> None:
    pass


def sleeps(seconds: float) -> Callable[[Any], Any]:
    return lambda batch: time.sleep(seconds)


def late(batch: Any) -> Any:
    time.sleep(0.2)
    return batch


def matrices(batch: Any) -> None:
    end = time.perf_counter() + 0.4
    side = np.ones((256, 256))
    while time.perf_counter() < end:
        side = side @ side / 256


def keeping(most: int) -> Callable[[Any], Any]:
    return collections.deque(maxlen=most).append


def packed(**how: Any) -> Callable[[Sets], Situation]:
    return lambda sets: Situation(sets.packed(), **how)


def progressive(**how: Any) -> Callable[[Sets], Situation]:
    return lambda sets: Situation(sets.progressive(), **how)


def tinies(**how: Any) -> Callable[[Sets], Situation]:
    crop = [hr.transforms.CenterCrop(8)]
    return lambda sets: Situation(tiny(), transform=crop, batch_size=1, **how)


def copies(sets: Sets) -> Situation:
    raise NotRun("no GPU whose link could be made slow")


CASES: dict[str, Case] = {
    "packed, in memory": ("decoding", packed(), no_decoding),
    "files, in memory": ("decoding", lambda sets: Situation(sets.images), no_decoding),
    "a rate that is easily reached": ("none", packed(asked=1.0), undo()),
    "RandAugment": ("decoding", packed(transform=RANDAUGMENT), no_decoding),
    "evaluation": ("decoding", packed(transform=EVALUATION), no_decoding),
    "one core": ("decoding", packed(cores=1), undo(cores=None)),
    "a CPU quota of one core": ("decoding", packed(quota=1.0), undo(quota=None)),
    "a busy neighbour on every core": (
        "decoding",
        packed(neighbours=True),
        undo(neighbours=False),
    ),
    "progressive files": (
        "decoding",
        progressive(),
        lambda situation, sets: situation.but(source=sets.packed(situation.source, baseline=True)),
    ),
    "files of 11 megapixels": (
        "decoding",
        lambda sets: Situation(sets.huge(), batch_size=16),
        smaller,
    ),
    "PNG files": ("decoding", lambda sets: Situation(sets.png(), batch_size=16), no_decoding),
    "shards on a disk that takes 500 ms": (
        "storage",
        packed(disk=("-delay", "500ms")),
        undo(disk=()),
    ),
    "files on a disk that takes 500 ms": (
        "storage",
        progressive(disk=("-delay", "500ms")),
        lambda situation, sets: situation.but(disk=()),
    ),
    "shards on a disk of 20 MB/s": ("storage", packed(disk=("-rate", "20")), undo(disk=())),
    "tiny images in batches of 1": ("delivery", tinies(), undo(batch_size=64)),
    "a step that sleeps": ("training", packed(step=sleeps(0.5)), undo(step=nothing)),
    "a step that computes": ("training", packed(step=matrices), undo(step=nothing)),
    "a step of no time": ("decoding", packed(step=nothing), no_decoding),
    "a loader of one thread": (
        "decoding",
        packed(step=nothing, options={"num_threads": 1}),
        undo(options={"num_threads": len(os.sched_getaffinity(0))}),
    ),
    "a step, on a disk that takes 500 ms": (
        "storage",
        packed(step=sleeps(0.01), disk=("-delay", "500ms")),
        undo(disk=()),
    ),
    "a step, on a disk of 10 MB/s": (
        "storage",
        packed(step=sleeps(0.01), disk=("-rate", "10")),
        undo(disk=()),
    ),
    "progressive files, with a step": ("decoding", progressive(step=sleeps(0.01)), no_decoding),
    "Python behind the loader": (
        "delivery",
        packed(step=nothing, options={"batch_fn": late}),
        undo(options={}),
    ),
    "a step that keeps 24 batches": ("delivery", packed(step=keeping(24)), undo(step=nothing)),
    "tiny images in batches of 1, with a step": (
        "delivery",
        tinies(step=nothing),
        undo(batch_size=64),
    ),
    "torch's DataLoader without workers": (
        "decoding",
        lambda sets: Situation(sets.images, step=sleeps(0.01), batch_size=32, of="torch"),
        undo(of="headrace"),
    ),
    "a slow link to the GPU": ("copy", copies, undo()),
}


def doctor(situation: Situation) -> Answer:
    seconds = OF_A_DISK if situation.disk else SECONDS
    with within(situation) as source:
        if situation.step is not None:
            with opened(situation, source) as loader:
                return dict(hr.doctor(loader, situation.step, seconds=seconds))
        dataset = hr.Dataset.from_arrays(source) if isinstance(source, np.ndarray) else source
        how: dict[str, Any] = {"transform": situation.transform, "seconds": seconds}
        how |= {"batch_size": situation.batch_size, "rate": situation.asked or MANY}
        return dict(hr.doctor(dataset, **how))


def answer(name: str, way: str, sets: Sets) -> Answer:
    """Makes one measurement of a case in this process.

    Args:
        way: "doctor" for what it says; "as it is" or "lifted" for the loader's rate with the
            bottleneck or without it; or a remedy, for the rate after following it.
    """
    _, make, lift = CASES[name]
    try:
        situation: Situation | None = make(sets)
        assert situation is not None
        if way == "doctor":
            return doctor(situation)
        if way == "lifted":
            situation = lift(situation, sets)
        elif way != "as it is":
            situation = followed(situation, way, sets)
        return {"not_run": "nothing to follow"} if situation is None else rate(situation)
    except NotRun as reason:
        return {"not_run": str(reason)}


def ask(name: str, way: str, options: argparse.Namespace) -> Answer:
    """Does the same in a process of its own."""
    command = [sys.executable, __file__, str(options.images), "--work", str(options.work)]
    done = subprocess.run(
        [*command, "--case", name, "--way", way],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no word"])[-1]}
    found: Answer = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(name: str, options: argparse.Namespace) -> Answer:
    """Measures a case: what the doctor said and what came, round by round."""
    row: Answer = {"case": name, "expected": CASES[name][0], "rounds": []}
    first = ask(name, "lifted", options)  # this also makes the sets
    if "rate" not in first:
        return row | first
    for _ in range(options.rounds):
        said = ask(name, "doctor", options)
        if "not_run" in said:
            return row | said
        came = {way: ask(name, way, options) for way in ("as it is", "lifted")}
        for remedy in said.get("remedies", []):
            came[remedy["text"]] = ask(name, remedy["text"], options)
        row["rounds"].append({"said": said, "came": came})
    return row


def kind(text: str) -> str:
    """Returns a remedy without the figures that differ each time."""
    return re.sub(r"(?<=, )which keep.*|(?<=process )[\d.]+.*", "", text).rstrip(", ")


def predictions(row: Answer) -> dict[str, list[Answer]]:
    """Returns by remedy, "as it is" first, what was predicted and what came in each round.

    Each has ``predicted`` and ``came``, in images a second; ``gain`` and ``gained``, how many times
    as fast as without it; and ``shares``, the share of the cores of that process divided by the
    doctor's.
    """
    found: dict[str, list[Answer]] = collections.defaultdict(list)
    for one in row["rounds"]:
        said, came = one["said"], one["came"]
        now = came["as it is"].get("rate")
        if "measured" not in said or not now:
            continue
        told = [{"text": "as it is", "images_per_second": said["measured"]["images_per_second"]}]
        for remedy in told + said["remedies"]:
            text = remedy["text"]
            if "rate" not in came[text]:
                continue
            share = said["measured"]["machine"].get("core_share"), came[text]["share"]
            busy = said["limit"] in ("decoding", "delivery") and all(share)
            ends = text.startswith("end the other programs")
            found[kind(text)].append(
                {
                    "predicted": remedy["images_per_second"],
                    "came": came[text]["rate"],
                    "gain": remedy.get("gain", 1.0),
                    "gained": came[text]["rate"] / now,
                    "shares": share[1] / share[0] if busy and not ends else 1.0,
                    "others": came[text]["others"],
                }
            )
    return dict(found)


def median(rounds: list[Answer], value: Callable[[Answer], float]) -> float:
    return statistics.median(map(value, rounds))


def raw(one: Answer) -> float:
    return float(one["predicted"] / one["came"])


def by_share(one: Answer) -> float:
    return float(one["predicted"] * one["shares"] / one["came"])


def by_gain(one: Answer) -> float:
    return float(one["gain"] / one["gained"])


def bites(row: Answer) -> bool:
    """Whether the bottleneck is real: the loader is faster without it, with an equal share of
    cores."""
    if row["expected"] == "none":
        return True
    cores, gains = row["expected"] in ("decoding", "delivery"), []
    for one in row["rounds"]:
        without, now = one["came"]["lifted"], one["came"]["as it is"]
        if "rate" in without and "rate" in now:
            shared = cores and without["share"] and now["share"]
            fair = now["share"] / without["share"] if shared else 1.0
            gains.append(without["rate"] / now["rate"] * fair)
    return bool(gains) and statistics.median(gains) >= BITES


def limit_said(row: Answer) -> str:
    """Returns the limit that most rounds named."""
    said = [one["said"].get("limit", "failed") for one in row["rounds"]]
    return collections.Counter(said).most_common(1)[0][0] if said else "nothing"


def show(row: Answer) -> None:
    """Prints a case as lines of a table."""
    name, expected = row["case"], row["expected"]
    if not row["rounds"]:
        why = row.get("not_run") or f"failed: {row.get('failed')}"
        print(f"| {name} | {expected} | not run: {why} | | | | | |", flush=True)
        return
    expected += "" if bites(row) else ", which does not bite"
    print(f"| {name} | {expected} | {limit_said(row)} | | | | | |")
    for text, rounds in predictions(row).items():
        print(
            f"| | | | {text} | {median(rounds, lambda one: one['predicted']):,.0f} | "
            f"{median(rounds, lambda one: one['came']):,.0f} | "
            f"{median(rounds, raw):.2f}, {median(rounds, by_share):.2f} | "
            f"{median(rounds, lambda one: one['others'] or 0.0):.1f} |"
        )
    sys.stdout.flush()


def summary(rows: list[Answer]) -> list[str]:
    ran = [row for row in rows if row["rounds"] and bites(row)]
    right = sum(limit_said(row) == row["expected"] for row in ran)
    real = [rounds for row in ran for rounds in predictions(row).values()]
    lines = [f"limit: {right} of {len(ran)} bottlenecks that bite are named rightly"]
    for what, value in (("rates", raw), ("rates, by share of cores", by_share)):
        off = [abs(median(rounds, value) - 1) for rounds in real]
        near = sum(one <= NEAR for one in off)
        lines.append(
            f"{what}: {near} of {len(off)} within {NEAR:.0%} of what came, the median "
            f"{statistics.median(off) if off else 0:.0%} off"
        )
    gains = [rounds for row in ran for text, rounds in predictions(row).items() if text[:2] != "as"]
    near = sum(abs(median(rounds, by_gain) - 1) <= NEAR for rounds in gains)
    lines.append(f"gains of remedies: {near} of {len(gains)} within {NEAR:.0%} of what came")
    return lines


def kept(file: Path | None) -> dict[str, Answer]:
    """Returns the cases that are in a file, by name."""
    if file is None or not file.exists():
        return {}
    return {row["case"]: row for row in json.loads(file.read_text())["rows"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", type=Path)
    parser.add_argument("--work", type=Path, default=Path(".build/bench/doctor"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.case:
        print(json.dumps(answer(options.case, options.way, Sets(options.images, options.work))))
        return
    print(" ".join(f"{name}={value}" for name, value in facts.machine().items()))
    print("| bottleneck | limit | said | with | predicted | came | off, by share | others' cores |")
    print("|---|---|---|---|---|---|---|---|")
    rows = kept(options.json)
    for name in options.only or CASES:
        rows[name] = compare(name, options)
        show(rows[name])
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            made = {"machine": facts.machine(), "rows": list(rows.values())}
            options.json.write_text(json.dumps(made))
    print("\n".join(summary(list(rows.values()))))


if __name__ == "__main__":
    main()
