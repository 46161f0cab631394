"""Ctrl-C and ``timeout=`` end waits for a store that accepts connections and never answers."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import headrace as hr
import images
from processes import interrupted, start
from remote.stores import Answering, Store
from timing import within

WAITING = """
    import sys
    import headrace as hr
    try:
        with hr.Loader(sys.argv[1], 4, output="numpy",
                       transform=[hr.transforms.Resize((8, 8))]) as loader:
            next(iter(loader))
    except KeyboardInterrupt:
        print("interrupted")
"""


VERIFYING = """
    import sys
    import headrace as hr
    try:
        hr.verify(sys.argv[1])
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("interrupted")
    photos = images.plain_tree(root / "photos", 20)
    hr.pack(photos, root / "train.hr")
    hr.index(photos)
    return root


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("program", "name", "kind"),
    [
        (WAITING, "train.hr", ".json"),
        (WAITING, "train.hr", ".arrow"),
        (WAITING, "train.hr", ".tar"),
        (WAITING, "photos", ".jpg"),
        (VERIFYING, "train.hr", ".json"),
        (VERIFYING, "train.hr", ".arrow"),
        (VERIFYING, "train.hr", ".tar"),
    ],
)
def test_an_interrupt_ends_every_wait_for_a_store_within_a_second(
    root: Path, program: str, name: str, kind: str
) -> None:
    def attempt() -> float:
        store, asked, over = Store(root), threading.Event(), threading.Event()

        def silent(answering: Answering, *_: object) -> bool:
            if kind not in answering.path:
                return False
            asked.set()
            over.wait(60)
            answering.reset()
            return True

        store.fault = silent
        try:
            return interrupted(start(program, store.url(name)), asked)
        finally:
            over.set()
            store.end()

    within(1.0, attempt)


@pytest.mark.parametrize("kind", [".json", ".arrow"])
@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
def test_a_loaders_timeout_ends_the_opening_of_an_address(
    root: Path, kind: str, several: bool
) -> None:
    def attempt() -> float:
        store, over = Store(root), threading.Event()

        def silent(answering: Answering, *_: object) -> bool:
            if kind not in answering.path:
                return False
            over.wait(60)
            answering.reset()
            return True

        store.fault = silent
        url = store.url("train.hr")
        began = time.monotonic()
        try:
            with pytest.raises(hr.errors.WaitTimeoutError, match=r"no answer within 0\.5 s"):
                hr.Loader([url, url] if several else url, 4, output="numpy", timeout=0.5)
            return time.monotonic() - began
        finally:
            over.set()
            store.end()

    within(1.5, attempt)
