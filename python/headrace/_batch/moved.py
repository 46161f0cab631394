"""Labels that moved with the images of a batch: masks, boxes, points, further images."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._batch import columns
from headrace._engine import arguments
from headrace.errors import ArgumentError
from headrace.transforms import Along, Boxes, Image, KeyPoints, Mask

if TYPE_CHECKING:
    from headrace.dataset import Dataset


class Moved:
    """The ``labels`` of a loader.

    Raises:
        ArgumentError: one is not a label, its field is missing or asked for twice, or it goes along
            with something that is no label of boxes or points.
    """

    def __init__(
        self,
        dataset: Dataset,
        labels: Mapping[str, Any] | None,
        fields: Sequence[str],
        output: str,
        channels_last: bool = False,
    ) -> None:
        given = {} if labels is None else arguments.mapping("labels", labels)
        own = [field["name"] for field in dataset.info["fields"]]
        for name, label in given.items():
            if type(label) not in (Boxes, KeyPoints, Mask, Image, Along):
                raise arguments.refuse_type(
                    f"labels[{name!r}]", label, "Boxes, KeyPoints, Mask, Image or Along"
                )
            if name not in own:
                has = ", ".join(own) or "none"
                raise ArgumentError(f"labels: the dataset has no field {name!r}; it has {has}")
            if name in fields:
                raise ArgumentError(f"fields: {name!r} is in labels, too")
        self._dataset, self._output = dataset, output
        self._move = None  # for further images: NHWC in memory, NCHW by shape
        if channels_last:
            permute = "permute" if output == "torch" else "transpose"
            self._move = operator.methodcaller(permute, 0, 3, 1, 2)
        self._labels = {name: v for name, v in given.items() if type(v) is not Along}
        self._along: dict[str, str] = {}
        for name, label in given.items():
            if type(label) is Along:
                if type(self._labels.get(label.label)) not in (Boxes, KeyPoints):
                    raise ArgumentError(
                        f"labels[{name!r}]: {label.label!r} is not among its Boxes and KeyPoints"
                    )
                self._along[name] = label.label

    def __bool__(self) -> bool:
        return bool(self._labels)

    @property
    def labels(self) -> dict[str, Any]:
        """The labels that the engine moves, by the user's names."""
        return dict(self._labels)

    def config(self) -> list[dict[str, Any]]:
        """Returns them as ``hr_loader_open`` takes them."""
        return [{"field": name, "label": v.to_dict()} for name, v in self._labels.items()]

    def of_batch(
        self, indices: Any, parts: Mapping[str, Any], left: float | None = None
    ) -> dict[str, Any]:
        """Returns a batch's labels by the names that the user gave them.

        Args:
            parts: the labels by the engine's names.
            left: seconds that this may take; None for no limit.
        """
        found: dict[str, Any] = {}
        kept: dict[str, list[Any]] = {}
        for number, (name, label) in enumerate(self._labels.items()):
            if type(label) is Mask:
                found[name] = parts[f"mask.{number}"]
                continue
            if type(label) is Image:
                image = parts[f"image.{number}"]
                found[name] = image if self._move is None else self._move(image)
                continue
            counts = parts[f"count.{number}"].tolist()
            for made, part in ((found, "places"), (kept, "kept")):
                rows = zip(parts[f"{part}.{number}"], counts, strict=True)
                made[name] = [image[:count] for image, count in rows]
        if self._along:
            names = list(self._along)
            facts = columns.of_samples(self._dataset, indices.tolist(), names, left)
            for name, label in self._along.items():
                pairs = zip(facts, kept[label], strict=True)
                found[name] = [self._rows(name, fact, rows) for fact, rows in pairs]
        return found

    def _rows(self, name: str, facts: Mapping[str, Any], kept: Any) -> Any:
        """Returns the rows that are left of one sample's field."""
        value, rows = facts["fields"][name], np.asarray(kept)
        shape = np.shape(value)
        if not shape or (len(rows) and shape[0] <= rows[-1]):
            raise ArgumentError(
                f"{facts['path']}: field {name!r} has shape {shape}; it needs a row for each of "
                f"{self._along[name]!r}, of which number {rows[-1] if len(rows) else 0} is left"
            )
        left = value[rows]
        if self._output == "numpy":
            return left
        import torch

        return torch.from_numpy(left)
