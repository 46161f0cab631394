"""Interrupts, reads that never end, datasets in workers, and packing that is killed."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

import forking
import headrace as hr
import images
import processes
from headrace import errors
from timing import within

# A loader whose reads each take five seconds: next() waits as for a dead network mount.
SLOW = """
    import sys, time
    import headrace as hr
    from headrace._engine import _lib
    opened = _lib.opened
    def delayed(name, config, *rest):
        if name == "hr_loader_open":
            config = dict(config, read_delay_ms=5000)
        return opened(name, config, *rest)
    _lib.opened = delayed
    loader = hr.Loader(sys.argv[1], 8, transform=[hr.transforms.Resize((8, 8))], output="numpy")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("processes"), 120)


def test_ctrl_c_interrupts_a_waiting_loop_within_half_a_second(folder: Path) -> None:
    code = SLOW + (
        "    try:\n"
        "        print('waiting', flush=True)\n"
        "        next(iter(loader))\n"
        "    except KeyboardInterrupt:\n"
        "        print(time.time(), flush=True)\n"
    )

    def interrupt() -> float:
        process = processes.start(code, folder)
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.7)
        sent = time.time()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        return float(out) - sent

    within(0.5, interrupt)


def test_close_waits_little_more_than_two_seconds_for_a_read_that_does_not_end(
    folder: Path,
) -> None:
    code = SLOW + (
        "    time.sleep(0.3)\n"
        "    begun = time.monotonic()\n"
        "    loader.close()\n"
        "    print(time.monotonic() - begun)\n"
    )
    within(2.6, lambda: float(processes.run(code, folder)))


@pytest.mark.slow
def test_a_dataset_in_forked_dataloader_workers_is_refused_and_in_spawned_ones_works(
    forked: forking.Parent, folder: Path, tmp_path: Path
) -> None:
    program = tmp_path / "workers.py"
    program.write_text(
        "import sys, torch\n"
        "import headrace as hr\n"
        "def first(samples): return [label for _, label in samples]\n"
        "if __name__ == '__main__':\n"
        "    dataset = hr.Dataset(sys.argv[1])\n"
        "    options = dict(batch_size=8, num_workers=2, collate_fn=first)\n"
        "    options['multiprocessing_context'] = sys.argv[2]\n"
        "    loader = torch.utils.data.DataLoader(dataset, **options)\n"
        "    try:\n"
        "        print(sum(len(labels) for labels in loader))\n"
        "    except Exception as error:\n"
        "        print('fork' in str(error))\n"
        "        error.__traceback__ = None\n"  # else its workers are waited for: see test_forks.py
    )
    code = f"import runpy; runpy.run_path({str(program)!r}, run_name='__main__')"
    assert forked.run(code, folder, "fork").strip() == "True"
    assert forked.run(code, folder, "spawn").strip() == "120"


def test_a_pack_killed_at_any_moment_leaves_a_whole_dataset_or_none_that_opens(
    folder: Path, tmp_path: Path
) -> None:
    code = """
        import sys
        import headrace as hr
        print("begin", flush=True)
        hr.pack(sys.argv[1], sys.argv[2], shard_size="64KiB", num_threads=2)
    """
    begun = time.monotonic()
    processes.run(code, folder, tmp_path / "whole.hr")
    duration = time.monotonic() - begun
    whole = {p.name: p.read_bytes() for p in (tmp_path / "whole.hr").iterdir()}
    outcomes = set()
    for attempt in range(60):
        if attempt >= 20 and "nothing" in outcomes:
            break
        destination = tmp_path / f"{attempt}.hr"
        process = processes.start(code, folder, destination)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(duration * (attempt % 20) / 60)
        process.kill()
        process.communicate()
        try:
            found = hr.Dataset(destination)
        except errors.HeadraceError:
            outcomes.add("nothing")
            # What is left does not block a second try.
            hr.pack(folder, destination, shard_size="64KiB")
            found = hr.Dataset(destination)
        else:
            outcomes.add("whole")
        assert len(found) == 120
        assert {p.name: p.read_bytes() for p in destination.iterdir()} == whole
        found.close()
    assert "nothing" in outcomes
