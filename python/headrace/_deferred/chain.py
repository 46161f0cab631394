"""What was done to an image since it was opened, as the engine's transforms.

A chain never changes: each op makes another. So what was taken from an image stays what it was,
whatever becomes of the image.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from headrace._deferred.drawn import Repeated
from headrace._deferred.source import Source
from headrace._engine import followed


class Op(NamedTuple):
    """One or more transforms of an image.

    Attributes:
        text: the transforms as the engine's JSON, separated by commas.
        replay: does the same to a Pillow image, or to the tensor that the op before made of it.
            What the engine would have drawn is drawn there by torchvision.
        finished: the names of those that are done to finished values, behind which the engine
            moves no pixels.
        anew: it makes a new image, which has no ``info`` of the one that it is made of.
    """

    text: str
    replay: Callable[[Any], Any] | None
    finished: tuple[str, ...] = ()
    anew: bool = False


# Pillow's conversions to L and RGB. What stands between them is done to one channel.
_LUMINANCE = '{"name":"Grayscale","num_output_channels":1}'
_COLOURS = '{"name":"Grayscale","num_output_channels":3}'


# Of the engine's 64 ops (HRN_MAX_OPS), those that an image may have for another to be added, with
# two for a transform. Fewer transforms than these are never so many, and are not counted.
_MOST, _FEW = 58, 8


# What the engine's draws are keyed by: seed, epoch, sample, draw and view. No class of its own:
# Python's collector looks again and again at whatever waits, but for tuples of numbers.
Key = tuple[int, int, int, int, int]


class Chain(NamedTuple):
    """An image that nobody has decoded.

    Attributes:
        source: where its encoded bytes are.
        stored: Pillow's mode of the file.
        mode: Pillow's mode of the image at this place.
        size: its width and height.
        ops: what comes behind the conversion to RGB, which the engine begins with.
        key: of the ops that the engine draws, or None where there are none.
        header: the file as Pillow opens it, for whoever asks for more than mode and size; None: of
            pixels, which have no more.
    """

    source: Source
    stored: str
    mode: str
    size: tuple[int, int]
    ops: tuple[Op, ...]
    key: Key | None
    header: Any

    def in_colours(self) -> Chain:
        """As RGB, which every file becomes that is decoded natively."""
        ops = self.ops
        if self.mode == "RGB":
            return self
        if self.mode == "L":
            ops = () if self.as_opened else (*ops, Op(_COLOURS, partial(_converted, "RGB")))
        return Chain(self.source, self.stored, "RGB", self.size, ops, self.key, self.header)

    def in_grey(self) -> Chain:
        """As L: of RGB, or a file of one channel as it is opened."""
        ops = (*self.ops, Op(_LUMINANCE, partial(_converted, "L")))
        return Chain(self.source, self.stored, "L", self.size, ops, self.key, self.header)

    def drafted(self, size: tuple[int, int], factor: int, grey: bool, replay: Any) -> Chain:
        """The chain of a JPEG that was only opened, decoded at a fraction of its size (a draft).

        Args:
            grey: only its luminance is decoded.
            replay: does the draft on Pillow's object of the file.
        """
        text = f'{{"name":"Draft","factor":{factor},"grey":{"true" if grey else "false"}}}'
        ops = (Op(text, replay),)
        made = Chain(self.source, self.stored, "RGB", size, ops, None, self.header)
        return made.in_grey() if grey or self.mode == "L" else made

    @property
    def as_opened(self) -> bool:
        """Whether nothing was done to it: a file of one channel begins with an op that says so."""
        if self.mode == "L":
            # A transform that leaves one channel of three is one op as well.
            return self.stored == "L" and [op.text for op in self.ops] == [_LUMINANCE]
        return self.mode == self.stored and not self.ops

    @property
    def drafts(self) -> bool:
        """Whether it begins with a draft, which is done to the file and not to an image."""
        return bool(self.ops) and self.ops[0].text.startswith('{"name":"Draft"')

    def then(self, op: Op, size: tuple[int, int]) -> Chain:
        """The chain with a further op."""
        return self.behind((op,), size, None)

    def behind(
        self, ops: tuple[Op, ...], size: tuple[int, int], key: Key | None, last: bool = False
    ) -> Chain:
        """The chain with further ops, and with a key if the engine draws some of them.

        Args:
            last: a tensor is made of it, so nobody asks for what the file says besides.
        """
        # The ops themselves where there are no others: many images share them.
        ops = self.ops + ops if self.ops else ops
        header = None if last else self.header
        return Chain(self.source, self.stored, self.mode, size, ops, key or self.key, header)

    @property
    def native(self) -> bool:
        """Whether the engine has its pixels: it makes RGB of whatever it reads, and L of that."""
        return self.mode in ("RGB", "L")

    @property
    def full(self) -> bool:
        """Whether the engine may take no more: the image is made before something is added."""
        if len(self.ops) < _FEW:
            return False
        texts = [op.text for op in self.ops]
        flips = sum(text.count('"RandomHorizontalFlip"') for text in texts)
        return 2 * sum(text.count('{"name"') for text in texts) - flips >= _MOST

    @property
    def channels(self) -> int:
        """How many channels an image has that is native."""
        return 3 if self.mode == "RGB" else 1

    @property
    def finished(self) -> tuple[str, ...]:
        """What is done to its finished values; empty where its pixels can be moved still."""
        return tuple(name for op in self.ops for name in op.finished)

    @property
    def drawn(self) -> bool:
        """Whether the engine draws some of the ops."""
        return self.key is not None

    @property
    def drawn_in_python(self) -> bool:
        """Whether torchvision has drawn them, for this process has no engine."""
        replays = (op.replay for op in self.ops)
        return any(isinstance(replay, Repeated) and replay.before is not None for replay in replays)


def _converted(mode: str, image: Any) -> Any:
    return image.convert(mode)


class Form(NamedTuple):
    """What becomes of a chain's pixels.

    Attributes:
        dtype: "uint8", "float32", "float16" or "bfloat16".
        scale: "div" where bytes are divided by 255, "mul" where they are multiplied by 1/255.
        normalize: an op of the engine's JSON, or "".
        layout: "NCHW" for tensors, "NHWC" for Pillow's pixels.
        channels: 3, or 1 of a chain whose ops make one of them.
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
    """What the engine is told of an image: ``hr_decode`` in headrace.h, without the key.

    Args:
        limits: as the engine's JSON.
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
