"""Records calls of torchvision's and timm's transforms, and of their functions, on images."""

from __future__ import annotations

import functools
import random
import sys
from types import FunctionType
from typing import Any

from headrace._deferred import given, recording, switches
from headrace._deferred.chain import Op
from headrace._deferred.drawn import Repeated
from headrace._deferred.functions import FUNCTIONS
from headrace._deferred.image import DeferredImage, native_chain
from headrace._deferred.recording import Recording
from headrace._deferred.switches import NOT_RECORDED
from headrace._deferred.tensor import pending
from headrace._deferred.tensorfunctions import image_kind
from headrace._translate import registered, replaced
from headrace._translate.libraries import package_of

# The modules whose classes the translation knows, and the methods through which they are called.
_CLASSES = (
    "torchvision.transforms.transforms",
    "torchvision.transforms.autoaugment",
    "torchvision.transforms.v2._container",
    "torchvision.transforms.v2._transform",
    "torchvision.transforms.v2._auto_augment",
    "torchvision.transforms.v2._augment",
    "timm.data.transforms",
    "timm.data.auto_augment",
)
_METHODS = ("forward", "__call__")
_TENSORS = {"tensor": True, "tv_tensors.Image": True, "PIL image": False}

_done: set[str] = set()


def switch() -> None:
    """Has transforms and functions that are imported by now record while a dataset's code runs."""
    for function in _OF_PYTHON:
        switches.put_everywhere(function, _seeding[function.__name__])
    for name in (*_CLASSES, *FUNCTIONS, "torch.random"):
        if name not in _done and _imported(name):
            _done.add(name)
            _switch(name, vars(sys.modules[name]))


def _imported(name: str) -> bool:
    """Whether a library's module is imported completely."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    if spec is None or getattr(spec, "_initializing", False):
        return False
    return package_of(name) != ""


def _switch(name: str, names: dict[str, Any]) -> None:
    for function, handler in FUNCTIONS.get(name, {}).items():
        kind, _, method = function.rpartition(".")
        own = (vars(names[kind]) if kind in names else names).get(method)
        # The function inside a static method or a decorated function.
        own = getattr(own, "__func__", own)
        own = getattr(own, "__wrapped__", own)
        if not replaced.is_replaced(own):
            switches.add(own, handler)
    if name == "torch.random":
        for function in _GENERATORS:
            found = names.get(function)
            switches.add(getattr(found, "__wrapped__", found), _seeded)
    elif name in _CLASSES:
        for kind in list(names.values()):
            if isinstance(kind, type) and kind.__module__ == name:
                for method in _METHODS:
                    switches.add(vars(kind).get(method), _transform)


def switch_class(kind: type) -> None:
    """Has calls of a class's objects recorded as what the program says that they equal."""
    for name in _METHODS:
        owner = next((parent for parent in kind.__mro__ if name in vars(parent)), None)
        # Not a library's method: a Module's calls its forward, and torchvision's and timm's are
        # recorded already.
        if owner is None or package_of(owner.__module__) in _LIBRARIES:
            continue
        function = vars(owner)[name]
        if type(function) is not FunctionType:
            continue
        if function.__code__.co_freevars:  # such as the class, if it calls super()
            switches.put(owner, name, _asking(function))
        else:
            switches.add(function, _transform)


_LIBRARIES = ("torch", "torchvision", "timm", "open_clip")


def _asking(function: Any) -> Any:
    """A method that, in a recording, is recorded as what its object equals."""

    @functools.wraps(function)
    def asking(self: Any, *inputs: Any, **named: Any) -> Any:
        found, made = recording.current(), NOT_RECORDED
        if found is not None and not found.eager and not named:
            made = _transform(found, function, self, *inputs)
        return function(self, *inputs, **named) if made is NOT_RECORDED else made

    return asking


# ---- transforms ----------------------------------------------------------------------------------


def _transform(found: Recording, original: Any, self: Any, *inputs: Any) -> Any:
    """The handler of a transform or a Compose that is called with a deferred image.

    If the program says what an object equals, but that cannot be recorded, the object's own code
    runs. What this calls on the object itself, such as ``super().forward``, is only a part of it.
    So it is not recorded as what the whole equals.
    """
    if found.inside and id(self) in found.inside:
        return NOT_RECORDED
    made = _recorded(found, original, self, *inputs)
    if made is not NOT_RECORDED or not registered.is_spoken_of(self):
        return made
    found.inside.add(id(self))
    try:
        return original(self, *inputs)
    finally:
        found.inside.discard(id(self))


def _recorded(found: Recording, original: Any, self: Any, *inputs: Any) -> Any:
    image: Any = inputs[0] if len(inputs) == 1 else None
    chain = image.chain if type(image) is DeferredImage else None
    chain = chain if chain is not None and chain.native else None
    known = None
    if chain is not None or given.is_taken(found, image):
        known = found.transforms.of(self, image.mode == "L")
    if known is None:
        return NOT_RECORDED
    made = known.translation
    is_tensor = _TENSORS[made.gives]
    if chain is not None and not chain.has_room(known.engine_ops):
        return NOT_RECORDED  # its transforms are recorded one by one, until the image is made
    if chain is not None and not is_tensor and image.names_a_colour:
        return NOT_RECORDED  # each transform treats a transparent colour in its own way
    size = known.size_of(image.size)
    if size is None or (known.drawn and not found.draws_natively):
        return NOT_RECORDED
    # The image begins to load here and not before: a transform that is not recorded may return the
    # image as it is, opened and not loaded.
    chain = native_chain(image) or given.chain_of(found, image)
    ops: tuple[Op, ...] = known.ops
    before: tuple[Op, ...] | None = ()
    key = None
    if known.drawn and chain.drawn:
        before = found.before_more_draws(chain, ops)
    elif known.drawn:
        key = found.new_key()
    if before is None:
        return NOT_RECORDED
    if known.drawn and not found.engine:
        repeated = Repeated(known.replay)
        found.repeated.append(repeated)
        ops = (ops[0]._replace(replay=repeated),)
    if before:  # else `ops` is not copied: many images share that tuple
        ops = before + ops
    chain = chain.behind(ops, size, key, last=is_tensor)
    if known.channels == 1:
        chain = chain._replace(mode="L")
    result: Any
    if is_tensor:
        place = image.place if type(image) is DeferredImage else None
        result = pending(chain, known.form, place)
        if made.gives == "tv_tensors.Image":
            result = result.of_kind(image_kind())
    elif type(image) is DeferredImage:
        result = image.then(chain, ops[-1].anew)
    else:
        result = DeferredImage(chain)
    for op in made.rest:
        result = op(result)
    return result


# ---- generators ----------------------------------------------------------------------------------


# A program that seeds a generator, torch's or Python's, wants later transforms to draw from it.
_GENERATORS = ("manual_seed", "seed", "get_rng_state", "set_rng_state", "fork_rng")


def _seeded(found: Recording, original: Any, *arguments: Any, **named: Any) -> Any:
    found.drawing = False
    return NOT_RECORDED


_OF_PYTHON = (random.seed, random.getstate, random.setstate)


def _seeding_python(function: Any) -> Any:
    @functools.wraps(function)
    def seeding(*arguments: Any, **named: Any) -> Any:
        found = recording.current()
        if found is not None:
            found.drawing = False
        return function(*arguments, **named)

    return seeding


_seeding = {function.__name__: _seeding_python(function) for function in _OF_PYTHON}
