"""The pending tensor: a tensor whose values the engine has yet to make.

It has shape and dtype, so that a collate function can stack it. An operation that needs its values
first turns it into a plain tensor, in place, so that every reference to it has the values then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from headrace._deferred import asking, operators, opnames, recording, stacking
from headrace._deferred import parts as made_of
from headrace._deferred.chain import Chain, Form
from headrace._deferred.parts import (
    DTYPES,
    AnyPart,
    Derived,
    OnePart,
    Part,
    Stacked,
    TensorOp,
    form_of,
)
from headrace._deferred.shared import Making, Seen, Shared, is_wrapper, whole
from headrace._deferred.stacking import NO_STORAGE
from headrace._deferred.values import made_now


class PendingTensor(torch.Tensor):
    """A tensor of one image, of what operators make of it, or of several of these, stacked.

    Of an image it has the axes (channels, height, width).

    Attributes:
        parts: the images in their order, and tensors with values that are stacked with them.
        stacked: whether it has a first dimension for the parts.
        pinned: whether pin_memory() was called.
        form: shape and dtype.
        plain: the class that it has once it has values.
        viewed: whether it is a view of all of another tensor, which may be gone.
        shared: the tensors that get their values together with it, if there are some.
        member: the number of its memory among theirs, and how it is made of that.
        recorded: the number of the recording in which it was made.
    """

    shared: Shared
    member: tuple[int, Seen]
    plain: type[torch.Tensor] = torch.Tensor
    parts: tuple[AnyPart, ...]
    stacked: bool
    pinned = viewed = False
    form: tuple[tuple[int, ...], torch.dtype]
    recorded = 0

    @staticmethod
    def __new__(
        cls,
        parts: tuple[AnyPart, ...],
        shape: tuple[int, ...],
        dtype: torch.dtype,
        stacked: bool = False,
    ) -> PendingTensor:
        make: Any = torch.Tensor._make_wrapper_subclass
        made: PendingTensor = make(cls, shape, strides=_stride(parts, stacked), dtype=dtype)
        made.parts, made.form, made.stacked = parts, (shape, dtype), stacked
        _set_message(made, _TO_COME)
        if (found := recording.current()) is not None:
            found.pending.append(made)
            made.recorded = found.number
        return made

    def __init__(self, *_: Any) -> None:
        pass

    def of_kind(self, kind: type[PendingTensor]) -> PendingTensor:
        """The same values as another kind of pending tensor."""
        if type(self) is kind:
            return self
        return self.seen_as(kind(self.parts, *self.form, self.stacked), whole)

    def seen_as(self, made: PendingTensor, view: Making) -> PendingTensor:
        """``made``, which shares memory with this one: it is what torch returns as a view of it."""
        made.viewed = True
        return self._together_with(made, view, False)

    def _together_with(self, made: PendingTensor, making: Making, copies: bool) -> PendingTensor:
        shared = self.__dict__.get("shared")
        if shared is None:
            first = partial(made_now, self.parts, self.form, self.stacked)
            shared = Shared(self, first, replace, PendingTensor)
        shared.add(self, made, making, copies)
        return made

    @property
    def part(self) -> OnePart:
        """The tensor as a part of another one."""
        if self.stacked:
            return Stacked(self.parts)
        (part,) = self.parts
        assert not isinstance(part, torch.Tensor), "which only stacks have"
        return part

    def _made_of_it(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The result of an operator of torch, one tensor or several; None: it needs values."""
        name, in_place = opnames.NAMES.get(func), opnames.IN_PLACE.get(func)
        cuts = func in opnames.CUTTING
        if not (name or in_place or cuts) or not self._waits_on:
            return None
        if cuts:
            return self._cut(func, args[1:], kwargs)
        if name is None:
            return self._changed(in_place, args[1:], kwargs)
        return self._derived(func, name, args[1:], kwargs)

    def _cut(self, func: Any, arguments: Any, named: Any) -> tuple[PendingTensor, ...] | None:
        """The views that ``unbind``, ``chunk`` and ``split`` return; None: they need values."""
        kind, part, made = self._kind_behind(func), self.part, []
        for method, given in opnames.cuts_of(func, self.form, arguments, named):
            ops = operators.ops_on(part, method, given, {})
            if kind is None or not ops:
                return None
            # Autograd refuses some writes to a view that is one of several results.
            ops = (*ops[:-1], ops[-1]._replace(several=True))
            made.append(self._view_by(kind, part, ops))
        return tuple(made) or None

    def _derived(self, func: Any, name: str, arguments: Any, named: Any) -> PendingTensor | None:
        """The result of a method; None: it needs values."""
        if self.stacked:
            parts = operators.of_each(self.parts, name, arguments, named)
            if parts is not None:
                return self._with_parts(parts)
        kind, part = self._kind_behind(func), self.part
        if kind is None:
            return None
        image = operators.by_the_engine(part, name, arguments, named)
        if image is not None:
            return kind((image,), *image.described())
        ops = operators.ops_on(part, name, arguments, named)
        if not ops:
            return None if ops is None else self.of_kind(kind)
        return self._view_by(kind, part, ops)

    def _view_by(
        self, kind: type[PendingTensor], part: OnePart, ops: tuple[TensorOp, ...]
    ) -> PendingTensor:
        """What operators make of it: a view, or a tensor with memory of its own."""
        behind = operators.behind(part, ops)
        made = kind((behind,), *behind.described())
        return self._together_with(made, partial(made_of.values, ops), not ops[-1].view)

    @property
    def _waits_on(self) -> bool:
        """Whether the results of operators on it may be pending, too."""
        found = recording.current()
        if found is None or found.eager or self.pinned:
            return False
        return found.number == self.recorded and not torch.is_inference_mode_enabled()

    def _with_parts(self, parts: tuple[AnyPart, ...]) -> PendingTensor:
        """The stack of what an operator made of this one's images."""
        if parts is self.parts:
            return self
        shape, dtype = form_of(parts[0])
        return PendingTensor(parts, (len(parts), *shape), dtype, True)

    def _changed(self, name: Any, arguments: Any, named: Any) -> PendingTensor | None:
        """Changes the tensor in place by an operator, and returns it; None: it needs values."""
        # Copies that were made of it must keep the old values, and views would have to change.
        if "shared" in self.__dict__ or self.plain is not torch.Tensor:
            return None
        if self.stacked:
            parts = operators.of_each(self.parts, name, arguments, named)
        else:
            ops = operators.ops_on(self.part, name, arguments, named)
            parts = (operators.behind(self.part, ops),) if ops else None
        if not parts:
            return None
        shape, dtype = form_of(parts[0])
        form = ((len(parts), *shape) if self.stacked else shape, dtype)
        if name not in opnames.RESHAPED and form != self.form:
            return None  # torch raises
        self.become(parts, form)
        return self

    def become(self, parts: tuple[AnyPart, ...], form: tuple[tuple[int, ...], torch.dtype]) -> None:
        """Takes other images, or another shape."""
        stride = _stride(parts, self.stacked)
        laid_out = self.is_contiguous() if stride is None else stride == self.stride()
        if form != self.form or not laid_out:
            # The same object takes the shape and the strides of another without memory.
            torch._C._swap_tensor_impl(self, PendingTensor(parts, *form, self.stacked))
        self.parts, self.form = parts, form

    def _kind_behind(self, func: Any) -> type[PendingTensor] | None:
        """The class of an operator's result; None: it is not known.

        For a tv_tensors.Image most operators return plain tensors (TVTensor.__torch_function__).
        """
        if self.plain is torch.Tensor:
            return PendingTensor
        told: Any = sys.modules.get("torchvision.tv_tensors._torch_function_helpers")
        try:
            keeps = told._must_return_subclass() or func in told._FORCE_TORCHFUNCTION_SUBCLASS
        except AttributeError:
            return None
        return type(self) if keeps else PendingTensor

    def as_subclass(self, cls: Any) -> Any:
        """Stays pending for ``torch.Tensor``. torch does not ask ``__torch_function__`` here."""
        if cls is torch.Tensor and not self.pinned:
            if type(self) is not PendingTensor:
                return self.of_kind(PendingTensor)
            # A new tensor of the same memory, as in torch: its shape may be changed by itself.
            if not self.stacked:
                return self.seen_as(PendingTensor(self.parts, *self.form), whole)
            return self[...]
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
        if func in opnames.OF_THE_FORM:
            # Not with DisableTorchFunctionSubclass, which an exception from outside could leave on.
            return torch._C._disabled_torch_function_impl(func, types, args, kwargs)
        if (stacks := stacking.FUNCTIONS.get(func)) is not None:
            parts = stacks(PendingTensor, *args, **kwargs) if args else None
            if parts is not None:
                shape, dtype = form_of(parts[0])
                return PendingTensor(tuple(parts), (len(parts), *shape), dtype, True)
        elif func is torch.Tensor.pin_memory:
            args[0].pinned = True
            return args[0]
        elif func in asking.FUNCTIONS:
            made = asking.asked(func, args, kwargs)
            if made is not None:
                return made
        elif args and isinstance(args[0], PendingTensor):
            made = args[0]._made_of_it(func, args, kwargs)
            if made is not None:
                return made
        for value in (*args, *kwargs.values()):
            _materialise(value)
        return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Runs what C++ calls without asking ``__torch_function__``, on values made for it."""
        tree: Any = torch.utils._pytree.tree_map
        return func(*tree(_values, args), **tree(_values, kwargs or {}))

    # In a worker process default_collate calls this for the first tensor of a batch, to reserve
    # shared memory for the stack (torch/utils/data/_utils/collate.py). Pending tensors need none.
    def _typed_storage(self) -> Any:
        return NO_STORAGE

    def new(self, *arguments: Any) -> Any:  # type: ignore[override]
        if arguments and arguments[0] is NO_STORAGE:
            return NO_STORAGE
        if self.plain is torch.Tensor and not any(
            isinstance(one, PendingTensor) for one in arguments
        ):
            return torch.empty(0, dtype=self.dtype, device="cpu").new(*arguments)
        _materialise(self)
        return self.new(*arguments)


def _stride(parts: tuple[AnyPart, ...], stacked: bool) -> tuple[int, ...] | None:
    """The strides of a tensor; None: it is contiguous."""
    first = None if stacked else parts[0]
    return first.last.stride if isinstance(first, Derived) else None


_TO_COME = (
    "this memory is that of a tensor whose values are still to come. torch tells nobody that .data "
    "was set to one; copy_() takes the values"
)


def _refuse_pointers(tensor: torch.Tensor, _: str) -> None:
    getattr(torch._C, "_set_throw_on_mutable_data_ptr", lambda tensor: None)(tensor)


# Code that asks for the memory in C++ alone would get address 0. With this it gets an error. The
# function is torch's own for tensors without memory, and not public. Older versions have only the
# other one, which refuses pointers.
_set_message: Any = getattr(torch._C, "_set_storage_access_error_msg", _refuse_pointers)


OWN_TO_DLPACK: Any = torch._C._to_dlpack


def to_dlpack(tensor: Any) -> Any:
    """``torch.utils.dlpack.to_dlpack``, which is written in C++ and does not ask subclasses."""
    _materialise(tensor)
    return OWN_TO_DLPACK(tensor)


def parameter(
    found: recording.Recording, original: Any, cls: Any, data: Any = None, requires_grad: Any = True
) -> Any:
    """``torch.nn.Parameter``, which would make another class of parameter of a pending tensor."""
    _materialise(data)
    return original(cls, data, requires_grad)


def swap(found: recording.Recording, original: Any, t1: Any, t2: Any) -> Any:
    """``torch.utils.swap_tensors``, which swaps two tensors and does not ask subclasses."""
    for value in (t1, t2):
        _materialise(value)
    return original(t1, t2)


def pending(chain: Chain, form: Form, place: int | None = None) -> PendingTensor:
    """The pending tensor of an image.

    Args:
        place: the place in the batch of the image that it is made of; None: it was opened just now.
    """
    part = Part(chain, form, recording.place_of(place))
    width, height = chain.size
    return PendingTensor((part,), (form.channels, height, width), DTYPES[form.dtype])


def _materialise(value: Any) -> None:
    """Gives the pending tensors in an argument their values, in place."""
    if isinstance(value, PendingTensor):
        # Not in inference mode, even if a model uses it there: it was made before, and may be
        # trained on. And torch refuses writes with gradients to a view that was made without.
        with torch.inference_mode(False), torch.enable_grad():
            shared = value.__dict__.get("shared")
            if shared is not None and (shared.made or len(shared.alive()) > 1):
                shared.make()
            else:
                made = _values(value)
                replace(value, made[...] if value.viewed else made)
    elif isinstance(value, list | tuple):
        for part in value:
            _materialise(part)
    elif isinstance(value, dict):
        for part in value.values():
            _materialise(part)


def make(value: PendingTensor, which: Callable[[Part], bool]) -> None:
    """Gives a pending tensor its values now if ``which`` is true for one of its images."""
    parts = value.parts if isinstance(value, PendingTensor) else ()
    if any(which(part) for part in made_of.leaves_of(parts)):
        _materialise(value)


def _values(value: Any) -> Any:
    """The values of a pending tensor, whose images are decoded one by one in this thread."""
    if not isinstance(value, PendingTensor):
        return value
    return made_now(value.parts, value.form, value.stacked)


def replace(value: PendingTensor, made: torch.Tensor) -> None:
    """Puts values in the place of a pending tensor, wherever it is referred to.

    It works like ``torch.utils.swap_tensors``, but it can be called again if an exception from
    outside has ended it in between, and weak references to the tensor stay valid.
    """
    if not isinstance(value, PendingTensor):
        return
    if is_wrapper(value):
        torch._C._swap_tensor_impl(value, made)
    recording.has_values()
    value.__class__ = value.plain  # type: ignore[assignment]
    for name in ("parts", "stacked", "pinned", "viewed", "form", "shared", "member", "recorded"):
        value.__dict__.pop(name, None)
