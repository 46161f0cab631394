"""Headrace: a native image loader for training, with the pixels of Pillow and torchvision.

``DataLoader`` replaces ``torch.utils.data.DataLoader``. ``Loader`` reads a dataset that ``pack``
wrote, a folder of images or containers, and yields batches of tensors. Importing this package loads
neither the engine nor torch.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace import accelerate, functional, metrics, samplers, transforms
    from headrace._translate.registered import register
    from headrace._translate.translation import from_torchvision
    from headrace.dataloader import DataLoader
    from headrace.dataset import Dataset, Sample
    from headrace.diagnosing import doctor
    from headrace.explaining import explain
    from headrace.installing import install, uninstall
    from headrace.loader import Loader
    from headrace.planning import plan
    from headrace.torch import IterableDataset
    from headrace.writing import Writer, index, pack, verify

__all__ = [
    "DataLoader",
    "Dataset",
    "HeadraceError",
    "IterableDataset",
    "Loader",
    "Sample",
    "Writer",
    "accelerate",
    "doctor",
    "explain",
    "from_torchvision",
    "functional",
    "index",
    "install",
    "metrics",
    "pack",
    "plan",
    "register",
    "samplers",
    "transforms",
    "uninstall",
    "verify",
]

# Old pickles name modules that have moved since. Those names are looked for last.
__path__.append(f"{__path__[0]}/_former")

# pyproject.toml reads the version from here, so that a source tree knows it as well.
__version__ = "0.1.0"

_HOMES = {
    "DataLoader": "dataloader",
    "Dataset": "dataset",
    "Sample": "dataset",
    "Loader": "loader",
    "IterableDataset": "torch",
    "from_torchvision": "_translate.translation",
    "register": "_translate.registered",
    "explain": "explaining",
    "install": "installing",
    "uninstall": "installing",
    "Writer": "writing",
    "doctor": "diagnosing",
    "plan": "planning",
    "index": "writing",
    "pack": "writing",
    "verify": "writing",
}
_OF_TORCH = ("DataLoader", "IterableDataset", "accelerate", "explain", "install", "uninstall")
_MODULES = (
    "accelerate",
    "errors",
    "functional",
    "lightning",
    "metrics",
    "samplers",
    "torch",
    "transforms",
)


def __getattr__(name: str) -> Any:
    try:
        if name in _MODULES:
            return importlib.import_module(f"headrace.{name}")
        if name in _HOMES:
            found = getattr(importlib.import_module(f"headrace.{_HOMES[name]}"), name)
            globals()[name] = found
            return found
    except ModuleNotFoundError as failure:
        if failure.name != "torch":
            raise
        needs = f"headrace.{name} needs PyTorch, which is not installed: pip install torch"
        raise ModuleNotFoundError(needs, name="torch") from None
    absent = f"module 'headrace' has no attribute {name!r}"
    raise AttributeError(absent, name=name, obj=sys.modules[__name__])  # Python adds a similar one


def __dir__() -> list[str]:
    absent = () if importlib.util.find_spec("torch") else _OF_TORCH
    return [name for name in (*__all__, "errors", "__version__") if name not in absent]
