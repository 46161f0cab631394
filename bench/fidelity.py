"""How far mode="fast" is from mode="exact", by how much smaller a crop becomes.

Each photograph gives a random crop and a size for every class of reduction. The smaller of the two
axes' ratios decides the scale at which libjpeg decodes. Errors are in 8-bit values: the largest,
the mean, and PSNR over all crops of a class and for its worst crop. Times are the least of several
calls of hr.functional.resized_crop, decode included, so they include what Python adds to both
modes. Then the CPU time of a loader with one thread is measured, over the same crops in both modes
in turns, by their size.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import facts
import headrace as hr

# How many times as large as its result a crop is, on both axes: from, to.
CLASSES = {
    "enlarged": (0.4, 1.0),
    "1 to 2": (1.0, 1.99),
    "2 to 4": (2.0, 3.99),
    "4 to 8": (4.0, 7.99),
    "8 and more": (8.0, 14.0),
}
SIZES = (224, 112, 56)
ROUNDS, EPOCHS = 4, 3  # for each mode and size
LEAST_RESULT = 12  # pixels of a side: in smaller results every pixel is at an edge


def photographs(folder: Path, count: int) -> Iterator[bytes]:
    """Yields up to `count` files, evenly over the folder."""
    files = sorted(p for p in folder.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))
    for path in files[:: max(1, len(files) // count)][:count]:
        yield path.read_bytes()


def generated(size: tuple[int, int]) -> Iterator[bytes]:
    """Yields the tests' pictures of edges and noise in every sampling; they are harder than
    photographs."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import images

    for name, data in images.every_jpeg(*size).items():
        if name != "arithmetic-420":
            yield data


def crop(random: np.random.Generator, side: int, low: float, high: float) -> tuple[int, ...] | None:
    """Returns start, length and result along one axis; None if the image is too short for it."""
    if side < LEAST_RESULT * low + 1:
        return None
    length = int(random.integers(int(np.ceil(LEAST_RESULT * low)), side + 1))
    ratio = random.uniform(low, high)
    result = max(1, int(length / ratio))
    return int(random.integers(side - length + 1)), length, result


def seconds(data: bytes, arguments: tuple[object, ...], mode: str) -> float:
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        hr.functional.resized_crop(data, *arguments, mode=mode)
        times.append(time.perf_counter() - begun)
    return min(times)


def psnr(mean_square: float) -> float:
    return float("inf") if mean_square == 0 else 10 * float(np.log10(255**2 / mean_square))


def measure(
    sources: list[bytes], name: str, interpolation: str, seed: int, whole: bool
) -> dict[str, object]:
    """Returns the errors and times of one class."""
    random = np.random.default_rng(seed)
    low, high = CLASSES[name]
    errors: list[NDArray[np.int16]] = []
    worst, spent = float("inf"), {"exact": 0.0, "fast": 0.0}
    for data in sources:
        height, width = hr.functional.decode(data).shape[:2]
        y, x = (crop(random, side, low, high) for side in (height, width))
        if y is None or x is None:
            continue
        arguments = (y[0], x[0], y[1], x[1], (y[2], x[2]), interpolation)
        exact, fast = (
            hr.functional.resized_crop(data, *arguments, mode=mode).astype(np.int16)
            for mode in ("exact", "fast")
        )
        errors.append((fast - exact).ravel())
        worst = min(worst, psnr(float(np.square(errors[-1], dtype=np.float64).mean())))
        for mode in spent if whole else ():
            spent[mode] += seconds(data, arguments, mode)
    if not errors:
        return {"crops": 0}
    error = np.abs(np.concatenate(errors)).astype(np.float64)
    found: dict[str, object] = {
        "crops": len(errors),
        "largest": int(error.max()),
        "mean": float(error.mean()),
        "psnr_db": psnr(float(np.square(error).mean())),
        "psnr_worst_crop_db": worst,
    }
    if whole:
        found |= {f"{mode}_ms": spent[mode] / len(errors) * 1e3 for mode in spent}
    return found


def loaded(folder: Path, size: int) -> dict[str, float]:
    """Returns microseconds of CPU for each image: a random crop of at least 0.35 of the area, flip,
    float32."""
    steps = [hr.transforms.RandomResizedCrop(size, scale=(0.35, 1))]
    steps.append(hr.transforms.RandomHorizontalFlip())
    spent: dict[str, list[float]] = {"exact": [], "fast": []}
    for _ in range(ROUNDS):
        for mode, times in spent.items():
            begun, images = time.process_time(), 0
            # Batches are small, because the loader makes about two ahead that nobody takes.
            with hr.Loader(folder, 10, transform=steps, num_threads=1, mode=mode) as loader:
                for _ in range(EPOCHS):
                    images += sum(len(batch) for batch, _ in loader)
            times.append((time.process_time() - begun) / images * 1e6)
    return {f"{mode}_us": min(times) for mode, times in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="photographs")
    parser.add_argument("--count", type=int, default=300, help="photographs to take of them")
    parser.add_argument("--interpolation", default="bilinear")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sets = {
        "photographs": list(photographs(options.folder, options.count)),
        "generated": [d for size in ((320, 240), (231, 357)) for d in generated(size)],
    }
    result: dict[str, Any] = {"machine": facts.machine(), "interpolation": options.interpolation}
    print(json.dumps(result["machine"]))
    for title, sources in sets.items():
        rows = {}
        print(f"\n{title}, {options.interpolation}; crop / result on the axis that differs least")
        for name in CLASSES:
            whole = title == "photographs" and not options.no_times
            row = measure(sources, name, options.interpolation, options.seed, whole)
            rows[name] = row
            print(f"{name:>12}: ", end="")
            print(", ".join(f"{k} {v:.3g}" for k, v in row.items() if not isinstance(v, str)))
        result[title] = rows
    if not options.no_times:
        print("\nRandomResizedCrop(size, scale=(0.35, 1)), flip, float32, loader, one thread")
        with tempfile.TemporaryDirectory() as folder:
            packed = Path(folder) / "photographs.hr"
            hr.pack(options.folder, packed)
            result["loader"] = {size: loaded(packed, size) for size in SIZES}
        for size, row in result["loader"].items():
            print(f"{size:>12}: exact {row['exact_us']:.0f} us, fast {row['fast_us']:.0f} us")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
