"""``headrace.transforms`` themselves, in lists that a program has registered as equal to its own.

They have no place elsewhere in a pipeline, because Python cannot call them.
"""

from __future__ import annotations

from typing import Any

from headrace._engine.userop import Native
from headrace._transforms import colours, crops, finished, groups, mixing
from headrace._transforms.base import Label, Transform
from headrace._transforms.schedule import Schedule

FINISHED = (finished.Normalize, finished.RandomErasing, finished.TimmErasing, finished.Cutout)
_GROUPS = (groups.RandomApply, groups.RandomChoice, groups.RandomOrder)


def is_own(op: Any) -> bool:
    """Whether it is one of ``headrace.transforms``."""
    return isinstance(op, Transform | Native)


class Own:
    """A base class of ``Reader`` for these; it has ``made`` and ``_stage``."""

    made: Any
    _stage: str
    _grey: bool
    _normalize: Any
    _erasings: list[tuple[Any, bool]]  # and whether Normalize comes before

    def own(self, op: Any) -> str:
        """Appends the step; returns "" or why it has no place here."""
        reason = _misplaced(op)
        if reason:
            return reason
        if isinstance(op, FINISHED):
            return self._finished(op)
        if self._stage != "PIL":
            return "of Headrace's, only Normalize and erasings work on tensors"
        if isinstance(op, colours.Grayscale):
            self._grey = False
            if op.num_output_channels == 1:
                return self.grey()
        self.made.add(op)
        return ""

    def grey(self) -> str:
        raise NotImplementedError

    def _finished(self, op: Any) -> str:
        if self._stage == "PIL":  # a Loader does the same with bytes
            self._stage, self.made.gives, self.made.scale = "float32", "tensor", "div"
        if self._stage != "float32":
            return f"the image is {self._stage} here, not float32"
        if not isinstance(op, finished.Normalize):
            self._erasings.append((op, self._normalize is not None))
        elif self._normalize:
            return "it is the second of its kind"
        else:
            self._normalize = op
        return ""


def _misplaced(op: Any) -> str:
    """Says why the step makes something other than one image of one image; "" if it does not."""
    if isinstance(op, mixing.MixUp | mixing.CutMix | mixing.Mixup):
        return "it takes batches"
    if isinstance(op, crops.FiveCrop | crops.TenCrop):
        return "it makes several images of one"
    if isinstance(op, Label):
        return "it says what labels are"
    if isinstance(getattr(op, "size", None), Schedule):
        return "its size is a Schedule, which only a Loader follows"
    if isinstance(op, _GROUPS):
        for member in op.transforms:
            if not is_own(member):
                return "in it are others than headrace.transforms"
            reason = _misplaced(member)
            if reason or isinstance(member, FINISHED):
                return f"{type(member).__name__} in it: {reason or 'it works on finished values'}"
    return ""
