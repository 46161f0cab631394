"""The tables of a run, as Markdown, from the JSON that compare.py wrote.

.venv/bin/python bench/report.py .build/bench/compare.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import arrays
import facts
import pairs

PACKING_TARGET = 1000  # images a second and core, with seek points


def markdown(result: dict[str, Any]) -> str:
    """Returns everything that was measured, and what was left out."""
    lines = _machine(result)
    rows = result["rows"]
    for group in dict.fromkeys(entry["group"] for entry in rows):
        entries = [entry for entry in rows if entry["group"] == group]
        lines += ["", f"### {group}", ""]
        lines += _sweep(entries) if group == "sweep" else _rows(entries)
    if result["ratios"]:
        lines += ["", "### ratios", "", *_ratios(result["ratios"])]
    if "arrays" in result:
        lines += ["", "### arrays", "", *arrays.table(result["arrays"])]
    if "pairs" in result:
        lines += ["", "### pairs", "", *pairs.table(result["pairs"])]
    if "packing" in result:
        lines += ["", "### packing", "", *packing_table(result["packing"])]
    if "stages" in result:
        lines += ["", "### stages of a sample", "", *_stages(result["stages"])]
    lines += [""] + [f"Left out: {name}: {why}" for name, why in result["left_out"].items()]
    if "seconds" in result:
        lines.append(f"The whole run took {result['seconds'] / 60:.1f} minutes.")
    return "\n".join(lines)


def _machine(result: dict[str, Any]) -> list[str]:
    machine, options = result["machine"], result["options"]
    versions: dict[str, str] = {}
    for entry in result["rows"]:
        versions |= {name: found for name, found in entry["versions"].items() if found}
    lines = [
        f"CPU: {machine['cpu']}, cores {result['cores']} of {machine['cores']}; "
        f"{' '.join(machine['instruction_sets'])}.",
        "Versions: " + ", ".join(f"{name} {found}" for name, found in sorted(versions.items())),
        f"Rounds: {options['rounds']}, load before each: "
        + ", ".join(f"{load:.2f}" for load in result["loads"]),
    ]
    for name, about in result["sets"].items():
        mean = about["bytes"] / about["images"] / 1e3
        lines.append(f"Set {name}: {about['distinct']:,} photographs of {mean:,.0f} KB.")
    lines += [f"Photographs left out: {n}: {why}" for why, n in result["left_out_images"].items()]
    return lines


def _rows(entries: Iterable[dict[str, Any]]) -> list[str]:
    heads = (
        "loader",
        "output",
        "images/s",
        "CPU ms an image",
        "cores for 1,000/s",
        "of bare kernel",
    )
    cells = []
    for entry in entries:
        rate, share = entry["rate"], entry["kernel_share"]
        cells.append(
            (
                entry["name"],
                entry["dtype"],
                f"{rate['median']:,.0f} ({rate['min']:,.0f} to {rate['max']:,.0f})",
                f"{entry['cpu_ms_per_image']:.2f}",
                f"{entry['cores_for_1000_per_s']:.2f}",
                f"{share['median']:.2f}" if share else "",
            )
        )
    return table(heads, cells, right=4)


def _ratios(entries: Iterable[dict[str, Any]]) -> list[str]:
    cells = []
    for entry in entries:
        found = entry["ratio"]
        cells.append(
            (
                f"{entry['ours']} / {entry['theirs']}",
                f"{found['median']:.2f}x ({found['min']:.2f} to {found['max']:.2f})",
                f"{entry['cpu_ratio']:.2f}x",
                f"{entry['at_least']:g}x",
                f"{entry['moonshot']:g}x",
            )
        )
    return table(("ratio", "measured", "by CPU time", "target", "moonshot"), cells, right=4)


def _sweep(entries: Sequence[dict[str, Any]]) -> list[str]:
    rates = {(e["set"], e["min_scale"], e["peer"]): e["rate"]["median"] for e in entries}
    peers = list(dict.fromkeys(entry["peer"] for entry in entries))
    cells = []
    for images, scale in dict.fromkeys((entry["set"], entry["min_scale"]) for entry in entries):
        found = [rates.get((images, scale, peer)) for peer in peers]
        ours = rates.get((images, scale, "headrace"))
        texts = []
        for peer, rate in zip(peers, found, strict=True):
            ratio = f" ({ours / rate:.2f}x)" if ours and rate and peer != "headrace" else ""
            texts.append(f"{rate:,.0f}{ratio}" if rate else "")
        cells.append((images, f"{scale:g}", *texts))
    heads = ("set", "minimum scale", *(f"{peer}, images/s" for peer in peers))
    return table(heads, cells, right=len(peers) + 1)


def packing_table(found: dict[str, Any]) -> list[str]:
    """Returns rates for each core, and where the time of a core went, for each image."""
    cells = []
    for name, rounds in found.items():
        if name == "loop":
            continue
        # Jobs side by side count with their mean rate.
        rates = [mean(one["images"] / one["seconds"] / one["threads"] for one in r) for r in rounds]
        spent = []
        for kind in ("user_seconds", "system_seconds"):
            spent.append([1e3 * mean(one[kind] / one["images"] for one in r) for r in rounds])
        waiting = [
            1e3 / rate - user - system for rate, user, system in zip(rates, *spent, strict=True)
        ]
        texts = [facts.line(values, "ms", 2) for values in (*spent, waiting)]
        last = rounds[-1][-1]
        share = f"{100 * last['seek_bytes'] / last['bytes']:.2f} %"
        cells.append((name, facts.line(rates, "images/s"), *texts, share))
    rate = f"a core (target {PACKING_TARGET:,})"
    heads = ("job", rate, "user, an image", "system", "waiting", "seek points")
    lines = table(heads, cells, right=5)
    if "loop" in found:
        share = facts.spread([both / alone for alone, both in found["loop"]])
        text = f"{share['median']:.2f} ({share['min']:.2f} to {share['max']:.2f})"
        lines += ["", f"A loop on each of two cores runs at {text} of its rate alone."]
    return lines


def _stages(found: dict[str, Any]) -> list[str]:
    kinds = ("with_seek_points", "without_seek_points")
    cells = []
    for stage in found[kinds[0]]:
        texts = []
        for kind in kinds:
            spent, total = found[kind][stage], found[kind]["sum"]
            texts += [f"{spent:.1f}", f"{100 * spent / total:.1f} %"]
        cells.append((stage, *texts))
    heads = ("us an image, one core", "with seek points", "", "without", "")
    about = (
        f"{found['libraries']}, {found['simd']}; seek points of step {found['seek_step']}: "
        f"{100 * found['seek_bytes'] / found['bytes']:.2f} % of the images' bytes, "
        f"found in {found['inspect_us']:.0f} us an image."
    )
    return [*table(heads, cells, right=4), "", about]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: int) -> list[str]:
    """Returns a Markdown table whose last `right` columns are numbers, padded so that it also reads
    as text."""
    cells = [tuple(heads), *map(tuple, rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    left = len(heads) - right

    def line(row: Sequence[str]) -> str:
        texts = [
            text.ljust(width) if i < left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(texts)} |"

    marks = ["-" * width if i < left else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
    return [line(cells[0]), f"| {' | '.join(marks)} |", *map(line, cells[1:])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=Path, help="what compare.py --json wrote")
    print(markdown(json.loads(parser.parse_args().json.read_text())))


if __name__ == "__main__":
    main()
