"""Knows torch's own ``DataLoader`` class, and lets Headrace's stand for it under torch's names.

``headrace.install`` binds the names to Headrace's class. Loaders of torch's class, made before
or by a module that imported the name before, must then still be instances of
``torch.utils.data.DataLoader``, since frameworks test that.
"""

from __future__ import annotations

import sys
from abc import ABCMeta
from typing import Any

import torch.utils.data.dataloader

from headrace._translate.libraries import package_of

TorchDataLoader = torch.utils.data.dataloader.DataLoader

# Packages whose own subclasses make their iterators and states themselves, and call nothing of the
# class that they derive from. These subclasses keep torch's class as their base.
_WHOLE = ("torchdata",)


class Kind(ABCMeta):
    """The class of ``headrace.DataLoader``.

    It is an ``ABCMeta``, because a program's subclass may have further bases, which are often
    abstract.
    """

    stands_in = False  # whether torch's names mean Headrace's DataLoader

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> Any:
        if str(namespace.get("__module__")).partition(".")[0] in _WHOLE:
            own = tuple(TorchDataLoader if isinstance(base, Kind) else base for base in bases)
            return type(name, own, namespace, **options)
        return super().__new__(mcls, name, bases, namespace, **options)

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or (
            cls._is_asked_for_torchs() and isinstance(instance, TorchDataLoader)
        )

    def __subclasscheck__(cls, subclass: type) -> bool:
        return super().__subclasscheck__(subclass) or (
            cls._is_asked_for_torchs() and issubclass(subclass, TorchDataLoader)
        )

    def _is_asked_for_torchs(cls) -> bool:
        # False for subclasses of Headrace's class: a loader of torch's is no instance of those.
        return Kind.stands_in and TorchDataLoader in cls.__bases__


def is_headraces(loader: Any) -> bool:
    """Whether a loader is a ``headrace.DataLoader``, also while that stands for torch's."""
    # Accelerate's loaders give the class of the loader that they wrap as their __class__.
    return isinstance(loader.__class__, Kind)


def is_accelerates(kind: type) -> bool:
    """Whether Accelerate derives its loaders from a class, as ``headrace.install`` came first."""
    module = "accelerate.data_loader"
    return getattr(sys.modules.get(module), "DataLoader", None) is kind and package_of(module) != ""


# Arguments that torch's loader reads again at each iter, so that programs may set them.
SETTABLE = ("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "generator")


def attributes(state: dict[str, Any]) -> dict[str, Any]:
    """The arguments that make a loader of torch's with these attributes.

    Its samplers are the same objects, so nothing is drawn from a generator.
    """
    later = ("prefetch_factor", "persistent_workers", "pin_memory_device", "in_order")
    made = {name: state[name] for name in (*SETTABLE, *later) if name in state}
    if not made["num_workers"]:
        made.pop("prefetch_factor", None)
    elif (context := state.get("_DataLoader__multiprocessing_context")) is not None:
        made["multiprocessing_context"] = context
    # torch wraps its data pipes; the wrapper has the pipe as this attribute.
    made["dataset"] = dataset = getattr(state["dataset"], "_datapipe", state["dataset"])
    if isinstance(dataset, torch.utils.data.IterableDataset):
        return made | {"batch_size": state["batch_size"], "drop_last": state["drop_last"]}
    if state["batch_sampler"] is None:
        return made | {"batch_size": None, "sampler": state["sampler"]}
    plain = type(state["batch_sampler"]) is torch.utils.data.BatchSampler
    if plain and state["batch_sampler"].sampler is state["sampler"]:
        sizes = {"batch_size": state["batch_size"], "drop_last": state["drop_last"]}
        return made | sizes | {"sampler": state["sampler"]}
    return made | {"batch_sampler": state["batch_sampler"]}


def has_own_iterator(kind: type) -> bool:
    """Whether a class of loaders has its own ``_get_iterator``, which torch's loader calls."""
    own = (one for one in _derived(kind) if "_get_iterator" in vars(one))
    return any(one.__module__.partition(".")[0] != "headrace" for one in own)


def asks_torchs_iterator(kind: type) -> bool:
    """Whether a class of loaders has torch make its iterators.

    Its own ``__iter__`` calls ``_get_iterator`` by name, or it has one of its own.
    """
    own = next((vars(one)["__iter__"] for one in _derived(kind) if "__iter__" in vars(one)), None)
    asked = "_get_iterator" in getattr(getattr(own, "__code__", None), "co_names", ())
    return asked or has_own_iterator(kind)


def _derived(kind: type) -> list[type]:
    derived = kind.__mro__[: kind.__mro__.index(TorchDataLoader)]
    return [one for one in derived if one.__module__.partition(".")[0] not in _WHOLE]
