"""Bar charts, PNG and SVG, from the JSON that compare.py wrote, or arrays.py.

.build/peers/chart/bin/python bench/chart.py .build/bench/compare.json DIRECTORY
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OURS, THEIRS, KERNEL = "#1f6f8b", "#b8bec4", "#e3e6e8"
plt.rcParams.update({"font.size": 10, "svg.hashsalt": "headrace", "svg.fonttype": "none"})


def colour(entry: dict[str, Any]) -> str:
    return {"headrace": OURS, "kernel": KERNEL}.get(entry["peer"], THEIRS)


def bars(entries: Sequence[dict[str, Any]], title: str, note: str, file: Path) -> None:
    """Draws a bar for each row, with its median at the end and the range of the rounds as a
    line."""
    entries = sorted(entries, key=lambda entry: entry["rate"]["median"])
    height = 1.0 + 0.36 * len(entries)
    figure, axes = plt.subplots(figsize=(8.5, height), layout="constrained")
    medians = [entry["rate"]["median"] for entry in entries]
    ranges = [
        [entry["rate"]["median"] - entry["rate"]["min"] for entry in entries],
        [entry["rate"]["max"] - entry["rate"]["median"] for entry in entries],
    ]
    names = [entry["name"] for entry in entries]
    axes.barh(names, medians, color=[colour(entry) for entry in entries], height=0.72)
    axes.errorbar(medians, names, xerr=ranges, fmt="none", ecolor="#555555", elinewidth=1)
    top = max(entry["rate"]["max"] for entry in entries)
    for name, median, entry in zip(names, medians, entries, strict=True):
        axes.text(entry["rate"]["max"] + 0.01 * top, name, f"{median:,.0f}", va="center")
    axes.set_xlim(0, 1.1 * top)
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel(f"images/s; {note}", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    save(figure, file)


def sweep(entries: Sequence[dict[str, Any]], note: str, file: Path) -> None:
    """Draws a small chart for each set: groups of bars over the minimum scale."""
    sets = list(dict.fromkeys(entry["set"] for entry in entries))
    peers = list(dict.fromkeys(entry["peer"] for entry in entries))
    scales = sorted({entry["min_scale"] for entry in entries})
    shades = {"headrace": OURS, "dali": "#8d99a3", "torchvision": "#cdd2d6"}
    rows = -(-len(sets) // 3)
    figure, grid = plt.subplots(
        rows, 3, figsize=(8.5, 2.1 * rows), layout="constrained", sharey=False, squeeze=False
    )
    rates = {(e["set"], e["min_scale"], e["peer"]): e["rate"]["median"] for e in entries}
    for axes, name in zip(grid.flat, sets, strict=False):
        for place, peer in enumerate(peers):
            at = [x + (place - (len(peers) - 1) / 2) * 0.27 for x in range(len(scales))]
            found = [rates.get((name, scale, peer), 0) for scale in scales]
            axes.bar(at, found, width=0.25, color=shades.get(peer, THEIRS), label=peer)
        axes.set_title(name, loc="left", fontsize=9)
        axes.set_xticks(range(len(scales)), [f"{scale:g} to 1" for scale in scales], fontsize=8)
        axes.tick_params(axis="y", labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in grid.flat[len(sets) :]:
        axes.set_visible(False)
    grid.flat[0].legend(fontsize=7, frameon=False)
    figure.supxlabel(f"area of the crop; {note}", fontsize=8)
    figure.supylabel("images/s", fontsize=8)
    save(figure, file)


# Sides of arrays.py that read images of 224 x 224 x 3 from a file.
_OF_ARRAYS = {
    "packed": "Headrace, packed raw",
    "npy": "Headrace, .npy",
    "h5": "Headrace, HDF5",
    "zarr": "Headrace, Zarr (zstd)",
    "torch": "DataLoader, memory-mapped .npy",
    "h5py": "DataLoader, h5py",
    "zarr-python": "DataLoader, zarr-python (zstd)",
}


def of_arrays(rates: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Returns rows for ``bars`` of what arrays.py measured with files."""
    entries = []
    for side, name in _OF_ARRAYS.items():
        found = sorted(rates[f"file, {side}"])
        peer = "headrace" if name.startswith("Headrace") else "torch"
        rate = {"median": statistics.median(found), "min": found[0], "max": found[-1]}
        entries.append({"name": name, "peer": peer, "rate": rate})
    return entries


def save(figure: Any, file: Path) -> None:
    for kind, metadata in (("png", {}), ("svg", {"Date": None})):
        place = file.with_suffix(f".{kind}")
        figure.savefig(place, dpi=160, metadata=metadata)
        print(place)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=Path, help="what compare.py --json wrote")
    parser.add_argument("directory", type=Path, help="where headline.png, sweep.svg and so on go")
    options = parser.parse_args()
    result = json.loads(options.json.read_text())
    title = "Arrays of 224 x 224 x 3 in a file, RandomResizedCrop(176), flip, normalise"
    if "rates" in result:  # the result of arrays.py alone
        rounds = len(result["loads"])
        note = f"2 cores, median of {rounds} rounds"
        options.directory.mkdir(parents=True, exist_ok=True)
        bars(of_arrays(result["rates"]), title, note, options.directory / "arrays")
        return
    machine, rounds = result["machine"], result["options"]["rounds"]
    note = f"{len(result['cores'])} cores of {machine['cpu']}, median of {rounds} rounds"
    options.directory.mkdir(parents=True, exist_ok=True)
    titles = {
        "headline": "RandomResizedCrop(224), flip, normalise to float32, batches of 128",
        "forms": "The same task, in other forms",
        "evaluation": "Evaluation: Resize(256), CenterCrop(224)",
        "raw": "Stored as pixels, shorter side 256",
        "large": "Photographs of 3840 x 2160, cropped to 224",
        "small": "Photographs of 64 x 64",
    }
    for group, title in titles.items():
        # There is one bare kernel in a chart: that of float32, with which the loaders are compared.
        entries = [
            entry
            for entry in result["rows"]
            if entry["group"] == group
            and (entry["peer"] != "kernel" or entry["dtype"] == "float32")
        ]
        if entries:
            bars(entries, title, note, options.directory / group)
    if "arrays" in result:
        bars(of_arrays(result["arrays"]["rates"]), title, note, options.directory / "arrays")
    entries = [entry for entry in result["rows"] if entry["group"] == "sweep"]
    if entries:
        sweep(entries, note.partition(", median")[0], options.directory / "sweep")


if __name__ == "__main__":
    main()
