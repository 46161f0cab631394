"""What NVIDIA's management library says of the GPUs here: how busy they are, and what slows them.

``libnvidia-ml`` comes with the driver. It is opened when it is needed and never linked, because
most machines that decode images have none. What a GPU does not report is None.
"""

from __future__ import annotations

import ctypes
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
_EVERY = 0.2  # seconds; the driver's own sample period is 1/6 s to 1 s
_UUID_BYTES, _NAME_BYTES = 80, 96
_MOST = 64  # GPUs

# The reasons of nvmlClocksEventReasons that slow a GPU while it has work (nvml.h).
_SLOWED = {
    0x04: "its power limit",
    0x08: "its hardware's protection",
    0x20: "its temperature",
    0x40: "its temperature",
    0x80: "its power supply",
    0x400: "its reliability policy",
}


class _Utilisation(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


def look() -> list[dict[str, Any]]:
    """Returns the GPUs of this machine as they are now; none if there is no driver.

    Returns:
        for each ``name``, ``uuid``; ``busy``, the share of the last sample period in which a kernel
        ran; ``memory_total`` and ``memory_free`` in bytes; ``link_width`` and ``link_width_most``
        in lanes, ``link_generation`` and ``link_generation_most`` of PCIe; and ``slowed_by``, what
        holds its clock down.
    """
    with _opened() as library:
        return [] if library is None else [_facts(library, one) for one in _devices(library)]


class Watch:
    """Asks repeatedly, in a thread of its own, until ``end``."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._found: list[list[dict[str, Any]]] = []
        self._thread = threading.Thread(target=self._run, name="headrace-gpus", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with _opened() as library:
            if library is None:
                return
            devices = _devices(library)
            while not self._over.wait(_EVERY):
                self._found.append([_facts(library, one) for one in devices])

    def end(self) -> list[dict[str, Any]]:
        """Returns what ``look`` does: the last facts, with ``busy`` over the whole time and
        everything that slowed."""
        self._over.set()
        self._thread.join()
        return [_together(list(seen)) for seen in zip(*self._found, strict=True)]


def _together(seen: list[dict[str, Any]]) -> dict[str, Any]:
    busy = [one["busy"] for one in seen if one["busy"] is not None]
    reasons = {reason for one in seen for reason in one["slowed_by"]}
    return seen[-1] | {
        "busy": statistics.mean(busy) if busy else None,
        "slowed_by": sorted(reasons),
    }


@contextmanager
def _opened() -> Iterator[ctypes.CDLL | None]:
    library: ctypes.CDLL | None = None
    try:
        found = ctypes.CDLL(LIBRARY)
        library = found if found.nvmlInit_v2() == 0 else None
    except (OSError, AttributeError):  # no driver, or one older than ten years
        pass
    try:
        yield library
    finally:
        if library is not None:
            library.nvmlShutdown()


def _devices(library: ctypes.CDLL) -> list[ctypes.c_void_p]:
    count, found = ctypes.c_uint(), []
    if library.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return []
    for number in range(min(count.value, _MOST)):
        device = ctypes.c_void_p()
        if not library.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(device)):
            found.append(device)
    return found


def _facts(library: ctypes.CDLL, device: ctypes.c_void_p) -> dict[str, Any]:
    def ask(name: str, value: Any) -> Any:
        function = getattr(library, f"nvmlDeviceGet{name}", None)  # older drivers lack some
        failed = function is None or function(device, ctypes.byref(value))
        return None if failed else value

    def number(name: str) -> int | None:
        found = ask(name, ctypes.c_uint())
        return None if found is None else int(found.value)

    def text(name: str, size: int) -> str | None:
        buffer = ctypes.create_string_buffer(size)
        if getattr(library, f"nvmlDeviceGet{name}")(device, buffer, ctypes.c_uint(size)):
            return None
        return buffer.value.decode("utf-8", "replace")

    rates = ask("UtilizationRates", _Utilisation())
    memory = ask("MemoryInfo", _Memory())
    reasons = ask("CurrentClocksEventReasons", ctypes.c_ulonglong())
    if reasons is None:
        reasons = ask("CurrentClocksThrottleReasons", ctypes.c_ulonglong())  # its former name
    bits = 0 if reasons is None else reasons.value
    return {
        "name": text("Name", _NAME_BYTES),
        "uuid": text("UUID", _UUID_BYTES),
        "busy": None if rates is None else rates.gpu / 100,
        "memory_total": None if memory is None else memory.total,
        "memory_free": None if memory is None else memory.free,
        "link_width": number("CurrPcieLinkWidth"),
        "link_width_most": number("MaxPcieLinkWidth"),
        "link_generation": number("CurrPcieLinkGeneration"),
        "link_generation_most": number("MaxPcieLinkGeneration"),
        "slowed_by": sorted({said for bit, said in _SLOWED.items() if bits & bit}),
    }
