"""Forks before and after first use, other ways to start a process, and DataLoader's workers."""

from __future__ import annotations

from pathlib import Path

import pytest
import repeat

import forking
import images
import processes

HERE = Path(__file__).parent
# Each child, worker or epoch is one more chance for a race: a few here, a hundred in stress.
REPETITIONS = repeat.times(12)
COMMON = f"""
    import multiprocessing, os, sys, time
    sys.path.insert(0, {str(HERE)!r})
    import repeat
    import headrace as hr
    steps = [hr.transforms.RandomResizedCrop(8)]
    def loader_of():
        return hr.Loader(sys.argv[1], 8, transform=steps, num_threads=2, output="numpy")
    def refused(*uses):
        begun = time.monotonic()
        for use in uses:
            try:
                use()
            except hr.errors.ForkedError as error:
                assert isinstance(error, hr.HeadraceError) and "fork" in str(error)
            else:
                os._exit(4)
        if time.monotonic() - begun > 1:
            os._exit(5)
"""


def test_a_child_forked_while_another_thread_loads_the_library_is_refused_at_once(
    folder: Path,
) -> None:
    code = COMMON + (
        "    import threading\n"
        "    from headrace._engine import _lib\n"
        "    load, half, go_on = _lib._load, threading.Event(), threading.Event()\n"
        "    def slowly():\n"
        "        half.set()\n"
        "        assert go_on.wait(20)\n"
        "        return load()\n"
        "    _lib._load = slowly\n"
        "    thread = threading.Thread(target=loader_of)\n"
        "    thread.start()\n"
        "    assert half.wait(20)\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        refused(loader_of)\n"
        "        os._exit(0)\n"
        "    assert os.waitpid(child, 0) == (child, 0)\n"
        "    go_on.set()\n"
        "    thread.join()\n"
        "    with loader_of() as loader:\n"
        "        print(len(list(loader)))\n"
    )
    assert processes.run(code, folder, timeout=60) == "3\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("forks"), 24)


