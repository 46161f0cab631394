"""TensorFlow: batches read through DLPack, without a copy.

python examples/tensorflow_training.py PHOTOGRAPHS
"""

import argparse

import tensorflow as tf
from keras import layers

import headrace as hr

TRAINING = [
    hr.transforms.RandomResizedCrop(32, scale=(0.5, 1.0)),
    hr.transforms.RandomHorizontalFlip(),
    hr.transforms.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
]


def train(photographs: str, epochs: int) -> list[float]:
    tf.random.set_seed(0)
    form = {"layout": "NHWC", "output": "numpy", "drop_last": True, "shuffle": True}
    dataset = hr.Dataset(photographs)
    model = tf.keras.Sequential(
        [
            layers.Conv2D(16, 5, strides=2, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(len(dataset.classes)),
        ]
    )
    optimizer = tf.keras.optimizers.Adam(3e-3)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    losses = []
    with hr.Loader(dataset, 16, transform=TRAINING, **form) as loader:
        for epoch in range(epochs):
            for images, labels in loader:
                batch = tf.experimental.dlpack.from_dlpack(images.__dlpack__())
                with tf.GradientTape() as tape:
                    loss = loss_of(labels, model(batch, training=True))
                slopes = tape.gradient(loss, model.trainable_variables)
                optimizer.apply_gradients(zip(slopes, model.trainable_variables, strict=True))
                losses.append(float(loss))
            print(f"epoch {epoch}: loss {sum(losses[-len(loader) :]) / len(loader):.3f}")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photographs")
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    train(arguments.photographs, arguments.epochs)
