"""tf.data from a TFRecord file, which is made once with ``--prepare``.

This is its fastest form: records rather than a file for each image, decode_and_crop_jpeg, which
skips what lies outside the crop, the fast integer DCT, and bilinear resizing without antialiasing,
which is the default. AUTOTUNE decides about parallel calls and prefetching within the given cores.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers.protocol import (
    EVALUATION_RESIZE,
    MEAN,
    RATIO,
    STD,
    Order,
    Refused,
    image_files,
    serve,
)

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def stream(order: Order) -> Iterator[tuple[Any, Any]]:
    import tensorflow as tf

    if order.dtype == "uint8":
        raise Refused("uint8 is not measured")
    tf.config.threading.set_intra_op_parallelism_threads(order.threads)
    tf.config.threading.set_inter_op_parallelism_threads(order.threads)
    mean = tf.constant([255 * value for value in MEAN])
    scale = tf.constant([1 / (255 * value) for value in STD])

    def cropped(encoded: Any) -> Any:
        shape = tf.io.extract_jpeg_shape(encoded)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            shape,
            bounding_boxes=tf.zeros([1, 0, 4]),
            min_object_covered=0.0,
            aspect_ratio_range=RATIO,
            area_range=(order.min_scale, 1.0),
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        image = tf.io.decode_and_crop_jpeg(encoded, window, channels=3, dct_method="INTEGER_FAST")
        image = tf.image.resize(image, [order.size, order.size])
        return tf.image.random_flip_left_right(image)

    def centred(encoded: Any) -> Any:
        image = tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_FAST")
        shape = tf.cast(tf.shape(image)[:2], tf.float32)
        size = tf.cast(tf.round(shape * EVALUATION_RESIZE / tf.reduce_min(shape)), tf.int32)
        image = tf.image.resize(image, size)
        return tf.image.resize_with_crop_or_pad(image, order.size, order.size)

    def sample(record: Any) -> tuple[Any, Any]:
        features = {
            "image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
        }
        example = tf.io.parse_single_example(record, features)
        image = (centred if order.task == "eval" else cropped)(example["image"])
        return tf.cast((image - mean) * scale, order.dtype), example["label"]

    options = tf.data.Options()
    options.threading.private_threadpool_size = order.threads
    options.autotune.cpu_budget = order.threads
    options.deterministic = False
    batches = (
        tf.data.TFRecordDataset(str(order.source))
        .repeat()
        .shuffle(1024)
        .map(sample, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(order.batch_size, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
        .with_options(options)
    )
    yield from batches


def prepare(source: Path, destination: Path, _variant: str) -> None:
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(destination)) as writer:
        for path, label in zip(*image_files(source), strict=True):
            encoded = tf.train.BytesList(value=[Path(path).read_bytes()])
            number = tf.train.Int64List(value=[label])
            features = {
                "image": tf.train.Feature(bytes_list=encoded),
                "label": tf.train.Feature(int64_list=number),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


if __name__ == "__main__":
    serve(stream, ("tensorflow-cpu", "numpy"), prepare)
