"""Traces: the Trace Event Format's JSON array, checked by its description and opened by Perfetto.

Perfetto's trace processor comes as WebAssembly in a wheel (trace_processor.py). As a program its
Python package downloads it when it is first used: one test runs that where it can be had, or where
TRACE_PROCESSOR says its path.
"""

from __future__ import annotations

import collections
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
import trace_processor
from headrace import errors
from images import plain_tree
from opening import Photographs

CROP = [hr.transforms.RandomResizedCrop(32), hr.transforms.ColorJitter(0.4)]
SPANS = {"sample", "read", "checksum", "decode", "ops", "write", "wait", "next"}
COUNTERS = {"batches ready", "batches open", "records queued", "bytes read", "bytes a second"}
Event = dict[str, Any]


def read(path: str | Path) -> list[Event]:
    """The events of a trace; each must have what the format requires for its phase."""
    events: list[Event] = json.loads(Path(path).read_text())
    needed = {"M": {"args"}, "C": {"ts", "args"}, "X": {"ts", "dur", "args"}, "i": {"ts", "s"}}
    for event in events:
        assert {"name", "ph", "pid", "tid"} | needed[event["ph"]] == set(event)
    return events


def spans(events: list[Event], name: str | None = None) -> list[Event]:
    return [e for e in events if e["ph"] == "X" and name in (None, e["name"])]


def assert_nested(events: list[Event]) -> None:
    """Of two spans of a thread one holds the other, or they do not overlap, as the format
    requires."""
    for _, ours in itertools.groupby(
        sorted(spans(events), key=lambda e: (e["tid"], e["ts"], -e["dur"])), lambda e: e["tid"]
    ):
        around: list[float] = []
        for event in ours:
            begin, end = event["ts"], event["ts"] + event["dur"]
            while around and around[-1] <= begin + 5e-4:
                around.pop()
            # Nanoseconds, as binary floats of microseconds since the machine started.
            assert not around or end <= around[-1] + 5e-4, event
            around.append(end)


def samples_of(events: list[Event], epoch: int) -> collections.Counter[tuple[int, int]]:
    return collections.Counter(
        (e["args"]["batch"], e["args"]["row"])
        for e in spans(events, "sample")
        if e["args"]["epoch"] == epoch
    )


