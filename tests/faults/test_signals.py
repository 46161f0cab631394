"""Storms of signals, faulthandler before and after the engine, and ranks that are killed."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
import repeat

import headrace as hr
import images
import processes

HERE = Path(__file__).parent

EPOCHS = """
    import faulthandler, os, shutil, signal, subprocess, sys, threading, time, zlib
    import headrace as hr
    from headrace import errors
    def checksum(loader, epochs):
        found = 0
        for _ in range(epochs):
            for images, labels in loader:
                found = zlib.crc32(labels, zlib.crc32(images, found))
        return found
    def loader_of(source, **options):
        return hr.Loader(source, 8, shuffle=True, transform=[hr.transforms.RandomResizedCrop(48)],
                         num_threads=2, output="numpy", **options)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("signals"), 120)


STORMS = {
    "SIGPROF": "signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)",
    "SIGCHLD": "threading.Thread(target=spawn, daemon=True).start()",
    "SIGUSR1": "threading.Thread(target=shoot, daemon=True).start()",
}


@pytest.mark.parametrize("name", STORMS)
def test_a_storm_of_signals_changes_nothing(folder: Path, tmp_path: Path, name: str) -> None:
    code = EPOCHS + (
        f"    number, count = signal.{name}, 0\n"
        "    def arrived(*_):\n"
        "        global count\n"
        "        count += 1\n"
        "    def spawn():\n"
        "        while going: subprocess.run(['true'])\n"
        "    def shoot():\n"
        "        while going: os.kill(os.getpid(), number); time.sleep(0.0005)\n"
        "    with loader_of(sys.argv[1]) as loader:\n"
        "        quiet = checksum(loader, 3)\n"
        "    signal.signal(number, arrived)\n"
        "    going = True\n"
        f"    {STORMS[name]}\n"
        "    rounds, most = 0, int(sys.argv[3])\n"
        "    deadline = time.monotonic() + 20 * most\n"
        "    while (count < 30 or rounds < most) and time.monotonic() < deadline:\n"
        "        with loader_of(sys.argv[1]) as loader:\n"
        "            assert checksum(loader, 3) == quiet\n"
        "        hr.pack(sys.argv[1], f'{sys.argv[2]}/{rounds}.hr', num_threads=2)\n"
        "        assert hr.verify(f'{sys.argv[2]}/{rounds}.hr')['faults']['total'] == 0\n"
        "        shutil.rmtree(f'{sys.argv[2]}/{rounds}.hr')\n"
        "        rounds += 1\n"
        "    going = False\n"
        "    signal.setitimer(signal.ITIMER_PROF, 0)\n"
        "    time.sleep(0.05)\n"
        "    print(count >= 30, rounds >= most)\n"
    )
    rounds = repeat.times(3)
    answer = processes.run(code, folder, tmp_path, rounds, timeout=140 + 20 * rounds)
    assert answer == "True True\n"


