"""A loader's state: the order of samples that it belongs to, and a place in that order."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from headrace._engine import _lib, arguments
from headrace._epoch.position import Reached
from headrace.dataset import Dataset
from headrace.errors import ArgumentError

VERSION = 1
# What each state has: keys of the order, and keys of the place in it.
_KEYS = ("version", "fingerprint", "samples", "shuffle", "seed", "epoch", "position")


def order(dataset: Dataset, config: Mapping[str, Any], stretches: str | None) -> dict[str, Any]:
    """Returns the order of samples, which tells whether a state belongs to a loader.

    Args:
        config: the loader's configuration.
        stretches: the checksum of the compressed blocks that a windowed order uses, if any.
    """
    found = {
        "version": VERSION,
        "fingerprint": dataset.fingerprint,
        "samples": len(dataset),
        "shuffle": config["shuffle"],
    }
    if config["window"]:
        found["window"] = config["window"]
    if stretches:
        found["stretches"] = stretches
    if config["sampler"]:
        text = _lib.to_text(config["sampler"])
        found["sampler"] = hashlib.sha256(text).hexdigest()[:32]
    return found


def read(state: Mapping[str, Any], mine: dict[str, Any], most: int | None) -> tuple[int, Reached]:
    """Returns the seed and the place of a state.

    Args:
        mine: what ``order`` returns for the loader that should continue there.
        most: samples of an epoch, if they are known.

    Raises:
        ArgumentError: the state belongs to another dataset or order, or is not a state.
    """
    state = arguments.state(state, _KEYS, "headrace.Loader")
    if state["fingerprint"] != mine["fingerprint"]:
        raise ArgumentError(
            f"the state is of another dataset: its fingerprint is "
            f"{state['fingerprint']!r}, the loader's is {mine['fingerprint']!r}"
        )
    for name in ("version", "samples", "shuffle", "window", "stretches", "sampler"):
        if state.get(name) != mine.get(name):
            raise ArgumentError(
                f"the state has {name}={state.get(name)!r}, the loader {mine.get(name)!r}"
            )
    seed = arguments.seed("state['seed']", state.get("seed"))
    epoch = arguments.epoch("state['epoch']", state.get("epoch"))
    position = arguments.count("state['position']", state.get("position"))
    if most is not None and position > most:
        raise ArgumentError(f"the state's position {position} is past the last sample")
    drawn = state.get("drawn")
    if drawn is not None:
        drawn = arguments.each("state['drawn']", drawn, arguments.count)
        if len(drawn) != 3:
            raise arguments.refuse("state['drawn']", drawn, "three numbers")
    return seed, Reached(epoch, position, drawn)
