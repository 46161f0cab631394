"""Finds what Headrace reads of a ``DataLoader``'s dataset, and how the samples are transformed."""

from __future__ import annotations

from typing import Any

from headrace._torch import foreign
from headrace._torch.samples import Contents, Samples
from headrace._translate import replaced
from headrace._translate.result import Translation
from headrace._translate.translation import of_transforms, translate
from headrace.errors import UnsupportedError


class Reading:
    """A dataset, which is looked at again whenever somebody asks.

    Args:
        transform: the loader's transform, for datasets of Headrace's; None: the dataset's.
        limits: the limits for the files of image folders.

    Attributes:
        samples: those of the latest look that could read them. They are kept while the dataset
            stays the same.
    """

    def __init__(self, dataset: Any, transform: Any, limits: dict[str, int] | None) -> None:
        self._dataset, self._transform, self._limits = dataset, transform, limits
        self.samples: Samples | None = None
        self._switches: Any = None  # Pillow's settings when the samples were opened

    def look(self) -> tuple[Samples, Translation]:
        """Which samples to read and how to transform them.

        Raises:
            UnsupportedError: the engine cannot read them; the message says why.
        """
        contents = Contents(self._dataset)
        limits = foreign.limits(self._limits)
        switches = (limits, foreign.loads_truncated_images())
        known = self.samples is not None and self.samples.same_as(contents)
        if not known or (switches != self._switches and not contents.of_headrace):
            self.samples = Samples(contents, limits, "max_pixels" in (self._limits or {}))
            self._switches = switches
        assert self.samples is not None
        return self.samples, self._translation(contents)

    def described(self) -> str:
        """What is known of a dataset that only its own code can read: its class and length."""
        kind = type(self._dataset)
        try:
            count = f"{len(self._dataset)} samples"
        except (TypeError, NotImplementedError):  # it has no length
            count = "samples"
        return f"{kind.__module__}.{kind.__qualname__}: {count}"

    def seems_native(self) -> bool:
        """As ``look``, but without opening files or starting the engine.

        So a program may fork after this. A dataset that is not ready yet counts as not native.
        """
        try:
            self._translation(Contents(self._dataset))
        except Exception:  # an object that is still to be filled may raise anything
            return False
        return True

    def left_to_pillow(self) -> dict[str, int]:
        """How many images Pillow has decoded, and how many files are known to be left to it."""
        found = None if self.samples is None else self.samples.foreign
        if found is None:
            return {"pillow_images": 0, "pillow_files": 0}
        return {"pillow_images": found.decoded, "pillow_files": len(found.rows)}

    def _translation(self, contents: Contents) -> Translation:
        if self._transform is not None:
            pipelines = [self._transform]
        else:
            pipelines = [getattr(source, "transform", None) for source in contents.sources]
        first, *others = [self._translated(pipeline, contents) for pipeline in pipelines]
        for pipeline, other in zip(pipelines[1:], others, strict=True):
            same = other.keywords == first.keywords and other.gives == first.gives
            if not same or (first.rest and pipeline is not pipelines[0]):
                raise UnsupportedError("the datasets that it joins have different transforms")
        if first.rest and not first:
            raise UnsupportedError(f"its transforms are not translated: {first.obstacle}")
        return first

    def _translated(self, pipeline: Any, contents: Contents) -> Translation:
        # Only a loader's own transform may be a list: torchvision's datasets could not call one.
        if pipeline is self._transform and isinstance(pipeline, list | tuple):
            return pipeline if isinstance(pipeline, Translation) else of_transforms(pipeline)
        name = "" if contents.of_headrace else replaced.function()
        if name and pipeline is not None:
            raise UnsupportedError(replaced.said(name))
        if contents.pixels:  # `Samples` refuses arrays that are not all alike
            return translate(pipeline, contents.pixels[0].grey, contents.pixels[0].size)
        return translate(pipeline)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"samples": None}  # opened files stay in their process