@pytest.mark.parametrize("when", ["before", "after"])
def test_with_faulthandler_a_truncated_shard_is_still_an_error_and_the_rest_goes_on(
    folder: Path, tmp_path: Path, when: str
) -> None:
    enable = "faulthandler.enable()"
    code = EPOCHS + (
        f"    {enable if when == 'before' else 'pass'}\n"
        "    whole = loader_of(sys.argv[1])\n"
        "    sum_before = checksum(whole, 1)\n"
        f"    {enable if when == 'after' else 'pass'}\n"
        "    loader = loader_of(hr.Dataset(sys.argv[2], backend='mmap'))\n"
        "    batches = iter(loader)\n"
        "    next(batches)\n"
        "    for name in sorted(os.listdir(sys.argv[2])):\n"
        "        if name.endswith('.tar'): os.truncate(os.path.join(sys.argv[2], name), 512)\n"
        "    try:\n"
        "        for _ in batches: pass\n"
        "        for _ in loader: pass\n"
        "        sys.exit('no error')\n"
        "    except hr.HeadraceError as error:\n"
        "        assert '.tar' in str(error), error\n"
        "    whole.set_epoch(0)\n"
        "    assert checksum(whole, 1) == sum_before\n"
    )
    for number in range(repeat.times(1)):
        packed = tmp_path / f"{number}.hr"
        hr.pack(folder, packed, shard_size="64KiB")
        process = processes.start(code, folder, packed)
        _, err = process.communicate(timeout=100)
        assert (process.returncode, err) == (0, ""), number


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["pread", "mmap"])
def test_shards_cut_at_any_moment_of_an_epoch_are_errors_and_no_signal(
    folder: Path, tmp_path: Path, backend: str
) -> None:
    """Epochs over shards, one of which is truncated at a random place while it is decoded."""
    packed = tmp_path / "cut.hr"
    hr.pack(folder, packed, shard_size="64KiB")
    code = EPOCHS + (
        "    import pathlib, random\n"
        "    place, packed, failed = random.Random(3), pathlib.Path(sys.argv[1]), 0\n"
        "    shards = {path: path.read_bytes() for path in packed.glob('*.tar')}\n"
        "    faulthandler.enable()\n"
        "    for _ in range(int(sys.argv[2])):\n"
        "        for path, data in shards.items(): path.write_bytes(data)\n"
        f"        with loader_of(hr.Dataset(packed, backend={backend!r}), prefetch=8) as loader:\n"
        "            def cut():\n"
        "                time.sleep(place.random() * 0.05)\n"
        "                for path, data in shards.items():\n"
        "                    os.truncate(path, place.randrange(len(data)))\n"
        "            cutter = threading.Thread(target=cut)\n"
        "            cutter.start()\n"
        "            try:\n"
        "                for _ in range(50): checksum(loader, 1)\n"
        "            except (hr.errors.TruncatedError, hr.errors.ChecksumError) as error:\n"
        "                failed += '.tar' in str(error)\n"
        "            cutter.join()\n"
        "    print(failed)\n"
    )
    epochs = repeat.times(40)
    assert processes.run(code, packed, epochs, timeout=100 + 5 * epochs) == f"{epochs}\n"


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_index_cut_while_it_is_in_use_is_an_error_that_names_it(
    folder: Path, tmp_path: Path, when: str
) -> None:
    code = EPOCHS + (
        f"    {'faulthandler.enable()' if when == 'before' else 'pass'}\n"
        "    loader = loader_of(hr.Dataset(sys.argv[1]))\n"
        "    batches = iter(loader)\n"
        "    next(batches)\n"
        f"    {'faulthandler.enable()' if when == 'after' else 'pass'}\n"
        "    for name in sorted(os.listdir(sys.argv[1])):\n"
        "        if not name.endswith('.tar'): os.truncate(os.path.join(sys.argv[1], name), 100)\n"
        "    try:\n"
        "        for _ in batches: pass\n"
        "        for _ in loader: pass\n"
        "    except hr.errors.TruncatedError as error:\n"
        "        print('.arrow' in str(error), error.record is not None)\n"
    )
    for number in range(repeat.times(1)):
        packed = tmp_path / f"{number}.hr"
        hr.pack(folder, packed)
        assert processes.run(code, packed) == "True True\n", number


def test_an_index_cut_at_any_moment_of_an_epoch_is_an_error_and_the_batches_before_are_right(
    folder: Path, tmp_path: Path
) -> None:
    """With faulthandler, whose handler is installed after ours while the index is mapped."""
    packed = tmp_path / "index.hr"
    hr.pack(folder, packed)
    code = EPOCHS + (
        "    import pathlib, random\n"
        "    place, packed, failed, seen = random.Random(5), pathlib.Path(sys.argv[1]), 0, 0\n"
        "    (index,) = packed.glob('*.arrow')\n"
        "    data = index.read_bytes()\n"
        "    with loader_of(hr.Dataset(packed)) as loader:\n"
        "        right = [(images.copy(), labels.copy()) for images, labels in loader]\n"
        "    for _ in range(int(sys.argv[2])):\n"
        "        index.write_bytes(data)\n"
        "        with loader_of(hr.Dataset(packed)) as loader:\n"
        "            faulthandler.enable()\n"
        "            def cut():\n"
        "                time.sleep(place.random() * 0.02)\n"
        "                os.truncate(index, place.randrange(len(data)))\n"
        "            cutter = threading.Thread(target=cut)\n"
        "            cutter.start()\n"
        "            try:\n"
        "                for _ in range(50):\n"
        "                    loader.set_epoch(0)\n"
        "                    for batch, expected in zip(loader, right, strict=True):\n"
        "                        for a, b in zip(batch, expected): assert (a == b).all()\n"
        "                        seen += 1\n"
        "            except hr.errors.TruncatedError as error:\n"
        "                failed += '.arrow' in str(error)\n"
        "            cutter.join()\n"
        "            faulthandler.disable()\n"
        "    print(failed, seen > 0)\n"
    )
    epochs = repeat.times(40)
    assert processes.run(code, packed, epochs, timeout=100 + 5 * epochs) == f"{epochs} True\n"


