"""The former name of a module whose contents are in ``headrace._translate.translation``."""

from headrace._translate.translation import Translation, from_torchvision

__all__ = ["Translation", "from_torchvision"]
