"""open_clip's transforms, as its ``image_transform`` composes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace import transforms


class OpenClip:
    """A base class of ``Reader`` for these; it has ``made`` and ``_stage``."""

    made: Any
    _stage: str

    def _OpenClipMaybeConvertMode(self, op: Any) -> str:
        # It leaves tensors alone, and convert only copies an RGB image.
        return "" if self._stage != "PIL" or op.mode == "RGB" else f"mode={op.mode!r}"

    def _OpenClipMaybeToTensor(self, op: Any) -> str:
        return self._ToTensor(op) if self._stage == "PIL" else ""

    def _OpenClipcolor_jitter(self, op: Any) -> str:
        return self._sometimes(op)

    def _OpenClipgray_scale(self, op: Any) -> str:
        return self._sometimes(op)

    def _sometimes(self, op: Any) -> str:
        """Appends one transform that is applied with the probability p."""
        inner, reason = self._members([[op.transf]])
        if not reason:
            self.made.add(transforms.RandomApply(inner[0], float(op.p)))
        return reason

    def _ToTensor(self, op: Any) -> str:
        raise NotImplementedError

    def _members(self, lists: Sequence[Any]) -> tuple[list[list[Any]], str]:
        raise NotImplementedError
