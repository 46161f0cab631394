"""FFCV, from its own file, which is made once with ``--prepare``.

The file holds the photographs as FFCV's writer encodes them: JPEG of quality 90, which is 30 %
smaller than the originals and 4:2:0, at their own resolution; or, with variant "raw", as pixels
with a shorter side of at most 256. Beside it the very same JPEG bytes are stored as an image folder
for Headrace to read.

This is its fastest form: everything before ToTensor is compiled into one loop over the cores, the
output stays channels last, which saves a transpose, and pages come from the operating system's
cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers.protocol import EVALUATION_RESIZE, MEAN, RATIO, STD, Order, image_files, serve

QUALITY = 90
RAW_SHORTER = 256
EPOCH_IMAGES = 1 << 18  # batch memory is allocated again for each epoch, so epochs are long


def stream(order: Order) -> Iterator[tuple[Any, Any]]:
    import numpy as np
    from ffcv.fields.basics import IntDecoder
    from ffcv.fields.rgb_image import (
        CenterCropRGBImageDecoder,
        RandomResizedCropRGBImageDecoder,
    )
    from ffcv.loader import Loader, OrderOption
    from ffcv.reader import Reader
    from ffcv.transforms import (
        NormalizeImage,
        RandomHorizontalFlip,
        Squeeze,
        ToTensor,
        ToTorchImage,
    )

    size = (order.size, order.size)
    if order.task == "eval":
        # One crop of 224/256 of the shorter side, resized once: FFCV's own evaluation.
        ops = [CenterCropRGBImageDecoder(size, ratio=order.size / EVALUATION_RESIZE)]
    else:
        crop = RandomResizedCropRGBImageDecoder(size, scale=(order.min_scale, 1.0), ratio=RATIO)
        ops = [crop, RandomHorizontalFlip()]
    if order.dtype != "uint8":
        mean, std = 255 * np.array(MEAN), 255 * np.array(STD)
        ops.append(NormalizeImage(mean, std, np.dtype(order.dtype).type))
    samples = int(Reader(str(order.source)).num_samples)
    loader = Loader(
        str(order.source),
        batch_size=order.batch_size,
        num_workers=order.threads,
        os_cache=True,
        order=OrderOption.RANDOM,
        indices=np.tile(np.arange(samples, dtype=np.uint64), -(-EPOCH_IMAGES // samples)),
        drop_last=True,
        pipelines={
            "image": [*ops, ToTensor(), ToTorchImage(channels_last=True)],
            "label": [IntDecoder(), ToTensor(), Squeeze()],
        },
    )
    while True:
        yield from loader


class Photographs:
    """The image folder in the form that FFCV's writer needs."""

    def __init__(self, folder: Path, shorter: int | None) -> None:
        self.files, self.labels = image_files(folder)
        self.shorter = shorter

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        from PIL import Image

        image = Image.open(self.files[number]).convert("RGB")
        if self.shorter is not None and min(image.size) > self.shorter:
            # As in torchvision's Resize and in `headrace pack --resize`.
            short, long = self.shorter, int(self.shorter * max(image.size) / min(image.size))
            wide = image.width >= image.height
            size = (long, short) if wide else (short, long)
            image = image.resize(size, Image.Resampling.BILINEAR)
        return image, self.labels[number]


def prepare(source: Path, destination: Path, variant: str) -> None:
    import numpy as np
    from ffcv.fields import IntField, RGBImageField
    from ffcv.fields.rgb_image import encode_jpeg
    from ffcv.writer import DatasetWriter

    raw = variant == "raw"
    photographs = Photographs(source, RAW_SHORTER if raw else None)
    image = RGBImageField(write_mode="raw" if raw else "jpg", jpeg_quality=QUALITY)
    writer = DatasetWriter(
        str(destination), {"image": image, "label": IntField()}, num_workers=2, page_size=1 << 23
    )
    writer.from_indexed_dataset(photographs, chunksize=16)
    if raw:
        return
    encoded: dict[tuple[int, int], bytes] = {}  # repeated photographs are encoded once
    for number, path in enumerate(photographs.files):
        file = Path(path)
        status = file.stat()
        which = (status.st_dev, status.st_ino)
        if which not in encoded:
            pixels = np.array(photographs[number][0])
            encoded[which] = encode_jpeg(pixels, QUALITY).tobytes()
        copy = destination.with_suffix(".folder") / file.relative_to(source).with_suffix(".jpg")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(encoded[which])


if __name__ == "__main__":
    serve(stream, ("ffcv", "torch", "numba", "numpy", "opencv-python-headless"), prepare)
