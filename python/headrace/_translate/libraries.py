"""Whether a module is a library's, where programs have modules of the same name."""

from __future__ import annotations

import os
import sys
from functools import cache

# Programs often have packages of their own with these names: ``datasets`` as in DETR's repository,
# a folder ``lightning`` or ``timm``. The libraries have all of these in their ``__init__.py``.
_ATTRIBUTES = {
    "accelerate": ("Accelerator", "notebook_launcher"),
    "datasets": ("DatasetDict", "DatasetInfo", "load_dataset"),
    "lightning": ("Fabric", "LightningModule", "Trainer"),
    "open_clip": ("create_model_and_transforms", "list_pretrained"),
    "pytorch_lightning": ("LightningModule", "Trainer"),
    "timm": ("create_model", "list_models"),
    "transformers": ("AutoConfig", "AutoModel"),
}


def package_of(module: str) -> str:
    """The name of the package that a module is of, which is imported.

    It is "" if the package is a program's own, but has the name of a library.
    """
    name = module.partition(".")[0]
    attributes = _ATTRIBUTES.get(name)
    if attributes is None:
        return name
    names = getattr(sys.modules.get(name), "__dict__", {})
    # transformers imports a module when one of its attributes is first asked for, and lists them.
    listed = names.get("__all__", ())
    return name if all(one in names or one in listed for one in attributes) else ""


def of_python(module: str) -> bool:
    """Whether a module that is imported is of Python's own library.

    Some of that library's names are a program's, too: ``test`` and ``code``.
    """
    name = module.partition(".")[0]
    if name not in sys.stdlib_module_names:
        return False
    found = sys.modules.get(name)
    if found is None:
        return True
    file: str | None = getattr(found, "__file__", None)
    if file is None:  # built in; or a folder without an __init__.py, which has no origin
        return found.__spec__ is not None and found.__spec__.origin is not None
    return os.path.abspath(file).startswith(_library())


@cache
def _library() -> str:
    return os.path.join(os.path.dirname(os.path.abspath(os.__file__)), "")