def test_a_lost_page_of_an_index_is_survived_below_a_handler_that_came_since_the_last_read(
    folder: Path, tmp_path: Path
) -> None:
    """faulthandler's handler is the first to know of it, prints it and raises the signal again."""
    packed = tmp_path / "late.hr"
    hr.pack(folder, packed)
    code = EPOCHS + (
        "    import ctypes, pathlib\n"
        "    dataset = hr.Dataset(sys.argv[1])\n"
        "    faulthandler.enable()\n"
        "    (index,) = pathlib.Path(sys.argv[1]).resolve().glob('*.arrow')\n"
        "    maps = pathlib.Path('/proc/self/maps').read_text().splitlines()\n"
        "    start = next(int(line.split('-')[0], 16) for line in maps if str(index) in line)\n"
        "    os.truncate(index, 0)\n"
        "    print(ctypes.string_at(start, 4))\n"
        "    try: dataset[0]\n"
        "    except hr.errors.TruncatedError as error: print('.arrow' in str(error))\n"
    )
    process = processes.start(code, packed)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "b'\\x00\\x00\\x00\\x00'\nTrue\n"), err
    assert err.count("Fatal Python error: Bus error") == 1


def test_a_bus_error_that_somebody_sends_ends_the_process_below_a_new_handler(
    folder: Path, tmp_path: Path
) -> None:
    """faulthandler's handler raises it again, as it does a lost page's; no access repeats it."""
    packed = tmp_path / "sent.hr"
    hr.pack(folder, packed)
    code = EPOCHS + (
        "    dataset = hr.Dataset(sys.argv[1])\n"
        "    faulthandler.enable()\n"
        "    os.kill(os.getpid(), signal.SIGBUS)\n"
        "    time.sleep(1)\n"
        "    print('behind')\n"
    )
    process = processes.start(code, packed)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (-signal.SIGBUS, ""), err
    assert err.count("Fatal Python error: Bus error") == 1


@pytest.mark.parametrize("when", ["before", "after", "never", "disabled"])
def test_a_bus_error_of_the_program_itself_ends_it_as_without_a_loader(
    folder: Path, tmp_path: Path, when: str
) -> None:
    packed = tmp_path / "own.hr"
    hr.pack(folder, packed)
    enable = "faulthandler.enable()"
    code = EPOCHS + (
        f"    {enable if when == 'before' else 'pass'}\n"
        "    import mmap\n"
        "    loader = loader_of(hr.Dataset(sys.argv[1], backend='mmap'))\n"
        "    checksum(loader, 1)\n"
        f"    {enable if when in ('after', 'disabled') else 'pass'}\n"
        "    checksum(loader, 1)\n"
        f"    {'faulthandler.disable()' if when == 'disabled' else 'pass'}\n"
        "    with open(sys.argv[2], 'r+b') as file:\n"
        "        file.truncate(4096)\n"
        "        own = mmap.mmap(file.fileno(), 0)\n"
        "        file.truncate(0)\n"
        "    print('before', flush=True)\n"
        "    own[0]\n"
        "    print('behind', flush=True)\n"
    )
    own = tmp_path / "own"
    own.touch()
    process = processes.start(code, packed, own)
    out, err = process.communicate(timeout=60)
    assert out == "before\n"
    assert process.returncode == -signal.SIGBUS
    assert err.count("Fatal Python error: Bus error") == (when in ("before", "after"))


