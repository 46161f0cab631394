"""Batches need no /dev/shm, and if memory really is short an error says how much was needed."""

from __future__ import annotations

from pathlib import Path

import pytest

import images
import processes

# 256 x 3 x 224 x 224 float32: 154 MB a batch, more than any /dev/shm below has.
LOAD = """
    import os, sys
    import headrace as hr
    steps = [hr.transforms.RandomResizedCrop(224)]
    loader = hr.Loader(sys.argv[1], batch_size=256, shuffle=True, transform=steps, num_threads=2)
    shapes = [tuple(batch.shape) for batch, _ in loader]
    loader.close()
    size = os.statvfs("/dev/shm") if os.path.exists("/dev/shm") else None
    print(shapes, size.f_blocks * size.f_frsize if size else "absent")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("shm"), 520)


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [64, 1])
def test_batches_of_154_mb_come_although_dev_shm_is_smaller(folder: Path, megabytes: int) -> None:
    mount = f"mount -t tmpfs -o size={megabytes}m tmpfs /dev/shm"
    found = processes.run(LOAD, folder, prefix=processes.in_mount_namespace(mount), timeout=120)
    assert found.strip() == f"{[(256, 3, 224, 224)] * 2 + [(8, 3, 224, 224)]} {megabytes << 20}"


@pytest.mark.slow
def test_batches_of_154_mb_come_without_any_dev_shm(folder: Path, tmp_path: Path) -> None:
    dev = tmp_path / "dev"
    dev.mkdir()
    steps = [f"mount -t tmpfs tmpfs {dev}"]
    for name, minor in (("null", 3), ("zero", 5), ("random", 8), ("urandom", 9)):
        steps.append(f"mknod -m 666 {dev}/{name} c 1 {minor}")
    steps.append(f"mount --bind {dev} /dev")
    found = processes.run(LOAD, folder, prefix=processes.in_mount_namespace(*steps), timeout=120)
    assert found.strip() == f"{[(256, 3, 224, 224)] * 2 + [(8, 3, 224, 224)]} absent"


@pytest.mark.slow
def test_batches_leave_nothing_in_dev_shm(folder: Path) -> None:
    assert "" in processes.left_in_dev_shm(lambda: processes.run(LOAD, folder, timeout=120))


@pytest.mark.parametrize(
    ("limit", "used", "left"), [("RLIMIT_AS", "VmSize", 290), ("RLIMIT_DATA", "VmData", 100)]
)
def test_short_memory_is_an_error_that_says_how_much_was_needed(
    folder: Path, limit: str, used: str, left: int
) -> None:
    """The limit leaves a few MB less than a batch needs, beside what the engine holds: of address
    space, or of data. For the address space that is 144 MB (docs/limits.md)."""
    code = """
        import re, resource, sys
        from pathlib import Path
        import headrace as hr
        from headrace import errors
        steps = [hr.transforms.RandomResizedCrop(224)]
        options = dict(transform=steps, num_threads=1, output="numpy")
        with hr.Loader(sys.argv[1], batch_size=2, **options) as loader:
            next(iter(loader))
        status = Path("/proc/self/status").read_text()
        used = int(re.search(sys.argv[3] + r":\\s+(\\d+) kB", status)[1]) << 10
        resource.setrlimit(getattr(resource, sys.argv[2]), (used + (int(sys.argv[4]) << 20),) * 2)
        try:
            with hr.Loader(sys.argv[1], batch_size=256, **options) as loader:
                next(iter(loader))
        except errors.MemoryShortError as error:
            assert isinstance(error, MemoryError)
            print(error)
    """
    found = processes.run(code, folder, limit, used, left)
    assert any(number in found.replace(",", "") for number in ("154", "147")), found


def test_more_batches_may_be_held_than_the_process_may_have_descriptors(folder: Path) -> None:
    code = """
        import os, resource, sys
        import headrace as hr
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        steps = [hr.transforms.RandomResizedCrop(8)]
        with hr.Loader(sys.argv[1], batch_size=1, transform=steps, num_threads=2) as loader:
            held = list(loader)
            print(len(held), len(os.listdir("/proc/self/fd")) < 40)
    """
    assert processes.run(code, folder).split() == ["520", "True"]
