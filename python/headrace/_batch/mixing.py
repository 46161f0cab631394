"""The labels and extra fields of batches that MixUp, CutMix or Mixup has mixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace._engine import arguments
from headrace._transforms.multiview import Views
from headrace.errors import UnsupportedError

NAMES = ("MixUp", "CutMix", "Mixup")

# The names that Loader(fields=...) takes for a mixed batch, and the engine's names for them.
FIELDS = {
    "label": "labels",
    "partner": "partners",
    "partner_label": "partner_labels",
    "lam": "lambdas",
    "box": "boxes",
}


def mixes(transforms: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a list of transforms ends in one that mixes the images of a batch."""
    if not transforms:
        return False
    members = transforms[-1].get("transforms")
    inner = [part.get("name") for part in members or () if isinstance(part, Mapping)]
    return any(name in NAMES for name in (transforms[-1].get("name"), *inner))


def mixes_any(transform: Sequence[Any] | Views | None) -> bool:
    """Whether the ``transform`` of a loader mixes, in any view."""
    if isinstance(transform, Views):
        return any(mixes(view) for view in transform)
    return mixes(arguments.transforms("transform", transform or ()))


def refuse_own_order(world_size: int) -> None:
    """Refuses mixing with a sampler on several ranks. A partner may be on another rank, and the
    engine knows the partner only in its own order.

    Raises:
        UnsupportedError: there are several ranks.
    """
    if world_size > 1:
        raise UnsupportedError(
            f"MixUp and CutMix with a sampler of your own and world_size={world_size}: the "
            "samples of the other ranks are not known to the engine; use shuffle or one of "
            "headrace.samplers, or mix in the training step"
        )


def labels_of(labels: Any, more: dict[str, Any]) -> Any:
    """The labels of a mixed batch, as the training loop gets them.

    Returns:
        float32 of shape (batch, num_classes). If a pair was asked for, a tuple instead: labels and
        partners' labels (int64) and lambda (float32), each of shape (batch,).
    """
    if "targets" in more:
        return more["targets"]
    lambdas = more["lambdas"]
    single = lambdas.astype("float32") if hasattr(lambdas, "astype") else lambdas.float()
    return labels, more["partner_labels"], single
