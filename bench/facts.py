"""What every figure is printed with: versions, CPU, medians and spread."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# The instruction sets of x86-64 and of arm64 for which image libraries have code.
INSTRUCTION_SETS = (
    *("ssse3", "sse4_1", "sse4_2", "avx", "f16c", "fma", "avx2", "bmi2"),
    *("avx512f", "avx512bw", "avx512vl", "avx512vbmi", "avx512_vnni", "avx512_fp16", "amx_int8"),
    *("asimd", "asimdhp", "sve", "sve2"),
)


def machine() -> dict[str, Any]:
    """The CPU, the cores that this process may use, and the versions of what is compared."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    about = {name.strip(): value.strip() for name, _, value in (s.partition(":") for s in lines)}
    flags = set(about.get("flags", about.get("Features", "")).split())
    found: dict[str, Any] = {
        "cpu": about.get("model name") or platform.processor() or platform.machine(),
        "instruction_sets": [name for name in INSTRUCTION_SETS if name in flags],
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
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
    """Returns median, minimum and maximum."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def line(values: Sequence[float], unit: str, digits: int = 0) -> str:
    """Returns the same as text."""
    found = spread(values)
    return (
        f"{found['median']:,.{digits}f} {unit} "
        f"({found['min']:,.{digits}f} to {found['max']:,.{digits}f})"
    )
