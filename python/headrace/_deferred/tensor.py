"""A tensor whose values the engine has yet to make.

It has shape and dtype, so that a collate function can stack it. Whatever needs its values turns it
into a plain tensor first, in place: every reference to it then holds the values.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from headrace._deferred import pixels, recording
from headrace._deferred.chain import Chain, Form

DTYPES = {
    "uint8": torch.uint8,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


View = Callable[[torch.Tensor], torch.Tensor]


class Part(NamedTuple):
    """One image of a tensor: plain data, which goes from process to process.

    Attributes:
        chain: what to decode, and how.
        form: dtype and scale.
        place: of its sample in the batch.
    """

    chain: Chain
    form: Form
    place: int

    def described(self) -> tuple[tuple[int, ...], torch.dtype]:
        """Shape and dtype."""
        width, height = self.chain.size
        return (self.form.channels, height, width), DTYPES[self.form.dtype]


class PendingTensor(torch.Tensor):
    """Values to come: of one image (channels, height, width), or of several stacked.

    Attributes:
        parts: the images in their order; where others are stacked with them, tensors among them.
        stacked: it has a first dimension for them.
        pinned: pin_memory() was called.
        form: shape and dtype.
        plain: the class that it has once it has values.
        shared: the tensors with which it will have its memory in common, where there are some.
    """

    shared: Shared
    plain: type[torch.Tensor] = torch.Tensor
    parts: tuple[Part | torch.Tensor, ...]
    pinned = False
    form: tuple[tuple[int, ...], torch.dtype]

    @staticmethod
    def __new__(
        cls, parts: tuple[Part | torch.Tensor, ...], shape: tuple[int, ...], dtype: torch.dtype
    ) -> PendingTensor:
        make: Any = torch.Tensor._make_wrapper_subclass
        made: PendingTensor = make(cls, shape, dtype=dtype)
        made.parts, made.form = parts, (shape, dtype)
        _refuse_pointers(made)
        if (found := recording.current()) is not None:
            found.pending.append(made)
        return made

    def __init__(self, *_: Any) -> None:
        pass

    @property
    def stacked(self) -> bool:
        return len(self.form[0]) == 4

    def of_kind(self, kind: type[PendingTensor]) -> PendingTensor:
        """The same values as another kind of pending tensor."""
        return self if type(self) is kind else self.seen_as(kind(self.parts, *self.form), _all)

    def seen_as(self, made: PendingTensor, view: View) -> PendingTensor:
        """Another tensor that torch gives as a view of this one: what is written to one is seen in
        the other."""
        shared = self.__dict__.get("shared")
        if shared is None:
            self.shared = shared = Shared(self)
        shared.add(self, made, view)
        made.shared = shared
        return made

    def as_subclass(self, cls: Any) -> Any:
        """Of torch.Tensor: the same values, to come as well. torch asks nobody else here."""
        if cls is torch.Tensor and not self.pinned:
            return self.of_kind(PendingTensor)
        _materialise(self)
        return self.as_subclass(cls)

    def described(self) -> tuple[tuple[int, ...], torch.dtype]:
        """Shape and dtype, without values."""
        return self.form

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _OF_THE_FORM:
            # Not DisableTorchFunctionSubclass, which an exception from outside could leave on.
            return torch._C._disabled_torch_function_impl(func, types, args, kwargs)
        if func is torch.stack:
            made = _stacked(args[0], *args[1:], **kwargs) if args else None
            if made is not None:
                return made
        elif func is torch.Tensor.pin_memory:
            args[0].pinned = True
            return args[0]
        for value in (*args, *kwargs.values()):
            _materialise(value)
        return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """What C++ calls without asking ``__torch_function__``: on values of their own."""
        tree: Any = torch.utils._pytree.tree_map
        return func(*tree(_values, args), **tree(_values, kwargs or {}))

    # What default_collate asks of the first of a batch in a worker process, to reserve shared
    # memory for the stack of them (torch/utils/data/_utils/collate.py): of these, none.
    def _typed_storage(self) -> Any:
        return _NO_STORAGE

    def new(self, *arguments: Any) -> Any:  # type: ignore[override]
        if arguments and arguments[0] is _NO_STORAGE:
            return _NO_STORAGE
        _materialise(self)
        return self.new(*arguments)


class Shared:
    """Tensors to come that are views of the first of them, made together."""

    def __init__(self, first: PendingTensor) -> None:
        self._parts, self._form = first.parts, first.form
        self._members: list[tuple[weakref.ref[PendingTensor], View]] = [(weakref.ref(first), _all)]

    def add(self, base: PendingTensor, made: PendingTensor, view: View) -> None:
        """Adds a view of one of them."""
        (of_first,) = (seen for member, seen in self._members if member() is base)
        self._members.append((weakref.ref(made), lambda first: view(of_first(first))))

    def alive(self) -> list[tuple[PendingTensor, View]]:
        """Those that are pending still, and that somebody refers to."""
        members = [(member(), view) for member, view in self._members]
        return [(one, view) for one, view in members if isinstance(one, PendingTensor)]

    def make(self) -> None:
        """Gives all of them their values, in one memory."""
        first = _values(PendingTensor(self._parts, *self._form))
        for one, view in self.alive():
            replace(one, view(first))


# What exports a tensor in C++ alone would give memory at address 0 of it.
_refuse_pointers: Any = getattr(torch._C, "_set_throw_on_mutable_data_ptr", lambda tensor: None)


OWN_TO_DLPACK: Any = torch._C._to_dlpack


def to_dlpack(tensor: Any) -> Any:
    """``torch.utils.dlpack.to_dlpack``, which is written in C++ and asks no subclass."""
    _materialise(tensor)
    return OWN_TO_DLPACK(tensor)


def swap(found: recording.Recording, original: Any, t1: Any, t2: Any) -> Any:
    """``torch.utils.swap_tensors``, which exchanges what the tensors are and asks no subclass."""
    for value in (t1, t2):
        _materialise(value)
    return original(t1, t2)


def _all(first: torch.Tensor) -> torch.Tensor:
    return first.view(first.shape)


class _NoStorage:
    """Stands for the memory of a stack that needs none."""

    def _new_shared(self, *_: Any, **__: Any) -> _NoStorage:
        return self

    def _is_shared(self) -> bool:
        """As memory that is not shared yet."""
        return False

    def resize_(self, *_: Any) -> None:
        """As the ``out`` of a stack, None: it makes a tensor of its own."""


_NO_STORAGE = _NoStorage()


def pending(chain: Chain, form: Form) -> PendingTensor:
    """The tensor of an image that the program has now."""
    found = recording.current()
    part = Part(chain, form, 0 if found is None else found.place)
    width, height = chain.size
    return PendingTensor((part,), (form.channels, height, width), DTYPES[form.dtype])


def _stacked(tensors: Any, dim: int = 0, *, out: Any = None) -> PendingTensor | None:
    """Pending tensors of one shape and dtype as one, others among them; None where values are
    needed."""
    if dim or out is not None:
        return None
    parts: list[Part | torch.Tensor] = []
    first: Any = None
    for tensor in tensors:
        if isinstance(tensor, PendingTensor) and not tensor.stacked:
            part = tensor.parts[0]
        elif (
            type(tensor) is torch.Tensor
            and not tensor.requires_grad
            and tensor.device.type == "cpu"
        ):
            part = tensor
        else:
            return None
        found = _form(part)
        first = found if first is None else first
        if found != first:
            return None
        parts.append(part)
    # torch's stack is a copy: what becomes of a tensor later is not seen in it.
    kept = (part.clone() if isinstance(part, torch.Tensor) else part for part in parts)
    return PendingTensor(tuple(kept), (len(parts), *first[0]), first[1])


def _form(part: Part | torch.Tensor) -> tuple[tuple[int, ...], torch.dtype]:
    """Shape and dtype."""
    if isinstance(part, torch.Tensor):
        return tuple(part.shape), part.dtype
    return part.described()


def _materialise(value: Any) -> None:
    """Makes plain tensors of what is pending in an argument, in place."""
    if isinstance(value, PendingTensor):
        shared = value.__dict__.get("shared")
        if shared is not None and len(shared.alive()) > 1:
            shared.make()
        else:
            replace(value, _values(value))
    elif isinstance(value, list | tuple):
        for part in value:
            _materialise(part)
    elif isinstance(value, dict):
        for part in value.values():
            _materialise(part)


def make(value: PendingTensor, which: Callable[[Part], bool]) -> None:
    """Gives a tensor its values now if it is pending, and any of its images is such a one."""
    parts = value.parts if isinstance(value, PendingTensor) else ()
    if any(which(part) for part in parts if isinstance(part, Part)):
        _materialise(value)


def _values(value: Any) -> Any:
    """The values of a pending tensor, decoded one after the other in this thread."""
    if not isinstance(value, PendingTensor):
        return value
    found = recording.current()
    if found is not None:
        found.refuse()
    altering = pixels.note()
    parts, engine = value.parts, pixels.engine_here()
    shape, dtype = value.described()
    made = torch.empty(shape, dtype=dtype)
    for row, part in zip(made.view(len(parts), -1), parts, strict=True):
        if isinstance(part, torch.Tensor):
            row.copy_(part.reshape(-1))
        elif not engine:
            row.copy_(pixels.values_of(part.chain, part.form).reshape(-1))
        else:
            _, data = pixels.decoded(part.chain, part.form)
            row.view(torch.uint8).copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    return made if altering is None else altering.of_tensor(made)


def replace(value: PendingTensor, made: torch.Tensor) -> None:
    """Puts values in the place of a pending tensor, wherever it is referred to.

    As ``torch.utils.swap_tensors``, and so that it can be called again where an exception from
    outside has ended it in between. Weak references to the tensor stay.
    """
    if not isinstance(value, PendingTensor):
        return
    if torch._C._dispatch_keys(value).has(torch._C.DispatchKey.Python):  # still a wrapper
        torch._C._swap_tensor_impl(value, made)
    value.__class__ = value.plain  # type: ignore[assignment]
    for name in ("parts", "pinned", "form", "shared"):
        value.__dict__.pop(name, None)


# Questions that the wrapper answers without values.
_ATTRIBUTES = (
    *("shape", "dtype", "device", "layout", "ndim", "requires_grad", "is_nested", "is_sparse"),
    *("is_cuda", "is_cpu", "is_quantized", "is_mkldnn", "is_meta", "is_leaf", "grad_fn"),
    *("itemsize", "nbytes"),
)
_QUESTIONS = (
    *("size", "dim", "numel", "nelement", "ndimension", "element_size", "is_floating_point"),
    *("is_complex", "is_signed", "stride", "__len__", "is_pinned", "is_shared", "is_contiguous"),
)
_OF_THE_FORM = {
    *(getattr(torch.Tensor, name).__get__ for name in _ATTRIBUTES if hasattr(torch.Tensor, name)),
    *(getattr(torch.Tensor, name) for name in _QUESTIONS),
    torch.is_floating_point,
    torch.is_complex,
    torch.numel,
}
