"""Writes a program's own samples, one after the other."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headrace._engine import arguments
from headrace.errors import ArgumentError, DuplicateKeyError, EmptyDatasetError

if TYPE_CHECKING:
    from headrace._making.items import Taken
    from headrace._making.jobs import OnProgress

# The field for labels that are fractions or vectors: "label" itself is a name that every sample
# has.
LABEL_FIELD = "label_"


class Samples(NamedTuple):
    """What is to be packed.

    Attributes:
        read: makes a pass over it, with the images or without.
        classes: the names of its classes, if they are known beforehand.
    """

    length: int
    read: Callable[[bool], Generator[Taken, None, None]]
    classes: Sequence[str] | None


def pack(
    samples: Samples, open_writer: Callable[[list[str] | None], Any], on_progress: OnProgress | None
) -> dict[str, Any]:
    """Writes all samples; returns what was written.

    Args:
        open_writer: called with the names of the classes.

    Raises:
        ArgumentError: a sample cannot be written; the sentence says its index.
    """
    with closing(samples.read(True)) as taken:
        # Workers start now, because a process that is forked after the engine was loaded cannot use
        # it.
        first = next(taken, None)
        if first is None:
            raise EmptyDatasetError("source holds no item")
        rule = _Labels(samples, first.label)
        with open_writer(rule.classes) as writer:
            done, begin = 0, time.monotonic()
            for index, one in enumerate(itertools.chain([first], taken)):
                _add(writer, index, rule.settled(index, one))
                done += len(one.image)
                if on_progress is not None and time.monotonic() - begin > 0.1:
                    on_progress(index + 1, samples.length, done, 0)
                    begin = time.monotonic()
            made: dict[str, Any] = writer._end()
    if on_progress is not None:
        on_progress(made["rows"], samples.length, made["bytes"], made["faults"]["total"])
    return made


def _add(writer: Any, index: int, one: Taken) -> None:
    try:
        try:
            writer.add(one.image, one.label, key=one.key, **one.fields)
        except DuplicateKeyError:
            writer.add(one.image, one.label, key=f"{one.key}/{index}", **one.fields)
    except ArgumentError as failure:
        raise type(failure)(f"source[{index}]: {failure.reason}") from None


def _is_measured(label: Any) -> bool:
    """Whether a label can only be a measured value; NaN is no label, as in containers."""
    if isinstance(label, float):
        return not label.is_integer() and not math.isnan(label)
    return isinstance(label, np.ndarray)


def _class_of(label: Any) -> Any:
    """The label with whole floats as ints, and NaN as none."""
    if not isinstance(label, float) or _is_measured(label):
        return label
    return None if math.isnan(label) else int(label)


class _Labels:
    """The meaning of labels: the first one tells whether they are numbers, texts or measured
    values. If it is a whole float, all of them do.

    Attributes:
        classes: their names in the order of their numbers, or None.
    """

    def __init__(self, samples: Samples, first: Any) -> None:
        self._measured = _is_measured(first)
        self.classes = None if samples.classes is None else list(samples.classes)
        self._texts = isinstance(first, str) and self.classes is None
        # What labels are has to be known before the first sample is written: all names of classes,
        # because labels are numbers in the shards, and whether 0.0 is a class or measured.
        if self._texts:
            with closing(samples.read(False)) as all_of_them:
                found = (_class_of(one.label) for one in all_of_them)
                self.classes = sorted({str(label) for label in found if label is not None})
        elif isinstance(first, float) and not self._measured and self.classes is None:
            with closing(samples.read(False)) as all_of_them:
                self._measured = any(_is_measured(one.label) for one in all_of_them)

    def settled(self, index: int, one: Taken) -> Taken:
        """Returns the sample with its label as the writer takes it."""
        label = one.label
        if self._measured:
            value = np.nan if label is None else label
            if isinstance(value, int):
                value = float(value)
            return one._replace(label=None, fields={**one.fields, LABEL_FIELD: value})
        if _is_measured(label):
            raise ArgumentError(
                f"source[{index}]: label={arguments.shown(label)}: those before it are "
                "classes, and this is none; fields= keeps such values"
            )
        label = _class_of(label)
        if self._texts and isinstance(label, int):
            label = str(label)
        return one._replace(label=None if label == -1 else label)
