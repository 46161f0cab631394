"""Functions of Pillow and torchvision that a program replaces by its own before its first
loader: each in its own process, because Headrace must not have run yet.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPLACED = {
    "torchvision's to_tensor": "own = F.to_tensor; F.to_tensor = lambda pic: own(pic) * 2",
    "torchvision's resize": """
own = F.resize
def resize(img, *arguments, **named):
    return own(img, *arguments, **named).transpose(0)
F.resize = resize
""",
    "Pillow's open": """
own = Image.open
def opened(fp, mode="r", formats=None):
    image = own(fp, mode, formats).convert("RGB")
    image.putpixel((0, 0), (255, 0, 0))
    return image.transpose(0)
Image.open = opened
""",
    "a method of Pillow's images": """
own = Image.Image.resize
def resize(self, *arguments, **named):
    return own(self, *arguments, **named).transpose(0)
Image.Image.resize = resize
""",
    "a function of ImageOps": """
own = ImageOps.invert
ImageOps.invert = lambda image: own(own(image))
""",
    "a wrapper of Pillow's open": """
own = Image.open
@functools.wraps(own)
def opened(fp, mode="r", formats=None):
    return own(fp, mode, formats).transpose(0)
Image.open = opened
""",
}

PROGRAM = """
import functools, sys
import torch
from PIL import Image, ImageOps
from torch.utils import data
from torchvision import datasets, transforms as T
from torchvision.transforms import functional as F, v2

{replaced}

import headrace as hr

STEPS = T.Compose([T.Resize((24, 20)), T.ToTensor()])

class Opens(datasets.ImageFolder):
    def __getitem__(self, index):
        def opened():
            return Image.open(self.samples[index][0]).convert("RGB")
        small = ImageOps.invert(F.resize(opened(), [9, 8]))
        return STEPS(opened()), F.to_tensor(small), F.to_tensor(opened().resize((7, 6))), index

for kind in (Opens, datasets.ImageFolder):
    dataset = kind(sys.argv[1], STEPS)
    expected = list(data.DataLoader(dataset, 4))
    for options in ({{}}, {{"num_workers": 1}}):
        loader = hr.DataLoader(dataset, 4, **options)
        for epoch in range(2):
            found = list(loader)
            assert len(found) == len(expected)
            for one, other in zip(found, expected):
                assert all(map(torch.equal, one, other)), (kind.__name__, options, epoch)
        loader.close()
print("the same")
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", REPLACED)
def test_a_function_that_the_program_has_replaced_runs_as_replaced(folder: Path, name: str) -> None:
    program = PROGRAM.format(replaced=REPLACED[name])
    ran = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "the same\n"), ran.stderr[-2000:]
