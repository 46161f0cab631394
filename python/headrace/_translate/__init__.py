"""Translates transforms of torchvision, timm and open_clip into ``headrace.transforms``."""
