"""Whether a module is a library's, where programs have modules of the same name."""

from __future__ import annotations

import os
import sys
from functools import cache

# Programs often have a package ``datasets`` of their own, as DETR's repository has. Hugging Face's
# has all of these (src/datasets/__init__.py).
_HUGGING_FACES = ("DatasetDict", "DatasetInfo", "load_dataset")


def of_hugging_faces_datasets(module: str) -> bool:
    """Whether a module that is imported is of Hugging Face's package ``datasets``."""
    if module.partition(".")[0] != "datasets":
        return False
    names = getattr(sys.modules.get("datasets"), "__dict__", {})
    return all(name in names for name in _HUGGING_FACES)


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
