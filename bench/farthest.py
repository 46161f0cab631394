"""How many bytes does a cache have to fetch at least, if it knows the order of samples beforehand?

Farthest next use with bypass (Belady's rule): a sample that does not fit pushes out whichever is
wanted last, itself included. Records have different lengths, for which this is a greedy rule and
not the optimum; no rule that is computed in reasonable time is. The order is the loader's, of so
many epochs; lengths are those of a dataset.
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Sequence
from pathlib import Path

import facts
import headrace as hr


def fetched(order: Sequence[int], lengths: Sequence[int], room: int) -> int:
    """Bytes that a cache of ``room`` bytes fetches for samples in an order."""
    never = len(order)
    following, at = [never] * len(order), {}
    for position in range(len(order) - 1, -1, -1):
        following[position] = at.get(order[position], never)
        at[order[position]] = position
    held: dict[int, int] = {}  # sample to its next use
    last: list[tuple[int, int]] = []  # the same as a heap, the last first; old entries stay in it
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", type=Path, help="a packed dataset")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--shares", default="10,25,33,50,100", help="of the set's bytes, in %%")
    options = parser.parse_args()
    print(" ".join(f"{name}={value}" for name, value in facts.machine().items()))
    with hr.Dataset(options.dataset) as dataset:
        lengths = [int(dataset.facts(number)["length"]) for number in range(len(dataset))]
        order: list[int] = []
        size = [hr.transforms.Resize((8, 8))]
        with hr.Loader(
            dataset,
            64,
            shuffle=True,
            seed=1,
            transform=size,
            output="numpy",
            fields=["index"],
        ) as loader:
            for _ in range(options.epochs):
                order += [int(number) for *_, given in loader for number in given["index"]]
    whole = sum(lengths)
    print(f"{len(lengths):,} samples, {whole / 1e6:,.1f} MB, {options.epochs} epochs")
    for share in options.shares.split(","):
        found = fetched(order, lengths, int(whole * float(share) / 100))
        print(f"  cache of {share:>3} %: {found / whole:.3f} of the set's bytes are fetched")


if __name__ == "__main__":
    main()
