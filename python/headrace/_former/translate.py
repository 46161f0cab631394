"""The former name of a module whose contents are in ``headrace._translate``."""

from headrace._translate.result import Translation
from headrace._translate.translation import from_torchvision

__all__ = ["Translation", "from_torchvision"]
