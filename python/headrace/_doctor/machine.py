"""What this process may use of the machine, and who else uses it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace._doctor import cgroups

# File systems whose reads cross a network, or go through another program.
REMOTE = ("nfs", "cifs", "smb", "lustre", "ceph", "gpfs", "beegfs", "glusterfs", "9p", "fuse")
# File systems whose files are in memory, or in swap.
IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def look() -> dict[str, Any]:
    """Cores, memory and settings that matter to a loader; None for what cannot be read here."""
    allowed = os.sched_getaffinity(0)
    siblings = {_siblings(core) for core in allowed}
    whole = os.cpu_count() or len(allowed)
    memory, granted = _memory(), cgroups.cores()
    huge = _text("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "cores_allowed": len(allowed),
        "cores_of_machine": whole,
        "physical_cores_allowed": len(siblings),
        "physical_cores": len({_siblings(core) for core in range(whole)}),
        "cpu_quota": granted,
        "cores_usable": min(len(allowed), granted or len(allowed)),
        "ranks_here": _ranks(),
        "ranks_unsaid": ranks_unsaid(os.environ),
        "load": os.getloadavg()[0],
        "memory_available": _least(memory.get("MemAvailable"), cgroups.memory()),
        "swap_used": memory.get("SwapTotal", 0) - memory.get("SwapFree", 0),
        "huge_pages": huge.partition("[")[2].partition("]")[0] or None,
        "shared_memory": _shared_memory(),
    }


def _siblings(core: int) -> str:
    """Returns the hyper-threads of a core, which count as one core for arithmetic."""
    path = f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"
    return _text(path).strip() or str(core)


def _least(*numbers: int | None) -> int | None:
    return min((number for number in numbers if number is not None), default=None)


def _ranks() -> int:
    text = os.environ.get("LOCAL_WORLD_SIZE", "")
    return int(text) if text.isdigit() and int(text) else 1


# The number of ranks on a machine, as their launchers state it, and which of them this is.
_LOCAL_SIZES = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE")
_LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")


def ranks_unsaid(environment: Mapping[str, str]) -> str | None:
    """The variable that tells of several ranks on this machine while LOCAL_WORLD_SIZE is unset.

    The engine divides the cores by LOCAL_WORLD_SIZE. torchrun sets it; other launchers do not, and
    then each rank takes threads for all cores.
    """
    if environment.get("LOCAL_WORLD_SIZE", "").isdigit():
        return None
    for names, least in ((_LOCAL_SIZES, 2), (_LOCAL_RANKS, 1)):
        for name in names:
            text = environment.get(name, "")
            if text.isdigit() and int(text) >= least:
                return f"{name}={text}"
    return None


def _memory() -> dict[str, int]:
    """Bytes, by the names of /proc/meminfo."""
    found = {}
    for line in _text("/proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        fields = value.split()
        if fields and fields[0].isdigit():
            found[name] = int(fields[0]) * (1024 if fields[1:] == ["kB"] else 1)
    return found


def _shared_memory() -> int | None:
    try:
        found = os.statvfs("/dev/shm")
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def file_system(path: str) -> str:
    """The kind of file system that a path is on, such as "ext4" or "nfs4"; "" if it is unknown."""
    real = os.path.realpath(path)
    longest, kind = "", ""
    for line in _text("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        before, after = left.split(), right.split()
        if len(before) > 4 and after:
            point = before[4].replace("\\040", " ")
            inside = real == point or real.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(longest):
                longest, kind = point, after[0]
    return kind


def is_remote(kind: str) -> bool:
    return kind.startswith(REMOTE)


def is_in_memory(kind: str) -> bool:
    return kind in IN_MEMORY


def age() -> float:
    """Seconds since this process began; 0 if the kernel does not say."""
    fields = _text("/proc/self/stat").rpartition(")")[2].split()
    if len(fields) < 20:
        return 0.0
    # starttime, the 22nd field of proc_pid_stat(5), counts from the machine's start.
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")


class Others:
    """Cores that other programs keep busy until ``end``, stolen ones, and those of this process.

    Only the cores that this process may use count. Its own children are not other programs. Stolen
    time is what a hypervisor gave to another machine.
    """

    def __init__(self) -> None:
        self._ticks, self._own = _ticks(), cpu_seconds()

    def end(self) -> dict[str, float | None]:
        """Returns the cores busy for others, stolen, and our own, among those that this process may
        use, and the idle ones of the whole machine. A value is None if the kernel does not say, or
        if its clock did not tick in that time.
        """
        ticks, own = _ticks(), cpu_seconds()
        names = ("cores_others", "cores_stolen", "cores_own", "cores_idle")
        if not ticks or not self._ticks:
            return dict.fromkeys(names)
        spent = {
            core: [now - then for now, then in zip(ticks[core], before, strict=True)]
            for core, before in self._ticks.items()
            if core in ticks
        }
        every = [sum(parts) for parts in zip(*spent.values(), strict=True)]
        allowed = {f"cpu{core}" for core in os.sched_getaffinity(0)} & set(spent)
        ours = [sum(parts) for parts in zip(*(spent[core] for core in allowed), strict=True)]
        if not ours or ours[0] <= 0:
            return dict.fromkeys(names)
        total, busy, stolen = ours
        seconds = total / os.sysconf("SC_CLK_TCK") / len(allowed)
        mine = (own - self._own) / seconds
        others = max(busy / total * len(allowed) - mine, 0.0)
        idle = len(spent) * (1 - (every[1] + every[2]) / every[0])
        told = (others, stolen / total * len(allowed), mine, max(idle, 0.0))
        return dict(zip(names, told, strict=True))


def tells_of_cores() -> bool:
    """Whether the kernel says what each core does."""
    return bool(_ticks())


class Turns:
    """How often this process had a core when it had work for one, until ``end``.

    The kernel counts for each thread how long it ran, and how long it was ready and waited
    (proc_pid_schedstat in the kernel's documentation of /proc). Threads that end earlier are left
    out.
    """

    def __init__(self) -> None:
        self._before = _turns()

    def end(self) -> float | None:
        """The share of their ready time in which threads ran; None if the kernel does not say."""
        after = _turns()
        ran = waited = 0
        for thread, (now, then) in after.items():
            before = self._before.get(thread, (0, 0))
            ran, waited = ran + now - before[0], waited + then - before[1]
        return ran / (ran + waited) if ran > 0 else None


def _turns() -> dict[str, tuple[int, int]]:
    """Returns the nanoseconds that each thread of this process ran, and waited for a core."""
    found = {}
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        return {}
    for thread in threads:
        fields = _text(f"/proc/self/task/{thread}/schedstat").split()
        if len(fields) == 3 and all(field.isdigit() for field in fields):
            found[thread] = int(fields[0]), int(fields[1])
    return found


def cpu_seconds() -> float:
    """CPU time of this process and of all processes that it has started, such as a loader's
    workers.

    A child that ended and was waited for counts with the process that waited for it (times(2)).
    """
    found, ours = sum(os.times()[:4]), {os.getpid()}
    started = _processes()
    while ours:  # children, their children, and so on: nobody is its own ancestor
        ours = {process for process, (parent, _) in started.items() if parent in ours}
        found += sum(started.pop(process)[1] for process in ours)
    return found


def _processes() -> dict[int, tuple[int, float]]:
    """Returns for each process its parent, and its CPU time with that of its ended children."""
    found, tick = {}, os.sysconf("SC_CLK_TCK")
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        # The fields behind the name, which may contain blanks: state ppid ... and from the 14th
        # field on utime stime cutime cstime (proc_pid_stat(5)).
        fields = _text(f"/proc/{name}/stat").rpartition(")")[2].split()
        if len(fields) > 15:
            found[int(name)] = int(fields[1]), sum(map(int, fields[11:15])) / tick
    found.pop(os.getpid(), None)
    return found


def _ticks() -> dict[str, tuple[int, int, int]]:
    """Returns the ticks of each core by its name: all, busy and stolen ones."""
    found = {}
    for line in _text("/proc/stat").splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu" and len(fields) >= 8:
            # user nice system idle iowait irq softirq steal (proc_stat(5))
            ticks = [int(field) for field in fields[:8]]
            total = sum(ticks)
            found[name] = total, total - ticks[3] - ticks[4] - ticks[7], ticks[7]
    return found
