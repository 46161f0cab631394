"""SPDL: FFmpeg decodes and scales in threads, which needs no lock of Python's.

This is its fastest form: each thread makes a whole batch, as spdl.io.load_image_batch does. The
crop is drawn from the size that the demuxer reports and given to FFmpeg's own filters, so that
decode, crop, scale, flip and conversion to RGB are one call. FFmpeg decodes the full image. The
output stays uint8: SPDL normalises on the GPU.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

from peers.protocol import EVALUATION_RESIZE, RATIO, Order, Refused, image_files, serve


def crop(width: int, height: int, min_scale: float) -> tuple[int, int, int, int]:
    """Returns the box of RandomResizedCrop: width, height, left, top."""
    for _ in range(10):
        area = width * height * random.uniform(min_scale, 1.0)
        ratio = math.exp(random.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return w, h, random.randint(0, width - w), random.randint(0, height - h)
    w = min(width, round(height * RATIO[1]))
    h = min(height, round(w / RATIO[0]))
    return w, h, (width - w) // 2, (height - h) // 2


def stream(order: Order) -> Iterator[tuple[Any, Any]]:
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    if order.dtype != "uint8":
        raise Refused(f"{order.dtype} is not made on the CPU")
    files, labels = image_files(order.source)

    def filters(packets: Any) -> str:
        width, height = packets.width, packets.height
        if order.task == "eval":
            scale = EVALUATION_RESIZE / min(width, height)
            wide, high = round(width * scale), round(height * scale)
            chain = f"scale={wide}:{high}:flags=bilinear,crop={order.size}:{order.size}"
        else:
            box = ":".join(str(n) for n in crop(width, height, order.min_scale))
            chain = f"crop={box}:exact=1,scale={order.size}:{order.size}:flags=bilinear"
            chain += ",hflip" if random.random() < 0.5 else ""
        return chain + ",format=pix_fmts=rgb24"

    def batch(numbers: list[int]) -> tuple[Any, list[int]]:
        frames = []
        for number in numbers:
            packets = spdl.io.demux_image(files[number])
            chain = filters(packets)  # made before the packets are handed over
            frames.append(spdl.io.decode_packets(packets, filter_desc=chain))
        buffer = spdl.io.convert_frames(frames)
        return spdl.io.to_numpy(buffer), [labels[number] for number in numbers]

    def numbers() -> Iterator[list[int]]:
        left: list[int] = []
        while True:
            while len(left) < order.batch_size:
                left += random.sample(range(len(files)), len(files))
            yield left[: order.batch_size]
            del left[: order.batch_size]

    pipeline = (
        PipelineBuilder()
        .add_source(numbers())
        .pipe(batch, concurrency=order.threads)
        .add_sink(3)
        .build(num_threads=order.threads)
    )
    with pipeline.auto_stop():
        yield from pipeline


if __name__ == "__main__":
    serve(stream, ("spdl", "spdl-io", "numpy"))
