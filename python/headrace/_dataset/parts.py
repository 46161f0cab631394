"""The configuration of several datasets that become one dataset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from headrace._arrays import held
from headrace._dataset.configured import BACKENDS, Configured
from headrace._engine import arguments
from headrace.errors import ArgumentError

# How a dataset is read, in contrast to what it consists of.
_SETTINGS = ("backend", "limits", "verify_crc")


class _Part(NamedTuple):
    source: dict[str, Any]  # what it consists of
    settings: dict[str, Any]  # how it is read, if it says so
    timeout: float | None


class Concatenation(NamedTuple):
    """Several datasets as one: what it consists of, and how it is read."""

    config: dict[str, Any]
    backend: str
    verify_crc: bool
    limits: dict[str, int] | None
    timeout: float | None


def concatenated(datasets: Iterable[Any], classes: Sequence[str] | None) -> Concatenation:
    """Joins several datasets, or paths of datasets, into one.

    Raises:
        ArgumentError: there are none, or their settings differ.
    """
    config: dict[str, Any] = {"parts": []}
    if classes is not None:
        config["classes"] = arguments.each("classes", classes, arguments.name)
    if not (parts := arguments.each("datasets", datasets, _part)):
        raise ArgumentError("datasets is an empty list (expected one at least)")
    shared: dict[str, Any] = {}
    for number, part in enumerate(parts):
        config["parts"].append(part.source)
        for name, value in part.settings.items():
            if shared.setdefault(name, value) != value:
                raise ArgumentError(
                    f"datasets[{number}] has {name}={value!r}, one before it "
                    f"{shared[name]!r}; all are read in one way"
                )
    timeouts = [part.timeout for part in parts if part.timeout is not None]
    return Concatenation(
        config,
        shared.get("backend", BACKENDS[0]),
        shared.get("verify_crc", True),
        shared.get("limits"),
        min(timeouts, default=None),
    )


def _part(name: str, part: Any) -> _Part:
    if not isinstance(part, Configured):
        return _Part({"path": arguments.path(name, part)}, {}, None)
    state = part.__getstate__()
    config = state["config"]
    own = (*_SETTINGS, "fetch_ahead", "cache", "cache_size")
    source = {key: value for key, value in config.items() if key not in own}
    source = held.copied(source)  # a copy, because the part may be closed
    # No checksum of files in place is known.
    in_place = any(key in source for key in ("paths", "pairs", "array"))
    settings = _SETTINGS[:-1] if in_place else _SETTINGS
    return _Part(source, {key: config.get(key) for key in settings}, state.get("timeout"))
