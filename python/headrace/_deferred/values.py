"""Makes the values of a pending tensor at once, in the thread that asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from headrace._deferred import parts as made_of
from headrace._deferred import pixels, recording
from headrace._deferred.parts import AnyPart, Derived, Part, Stacked

if TYPE_CHECKING:
    from headrace._deferred.altering import Altering


def made_now(
    parts: tuple[AnyPart, ...], form: tuple[tuple[int, ...], torch.dtype], stacked: bool
) -> torch.Tensor:
    """A tensor of these parts, whose images are decoded one by one.

    Args:
        form: shape and dtype.
        stacked: whether it has a first dimension for the parts; else there is one part.
    """
    found = recording.current()
    if found is not None:
        found.refuse()
    altering, engine = pixels.note(), pixels.engine_here()
    if not stacked:
        return _value_of(parts[0], engine, altering)
    return _rows_of(parts, form, engine, altering)


def _rows_of(
    parts: tuple[AnyPart, ...],
    form: tuple[tuple[int, ...], torch.dtype],
    engine: bool,
    altering: Altering | None,
) -> torch.Tensor:
    made = torch.empty(form[0], dtype=form[1], device="cpu")  # not on the program's default device
    for place, part in enumerate(parts):
        made[place] = _value_of(part, engine, altering)
    return made


def _value_of(part: AnyPart, engine: bool, altering: Altering | None) -> torch.Tensor:
    if isinstance(part, torch.Tensor):
        return part
    made = _of_leaf(part.leaf, engine, altering)
    return made_of.values(part.ops, made) if isinstance(part, Derived) else made


def _of_leaf(leaf: Part | Stacked, engine: bool, altering: Altering | None) -> torch.Tensor:
    shape, dtype = leaf.described()
    if isinstance(leaf, Stacked):
        return _rows_of(leaf.parts, (shape, dtype), engine, altering)
    made = torch.empty(shape, dtype=dtype, device="cpu")
    if engine:
        _, data = pixels.decoded(leaf.chain, leaf.form)
        row = made.view(-1).view(torch.uint8)
        row.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    else:
        made.copy_(pixels.values_of(leaf.chain, leaf.form).reshape(shape))
    return made if altering is None else altering.of_tensor(made)
