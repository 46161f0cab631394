"""What a batch holds besides, where MixUp, CutMix or Mixup end the transforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from headrace import _lib
from headrace.errors import UnsupportedError

NAMES = ("MixUp", "CutMix", "Mixup")

# What a mixed batch can be asked for by Loader(fields=...), and the engine's names of them.
FIELDS = {
    "label": "labels",
    "partner": "partners",
    "partner_label": "partner_labels",
    "lam": "lambdas",
    "box": "boxes",
}

# DLPack's type codes of the fields.
_TYPES = {(0, 32): "int32", (0, 64): "int64", (2, 32): "float32", (2, 64): "float64"}


class Extent(NamedTuple):
    """Where a field of one number or one row a sample lies in a batch."""

    name: str
    dtype: str
    shape: list[int]
    offset: int
    bytes: int


def mixes(steps: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a list of transforms ends in one that mixes the images of a batch."""
    if not steps:
        return False
    members = steps[-1].get("transforms")
    inner = [part.get("name") for part in members or () if isinstance(part, Mapping)]
    return any(name in NAMES for name in (steps[-1].get("name"), *inner))


def refuse_own_order(world_size: int) -> None:
    """A partner may be at another rank's place, and the engine knows that in its own order only.

    Raises:
        UnsupportedError: there is another rank.
    """
    if world_size > 1:
        raise UnsupportedError(
            f"MixUp and CutMix with a sampler of one's own and world_size={world_size}: the "
            "samples of the other ranks are not known to the engine; use shuffle or one of "
            "headrace.samplers, or mix in the training step"
        )


def extents(batch: _lib.Batch) -> tuple[Extent, ...]:
    """The fields behind images, labels and indices."""
    begin = batch.fields[0].data
    return tuple(
        Extent(
            field.name.decode(),
            _TYPES[field.dtype_code, field.dtype_bits],
            field.shape[: field.ndim],
            field.data - begin,
            field.bytes,
        )
        for field in batch.fields[3 : batch.field_count]
    )


def over_buffer(output: str) -> Callable[[Any, Extent], Any]:
    """A function from a batch's buffer to a field's tensor or array."""
    if output == "numpy":
        import numpy as np

        return lambda buffer, at: np.ndarray(at.shape, at.dtype, buffer, at.offset)
    import torch

    def tensor(buffer: Any, at: Extent) -> Any:
        dtype = getattr(torch, at.dtype)
        if not at.bytes:  # frombuffer takes no empty view
            return torch.empty(at.shape, dtype=dtype)
        count = at.bytes // dtype.itemsize
        found = torch.frombuffer(buffer, dtype=dtype, count=count, offset=at.offset)
        return found.view(at.shape)

    return tensor


def over_tensor(memory: Any, at: Extent) -> Any:
    """A field of a batch whose memory is a tensor of bytes."""
    import torch

    piece = memory[at.offset : at.offset + at.bytes].view(getattr(torch, at.dtype))
    return piece.view(at.shape)


def labels_of(labels: Any, more: dict[str, Any]) -> Any:
    """What a loop gets as the labels of a mixed batch.

    Returns:
        float32 of shape (batch, num_classes); or where a pair was asked for, the tuple of labels
        and partners' labels, int64, and lambda, float32, each of shape (batch,).
    """
    if "targets" in more:
        return more["targets"]
    lambdas = more["lambdas"]
    single = lambdas.astype("float32") if hasattr(lambdas, "astype") else lambdas.float()
    return labels, more["partner_labels"], single
