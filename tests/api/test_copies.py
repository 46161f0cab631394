"""Batches that are copied ahead to a device, tested without one: no kernel, no stream.

Streams and pinned memory are stand-ins, and the copies go nowhere; all else is real.
`test_cuda.py` has the rest of it.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import headrace as hr
from headrace import errors
from headrace._batch import lending
from headrace._epoch import devices

EVERY = list(range(24))
CROP = [{"name": "RandomResizedCrop", "size": [20, 24]}]


class Event:
    def query(self) -> bool:
        return False  # nothing is really copied here, so no copy is ever done


class Stream:
    device_index = 0

    def wait_event(self, event: Event) -> None:
        time.sleep(0.0002)  # lets other threads run, as CUDA's own does

    def record_event(self) -> Event:
        return Event()


@pytest.fixture(autouse=True)
def _no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Stream", lambda _: Stream())
    monkeypatch.setattr(torch.cuda, "stream", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: Stream())
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda *_: None)
    monkeypatch.setattr(devices, "resolve", lambda name: name and torch.device("cpu"))
    monkeypatch.setattr(
        lending, "allocator", lambda: lambda size: torch.empty(size, dtype=torch.uint8)
    )


def loader_of(source: Path, device: str | None = "cuda") -> hr.Loader:
    return hr.Loader(source, 2, transform=CROP, fields=["index"], num_threads=2, device=device)


def rows(batch: Any) -> list[int]:
    found: list[int] = batch[2]["index"].tolist()
    return found


def take(batches: Iterator[Any], seen: list[int]) -> None:
    for batch in batches:
        seen += rows(batch)


def settled(batches: Any) -> Any:
    """The same iterator, once the engine has the next batch ready to be copied ahead."""
    epoch = getattr(batches._source, "_epoch", batches._source)
    deadline = time.monotonic() + 20
    while not epoch.ready(epoch._arrivals._at):
        assert time.monotonic() < deadline
    return batches


@pytest.mark.parametrize("device", ["cuda", None])
def test_a_batch_whose_fields_cannot_be_read_is_one_error_at_that_batch(
    packed: Path, device: str | None
) -> None:
    with loader_of(packed, device) as loader:
        view = loader.view

        def failing(batch: Any, left: float | None) -> Any:
            parts = view(batch, left)
            if rows(parts) == [4, 5]:
                raise ValueError("these fields")
            return parts

        loader.view = failing  # type: ignore[method-assign]
        batches = iter(loader)
        seen = rows(next(batches))
        assert loader.state_dict()["position"] == 2
        seen += rows(next(settled(batches)))
        assert loader.state_dict()["position"] == 4
        with pytest.raises(ValueError, match="these fields"):
            next(batches)
        assert loader.state_dict()["position"] == 6
        seen += [row for batch in batches for row in rows(batch)]
        assert seen == [row for row in EVERY if row not in (4, 5)]


def test_an_interrupt_while_a_batch_is_copied_ahead_neither_loses_nor_counts_a_batch(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loader_of(packed) as loader:
        batches = iter(loader)
        seen = rows(next(batches))
        move, calls = devices._to, 0

        def interrupted(part: Any, device: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise KeyboardInterrupt
            return move(part, device)

        settled(batches)
        monkeypatch.setattr(devices, "_to", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(batches)
        assert loader.state_dict()["position"] == len(seen)
        seen += [row for batch in batches for row in rows(batch)]
        assert seen == EVERY


def test_threads_that_share_an_iterator_of_copies_get_each_batch_once(packed: Path) -> None:
    with loader_of(packed) as loader:
        for _ in range(5):
            seen: list[int] = []
            takers = [threading.Thread(target=take, args=(it, seen)) for it in [iter(loader)] * 4]
            for taker in takers:
                taker.start()
            for taker in takers:
                taker.join()
            assert sorted(seen) == EVERY


def test_an_older_iterator_hands_out_no_copy_once_a_newer_one_has_begun(packed: Path) -> None:
    with loader_of(packed) as loader:
        older = iter(loader)
        next(older)
        next(settled(older))
        newer = iter(loader)
        next(newer)
        place = loader.state_dict()
        with pytest.raises(errors.HeadraceError, match="newer iteration"):
            next(older)
        assert loader.state_dict() == place
        assert rows(next(newer)) == [2, 3]


def test_a_trace_has_the_call_that_copies_each_batch(packed: Path, tmp_path: Path) -> None:
    with loader_of(packed) as loader:
        name = loader.trace(tmp_path / "run.json")
        assert name is not None
        list(loader)
    events = json.loads(Path(name).read_text())
    copies = [event for event in events if event["name"] == "copy"]
    assert sorted(event["args"]["batch"] for event in copies) == list(range(12))
    named = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {named[event["tid"]].split()[0] for event in copies} == {"thread"}
