"""Where do Headrace and Pillow disagree on damaged files, and how often?

Generated JPEGs, PNGs and PPMs are damaged at random (tests/damage.py): bits, bytes, runs and cuts,
and markers, segments and chunks that are left out, doubled or exchanged. Each is decoded by
hr.functional.decode and by Pillow, and differences are counted by reason. A difference without a
known reason is printed with the seed that makes it.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import sys
from pathlib import Path

import facts

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import damage


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000, help="of each format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(" ".join(f"{name}={value}" for name, value in facts.machine().items()))
    found = {}
    for kind in damage.FORMATS:
        counts: collections.Counter[str] = collections.Counter()
        for number, data in enumerate(
            itertools.islice(damage.damaged(kind, options.seed), options.files)
        ):
            why = damage.difference(kind, data)
            if why is None:
                print(f"{kind} {number} of seed {options.seed}: a difference without a reason")
            given = not isinstance(damage.ours(data), Exception)
            same = "the same pixels" if given else "both refuse"
            counts["without a reason" if why is None else why or same] += 1
        found[kind] = dict(counts.most_common())
        for name, count in counts.most_common():
            print(f"| {kind} | {name} | {count:,} |")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"machine": facts.machine(), "found": found}, indent=1))


if __name__ == "__main__":
    main()
