"""What the doctor reads of the control groups above a process, from trees like the kernel's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace._doctor import cgroups

GIB = 1 << 30
UNLIMITED = str((1 << 63) - 4096)  # the value by which version 1 says that there is no limit


def tree(root: Path, membership: str, files: dict[str, Any]) -> str:
    for name, text in {"proc/self/cgroup": membership, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return str(root)


@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        ("0::/a/b", {"sys/fs/cgroup/a/b/cpu.max": "max 100000"}, None),
        ("0::/a/b", {"sys/fs/cgroup/a/b/cpu.max": "150000 100000"}, 1.5),
        (
            "0::/a/b",
            {
                "sys/fs/cgroup/a/b/cpu.max": "400000 100000",
                "sys/fs/cgroup/a/cpu.max": "200000 100000",
            },
            2.0,
        ),
        ("0::/seen/outside/only", {"sys/fs/cgroup/cpu.max": "50000 100000"}, 0.5),
        ("0::/../..", {"sys/fs/cgroup/cpu.max": "50000 100000"}, 0.5),
        (
            "4:memory:/x\n3:cpu,cpuacct:/job",
            {
                "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": 300000,
                "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": 100000,
            },
            3.0,
        ),
        (
            "3:cpu,cpuacct:/job",
            {
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": 100000,
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": 100000,
            },
            1.0,
        ),
        (
            "3:cpu:/",
            {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": -1,
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": 100000,
            },
            None,
        ),
        ("3:cpu:/", {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": 100000}, None),
        ("0::/", {"sys/fs/cgroup/cpu.max": "100000 0"}, None),
        ("no such line", {}, None),
    ],
)
def test_the_usable_cores_are_the_smallest_quota_of_all_groups_above(
    tmp_path: Path, membership: str, files: dict[str, Any], cores: float | None
) -> None:
    assert cgroups.cores(tree(tmp_path, membership, files)) == cores


def test_memory_is_what_the_tightest_group_leaves_and_page_cache_counts_as_free(
    tmp_path: Path,
) -> None:
    root = tree(
        tmp_path,
        "0::/pod/box",
        {
            "sys/fs/cgroup/pod/box/memory.max": 8 * GIB,
            "sys/fs/cgroup/pod/box/memory.current": 2 * GIB,
            "sys/fs/cgroup/pod/memory.max": 4 * GIB,
            "sys/fs/cgroup/pod/memory.current": 3 * GIB,
            "sys/fs/cgroup/pod/memory.stat": f"anon 5\ninactive_file {GIB}\nactive_file {GIB}",
        },
    )
    assert cgroups.memory(root) == 3 * GIB


def test_cgroup_v1_memory_is_read_and_its_no_limit_value_is_understood(
    tmp_path: Path,
) -> None:
    place = "sys/fs/cgroup/memory/job/memory"
    files = {f"{place}.limit_in_bytes": 4 * GIB, f"{place}.usage_in_bytes": GIB}
    stat = {f"{place}.stat": f"inactive_file 7\ntotal_inactive_file {GIB // 2}"}
    assert cgroups.memory(tree(tmp_path, "9:memory:/job", files | stat)) == 3 * GIB + GIB // 2
    (tmp_path / f"{place}.limit_in_bytes").write_text(UNLIMITED)
    assert (cgroups.memory(str(tmp_path)) or 0) > 1 << 60
    (tmp_path / f"{place}.limit_in_bytes").unlink()
    assert cgroups.memory(str(tmp_path)) is None
