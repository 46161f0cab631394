"""Every recorded image is also made at once, and compared with what the batch makes of it later.

Making an image later must not change a value. Worker processes have no engine, so there nothing is
made at once.
"""

from __future__ import annotations

from typing import Any

import PIL.Image
import pytest
import torch

from headrace._deferred import image, making, pixels, recording, tensor
from headrace._deferred.chain import Chain, Form
from headrace._deferred.image import DeferredImage
from headrace._deferred.making import Batch
from headrace._deferred.parts import Derived, Part, Stacked, leaves_of
from headrace._deferred.tensor import PendingTensor

_PIXELS = Form(layout="NHWC")
_MOST = 256  # images that wait to be compared; those of three batches are fewer here


class AtOnce:
    """Keeps what was made at once of each chain, until its batch is made.

    Attributes:
        compared: how many values were compared with those that came later.
        another: if true, other draws are used at once, to show that a difference is found.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[int, Form], tuple[Chain, bytes | None]] = {}
        self.compared, self.another = 0, False

    def make(self, chain: Chain, form: Form) -> None:
        found = recording.current()
        if found is None or not found.engine or not chain.native:
            return
        of_it = chain
        if self.another and chain.key is not None:
            seed, epoch, sample, *rest = chain.key
            of_it = chain._replace(key=(seed, epoch, sample + 1, *rest))
        try:
            with recording.paused():
                _, data = pixels.decoded(of_it, form)
        except (OSError, SyntaxError, ValueError):
            return  # a bad file, which is another test's subject
        self._made[id(chain), form] = chain, data
        if len(self._made) > _MOST:
            del self._made[next(iter(self._made))]

    def compare(self, chain: Chain, form: Form, late: bytes) -> None:
        kept, data = self._made.get((id(chain), form), (None, None))
        if kept is chain and data is not None:
            assert late == data, f"{chain} was another image at once"
            self.compared += 1

    def compare_derived(self, part: Derived, late: torch.Tensor) -> None:
        """Applies the operators, one after the other, to what was made at once, and compares."""
        made = self._at_once(part.leaf)
        if made is not None:
            for op in part.ops:
                made = op.of(made)
            assert _bits(made) == _bits(late), f"{part} was another tensor at once"
            self.compared += 1

    def _at_once(self, leaf: Part | Stacked) -> torch.Tensor | None:
        if isinstance(leaf, Stacked):
            rows = [self._at_once(part) for part in leaf.parts if isinstance(part, Part | Stacked)]
            whole = len(rows) == len(leaf.parts) and all(row is not None for row in rows)
            return torch.stack([row for row in rows if row is not None]) if whole else None
        kept, data = self._made.get((id(leaf.chain), leaf.form), (None, None))
        if kept is not leaf.chain or data is None:
            return None
        shape, dtype = leaf.described()
        return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype).view(shape)


def _bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def compare_all(monkeypatch: pytest.MonkeyPatch) -> AtOnce:
    """Compares everything that is made from here on."""
    found = AtOnce()
    image_made, pending_made = DeferredImage.__init__, PendingTensor.__new__
    twin, finish = image.DeferredImage.twin, Batch.finish

    def make_image(self: Any, chain: Chain, *told: Any, **named: Any) -> None:
        image_made(self, chain, *told, **named)
        found.make(chain, _PIXELS)

    def make_pending(cls: Any, parts: Any, *form: Any) -> Any:
        for leaf in leaves_of(parts):
            found.make(leaf.chain, leaf.form)
        return pending_made(cls, parts, *form)

    def compared_twin(self: Any, what: str = "") -> PIL.Image.Image:
        chain = self.chain
        made = twin(self, what)
        if chain is not None and chain.native:
            found.compare(chain, _PIXELS, made.tobytes())
        return made

    def compared_finish(self: Batch) -> list[int]:
        values = [(value, value.parts) for value, _ in self._pairs if type(value) is PendingTensor]
        derived = [
            (value, parts, value.stacked)
            for value, parts in self._derived._pending
            if type(value) is PendingTensor
        ]
        bad = finish(self)
        for value, parts in values if not bad and self._means.mode == "exact" else ():
            # The value has become a plain tensor.
            rows = value.view(len(parts), -1).view(torch.uint8)
            for part, row in zip(parts, rows, strict=True):
                if isinstance(part, Part):
                    found.compare(part.chain, part.form, row.numpy().tobytes())
        for value, parts, stacked in derived if not bad and self._means.mode == "exact" else ():
            for part, made in zip(parts, value if stacked else [value], strict=True):
                if isinstance(part, Derived):
                    found.compare_derived(part, made)
        return bad

    monkeypatch.setattr(DeferredImage, "__init__", make_image)
    monkeypatch.setattr(DeferredImage, "twin", compared_twin)
    monkeypatch.setattr(tensor.PendingTensor, "__new__", staticmethod(make_pending))
    monkeypatch.setattr(making.Batch, "finish", compared_finish)
    return found
