"""What tests/parity/golden.json holds, and the program that writes it:

    python tests/parity/golden.py

A case is a picture of integers alone, encoded, and crops of it through Pillow and torchvision and
through Headrace. Two hashes are kept: of the encoded file, and of the pixels. So when a case
changes, it is known which of three has changed: the encoder that made the file, Pillow and
torchvision, or Headrace. Rewrite the file only when Pillow's pixels changed, and say so in
CHANGELOG.md.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision import transforms as tv
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms import functional as torchvision

sys.path.insert(0, str(Path(__file__).parents[1]))

import headrace as hr
import images

FILE = Path(__file__).with_name("golden.json")
FILTERS = ["nearest", "bilinear", "bicubic", "box", "hamming", "lanczos"]
WIDTH, HEIGHT = 179, 131
# top, left, height, width, size: the whole image, each edge, reduced, enlarged, one axis each.
CROPS = [
    (0, 0, HEIGHT, WIDTH, (48, 64)),
    (0, 0, 60, 71, (60, 71)),
    (HEIGHT - 41, 13, 41, 100, (97, 30)),
    (7, WIDTH - 33, 120, 33, (15, 80)),
    (50, 60, 3, 2, (9, 11)),
]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def picture(channels: int) -> NDArray[np.uint8]:
    """Ramps, edges and grain from a multiplicative generator: the same on every machine."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.uint64)
    planes = []
    for channel in range(channels):
        ramp = x * np.uint64(3 + channel) + y * np.uint64(7 - channel)
        edges = ((x // np.uint64(19) + y // np.uint64(13)) % np.uint64(2)) * np.uint64(60)
        place = y * np.uint64(WIDTH) + x + np.uint64(1 + 100_003 * channel)
        grain = (place * np.uint64(6364136223846793005)) >> np.uint64(59)  # wraps; 0 to 31
        planes.append((ramp // np.uint64(4) + edges + grain) % np.uint64(256))
    return np.stack(planes, axis=2).astype(np.uint8)


def files() -> dict[str, bytes]:
    """Every kind of JPEG, and a PPM, which does not depend on an encoder."""
    found = {"ppm": b"P6 %d %d 255\n" % (WIDTH, HEIGHT) + picture(3).tobytes()}
    for sampling in images.SAMPLINGS:
        for flags in ((), ("progressive",)):
            name = "-".join([*flags, sampling.replace(":", "")])
            found[name] = images.jpeg(WIDTH, HEIGHT, sampling, flags=flags, samples=picture(3))
    for colour, channels in (("grey", 1), ("rgb", 3), ("cmyk", 4), ("ycck", 4)):
        samples = picture(channels)
        found[colour] = images.jpeg(WIDTH, HEIGHT, "4:4:4", colour=colour, samples=samples)
    found["restart"] = images.jpeg(WIDTH, HEIGHT, "4:2:0", restart=5, samples=picture(3))
    found["quality100"] = images.jpeg(WIDTH, HEIGHT, "4:4:4", quality=100, samples=picture(3))
    return found


def hash_of(parts: Iterator[bytes]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()[:32]


def pillow(data: bytes, interpolation: str) -> Iterator[bytes]:
    whole = Image.open(io.BytesIO(data)).convert("RGB")
    for flip in (False, True):
        for *box, size in CROPS:
            method = InterpolationMode(interpolation)
            made = torchvision.resized_crop(whole, *box, list(size), method)
            yield np.asarray(torchvision.hflip(made) if flip else made).tobytes()


def headrace(data: bytes, interpolation: str, mode: str = "exact") -> Iterator[bytes]:
    for flip in (False, True):
        for *box, size in CROPS:
            crop = (*box, size, interpolation, flip)
            yield hr.functional.resized_crop(data, *crop, mode=mode).tobytes()


def normalised(finish: object) -> Iterator[bytes]:
    """All 256 values of each channel, normalised as by torchvision."""
    values = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        made = finish(Image.fromarray(values)).to(dtype).contiguous()
        bits = torch.int32 if dtype == torch.float32 else torch.int16
        yield made.view(bits).numpy().tobytes()


V1 = tv.Compose([tv.ToTensor(), tv.Normalize(MEAN, STD)])
V2 = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])
FORMS = {"div": V1, "mul": V2}


def write() -> None:
    found: dict[str, dict[str, object]] = {}
    for name, data in files().items():
        pixels = {f: hash_of(pillow(data, f)) for f in FILTERS}
        assert pixels == {f: hash_of(headrace(data, f)) for f in FILTERS}, name
        fast = hash_of(part for f in FILTERS for part in headrace(data, f, "fast"))
        found[name] = {"file": hash_of(iter([data])), "pixels": pixels, "fast": fast}
    floats = {scale: hash_of(normalised(finish)) for scale, finish in FORMS.items()}
    made = {"cases": found, "normalised": floats}
    FILE.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    write()
