"""The table of a program's loaders, printed on stderr when the program ends."""

from __future__ import annotations

import atexit
import os
import sys
from collections import Counter

from headrace._torch import record

_MOST = 50  # rows


def list_at_the_end() -> None:
    """Begins to note loaders, and lists them when this process ends."""
    record.kept = []
    # A forked process inherits the notes and the function, but it is not the program.
    atexit.register(_say, os.getpid())


def _say(process: int) -> None:
    lines = table(record.kept or [])
    if lines and os.getpid() == process and sys.stderr is not None:
        print("\n".join(lines), file=sys.stderr, flush=True)


def table(records: list[record.Record]) -> list[str]:
    """Returns a heading, a line for each kind of loader, and what would make it native, said once.

    It is empty if there were no loaders.
    """
    rows = Counter((r.place, r.dataset, r.how, r.because, r.cure) for r in records if r.main)
    if not rows:
        return []
    total = sum(rows.values())
    shown = [
        (f"{_short(place)}{f' ({count} times)' if count > 1 else ''}", dataset, how, why, cure)
        for (place, dataset, how, why, cure), count in [*rows.items()][:_MOST]
    ]
    wide = [max(len(row[column]) for row in shown) for column in range(3)]
    lines = [f"headrace: {total} {'loader' if total == 1 else 'loaders'}"]
    cures = {""}  # cures that were already said
    for *cells, why, cure in shown:
        padded = [cell.ljust(width) for cell, width in zip(cells, wide, strict=True)]
        lines.append("  ".join(["", *padded, " ".join(_short(why).split())]).rstrip())
        if cure not in cures:
            cures.add(cure)
            lines.append(f"      {cure}")
    if len(rows) > _MOST:
        lines.append(f"  and {len(rows) - _MOST} kinds more")
    return lines


def _short(place: str) -> str:
    """Shortens the paths in a sentence to what the program's user would write."""
    folder = os.path.join(os.getcwd(), "")
    return place.replace(folder, "")
