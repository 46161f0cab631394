"""NVIDIA DALI's pipeline on a GPU: files are read by the CPU, all else is done by the GPU.

The variant "roi" draws the crop before it decodes, so that what lies outside may be skipped;
"whole" decodes whole images and then crops. A number after the name is the share of the images that
is offered to the JPEG engine (hw_decoder_load); without a number it is DALI's own choice. "fancy",
for the comparison of pixels, is "whole" with libjpeg's way to upsample chroma, which DALI does not
use by default. Resizing is antialiased, as in torchvision.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from peers.protocol import MEAN, RATIO, STD, Order, Refused, image_files, serve


def stream(order: Order) -> Iterator[tuple[Any, Any]]:
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    if order.task != "train":
        raise Refused(f"{order.task} is not measured")
    files, labels = image_files(order.source)
    area = [order.min_scale, 1.0]
    output = {"float32": types.FLOAT, "float16": types.FLOAT16}[order.dtype]

    @pipeline_def(
        batch_size=order.batch_size,
        num_threads=order.threads,
        device_id=0 if order.device else None,
        prefetch_queue_depth=2,
    )
    def pipeline() -> Any:
        encoded, label = fn.readers.file(files=files, labels=labels, random_shuffle=True)
        size = {"size": [order.size, order.size], "antialias": True}
        size["interp_type"] = types.INTERP_LINEAR
        if order.variant.startswith("roi"):
            images = fn.decoders.image_random_crop(
                encoded, random_area=area, random_aspect_ratio=list(RATIO), **_decoding(order)
            )
            images = fn.resize(images, **size)
        else:
            images = fn.decoders.image(encoded, **_decoding(order))
            images = fn.random_resized_crop(
                images, random_area=area, random_aspect_ratio=list(RATIO), **size
            )
        images = fn.crop_mirror_normalize(
            images,
            dtype=output,
            output_layout="HWC",
            mean=[255 * value for value in MEAN],
            std=[255 * value for value in STD],
            mirror=fn.random.coin_flip(),
        )
        return images, (label.gpu() if order.device else label)

    built = pipeline()
    built.build()
    for batch in DALIGenericIterator([built], ["images", "labels"]):
        yield batch[0]["images"].permute(0, 3, 1, 2), batch[0]["labels"].view(-1).long()


def _decoding(order: Order) -> dict[str, Any]:
    from nvidia.dali import types

    found: dict[str, Any] = {"device": "mixed" if order.device else "cpu"}
    found["output_type"] = types.RGB
    if order.variant == "fancy":
        found["jpeg_fancy_upsampling"] = True
    if order.device:
        # Otherwise its threads are bound to cores, which may differ from the given ones.
        found["affine"] = False
        load = order.variant.lstrip("abcdefghijklmnopqrstuvwxyz ")
        if load:
            found["hw_decoder_load"] = float(load)
    return found


def decoded(order: Order) -> Iterator[Any]:
    from nvidia.dali import fn, pipeline_def

    files, _ = image_files(order.source)

    @pipeline_def(batch_size=1, num_threads=1, device_id=0 if order.device else None)
    def pipeline() -> Any:
        encoded = fn.readers.file(files=files)[0]
        return fn.decoders.image(encoded, adjust_orientation=False, **_decoding(order))

    built = pipeline()
    built.build()
    for _ in files:
        (images,) = built.run()
        yield (images.as_cpu() if order.device else images).at(0).copy()


if __name__ == "__main__":
    serve(stream, ("nvidia-dali-cuda130", "torch", "numpy"), decoded=decoded)
