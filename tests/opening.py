"""A dataset whose own code opens its images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image
from torch.utils.data import Dataset
from torchvision.transforms import CenterCrop, Compose, ToTensor


class Photographs(Dataset[Any]):
    """The JPEG files below a folder, each with its number."""

    def __init__(self, root: Path) -> None:
        self.paths = sorted(root.rglob("*.jpg"))
        self.transform = Compose([CenterCrop(32), ToTensor()])

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        with Image.open(self.paths[index]) as image:
            return self.transform(image.convert("RGB")), index
