"""Turns the arguments of ``Loader`` into those of ``hr_loader_open``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from headrace import samplers
from headrace._batch import views
from headrace._engine import arguments
from headrace._epoch import feed
from headrace._transforms import schedule
from headrace._transforms.multiview import Views
from headrace._transforms.schedule import Schedule
from headrace.errors import ArgumentError, ArgumentTypeError

_Init = TypeVar("_Init", bound=Callable[..., None])

# Arguments of torch's loader that ``Loader`` lacks, and what takes their place.
_OF_TORCH = {
    "num_workers": "num_threads is its number of decode threads, and it starts no processes",
    "prefetch_factor": "prefetch is its number of batches that are made ahead",
    "persistent_workers": "its threads stay from epoch to epoch anyway",
    "worker_init_fn": "it has threads and no worker processes",
    "multiprocessing_context": "it has threads and no worker processes",
    "collate_fn": "batch_fn is called with each finished batch",
    "generator": "seed is the number that order and augmentations are drawn from",
    "batch_sampler": "sampler says the order of samples, and batch_size how many a batch has",
}

LAYOUTS = ("NCHW", "NHWC", "channels_last")
SCALES = ("div", "mul")
DEFAULT_WINDOW = 16384

_CHOICES = {
    "dtype": views.DTYPES,
    "layout": LAYOUTS,
    "scale": SCALES,
    "mode": arguments.MODES,
    "output": views.OUTPUTS,
    "on_error": arguments.ON_ERROR,
}


def refuse_torchs(given: Mapping[str, Any]) -> None:
    """Refuses arguments of torch's loader in a sentence that says what takes their place."""
    for name, instead in _OF_TORCH.items():
        if name in given:
            raise ArgumentTypeError(f"headrace.Loader has no {name}: {instead}")


def with_torchs_refused(init: _Init) -> _Init:
    """Wraps ``Loader.__init__``: the same signature, and that sentence before Python's own."""

    @functools.wraps(init)
    def checked(*given: Any, **named: Any) -> None:
        refuse_torchs(named)
        init(*given, **named)

    return cast("_Init", checked)


def words(**given: Any) -> dict[str, Any]:
    """Checks the arguments that allow a few words each; the engine does not get ``output``."""
    for name, value in given.items():
        arguments.choice(name, value, _CHOICES[name])
    # With "channels_last" channels come last in memory as well: views.viewer permutes the tensor.
    layout = "NCHW" if given["layout"] == "NCHW" else "NHWC"
    return {name: value for name, value in given.items() if name != "output"} | {"layout": layout}


def transforms(
    transform: Sequence[Any] | Views | None, resolution: Schedule | Mapping[int, Any] | None
) -> dict[str, Any]:
    """Returns what is done to each image."""
    found: dict[str, Any] = {"resolution": schedule.resolution(resolution)}
    if isinstance(transform, Views):
        found["views"] = transform.to_list()
    else:
        found["transform"] = arguments.transforms(
            "transform", () if transform is None else transform
        )
    return found


def order(shuffle: Any, window: Any, sampler: Any) -> dict[str, Any]:
    """Returns the parts of the configuration that determine the order."""
    if isinstance(shuffle, str):
        if shuffle != "window":
            raise arguments.refuse("shuffle", shuffle, "False, True or 'window'")
    elif not isinstance(shuffle, bool):
        raise arguments.refuse_type("shuffle", shuffle, "False, True or 'window'")
    if window is not None:
        window = arguments.count("window", window, 1)
        if shuffle != "window":
            raise arguments.refuse("window", window, "None, or shuffle='window',")
    elif shuffle == "window":
        window = DEFAULT_WINDOW
    chosen = sampler if isinstance(sampler, samplers.Sampler) else None
    drawn = chosen is not None and not isinstance(chosen, samplers.Subset | samplers.Repeated)
    return {
        "shuffle": bool(shuffle) or drawn,  # drawn samples are always in random order
        "window": window or 0,
        "sampler": chosen and chosen.to_dict(),
    }


def check_own_sampler(sampler: Any, shuffle: Any, drop_last: Any, pad: bool) -> None:
    """Checks a user's own sampler, and refuses arguments that cannot go with it."""
    feed.check(sampler)
    if shuffle:
        raise ArgumentError("shuffle is not for a sampler of your own, which says the order itself")
    if pad and (drop_last or feed.shards_itself(sampler)):
        raise ArgumentError("pad goes neither with drop_last nor with a sampler that shards itself")


def amounts(
    num_threads: Any, prefetch: Any, read_ahead: Any, fetch_ahead: Any
) -> dict[str, int | None]:
    """How much is done at once and ahead; 0, and None for prefetch, leaves it to the engine."""
    return {
        "num_threads": optional("num_threads", num_threads),
        "prefetch": None if prefetch is None else arguments.count("prefetch", prefetch, 1),
        "read_ahead": optional("read_ahead", read_ahead),
        "fetch_ahead": 0 if fetch_ahead is None else arguments.size("fetch_ahead", fetch_ahead),
    }


def optional(name: str, value: Any) -> int:
    """Returns a checked number; 0 for None, which leaves the choice to the engine."""
    return 0 if value is None else arguments.count(name, value)
