"""Cores and memory that the control groups grant to this process, for versions 1 and 2.

The engine reads them on its own, to choose its threads and to warn of short memory
(internal/threads, pinned). This module serves the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

# Page cache of the group that the kernel drops before it ends a process.
_RECLAIMED = {
    2: ("inactive_file", "active_file", "slab_reclaimable"),
    1: ("total_inactive_file", "total_active_file"),
}


def cores(root: str = "/") -> float | None:
    """The smallest CPU quota of the groups, in cores; None if there is no limit."""
    return _least(root, "cpu", _quota)


def memory(root: str = "/") -> int | None:
    """Bytes that the groups still leave to this process; None if there is no limit.

    The page cache that a group holds counts as free, because the kernel gives it up first.
    """
    room = _least(root, "memory", _room)
    return None if room is None else max(int(room), 0)


def _least(root: str, controller: str, read: Callable[[Path, int], float | None]) -> float | None:
    found = [read(group, version) for version, group in _groups(Path(root), controller)]
    return min((value for value in found if value is not None), default=None)


def _groups(root: Path, controller: str) -> Iterator[tuple[int, Path]]:
    """Yields the groups of this process that have a controller, each with all groups above it, and
    the version.

    In a container the path may lead out of what is mounted. Then the mount itself is our group.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        # hierarchy:controllers:path (cgroups(7)); version 2 is hierarchy 0 without controllers.
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        version = 2 if (number, names) == ("0", "") else 1
        if version == 1 and controller not in names.split(","):
            continue
        top = root / "sys/fs/cgroup" / ("" if version == 2 else controller)
        if version == 1 and not top.is_dir():
            top = root / "sys/fs/cgroup" / names
        group = top / path.lstrip("/")
        if ".." in group.parts or not group.is_dir():
            group = top
        while True:
            yield version, group
            if group == top:
                break
            group = group.parent


def _quota(group: Path, version: int) -> float | None:
    if version == 2:
        fields = _text(group / "cpu.max").split()
    else:
        fields = [_text(group / f"cpu.cfs_{what}_us").strip() for what in ("quota", "period")]
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        return None  # "max", -1, or no such file
    granted, period = map(int, fields)
    return granted / period if granted and period else None


def _room(group: Path, version: int) -> float | None:
    names = ("max", "current") if version == 2 else ("limit_in_bytes", "usage_in_bytes")
    limit, usage = (_text(group / f"memory.{name}").strip() for name in names)
    if not limit.isdigit() or not usage.isdigit():
        return None
    reclaimed = 0
    for line in _text(group / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name in _RECLAIMED[version] and value.isdigit():
            reclaimed += int(value)
    return int(limit) - max(int(usage) - reclaimed, 0)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
