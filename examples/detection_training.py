"""A detection loop: boxes and their classes move with the images of each batch.

python examples/detection_training.py [DATASET [STEPS]]

DATASET was written by hr.Writer with the fields "boxes" (n, 4) and "classes" (n,). Without one, a
small dataset of coloured boxes is made.
"""

import io
import sys
import tempfile

import numpy as np
import torch
from PIL import Image
from torchvision.models.detection import ssdlite320_mobilenet_v3_large

import headrace as hr
from headrace import transforms as t


def write_boxes(path: str, samples: int = 32) -> None:
    noise = np.random.default_rng(0)
    with hr.Writer(path) as writer:
        for _ in range(samples):
            pixels = noise.integers(0, 60, (240, 320, 3), dtype=np.uint8)
            corners = noise.integers(0, 150, (3, 2))
            boxes = np.concatenate([corners, corners + noise.integers(30, 80, (3, 2))], 1)
            classes = noise.integers(1, 3, 3)
            for (left, top, right, bottom), kind in zip(boxes, classes, strict=True):
                pixels[top:bottom, left:right, kind] = 230
            encoded = io.BytesIO()
            Image.fromarray(pixels).save(encoded, "PNG")
            writer.add(encoded.getvalue(), boxes=boxes.astype(np.float32), classes=classes)


def train(path: str, steps: int) -> None:
    loader = hr.Loader(
        path,
        batch_size=4,
        shuffle=True,
        transform=[
            t.RandomZoomOut(side_range=(1, 2)),
            t.RandomResizedCrop(320, scale=(0.5, 1)),
            t.RandomHorizontalFlip(),
            t.ColorJitter(0.3, 0.3, 0.3),
        ],
        labels={"boxes": t.Boxes(sanitize=1), "classes": t.Along("boxes")},
    )
    model = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step, (images, _, moved) in zip(range(steps), loader, strict=False):
        pairs = zip(moved["boxes"], moved["classes"], strict=True)
        targets = [{"boxes": boxes, "labels": classes} for boxes, classes in pairs]
        loss = sum(model(list(images), targets).values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.3f}, {sum(map(len, moved['boxes']))} boxes")


if __name__ == "__main__":
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    if len(sys.argv) > 1:
        train(sys.argv[1], count)
    else:
        with tempfile.TemporaryDirectory() as folder:
            write_boxes(f"{folder}/boxes")
            train(f"{folder}/boxes", count)
