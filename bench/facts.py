"""What every figure is printed with: versions, CPU, medians and spread."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def machine() -> dict[str, object]:
    """The CPU, the cores that this process may use, and the versions of what is compared."""
    cpu = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    found: dict[str, object] = {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
    for package in ("headrace", "torch", "torchvision", "pillow", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, minimum and maximum."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def line(values: Sequence[float], unit: str, digits: int = 0) -> str:
    """The same as text."""
    found = spread(values)
    return (
        f"{found['median']:,.{digits}f} {unit} "
        f"({found['min']:,.{digits}f} to {found['max']:,.{digits}f})"
    )
