"""The answers of ``plan`` and ``doctor``: facts by name, which print as text and go into JSON."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from typing import Any

from headrace.errors import one_line


class Report(Mapping[str, Any]):
    """Facts by name, as items and as attributes; ``str`` turns them into text for a person.

    ``dict(report)`` is what ``--json`` prints.
    """

    def __init__(self, facts: Mapping[str, Any], lines: list[str]) -> None:
        self._facts, self._lines = dict(facts), [one_line(line) for line in lines]

    def __getitem__(self, name: str) -> Any:
        return self._facts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def __getattr__(self, name: str) -> Any:
        # Pickle and copy ask an object for its methods before it has attributes.
        facts = self.__dict__.get("_facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._facts]

    def __str__(self) -> str:
        return "\n".join(self._lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def to_json(self) -> str:
        """The facts as JSON."""
        return json.dumps(self._facts, indent=2)


class Plan(Report):
    """What ``headrace.plan`` calculated."""


class Diagnosis(Report):
    """What ``headrace.doctor`` found."""


def table(rows: list[tuple[str, str]]) -> list[str]:
    """Lays out names and what is said of them in two columns."""
    width = max((len(name) for name, _ in rows), default=0)
    return [f"{name:{width}}  {text}".rstrip() for name, text in rows]


def a_second(number: float) -> str:
    """A rate a second: "5,885", "3.4", "0.025"."""
    return f"{number:,.0f}" if number >= 9.95 or not number else f"{number:.2g}"


def size(number: float) -> str:
    """Bytes in the units of storage vendors: "1.3 GB"."""
    for unit, least in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= least:
            return f"{number / least:,.1f} {unit}"
    return f"{number:,.0f} bytes"


def duration(seconds: float) -> str:
    """ "30.0 ms", "45.0 s", "3.6 min", "12.1 h"."""
    if seconds < 1:
        return f"{seconds * 1e3:,.1f} ms"
    if seconds < 120:
        return f"{seconds:,.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:,.1f} min"
    return f"{seconds / 3600:,.1f} h"
