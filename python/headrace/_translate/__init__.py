"""torchvision's and timm's transforms as those of ``headrace.transforms``."""
