"""JAX: batches read through DLPack, without a copy.

python examples/jax_training.py PHOTOGRAPHS
"""

import argparse

import jax
import jax.numpy as jnp

import headrace as hr

TRAINING = [
    hr.transforms.RandomResizedCrop(32, scale=(0.5, 1.0)),
    hr.transforms.RandomHorizontalFlip(),
    hr.transforms.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
]


def initial(classes: int) -> dict[str, jax.Array]:
    first, second = jax.random.split(jax.random.key(0))
    return {
        "filters": jax.random.normal(first, (5, 5, 3, 32)) * 0.1,
        "weights": jax.random.normal(second, (2 * 2 * 32, classes)) * 0.02,
    }


def loss_of(parameters: dict[str, jax.Array], images: jax.Array, labels: jax.Array) -> jax.Array:
    layout = ("NHWC", "HWIO", "NHWC")
    found = jax.lax.conv_general_dilated(
        images, parameters["filters"], (2, 2), "VALID", dimension_numbers=layout
    )
    pooled = jax.nn.relu(found).reshape(-1, 2, 7, 2, 7, 32).mean((2, 4))
    scores = jax.nn.log_softmax(pooled.reshape(len(images), -1) @ parameters["weights"])
    return -jnp.take_along_axis(scores, labels[:, None], 1).mean()


@jax.jit
def step(
    parameters: dict[str, jax.Array], images: jax.Array, labels: jax.Array
) -> tuple[dict[str, jax.Array], jax.Array]:
    loss, slopes = jax.value_and_grad(loss_of)(parameters, images, labels)
    return jax.tree.map(lambda value, slope: value - 0.05 * slope, parameters, slopes), loss


def train(photographs: str, epochs: int) -> list[float]:
    form = {"layout": "NHWC", "output": "numpy", "drop_last": True, "shuffle": True}
    dataset = hr.Dataset(photographs)
    parameters, losses = initial(len(dataset.classes)), []
    with hr.Loader(dataset, 16, transform=TRAINING, **form) as loader:
        for epoch in range(epochs):
            for images, labels in loader:
                batch = jax.dlpack.from_dlpack(images)
                parameters, loss = step(parameters, batch, jnp.asarray(labels, jnp.int32))
                losses.append(float(loss))
            print(f"epoch {epoch}: loss {sum(losses[-len(loader) :]) / len(loader):.3f}")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photographs")
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    train(arguments.photographs, arguments.epochs)
