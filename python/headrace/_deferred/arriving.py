"""Sends a recorded batch from a worker process to the training process.

Only plain data is sent: paths, bytes and the engine's JSON. The training process creates the
pending tensors anew.
"""

from __future__ import annotations

import pickle
import threading
import weakref
from functools import cache, lru_cache
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.utils.data._utils.pin_memory import pin_memory

from headrace._deferred import drawn, header
from headrace._deferred.behind import Given, Opened
from headrace._deferred.chain import Chain, Form, Key, Op
from headrace._deferred.image import DeferredImage
from headrace._deferred.limits import Limits
from headrace._deferred.parts import AnyPart, Part
from headrace._deferred.recording import Asked, Draws, Reason
from headrace._deferred.source import File, bytes_of
from headrace._deferred.tensor import PendingTensor
from headrace._torch.failures import noted


class Recorded:
    """A batch as the program's code made it, with images that are still to be decoded.

    Attributes:
        data: what the collate function returned.
        pending: every pending tensor that was made, those in ``data`` among them.
        reasons: why pixels were needed in Python.
        opened: whether the program's code opened images.
        asked: what the dataset was asked for, so that it can be asked again; None for a stream.
        limits: the engine's limits for the images that were opened.
        collated: whether ``data`` is a batch; else it is the samples, because the collate function
            needs values.
        engine_made: whether the engine also made images at once; never in worker processes.
        foreign: as in ``Recording``.
        images: every deferred image that was made, those in ``data`` among them.
        worker: the number of the worker process that made the batch; None: the training process.
        taken: how many samples torch's loader took from a stream for the batch; None: the dataset
            was asked for samples, or the loader takes what the stream gives.
        pins: whether the batch is to be in pinned memory.
    """

    engine_made = pins = False
    worker: int | None = None
    taken: int | None = None
    foreign: list[tuple[bytes, str]]
    images: list[weakref.ref[DeferredImage]]

    def __init__(
        self,
        data: Any,
        pending: list[PendingTensor],
        reasons: list[Reason],
        opened: bool,
        asked: Asked | None,
        limits: Limits,
        collated: bool,
    ) -> None:
        self.data, self.pending, self.reasons = data, pending, reasons
        self.opened, self.asked, self.limits, self.collated = opened, asked, limits, collated
        self.foreign, self.images = [], []

    def __reduce__(self) -> Any:
        asked = None if self.asked is None else tuple(self.asked)
        reasons = [tuple(reason) for reason in self.reasons]
        told = (reasons, self.opened, asked, tuple(self.limits), self.collated)
        return _arrived, (self.data, *told, self.foreign, self.worker, self.taken)

    def pin_memory(self) -> Recorded:
        """Pins the tensors that have values; the pending ones will be made in pinned memory.

        Samples that are not collated yet stay where they are.
        """
        self.pins = True
        if self.collated:
            self.data = pin_memory(self.data)  # type: ignore[no-untyped-call]
        return self


class Sent:
    """A batch that leaves a worker process, pickled in the thread that made it.

    Otherwise the thread that feeds torch's queue would pickle it. That thread only prints an error
    of pickle, and the loader would wait for the batch for ever.

    Raises:
        Exception: what pickle raises, or one of the program's objects.
    """

    def __init__(self, recorded: Recorded) -> None:
        try:
            self._pickled = bytes(ForkingPickler.dumps(recorded))
        except Exception as failure:
            noted(failure, "a batch goes from a worker process to this one by pickle")
            raise

    def __reduce__(self) -> Any:
        return pickle.loads, (self._pickled,)


def sendable(failure: Exception) -> Exception:
    """The error, or a ``RuntimeError`` if torch's loader cannot send its class from a worker."""
    try:
        ForkingPickler.dumps(type(failure))
    except Exception:  # pickle finds a class by its name, and not one defined in a function
        made = RuntimeError(f"{type(failure).__qualname__}: {failure}")
        made.__cause__ = failure
        return made
    return failure


def pickles(samples: Any) -> bool:
    """Whether samples can be sent from a worker process to the training process."""
    try:
        ForkingPickler.dumps(samples)
    except Exception:  # the program's objects raise what they like
        return False
    return True


class _Arriving(threading.local):
    """The pending tensors and images of the batch that this thread is unpickling."""

    def __init__(self) -> None:
        self.pending: list[PendingTensor] = []
        self.images: list[weakref.ref[DeferredImage]] = []


_arriving = _Arriving()


def _arrived(
    data: Any,
    reasons: list[tuple[str, str]],
    opened: bool,
    asked: Any,
    limits: tuple[str, bool, int, int],
    collated: bool,
    foreign: list[tuple[bytes, str]],
    worker: int | None,
    taken: int | None,
) -> Recorded:
    # Its tensors were unpickled before it, because they are among its arguments.
    pending, _arriving.pending = _arriving.pending, []
    if asked is not None:
        asked = Asked(*asked)
        asked = asked._replace(key=asked.key and Draws(*asked.key))
    why = [Reason(*reason) for reason in reasons]
    made = Recorded(data, pending, why, opened, asked, Limits(*limits), collated)
    made.foreign, made.worker, made.taken = foreign, worker, taken
    made.images, _arriving.images = _arriving.images, []
    return made


