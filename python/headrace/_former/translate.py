"""Of ``headrace._translate.translation`` now."""

from headrace._translate.translation import Translation, from_torchvision

__all__ = ["Translation", "from_torchvision"]