@pytest.mark.slow
def test_children_forked_before_first_use_may_use_headrace(
    folder: Path, forked: forking.Parent
) -> None:
    code = COMMON + (
        "    repeat.children(int(sys.argv[2]))\n"
        "    with loader_of() as loader:\n"
        "        count = len(list(loader))\n"
        "    repeat.mark()\n"
        "    sys.exit(count)\n"
    )
    ended = repeat.endings(processes.run(code, folder, REPETITIONS, timeout=200))
    assert [one.status for one in ended] == [3] * REPETITIONS
    assert sorted(one.seconds for one in ended)[REPETITIONS // 4] < 1


def test_children_forked_after_first_use_are_refused_at_once_and_the_parent_goes_on(
    folder: Path,
) -> None:
    """Children of os.fork that end by sys.exit, by reaching the end, and by os._exit."""
    code = COMMON + (
        "    loader = loader_of()\n"
        "    dataset = hr.Dataset(sys.argv[1])\n"
        "    def endless():\n"
        "        while True: yield from loader\n"
        "    batches = endless()\n"
        "    held = next(batches)\n"
        "    for number in range(int(sys.argv[2])):\n"
        "        iterator = iter(loader)\n"
        "        next(iterator)\n"
        "        begun = time.monotonic()\n"
        "        child = os.fork()\n"
        "        if child == 0:\n"
        "            refused(lambda: next(iterator), loader_of, lambda: dataset[0], loader.stats)\n"
        "            loader.close(); del held, iterator\n"
        "            if number % 3 == 0: sys.exit(0)\n"
        "            if number % 3 == 1: os._exit(0)\n"
        "            break\n"
        "        assert os.waitpid(child, 0)[1] == 0, number\n"
        "        assert time.monotonic() - begun < 20\n"
        "        assert len(next(iterator)[1]) == 8\n"
        "    else:\n"
        "        print('went on', len(list(loader)))\n"
    )
    out = processes.run(code, folder, REPETITIONS, timeout=200)
    assert out == "went on 3\n"


def test_processes_forked_by_multiprocessing_are_refused_and_the_parent_goes_on(
    folder: Path,
) -> None:
    code = COMMON + (
        "    loader = loader_of()\n"
        "    next(iter(loader))\n"
        "    fork = multiprocessing.get_context('fork')\n"
        "    for number in range(int(sys.argv[2])):\n"
        "        child = fork.Process(target=refused, args=[loader_of, lambda: list(loader)])\n"
        "        child.start()\n"
        "        child.join(20)\n"
        "        assert child.exitcode == 0, (number, child.exitcode)\n"
        "    print(len(list(loader)))\n"
    )
    assert processes.run(code, folder, REPETITIONS, timeout=200) == "3\n"


# Each spawned process is an interpreter of its own, and imports everything anew.
@pytest.mark.parametrize(
    ("method", "count"), [("forkserver", REPETITIONS), ("spawn", repeat.times(4))]
)
def test_processes_from_spawn_or_forkserver_may_use_headrace(
    folder: Path, tmp_path: Path, method: str, count: int
) -> None:
    program = tmp_path / "child_of.py"
    program.write_text(
        "import headrace as hr\n"
        "def use(loader_arguments, dataset):\n"
        "    with hr.Loader(**loader_arguments) as loader:\n"
        "        assert len(list(loader)) == 3\n"
        "    assert len(dataset) == 24\n"
    )
    code = COMMON + (
        "    sys.path.insert(0, sys.argv[2])\n"
        "    import child_of\n"
        "    context = multiprocessing.get_context(sys.argv[3])\n"
        "    context.set_forkserver_preload(['child_of', 'headrace.loader'])\n"
        "    loader, dataset = loader_of(), hr.Dataset(sys.argv[1])\n"
        "    next(iter(loader))\n"
        "    given = dict(dataset=sys.argv[1], batch_size=8, transform=steps, output='numpy')\n"
        "    count = int(sys.argv[4])\n"
        "    for begin in range(0, count, 4):\n"
        "        some = [context.Process(target=child_of.use, args=(given, dataset))\n"
        "                for _ in range(4)]\n"
        "        for one in some: one.start()\n"
        "        for one in some: one.join(60)\n"
        "        assert [one.exitcode for one in some] == [0] * 4\n"
        "    print(len(list(loader)))\n"
    )
    assert processes.run(code, folder, tmp_path, method, count, timeout=100 + 20 * count) == "3\n"


def test_dataloaders_forked_workers_are_refused_each_time_and_the_parent_goes_on(
    folder: Path, forked: forking.Parent
) -> None:
    code = COMMON + (
        "    import torch\n"
        "    torch.set_num_threads(1)\n"
        "    dataset = hr.Dataset(sys.argv[1])\n"
        "    loader = loader_of()\n"
        "    next(iter(loader))\n"
        "    for number in range(int(sys.argv[2])):\n"
        "        workers = torch.utils.data.DataLoader(dataset, batch_size=8, num_workers=1,\n"
        "                                              multiprocessing_context='fork')\n"
        "        try:\n"
        "            next(iter(workers))\n"
        "        except hr.HeadraceError as error:\n"
        "            assert 'fork' in str(error)\n"
        # torch's error holds itself and torch's iterator. If both are collected at once, the queue
        # that tells the workers to end may go first, and then the iterator waits five seconds for
        # each.
        "            error.__traceback__ = None\n"
        "        else:\n"
        "            sys.exit(4)\n"
        "    print(len(list(loader)))\n"
    )
    assert forked.run(code, folder, repeat.times(5), timeout=280) == "3\n"


@pytest.mark.slow
def test_forked_workers_of_an_iterable_dataset_split_every_epoch(
    folder: Path, forked: forking.Parent
) -> None:
    code = COMMON + (
        "    import torch\n"
        "    torch.set_num_threads(1)\n"
        "    batches = hr.IterableDataset(sys.argv[1], 5, transform=steps, shuffle=True,\n"
        "                                 fields=['index'], num_threads=1)\n"
        "    loader = torch.utils.data.DataLoader(batches, batch_size=None, num_workers=2,\n"
        "                                         multiprocessing_context='fork')\n"
        "    epochs = [[i for *_, more in loader for i in more['index'].tolist()]\n"
        "              for _ in range(int(sys.argv[2]))]\n"
        "    assert all(sorted(epoch) == list(range(24)) for epoch in epochs)\n"
        "    assert len({tuple(epoch) for epoch in epochs}) == int(sys.argv[2])\n"
        "    print('each once')\n"
    )
    assert forked.run(code, folder, REPETITIONS, timeout=280) == "each once\n"


@pytest.mark.parametrize(
    ("method", "count"),
    [
        ("forkserver", repeat.times(2)),
        pytest.param("spawn", repeat.times(2), marks=pytest.mark.slow),
    ],
)
def test_spawned_or_forkserver_workers_of_an_iterable_dataset_split_every_epoch(
    folder: Path, forked: forking.Parent, method: str, count: int
) -> None:
    """Each epoch has two new workers. The parent uses the engine too, and nothing is left of
    them."""
    code = COMMON + (
        "    import gc, torch\n"
        "    torch.set_num_threads(1)\n"
        "    def held():\n"
        "        gc.collect()\n"
        "        with open(f'/proc/self/task/{os.getpid()}/children') as mine:\n"
        "            return len(os.listdir('/proc/self/fd')), len(mine.read().split())\n"
        "    multiprocessing.set_forkserver_preload(['headrace.torch'])\n"
        "    mine = loader_of()\n"
        "    next(iter(mine))\n"
        "    batches = hr.IterableDataset([sys.argv[1]], 5, transform=steps, shuffle=True,\n"
        "                                 fields=['index'], num_threads=1)\n"
        "    loader = torch.utils.data.DataLoader(batches, batch_size=None, num_workers=2,\n"
        "                                         multiprocessing_context=sys.argv[2])\n"
        "    def epoch():\n"
        "        return tuple(i for *_, more in loader for i in more['index'].tolist())\n"
        "    epochs = [epoch()]\n"
        "    before = held()\n"
        "    epochs += [epoch() for _ in range(int(sys.argv[3]) - 1)]\n"
        "    until = time.monotonic() + 10\n"
        "    def more(): return any(now > then for now, then in zip(held(), before))\n"
        "    while more() and time.monotonic() < until: time.sleep(0.05)\n"
        "    assert not more(), (held(), before)\n"
        "    assert all(sorted(epoch) == list(range(24)) for epoch in epochs)\n"
        "    assert len(set(epochs)) == len(epochs) == int(sys.argv[3])\n"
        "    print(len(list(mine)))\n"
    )
    assert forked.run(code, folder, method, count, timeout=120 + 15 * count) == "3\n"
