"""Every way in which a process that uses Headrace may end: at once, with the right status."""

from __future__ import annotations

from pathlib import Path

import pytest
import repeat

import images
import processes

REPETITIONS = repeat.times(5)
HERE = Path(__file__).parent

PROGRAM = f"""
    import gc, os, signal, sys, threading, time
    sys.path.insert(0, {str(HERE)!r})
    import repeat
    import headrace as hr
    from headrace._engine import _lib
    number = repeat.children(int(sys.argv[2]))

    def loader_of(delay_ms=0, **options):
        opened = _lib.opened
        def delayed(name, config, *rest):
            if name == "hr_loader_open":
                config = dict(config, read_delay_ms=delay_ms)
            return opened(name, config, *rest)
        _lib.opened = delayed
        options = dict(transform=[hr.transforms.RandomResizedCrop(16)], num_threads=2,
                       output="numpy", **options)
        try:
            return hr.Loader(sys.argv[1], 8, **options)
        finally:
            _lib.opened = opened

    def later(seconds, function):
        timer = threading.Timer(seconds, function)
        timer.daemon = True
        timer.start()

    def interrupt():
        repeat.mark()
        os.kill(os.getpid(), signal.SIGINT)

    def forever(loader):
        while True:
            list(loader)
"""

# name -> (what the child does, its status, whether a traceback is expected on stderr)
ENDINGS: dict[str, tuple[str, int, str]] = {
    "without_close": ("next(iter(loader_of())); repeat.mark()", 0, ""),
    "with_an_iterator_under_way": ("it = iter(loader_of()); next(it); repeat.mark()", 0, ""),
    "holding_every_batch": ("held = list(loader_of()); repeat.mark()", 0, ""),
    "before_the_first_batch": ("loader = loader_of(); iter(loader); repeat.mark()", 0, ""),
    "by_sys_exit_in_the_loop": ("for _ in loader_of(): repeat.mark(); sys.exit(7)", 7, ""),
    "by_os_exit": ("it = iter(loader_of()); next(it); repeat.mark(); os._exit(9)", 9, ""),
    "by_an_exception_in_the_loop": (
        "for _ in loader_of(): repeat.mark(); raise ValueError('of the user')",
        1,
        "ValueError: of the user",
    ),
    "by_ctrl_c_while_waiting": (
        "loader = loader_of(delay_ms=2000); later(0.05, interrupt); next(iter(loader))",
        -2,
        "KeyboardInterrupt",
    ),
    "after_a_double_close": (
        "loader = loader_of(); next(iter(loader)); loader.close(); loader.close(); repeat.mark()",
        0,
        "",
    ),
    "after_a_close_during_next": (
        "loader = loader_of(delay_ms=100); later(0.02, loader.close)\n"
        "    try: next(iter(loader)); sys.exit(3)\n"
        "    except hr.errors.ClosedError: repeat.mark()",
        0,
        "",
    ),
    "with_the_loader_in_a_cycle": (
        "c = [loader_of()]; c += [iter(c[0]), c]; next(c[1]); repeat.mark()",
        0,
        "",
    ),
    "with_garbage_that_is_collected_at_shutdown": (
        "class Late:\n"
        "        def __del__(self): self.held.clear(); self.loader.close()\n"
        "    late = Late(); late.me = late; late.loader = loader_of()\n"
        "    late.held = list(late.loader)\n"
        "    gc.disable(); sys.modules['late'] = late; repeat.mark()",
        0,
        "",
    ),
    "while_a_thread_iterates": (
        "threading.Thread(target=forever, args=[loader_of()], daemon=True).start();"
        " time.sleep(0.03); repeat.mark()",
        0,
        "",
    ),
    "while_a_thread_waits": (
        "it = iter(loader_of(delay_ms=2000)); threading.Thread(target=next, args=[it],"
        " daemon=True).start(); time.sleep(0.03); repeat.mark()",
        0,
        "",
    ),
    "from_a_thread_that_made_the_loader": (
        "t = threading.Thread(target=lambda: list(loader_of())); t.start(); t.join();"
        " repeat.mark()",
        0,
        "",
    ),
    "killed_while_it_iterates": (
        "later(0.02 * (number % 5), lambda: (repeat.mark(), os.kill(os.getpid(), 9)));"
        " forever(loader_of())",
        -9,
        "",
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("endings"), 120)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.every(3)
def test_a_process_ends_at_once_with_its_status_and_leaves_nothing(
    folder: Path, ending: str
) -> None:
    body, status, words = ENDINGS[ending]

    def end() -> None:
        code = PROGRAM + "    " + body + "\n"
        process = processes.start(code, folder, REPETITIONS)
        out, err = process.communicate(timeout=130 + 6 * REPETITIONS)
        assert process.returncode == 0, err
        ended = repeat.endings(out)
        assert [one.status for one in ended] == [status] * REPETITIONS, err
        # A busy machine may delay any of them. A hang shows in the status.
        assert sorted(one.seconds for one in ended)[REPETITIONS // 4] < 1
        assert "Fatal Python error" not in err
        assert (err.count(words) == REPETITIONS) if words else (err == ""), err

    assert "" in processes.left_in_dev_shm(end)