# ---- images --------------------------------------------------------------------------------------


def _sent_image(image: DeferredImage) -> Any:
    """Sends what was recorded if this is a worker, which has no engine; else the pixels."""
    chain = image.chain
    if chain is None or torch.utils.data.get_worker_info() is None:
        return image.__reduce_ex__(2)
    if isinstance(chain.header, Given) and chain.header.image.info:  # no file has this info
        return image.__reduce_ex__(2)
    image.begin_to_load()  # as pickling does with an image of Pillow's
    name = "" if chain.header is None else chain.header.name
    told = (_where(chain), chain.stored, chain.mode, _text(chain), chain.size, chain.key, name)
    return _image_anew, (*told, image.format, image.place, _sent_info(image, chain))


def _sent_info(image: DeferredImage, chain: Chain) -> dict[Any, Any] | None:
    """The image's ``info`` if the training process could not read it from the file; else None.

    The program may have changed it. And the ops may have changed a transparent colour; they can be
    replayed only in this process.
    """
    if "info" in image.__dict__ or not chain.ops:
        return image.__dict__.get("info")
    if any(op.anew for op in chain.ops) or _may_name_a_colour(chain):
        before = drawn.states() if chain.drawn else None
        try:
            image.info  # noqa: B018  # computes it
        except OSError:  # the file is bad, and the training process will find that out
            return None
        finally:
            if before is not None:
                drawn.go_back(before)
    return image.__dict__.get("info")


def _may_name_a_colour(chain: Chain) -> bool:
    """Whether a chain's file may have a transparent colour: a GIF, or a PNG with a tRNS chunk."""
    if chain.header is None or chain.header.kind not in ("", "GIF", "PNG"):
        return False
    try:
        data = bytes_of(chain.source)
    except OSError:
        return False
    _, behind = header.read(data) or (None, None)
    return data.startswith(b"GIF8") or b"tRNS" in data[:behind]


def _image_anew(
    where: Any,
    stored: str,
    mode: str,
    text: str,
    size: tuple[int, int],
    key: Any,
    name: Any,
    format: str | None,
    place: int,
    info: dict[Any, Any] | None,
) -> DeferredImage:
    source = where if isinstance(where, bytes) else File.known(*where)
    ops = (Op(text, None),) if text else ()
    made = DeferredImage(Chain(source, stored, mode, size, ops, key, Opened(source, name)), format)
    made.loaded, made.place = True, place
    if info is not None:
        made.info = info
    _arriving.images.append(weakref.ref(made))
    return made


# ---- tensors -------------------------------------------------------------------------------------


def _sent(tensor: PendingTensor) -> Any:
    return _made_anew, (tensor.parts, *tensor.described(), tensor.stacked, tensor.plain)


def _sent_part(part: Part) -> Any:
    # Pickle sends a part of several tensors once, so it is one object where it arrives.
    chain = part.chain
    return _part, (_where(chain), _text(chain), chain.size, chain.key, part.form, part.place)


def _where(chain: Chain) -> Any:
    source = chain.source
    return source if isinstance(source, bytes) else source.data or (source.path, source.identity)


def _text(chain: Chain) -> str:
    return ",".join(op.text for op in chain.ops if op.text)


def _made_anew(
    parts: tuple[AnyPart, ...],
    shape: tuple[int, ...],
    dtype: torch.dtype,
    stacked: bool,
    plain: type[torch.Tensor],
) -> PendingTensor:
    made = kind_of(plain)(parts, shape, dtype, stacked)
    _arriving.pending.append(made)
    return made


def _part(
    where: Any, text: str, size: tuple[int, int], key: Key | None, form: Form, place: int
) -> Part:
    source = where if isinstance(where, bytes) else File.known(*where)
    chain = Chain(source, "RGB", "RGB", size, _ops(text), key, None)
    return Part(chain, form, place)


@lru_cache(64)
def _ops(text: str) -> tuple[Op, ...]:
    """The ops of a text; all images with the same text share one tuple."""
    return (Op(text, None),)


def wrapped(cls: type[PendingTensor], /, tensor: Any, like: Any, **_: Any) -> Any:
    """What torchvision calls to give a kernel's result the class of the kernel's argument."""
    if isinstance(tensor, PendingTensor):
        return tensor.of_kind(cls)
    return tensor.as_subclass(cls.plain)


@cache
def kind_of(plain: type[torch.Tensor]) -> type[PendingTensor]:
    """The class of pending tensors that become ``plain`` once they have values.

    It is a subclass of ``plain``, because programs and libraries check the class of a tensor.
    """
    if plain is torch.Tensor:
        return PendingTensor
    names = {"plain": plain, "wrap": classmethod(wrapped), "__module__": __name__}
    made = type("PendingTensor", (PendingTensor, plain), names)
    ForkingPickler.register(made, _sent)
    return made


ForkingPickler.register(PendingTensor, _sent)
ForkingPickler.register(Part, _sent_part)
ForkingPickler.register(DeferredImage, _sent_image)
