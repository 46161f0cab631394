"""How many bytes does a cache have to fetch at least, if it knows the order of samples beforehand?

The rule is farthest next use with bypass (Belady's rule): a sample that does not fit pushes out the
one that is needed last, which may be itself. Records have different lengths. For these it is a
greedy rule and not the optimum; no rule for the optimum can be computed in reasonable time. The
order is that of a loader over so many epochs, and the lengths are those of a dataset.

With `--measure` the dataset is also read from the tests' server on this machine, through a cache of
each share, and by four ranks in step that share one. The bytes of records that they fetched are
compared with what is needed.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import facts
import headrace as hr


def fetched(order: Sequence[int], lengths: Sequence[int], room: int) -> int:
    """Returns the bytes that a cache of ``room`` bytes fetches for samples in an order."""
    never = len(order)
    following, at = [never] * len(order), {}
    for position in range(len(order) - 1, -1, -1):
        following[position] = at.get(order[position], never)
        at[order[position]] = position
    held: dict[int, int] = {}  # sample to its next use
    last: list[tuple[int, int]] = []  # the same as a heap, the last use first; old entries stay
    used = total = 0
    for position, sample in enumerate(order):
        again = following[position]
        if held.pop(sample, None) is None:
            total += lengths[sample]
            used += lengths[sample]
        held[sample] = again
        heapq.heappush(last, (-again, sample))
        while used > room or (last and -last[0][0] == never):
            found, victim = heapq.heappop(last)
            if held.get(victim) == -found:
                del held[victim]
                used -= lengths[victim]
    return total


def loader(dataset: Any, **options: Any) -> hr.Loader:
    size = [hr.transforms.Resize((8, 8))]
    settings = {"batch_size": 64, "output": "numpy", "fields": ["index"], **options}
    return hr.Loader(dataset, shuffle=True, seed=1, transform=size, **settings)


def measured(url: str, epochs: int, room: int) -> int:
    """Returns the bytes of records that a loader fetches with a cache of ``room`` bytes."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as cache,
        loader(url, cache=cache, cache_size=room, prefetch=2, batch_size=4) as made,
    ):
        for _ in range(epochs):
            for _ in made:
                pass
        return int(made.stats()["remote_bytes"])


def of_ranks(url: str, ranks: int, room: int) -> int:
    """Returns the bytes of records that ranks in step fetch in an epoch with one cache."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as cache,
        contextlib.ExitStack() as stack,
    ):
        kept = {"cache": cache, "cache_size": room, "batch_size": 8, "world_size": ranks}
        made = [stack.enter_context(loader(url, rank=rank, **kept)) for rank in range(ranks)]
        for _ in zip(*made, strict=True):
            pass
        return sum(int(one.stats()["remote_bytes"]) for one in made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", type=Path, help="a packed dataset")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--shares", default="10,25,33,50,100", help="of the set's bytes, in %%")
    parser.add_argument("--measure", action="store_true", help="fetch through real caches, too")
    options = parser.parse_args()
    print(" ".join(f"{name}={value}" for name, value in facts.machine().items()))
    with hr.Dataset(options.dataset) as dataset:
        lengths = [int(dataset.facts(number)["length"]) for number in range(len(dataset))]
        order: list[int] = []
        with loader(dataset, batch_size=4) as made:
            for _ in range(options.epochs):
                order += [int(number) for *_, given in made for number in given["index"]]
    whole = sum(lengths)
    print(f"{len(lengths):,} samples, {whole / 1e6:,.1f} MB, {options.epochs} epochs")
    with contextlib.ExitStack() as stack:
        url = ""
        if options.measure:
            sys.path.insert(0, str(Path(__file__).parents[1] / "tests/remote"))
            from stores import Store

            store = Store(options.dataset.parent)
            stack.callback(store.end)
            url = store.url(options.dataset.name)
        for share in options.shares.split(","):
            room = int(whole * float(share) / 100)
            least = fetched(order, lengths, room)
            line = f"  cache of {share:>3} %: {least / whole:.3f} of the set's bytes are fetched"
            if url:
                line += f"; measured {measured(url, options.epochs, room) / least:.4f} of that"
            print(line, flush=True)
        if url:
            found = of_ranks(url, 4, 2 * whole)
            print(f"  four ranks, one epoch, a cache of all: {found / whole:.4f} of the bytes")


if __name__ == "__main__":
    main()
