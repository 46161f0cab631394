"""The chain of an image: what was done to it since it was opened, as the engine's transforms.

A chain never changes; each op makes a new one. So a chain that was taken from an image stays as it
is, whatever is done to the image later.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from headrace._deferred.drawn import Repeated
from headrace._deferred.source import Source
from headrace._engine import followed
from headrace._translate.result import MOST_OPS, engine_ops


class Op(NamedTuple):
    """One or more transforms of an image.

    Attributes:
        text: the transforms as the engine's JSON, separated by commas.
        replay: does the same in Python, to a Pillow image or to the tensor that the op before made
            of it. torchvision draws there what the engine would have drawn.
        finished: the names of the transforms that change finished values. After one of these the
            engine can no longer move pixels.
        anew: whether it makes a new image that does not take over ``info``.
    """

    text: str
    replay: Callable[[Any], Any] | None
    finished: tuple[str, ...] = ()
    anew: bool = False


# Pillow's conversions to L and RGB. The ops between them are done to one channel.
_LUMINANCE = '{"name":"Grayscale","num_output_channels":1}'
_COLOURS = '{"name":"Grayscale","num_output_channels":3}'


_SPARE = 6  # how many of the engine's ops one function or method of Pillow's may need
# How many ops one transform takes at most, with the op that opens its group; and the largest one.
_AT_MOST, _LARGEST = 3, 20
_LARGE = '"RandomPhotometricDistort"'
# A text of fewer characters is never more than MOST_OPS without the spare ones. A transform has 13
# or more (`{"name":"X"}` and a comma), and the largest one 36. The second bound is for texts
# without that one.
_FEW, _FEW_OF_OTHERS = 106, 258


# What the engine's draws are keyed by: seed, epoch, sample, draw and view. It is a plain tuple,
# because Python's garbage collector stops looking at tuples of numbers. At other objects that wait
# it looks again and again.
Key = tuple[int, int, int, int, int]


class Chain(NamedTuple):
    """An image that is not decoded: where its bytes are, and what is to be done to it.

    Attributes:
        source: where its encoded bytes are.
        stored: Pillow's mode of the file.
        mode: Pillow's mode of the image after the ops.
        size: its width and height after the ops.
        ops: the ops after the conversion to RGB, with which the engine begins.
        key: what the engine's draws are keyed by; None if the engine draws nothing.
        header: the file as Pillow opens it, for code that asks for more than mode and size; None:
            there is no more to ask for, as of an image that was made of pixels.
    """

    source: Source
    stored: str
    mode: str
    size: tuple[int, int]
    ops: tuple[Op, ...]
    key: Key | None
    header: Any

    def in_colours(self) -> Chain:
        """The chain as RGB. The engine makes RGB of every file that it decodes."""
        ops = self.ops
        if self.mode == "RGB":
            return self
        if self.mode == "L":
            ops = () if self.as_opened else (*ops, Op(_COLOURS, partial(_converted, "RGB")))
        return Chain(self.source, self.stored, "RGB", self.size, ops, self.key, self.header)

    def in_grey(self) -> Chain:
        """The chain as L: converted from RGB, or a file of one channel as it is opened."""
        ops = (*self.ops, Op(_LUMINANCE, partial(_converted, "L")))
        return Chain(self.source, self.stored, "L", self.size, ops, self.key, self.header)

    def drafted(self, size: tuple[int, int], factor: int, grey: bool, replay: Any) -> Chain:
        """The chain of a JPEG that was only opened, decoded at a fraction of its size (a draft).

        Args:
            grey: whether only its luminance is decoded.
            replay: does the draft on Pillow's object of the file.
        """
        text = f'{{"name":"Draft","factor":{factor},"grey":{"true" if grey else "false"}}}'
        ops = (Op(text, replay),)
        made = Chain(self.source, self.stored, "RGB", size, ops, None, self.header)
        return made.in_grey() if grey or self.mode == "L" else made

    @property
    def as_opened(self) -> bool:
        """Whether nothing was done to it. A file of one channel always has one op (``in_grey``)."""
        if self.mode == "L":
            # An RGB file that became grey may have this one op as well.
            return self.stored == "L" and [op.text for op in self.ops] == [_LUMINANCE]
        return self.mode == self.stored and not self.ops

    @property
    def drafts(self) -> bool:
        """Whether the first op is a draft, which is done to the file and not to an image."""
        return bool(self.ops) and self.ops[0].text.startswith('{"name":"Draft"')

    def then(self, op: Op, size: tuple[int, int]) -> Chain:
        """The chain with a further op."""
        return self.behind((op,), size, None)

    def behind(
        self, ops: tuple[Op, ...], size: tuple[int, int], key: Key | None, last: bool = False
    ) -> Chain:
        """The chain with further ops, and with a key if the engine draws some of them.

        Args:
            last: whether a tensor is made of it, so that nobody can ask for the file any more.
        """
        # Without ops before them, `ops` is not copied: many images share that tuple.
        ops = self.ops + ops if self.ops else ops
        header = None if last else self.header
        return Chain(self.source, self.stored, self.mode, size, ops, key or self.key, header)

    @property
    def native(self) -> bool:
        """Whether the engine can make it: it makes RGB of every file, and L of RGB."""
        return self.mode in ("RGB", "L")

    @property
    def full(self) -> bool:
        """Whether the engine may take no further op, so that the image is made before the next."""
        if not self.ops:
            return False
        text = _joined(self.ops)  # it is asked at each op, and mostly its length is enough
        if len(text) < _FEW or (len(text) < _FEW_OF_OTHERS and _LARGE not in text):
            return False
        return not _fit(text, _SPARE)

    def has_room(self, more: int) -> bool:
        """Whether the engine takes so many ops behind these."""
        return _fit(_joined(self.ops), more) if self.ops else more <= MOST_OPS

    @property
    def channels(self) -> int:
        """How many channels the image has, if it is native."""
        return 3 if self.mode == "RGB" else 1

    @property
    def finished(self) -> tuple[str, ...]:
        """The transforms of its finished values; empty if its pixels can still be moved."""
        return tuple(name for op in self.ops for name in op.finished)

    @property
    def drawn(self) -> bool:
        """Whether the engine draws some of the ops."""
        return self.key is not None

    @property
    def drawn_in_python(self) -> bool:
        """Whether torchvision has drawn the ops already, because this process has no engine."""
        replays = (op.replay for op in self.ops)
        return any(isinstance(replay, Repeated) and replay.before is not None for replay in replays)


def _joined(ops: tuple[Op, ...]) -> str:
    return ops[0].text if len(ops) == 1 else ",".join([op.text for op in ops if op.text])


def _fit(text: str, more: int) -> bool:
    """Whether the engine takes so many ops behind the transforms of a text."""
    transforms, large = text.count('{"name"'), text.count(_LARGE)
    # Most chains are short, and this bound is enough. In the others each transform is counted.
    if _AT_MOST * transforms + (_LARGEST - _AT_MOST) * large + more <= MOST_OPS:
        return True
    return sum(map(engine_ops, json.loads(f"[{text}]"))) + more <= MOST_OPS


def _converted(mode: str, image: Any) -> Any:
    return image.convert(mode)


class Form(NamedTuple):
    """The form in which the engine writes a chain's pixels.

    Attributes:
        dtype: "uint8", "float32", "float16" or "bfloat16".
        scale: "div" where bytes are divided by 255, "mul" where they are multiplied by 1/255.
        normalize: an op of the engine's JSON, or "".
        layout: "NCHW" for tensors, "NHWC" for Pillow's pixels.
        channels: 3, or 1 if the chain's ops leave one channel.
    """

    dtype: str = "uint8"
    scale: str = "div"
    normalize: str = ""
    layout: str = "NCHW"
    channels: int = 3


def op(name: str, replay: Callable[[Any], Any] | None = None, **arguments: Any) -> Op:
    """An op of one transform with its arguments."""
    return Op(json.dumps({"name": name, **arguments}), replay)


def config(chain: Chain, form: Form, mode: str, limits: str) -> str:
    """The engine's JSON for an image, as ``hr_decode`` in headrace.h takes it, without the key.

    Args:
        limits: the limits, as the engine's JSON.
    """
    ops = [op.text for op in chain.ops if op.text]
    if form.normalize:
        ops.append(form.normalize)
    pillow = followed.pillow()
    older = f'"pillow":"{pillow}",' if pillow else ""
    return (
        f'{{{older}"transform":[{",".join(ops)}],"dtype":"{form.dtype}","scale":"{form.scale}",'
        f'"layout":"{form.layout}","mode":"{mode}","limits":{limits}}}'
    )
