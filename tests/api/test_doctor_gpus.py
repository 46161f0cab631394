"""What ``headrace.doctor`` says of GPUs, with a stand-in for NVIDIA's management library."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headrace as hr
from headrace._doctor import copying, gpus, sentences, verdict

# Two GPUs with nvml.h's functions and structs: one that a training keeps busy 40 and 80 % in turns,
# on half of its PCIe lanes; and one that answers only with its name.
LIBRARY = r"""
#include <string.h>
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned long long total, free, used; } memory;
static int open, asked;
static char one, two;
#ifndef FAILS
#define FAILS 0
#endif
int nvmlInit_v2(void) { if (FAILS) return 9; open++; return 0; }
int nvmlShutdown(void) { return open-- > 0 ? 0 : 1; }
int opened(void) { return open; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return open ? 0 : 1; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
  *device = index == 0 ? &one : &two;
  return index < 2 ? 0 : 2;
}
int nvmlDeviceGetName(void *device, char *name, unsigned length) {
  strncpy(name, device == &one ? "Test 100" : "Silent", length);
  return 0;
}
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length) {
  if (device != &one) return 3;
  strncpy(uuid, "GPU-1", length);
  return 0;
}
int nvmlDeviceGetUtilizationRates(void *device, utilization *found) {
  if (device != &one) return 3;
  found->gpu = asked++ % 2 ? 80 : 40;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, memory *found) {
  if (device != &one) return 3;
  found->total = 80000000000, found->free = 1000000000, found->used = 79000000000;
  return 0;
}
static int number(void *device, unsigned *found, unsigned value) {
  if (device != &one) return 3;
  *found = value;
  return 0;
}
int nvmlDeviceGetCurrPcieLinkWidth(void *d, unsigned *found) { return number(d, found, 8); }
int nvmlDeviceGetMaxPcieLinkWidth(void *d, unsigned *found) { return number(d, found, 16); }
int nvmlDeviceGetCurrPcieLinkGeneration(void *d, unsigned *found) { return number(d, found, 4); }
int nvmlDeviceGetMaxPcieLinkGeneration(void *d, unsigned *found) { return number(d, found, 5); }
int REASONS(void *device, unsigned long long *reasons) {
  if (device != &one) return 3;
  *reasons = 0x1 | 0x4 | 0x20 | 0x40;
  return 0;
}
"""
NOW, BEFORE = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"


def built(folder: Path, *words: str) -> str:
    source, made = folder / "nvml.c", folder / "libnvidia-ml.so.1"
    source.write_text(LIBRARY)
    subprocess.run(["gcc", "-shared", "-fPIC", *words, source, "-o", made], check=True)
    return str(made)


@pytest.fixture(params=[NOW, BEFORE])
def library(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = built(tmp_path, f"-DREASONS={request.param}")
    monkeypatch.setattr(gpus, "LIBRARY", path)
    return path


def test_the_report_has_what_the_management_library_says_of_each_gpu(library: str) -> None:
    first, second = gpus.look()
    assert first == {
        "name": "Test 100",
        "uuid": "GPU-1",
        "busy": 0.4,
        "memory_total": 80_000_000_000,
        "memory_free": 1_000_000_000,
        "link_width": 8,
        "link_width_most": 16,
        "link_generation": 4,
        "link_generation_most": 5,
        "slowed_by": ["its power limit", "its temperature"],
    }
    assert second.pop("name") == "Silent"
    assert second.pop("slowed_by") == []
    assert set(second.values()) == {None}


def test_the_management_library_is_shut_down_as_often_as_it_is_initialised(library: str) -> None:
    import ctypes

    gpus.look()
    watch = gpus.Watch()
    watch.end()
    assert ctypes.CDLL(library).opened() == 0


@pytest.mark.parametrize("words", [("-DFAILS=1", "-DREASONS=none"), None])
def test_without_a_driver_there_are_no_gpus_and_the_report_says_so(
    words: tuple[str, ...] | None, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "libnvidia-ml.so.1") if words is None else built(tmp_path, *words)
    monkeypatch.setattr(gpus, "LIBRARY", path)
    assert gpus.look() == gpus.Watch().end() == []
    found = hr.doctor(folder, rate=0.001, seconds=1, size=16)
    assert (found.measured["copy"], found.measured["gpus"]) == (None, [])
    assert any("the copy to a GPU was not measured: " in note for note in found.notes)


@pytest.mark.slow
def test_a_gpu_is_watched_while_the_training_runs(library: str) -> None:
    batches = [np.zeros((4, 3, 8, 8))] * 3
    found = hr.doctor(batches, lambda batch: threading.Event().wait(0.02), seconds=3)
    first, _ = found.measured["gpus"]
    assert 0.4 <= first["busy"] <= 0.8
    for said in (
        "GPU 0 (Test 100) is linked by 8 of 16 PCIe lanes",
        "GPU 0 (Test 100) is linked by PCIe 4 where 5 is possible",
        "GPU 0 (Test 100) is slowed down by its power limit and its temperature",
        "GPU 0 (Test 100) has 1.0 GB of its 80.0 GB of memory left",
    ):
        assert said in found.notes
    assert any(note.startswith("GPU 0 (Test 100) was busy ") for note in found.notes)


def test_without_a_step_a_gpu_may_be_idle_and_only_its_lanes_are_noted(
    library: str, folder: Path
) -> None:
    found = hr.doctor(folder, rate=0.001, seconds=1, size=16)
    said = [note for note in found.notes if note.startswith("GPU")]
    assert said == ["GPU 0 (Test 100) is linked by 8 of 16 PCIe lanes"]
    if not torch.cuda.is_available():
        assert "the copy to a GPU was not measured: PyTorch sees no CUDA device" in found.notes


def test_without_torch_the_copy_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(copying, "find_spec", lambda name: None)
    rate, why = copying.rate(1000, 8, 0.1)
    assert rate is None
    assert why.endswith("PyTorch is not installed")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is here")
def test_the_copy_to_a_gpu_has_a_rate() -> None:
    rate, why = copying.rate(3 * 224 * 224 * 4, 64, 0.2)
    assert rate is not None
    assert rate > 1000
    assert why == ""


def test_a_copy_that_is_the_slowest_stage_is_the_limit() -> None:
    stages = {"storage": 9e3, "decoding": 5e3, "delivery": 9e4, "copy": 1e3, "training": None}
    assert verdict.limit(stages, None) == ("copy", 1000)
    facts: dict[str, Any] = {"limit": "copy", "asked": {"rate": 5885.0}, "remedies": []}
    facts |= {"measured": {"images_per_second": 1000.0, **stages}, "notes": []}
    assert sentences.lines(facts)[0] == "copy: 1,000 images/s of the 5,885 asked for"