def test_a_trace_has_each_sample_once_and_the_spans_of_a_thread_nest(
    packed: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run.json"
    loader = hr.Loader(packed, 8, transform=CROP, output="numpy", shuffle=True, num_threads=2)
    with loader:
        for _ in loader:  # so that work from before the trace is over
            pass
        assert loader.trace(path) == str(path)
        loader.set_epoch(5)
        order = [int(index) for _, labels in loader for index in labels]
        assert len(order) == 24
    events = read(path)
    assert samples_of(events, 5) == {(batch, row): 1 for batch in range(3) for row in range(8)}
    mine = [e for e in spans(events) if e["args"]["epoch"] == 5]
    assert {e["name"] for e in mine} == SPANS
    # There is one decode for each sample, inside of its span.
    assert sum(e["name"] == "decode" for e in mine) == 24
    assert_nested(events)
    for name in ("next", "wait"):
        assert [e["args"]["batch"] for e in mine if e["name"] == name] == [0, 1, 2]
    for wait, around in zip(spans(events, "wait"), spans(events, "next"), strict=True):
        assert around["ts"] <= wait["ts"]
        assert wait["tid"] == around["tid"]
    by_batch = [
        min(e["ts"] for e in mine if e["name"] == "sample" and e["args"]["batch"] == batch)
        for batch in range(3)
    ]
    assert by_batch == sorted(by_batch)
    counted = {e["name"] for e in events if e["ph"] == "C"}
    assert counted == COUNTERS
    named = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert f"thread {threading.get_native_id()}" in named.values()
    # One of the two threads may have done all of the work.
    assert {named[e["tid"]] for e in spans(events, "sample")} <= {"decode 0", "decode 1"}


def test_the_parts_of_a_sample_are_measured_and_fill_its_span(packed: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with hr.Loader(packed, 8, transform=CROP, output="numpy", num_threads=1) as loader:
        loader.trace(path)
        for _ in range(4):
            for _ in loader:
                pass
    events = read(path)
    took = {
        name: sum(e["dur"] for e in spans(events, name))
        for name in (*SPANS - {"wait", "next"}, "sample")
    }
    assert all(took.values())
    parts = sum(took.values()) - took["sample"]
    assert 0.5 * took["sample"] < parts <= took["sample"]
    assert took["decode"] > took["checksum"]


def shell() -> str:
    """Perfetto's trace processor, which its package from PyPI downloads at first use."""
    pytest.importorskip("perfetto", reason="the package perfetto is not installed")
    from perfetto.prebuilts.manifests.trace_processor_shell import TRACE_PROCESSOR_SHELL_MANIFEST
    from perfetto.prebuilts.perfetto_prebuilts import get_perfetto_prebuilt

    if told := os.environ.get("TRACE_PROCESSOR"):
        return told
    try:
        return str(get_perfetto_prebuilt(TRACE_PROCESSOR_SHELL_MANIFEST))
    except Exception as failure:
        pytest.skip(f"Perfetto's trace processor cannot be fetched here: {failure}")


# Events that Perfetto lost, did not understand or reported as errors.
REFUSED = "select name, value from stats where severity != 'info' and value > 0"


@pytest.fixture(scope="module")
def traced(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traced") / "run.json"
    with hr.Loader(packed, 8, transform=CROP, output="numpy", num_threads=2) as loader:
        loader.trace(path)
        for epoch in range(3):
            loader.set_epoch(epoch)
            list(loader)
    return path


def test_perfetto_reads_every_event_of_a_trace_and_nests_them_as_they_ran(traced: Path) -> None:
    slices, refused, counters, threads, nested = trace_processor.query(
        traced,
        "select name, count(*) as n from slice group by name",
        REFUSED,
        "select distinct name from counter_track",
        "select name from thread where name is not null",
        "select s.name, p.name as around, count(*) as n from slice s left join slice p "
        "on s.parent_id = p.id group by s.name, p.name",
    )
    events = read(traced)
    assert {row.name: row.n for row in slices} == collections.Counter(
        event["name"] for event in spans(events)
    )
    assert [(row.name, row.value) for row in refused] == []
    assert {row.name for row in counters} == {f"{name} value" for name in COUNTERS}
    named = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert named <= {row.name for row in threads}
    around = {"wait": "next", "next": None, "sample": None}
    around |= dict.fromkeys(("read", "checksum", "decode", "ops", "write"), "sample")
    assert {(row.name, row.around) for row in nested} == set(around.items())


def test_perfetto_reads_the_trace_of_a_process_that_was_killed(
    traced: Path, tmp_path: Path
) -> None:
    whole = traced.read_text()
    path = tmp_path / "run.json"
    path.write_text(whole[: whole.rindex(",\n{")])  # the last event and the end are missing
    slices, refused = trace_processor.query(path, "select count(*) as n from slice", REFUSED)
    assert slices[0].n >= len(spans(read(traced))) - 1
    assert [(row.name, row.value) for row in refused] == []


def test_perfettos_own_program_opens_a_trace(packed: Path, tmp_path: Path) -> None:
    program = shell()
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    path = tmp_path / "run.json"
    with hr.Loader(packed, 8, transform=CROP, output="numpy", num_threads=2) as loader:
        list(loader)
        loader.trace(path)
        loader.set_epoch(5)
        list(loader)
    with TraceProcessor(trace=str(path), config=TraceProcessorConfig(bin_path=program)) as opened:
        samples = opened.query("select count(*) as n from slice where name = 'sample'")
        assert next(iter(samples)).n == len(spans(read(path), "sample"))
        assert list(opened.query(REFUSED)) == []


def test_a_trace_ends_on_request_and_the_loader_goes_on(packed: Path, tmp_path: Path) -> None:
    with hr.Loader(packed, 8, transform=CROP, output="numpy") as loader:
        first = loader.trace(tmp_path / "run.json")
        assert first is not None
        for _ in loader:
            pass
        assert loader.trace(None) is None
        whole = Path(first).read_bytes()
        for _ in loader:
            pass
        assert Path(first).read_bytes() == whole
        read(first)
        assert loader.trace(tmp_path / "run.json") == str(tmp_path / "run-2.json")
    read(tmp_path / "run-2.json")
    with pytest.raises(errors.ClosedError):
        loader.trace(tmp_path / "later.json")
    assert not (tmp_path / "later.json").exists()


def test_the_environment_variable_traces_each_loader(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_TRACE", str(tmp_path / "run.json"))
    dataset = hr.Dataset(packed)
    with dataset, hr.Loader(dataset, 8, transform=CROP, output="numpy") as first:
        for _ in first:
            pass
        crops = [hr.transforms.RandomResizedCrop(32)]
        second = hr.DataLoader(dataset, batch_size=6, transform=crops)
        assert sum(len(labels) for _, labels in second) == 24
        second.close()
    found = read(tmp_path / "run-2.json")
    assert len(spans(found, "sample")) == 24
    assert [e["args"]["batch"] for e in spans(found, "next")] == [0, 1, 2, 3]
    assert_nested(found)
    assert samples_of(read(tmp_path / "run.json"), 0) == {
        (batch, row): 1 for batch in range(3) for row in range(8)
    }
    monkeypatch.setenv("HEADRACE_TRACE", str(tmp_path))
    with pytest.warns(UserWarning, match="no trace is written: "):
        hr.Loader(packed, 8, transform=CROP, output="numpy").close()


def test_a_dataloader_that_torch_reads_for_has_no_trace_and_says_so(tmp_path: Path) -> None:
    loader: Any = hr.DataLoader([1, 2, 3])
    with pytest.raises(errors.UnsupportedError, match=r"explain\(\) says why"):
        loader.trace(tmp_path / "run.json")
    assert loader.trace(None) is None


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("by", ["trace", "environment"])
def test_a_trace_has_the_images_that_a_datasets_own_code_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, by: str
) -> None:
    root, path = plain_tree(tmp_path / "photos", 12, 3), tmp_path / "run.json"
    if by == "environment":
        monkeypatch.setenv("HEADRACE_TRACE", str(path))
    loader = hr.DataLoader(Photographs(root), 4, num_workers=workers)
    if by == "trace":
        assert loader.trace(path) is None  # it begins with the first image
    for _ in range(2):
        assert sum(len(labels) for _, labels in loader) == 12
    loader.close()
    events = read(path)
    assert samples_of(events, 0) == {(batch, row): 1 for batch in range(6) for row in range(4)}
    assert_nested(events)
    # The first call began before it was known that there would be an image.
    assert [e["args"]["batch"] for e in spans(events, "next")] == list(range(1, 6))
    assert [e["args"]["batch"] for e in spans(events, "wait")] == list(range(6))
    assert {"decode", "write"} <= {e["name"] for e in spans(events)}
    assert {e["name"] for e in events if e["ph"] == "C"} == COUNTERS


def test_a_trace_of_a_datasets_own_code_ends_on_request(tmp_path: Path) -> None:
    root = plain_tree(tmp_path / "photos", 12, 3)
    loader = hr.DataLoader(Photographs(root), 4)
    list(loader)
    name = loader.trace(tmp_path / "run.json")
    assert name == str(tmp_path / "run.json")
    list(loader)
    assert loader.trace(None) is None
    whole = Path(name).read_bytes()
    list(loader)
    loader.close()
    assert Path(name).read_bytes() == whole
    assert len(spans(read(name), "sample")) == 12


def test_each_image_of_a_run_of_array_images_has_a_span(tmp_path: Path) -> None:
    images = np.zeros((300, 20, 20, 3), np.uint8)
    with hr.Loader(
        hr.Dataset.from_arrays(images, range(300)), 100, output="numpy", num_threads=1
    ) as loader:
        loader.trace(tmp_path / "run.json")
        loader.set_epoch(5)
        for _ in loader:
            pass
    events = read(tmp_path / "run.json")
    rows = [
        (e["args"]["batch"], e["args"]["row"])
        for e in spans(events, "decode")
        if e["args"]["epoch"] == 5
    ]
    assert sorted(rows) == [(batch, row) for batch in range(3) for row in range(100)]
    assert_nested(events)


def test_a_bad_sample_is_marked(packed: Path, tmp_path: Path) -> None:
    with hr.Dataset(packed) as dataset:
        data = [b"no image", *(bytes(dataset.read(i)) for i in range(3))]
    writer = hr.Writer(tmp_path / "bad")
    for image in data:
        writer.add(image, label=0)
    with pytest.warns(UserWarning, match="1 of 4 samples are damaged or unsupported images"):
        writer.finish()
    with hr.Loader(
        tmp_path / "bad", 4, transform=CROP, output="numpy", on_error="replace"
    ) as loader:
        loader.trace(tmp_path / "run.json")
        loader.set_epoch(5)
        for _ in loader:
            pass
    mine = [e for e in spans(read(tmp_path / "run.json"), "sample") if e["args"]["epoch"] == 5]
    failed = [e["args"]["row"] for e in mine if e["args"].get("failed")]
    assert set(failed) == {0}  # perhaps twice, because it may be its own substitute
    assert len(mine) == 4 + len(failed)


def test_the_parts_of_a_sample_are_those_of_its_image_and_not_of_an_image_label(
    packed: Path, tmp_path: Path
) -> None:
    with hr.Dataset(packed) as dataset, hr.Writer(tmp_path / "set") as writer:
        for number in range(8):
            image = bytes(dataset.read(number))
            writer.add(image, label=0, target=image)
    labels = {"target": hr.transforms.Image()}
    with hr.Loader(tmp_path / "set", 4, transform=CROP, labels=labels, output="numpy") as loader:
        loader.trace(tmp_path / "run.json")
        loader.set_epoch(5)
        for _ in loader:
            pass
    mine = [e for e in spans(read(tmp_path / "run.json")) if e["args"]["epoch"] == 5]
    # The checksum of the label, which is in the index, is not compared.
    for part in ("sample", "checksum", "decode"):
        assert sum(e["name"] == part for e in mine) == 8


PROGRAM = """
import sys
import headrace as hr
loader = hr.Loader(sys.argv[1], 8, transform=[hr.transforms.RandomResizedCrop(32)], output="numpy")
loader.trace(sys.argv[2])
for _ in range(4):
    for _ in loader:
        pass
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("killed", [False, True])
def test_an_unclosed_loader_leaves_a_whole_trace_and_a_killed_program_a_readable_one(
    packed: Path, tmp_path: Path, killed: bool
) -> None:
    path = tmp_path / "run.json"
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(packed), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == b"done\n"
    if killed:
        while path.read_bytes().count(b'"name":"decode"') < 24:
            time.sleep(0.01)
        os.kill(program.pid, signal.SIGKILL)
    program.communicate(b"\n", timeout=60)
    text = path.read_text()
    if killed:
        text += "]"  # which Chrome and Perfetto do not need
    events = json.loads(text)
    assert len(spans(events, "decode")) >= 24
    assert killed or len(spans(events, "next")) == 12


@pytest.mark.parametrize(
    ("path", "failure", "words"),
    [
        (7, errors.ArgumentTypeError, "path=7 is of type int: a path"),
        ("", errors.ArgumentError, "path='': a path"),
        ("/dev/null", errors.ArgumentError, "(expected a regular file)"),
        ("/", OSError, "is a directory"),
        ("/nowhere/run.json", FileNotFoundError, "no such file"),
    ],
)
def test_an_impossible_path_of_a_trace_gives_one_sentence(
    packed: Path, path: Any, failure: type[Exception], words: str
) -> None:
    with hr.Loader(packed, 8, transform=CROP, output="numpy") as loader:
        with pytest.raises(failure) as caught:
            loader.trace(path)
        assert words in str(caught.value)
        assert len(list(loader)) == 3
