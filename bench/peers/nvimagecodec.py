"""nvImageCodec: decodes on a GPU. torch does the rest that a training needs, image by image.

The variant "roi" decodes only the crop, which is drawn before; "whole" decodes whole images;
"alone" decodes whole images and does nothing with them: that is the codec's own rate, and no feed
for a training. After the name, "kernels" leaves everything to the GPU's multiprocessors. Otherwise
the codec chooses among its backends, the GPU's JPEG engine first.
"""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from peers.protocol import MEAN, RATIO, STD, Order, Refused, encoded_images, image_files, serve

AHEAD = 2  # batches that are made ahead


def stream(order: Order) -> Iterator[tuple[Any, Any]]:
    """Yields batches that a thread makes, on a stream of its own."""
    import torch

    if order.task != "train" or order.dtype != "float16":
        raise Refused(f"{order.task} in {order.dtype} is not measured")
    torch.set_num_threads(order.threads)
    made: queue.Queue[Any] = queue.Queue(AHEAD)

    def make() -> None:
        try:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for images, labels in _batches(order, stream.cuda_stream):
                    made.put((images, labels, stream.record_event()))
        except Exception as error:
            made.put(error)

    threading.Thread(target=make, daemon=True).start()
    while True:
        found = made.get()
        if isinstance(found, Exception):
            raise found
        images, labels, ready = found
        now = torch.cuda.current_stream()
        now.wait_event(ready)
        images.record_stream(now)
        labels.record_stream(now)
        yield images, labels


def _batches(order: Order, stream: int) -> Iterator[tuple[Any, Any]]:
    import torch
    from nvidia import nvimgcodec

    decoder = _decoder(order)
    files = encoded_images(order.source)
    random_ = random.Random(0)
    place = {"device": order.device}
    mean, std = (torch.tensor(values, **place).view(1, 3, 1, 1) for values in (MEAN, STD))
    shape = (order.batch_size, 3, order.size, order.size)
    empty = torch.zeros(shape, dtype=torch.float16, **place)
    crops = torch.empty(shape, **place)
    at = 0
    while True:
        chosen = [files[(at + i) % len(files)] for i in range(order.batch_size)]
        at += order.batch_size
        labels = torch.tensor([label for _, label in chosen], pin_memory=True)
        labels = labels.to(order.device, non_blocking=True)
        sources = [nvimgcodec.CodeStream(data) for data, _ in chosen]
        if order.variant.startswith("alone"):
            _all(decoder.decode(sources, cuda_stream=stream))
            yield empty, labels
            continue
        boxes = [_box(random_, one.height, one.width, order.min_scale) for one in sources]
        if order.variant.startswith("roi"):
            regions = [nvimgcodec.Region(y, x, y + h, x + w) for y, x, h, w in boxes]
            pairs = zip(sources, regions, strict=True)
            sources = [one.get_sub_code_stream(region=region) for one, region in pairs]
        images = _all(decoder.decode(sources, cuda_stream=stream))
        for number, (image, (y, x, h, w)) in enumerate(zip(images, boxes, strict=True)):
            whole = torch.as_tensor(image, **place)
            if not order.variant.startswith("roi"):
                whole = whole[y : y + h, x : x + w]
            one = whole.permute(2, 0, 1).unsqueeze(0).float()
            one = torch.nn.functional.interpolate(
                one, (order.size, order.size), mode="bilinear", antialias=True
            )
            crops[number] = one[0].flip(2) if random_.random() < 0.5 else one[0]
        normalised = ((crops / 255 - mean) / std).half()
        yield normalised.contiguous(memory_format=torch.channels_last), labels


def _all(images: list[Any]) -> list[Any]:
    if None in images:
        raise Refused(f"nvImageCodec gave no image for {images.count(None)} of {len(images)}")
    return images


def _decoder(order: Order) -> Any:
    from nvidia import nvimgcodec

    kinds = {
        "kernels": [nvimgcodec.BackendKind.GPU_ONLY, nvimgcodec.BackendKind.HYBRID_CPU_GPU],
    }.get(order.variant.partition(" ")[2])
    backends = None if kinds is None else [nvimgcodec.Backend(kind) for kind in kinds]
    return nvimgcodec.Decoder(device_id=0, max_num_cpu_threads=order.threads, backends=backends)


def _box(
    random_: random.Random, height: int, width: int, least: float
) -> tuple[int, int, int, int]:
    """Returns the crop of RandomResizedCrop: top, left, height, width."""
    for _ in range(10):
        area = height * width * random_.uniform(least, 1.0)
        ratio = RATIO[0] * (RATIO[1] / RATIO[0]) ** random_.random()
        w, h = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if 0 < w <= width and 0 < h <= height:
            return random_.randint(0, height - h), random_.randint(0, width - w), h, w
    side = min(height, width)
    return (height - side) // 2, (width - side) // 2, side, side


def decoded(order: Order) -> Iterator[Any]:
    import torch
    from nvidia import nvimgcodec

    decoder = _decoder(order)
    files, _ = image_files(order.source)
    for part in _parts(files, 32):
        sources = [nvimgcodec.CodeStream(Path(file).read_bytes()) for file in part]
        as_stored = nvimgcodec.DecodeParams(apply_exif_orientation=False)
        for file, image in zip(part, decoder.decode(sources, params=as_stored), strict=True):
            if image is None:
                raise Refused(f"{file} was not decoded")
            yield torch.as_tensor(image, device=order.device).cpu().numpy()


def _parts(files: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for begin in range(0, len(files), size):
        yield files[begin : begin + size]


if __name__ == "__main__":
    serve(stream, ("nvidia-nvimgcodec-cu13", "nvidia-nvjpeg", "torch"), decoded=decoded)