def test_a_bus_signal_that_is_sent_goes_to_the_programs_own_handler_each_time(
    folder: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "sent.hr"
    hr.pack(folder, packed)
    code = EPOCHS + (
        "    count = 0\n"
        "    def counted(*_):\n"
        "        global count\n"
        "        count += 1\n"
        "    loader = loader_of(hr.Dataset(sys.argv[1], backend='mmap'))\n"
        "    before = checksum(loader, 1)\n"
        "    signal.signal(signal.SIGBUS, counted)\n"
        "    loader.set_epoch(0)\n"
        "    assert checksum(loader, 1) == before\n"
        "    for number in range(1, 4):\n"
        "        os.kill(os.getpid(), signal.SIGBUS)\n"
        "        time.sleep(0.01)\n"
        "        assert count == number, count\n"
        "    print('done')\n"
    )
    assert processes.run(code, packed) == "done\n"


def test_ranks_that_are_killed_and_restarted_from_their_states_have_each_sample_once(
    folder: Path,
) -> None:
    """Four ranks; each is killed at a different batch and started again from its last state."""
    code = f"""
    import json, os, random, signal, sys, time
    sys.path.insert(0, {str(HERE)!r})
    import repeat
    import headrace as hr
    place = random.Random(sys.argv[2])
    def rank_from(rank, state, out):
        steps = [hr.transforms.RandomResizedCrop(8)]
        with hr.Loader(sys.argv[1], 3, shuffle=True, transform=steps, fields=["index"], seed=9,
                       output="numpy", rank=rank, world_size=4) as loader:
            if state: loader.load_state_dict(state)
            for _, _, more in loader:
                line = json.dumps([more["index"].tolist(), loader.state_dict()]) + "\\n"
                os.write(out, line.encode())
                time.sleep(0.01)
    found = []
    for rank in range(4):
        state, done = None, False
        while not done:
            mine, out = os.pipe()
            child = os.fork()
            if child == 0:
                rank_from(rank, state, out)
                os._exit(0)
            os.close(out)
            most = place.randrange(1, 6)
            with os.fdopen(mine) as lines:
                for line in lines:
                    indices, state = json.loads(line)
                    found += indices
                    most -= 1
                    if most == 0: break
                done = state["epoch"] == 1
                if not done: os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    print(json.dumps(found))
    """
    for number in range(repeat.times(1)):
        found = json.loads(processes.run(code, folder, number, timeout=200))
        assert sorted(found) == list(range(120)), number


def test_a_killed_consumer_leaves_no_process_and_no_file(folder: Path) -> None:
    count = repeat.times(30)
    code = f"""
    import os, signal, sys, threading
    sys.path.insert(0, {str(HERE)!r})
    import repeat
    import headrace as hr
    number = repeat.children(int(sys.argv[2]))
    steps = [hr.transforms.RandomResizedCrop(48)]
    loader = hr.Loader(sys.argv[1], 8, transform=steps, num_threads=2, output="numpy")
    next(iter(loader))
    def end():
        repeat.mark()
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Timer(0.005 * (number % 7), end).start()
    while True: list(loader)
    """

    def kill() -> None:
        ended = repeat.endings(processes.run(code, folder, count, timeout=110 + 3 * count))
        assert [one.status for one in ended] == [-9] * count
        assert sorted(one.seconds for one in ended)[count // 4] < 1

    assert "" in processes.left_in_dev_shm(kill)


def test_an_exception_of_a_signal_handler_while_a_batch_is_released_is_not_lost(
    folder: Path,
) -> None:
    code = """
    import random, signal, sys, time
    import headrace as hr
    class Interrupted(Exception): pass
    def arrived(*_): raise Interrupted
    signal.signal(signal.SIGALRM, arrived)
    steps, lost = [hr.transforms.Resize((8, 8))], 0
    with hr.Loader(sys.argv[1], 1, transform=steps, output="numpy", num_threads=2) as loader:
        for _ in loader: pass
        for _ in range(300):
            end = time.monotonic() + 5
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(0.001, 0.004))
                while time.monotonic() < end:
                    for batch in loader: pass
                lost += 1
                break
            except Interrupted: pass
    print(lost)
    """
    assert processes.run(code, folder, timeout=100).split() == ["0"]
