"""What the loader makes of samples in memory: with one thread, with all, and when handed out."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

from headrace._doctor import bounded, choosing, decoding, machine, storage
from headrace.dataset import Dataset
from headrace.errors import HeadraceError

_IMAGES, _COPY_BYTES = 512, 48 << 20
_FEW = 8  # images of the first batches, before any rate is known
# Images a second. Storage that gives fewer when asked for the same images again keeps nothing in
# memory. Measuring the threads would then measure their waits for storage.
_SLOW = 300.0


@contextlib.contextmanager
def at_hand(
    dataset: Dataset,
    chosen: list[int],
    places: list[choosing.Place],
    facts: dict[str, Any],
    seconds: float,
    clock: bounded.Clock,
    may_copy: bool = True,
) -> Iterator[tuple[Dataset, list[int]]]:
    """Yields a dataset and samples of it whose bytes are in memory: the one given, or copies.

    If a disk is too slow to read many of them in the time, only those that came are used.

    Args:
        may_copy: copies of images are enough; they have no fields.
    """
    if dataset.kind == "memory":
        # As many as a copy would have, because starting an epoch of few tiny images takes as long
        # as their batches.
        many = _COPY_BYTES // max(int(dataset.facts(0)["length"]), 1)
        yield dataset, choosing.numbers(len(dataset), max(_IMAGES, many))
        return
    warm, depth = facts["storage"]["warm"], facts["storage"]["at_once"]
    slow = warm["images_per_second"] < _SLOW if warm else dataset.kind != "arrays"
    if not slow or not may_copy:
        yield dataset, _read(chosen, places, seconds)
        return
    some = _mixed(chosen)
    with contextlib.ExitStack() as stack:
        copied = choosing.copied(dataset, some, _COPY_BYTES, seconds, depth)
        try:
            folder, copies = stack.enter_context(copied)
        except choosing.NoRoom:
            yield dataset, _read(chosen, places, seconds)
            return
        made = None
        if copies:
            points = (facts["images"]["seek_points"] or 0.0) > 0.5
            try:
                copy = folder / "files"
                if points:
                    with contextlib.suppress(bounded.Over):  # even so the files are in memory
                        copy = choosing.packed(folder, "same", clock)
                made = Dataset(copy)
            except HeadraceError:  # loading the original reports damage
                made = None
        if made is None:
            yield dataset, _read(chosen, places, seconds)
            return
        with made:
            yield made, list(range(len(made)))


def _mixed(chosen: list[int]) -> list[int]:
    some = [chosen[at] for at in choosing.numbers(len(chosen), _IMAGES)]
    return random.Random(0).sample(some, len(some))


def _read(chosen: list[int], places: list[choosing.Place], seconds: float) -> list[int]:
    """Returns samples that were read just now."""
    by_index = {place.index: place for place in places}
    if not by_index:
        return sorted(_mixed(chosen))
    wanted = _mixed(sorted(by_index))
    came = bounded.each(wanted, lambda index: storage.try_to_read(by_index[index]), seconds)
    return sorted(index for index, _ in came)


def measure(
    dataset: Dataset,
    decoded: list[int],
    batch_size: int,
    steps: list[Any],
    seconds: float,
    clock: bounded.Clock,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Decodes samples with one thread and with all.

    Args:
        seconds: how long to measure; slow batches may take more of the ``clock``.
        options: further words of the loader.

    Returns:
        ``one`` and ``all``, as ``decoding.measure`` returns them; ``ready`` and ``rounds``, as
        ``decoding.handing_out`` does; ``busy``, what other programs did meanwhile, with the share
        of the cores that was left to all threads; and ``of``, how many images these were.
    """
    # This first measurement includes what is learned of files without an index. It only tells how
    # many images a batch may have so that several batches fit into the time; the rate of decoding
    # does not depend on it.
    few = min(batch_size, _FEW)

    def rate(few: int, share: float, threads: int | None = None) -> dict[str, Any]:
        wanted, part = seconds * share, clock.part(0.4)
        return decoding.measure(dataset, decoded, few, steps, wanted, part, threads, **options)

    first = rate(few, 0.2)
    soon, threads = int(first["images_per_second"] * seconds * 0.04), first["threads"]
    few = min(batch_size, max(soon // threads, 1))
    one = rate(few, 0.25, 1)
    few = min(batch_size, max(soon, 2 * threads))  # with fewer, some threads would be idle
    others = machine.Others()
    every = rate(few, 0.35)
    if not every["decoded"]:  # an image takes longer than what is left
        every = first
    busy = others.end() | {"core_share": every["core_share"]}
    soon_over = bounded.Clock(clock.of(seconds * 0.2))
    ready, rounds = decoding.handing_out(dataset, decoded, batch_size, steps, soon_over, **options)
    return {
        "one": one,
        "all": every,
        "ready": ready,
        "rounds": rounds,
        "busy": busy,
        "of": len(decoded),
    }
