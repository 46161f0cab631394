"""ElasticTransform: displacements computed from the draws, and torchvision's results for them."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_kernels
from PIL import Image
from scipy import stats
from torchvision import tv_tensors
from torchvision.transforms import functional as first
from torchvision.transforms import transforms as v1
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as second

import cases
import headrace as hr
from draws import uniform_noise_of
from headrace import errors
from headrace import functional as ours
from headrace import transforms as t
from images import jpeg, photographs

DRAWS = cases.some(40, of=120)
FILLS: tuple[Any, ...] = (None, 0, 255, [10, 200, 77])
Key = list[int]


def some_key(draw: random.Random) -> Key:
    return [draw.getrandbits(32) for _ in range(4)]


def images() -> Iterator[tuple[random.Random, Any, Any]]:
    """Images of all sizes with displacements from thousandths of a pixel to whole images."""
    draw, noise = random.Random(3), np.random.default_rng(3)
    for number in range(DRAWS):
        source = photographs()[number % len(photographs())]
        rows, columns = draw.choice((1, 2, draw.randint(1, 90))), draw.randint(1, 90)
        image = source[30 : 30 + rows, 20 : 20 + columns].copy()
        reach = 10 ** draw.uniform(-4, 0.3)
        field = noise.normal(0, reach, (1, rows, columns, 2)).astype(np.float32)
        if number % 5 == 0:
            field = np.round(field * 8) / 8  # ties and edges
        yield draw, image, field


@pytest.mark.parametrize("filter_name", ["nearest", "bilinear"])
def test_given_displacements_give_the_bytes_of_both_torchvision_versions(
    filter_name: str,
) -> None:
    interpolation = v1.InterpolationMode(filter_name)
    for draw, image, field in images():
        fill, moved = draw.choice(FILLS), torch.from_numpy(field)
        of_v1 = fill if not isinstance(fill, int) else [float(fill)]
        with torch_kernels.fused():
            wanted = np.asarray(second.elastic(Image.fromarray(image), moved, interpolation, fill))
            tensor = torch.from_numpy(image).permute(2, 0, 1)
            same = second.elastic(tensor, moved, interpolation, fill).permute(1, 2, 0).numpy()
            older = first.elastic_transform(Image.fromarray(image), moved, interpolation, of_v1)
        found = ours.elastic(image, field, filter_name, fill)
        assert np.array_equal(found, wanted), (image.shape, fill)
        assert np.array_equal(same, wanted)
        found = ours.elastic(image, moved, filter_name, fill, version=1)
        assert np.array_equal(found, np.asarray(older)), (image.shape, fill)


def drawn(
    monkeypatch: pytest.MonkeyPatch, op: Any, noise: Any, size: tuple[int, int]
) -> np.ndarray[Any, Any]:
    """Displacements by torchvision's v1 and v2 from that noise."""
    found = []
    for version in (1, 2):
        values = [torch.from_numpy((noise[..., axis] + 1) / 2)[None, None] for axis in range(2)]
        with monkeypatch.context() as patched:
            patched.setattr(torch, "rand", lambda *_, v=values, **__: v.pop(0))
            if version == 1:
                made = v1.ElasticTransform.get_params(list(op.alpha), list(op.sigma), list(size))
            else:
                made = op.make_params([torch.empty(3, *size)])["displacement"]
        found.append(made.numpy())
    assert np.allclose(found[0], found[1], rtol=0, atol=1e-6 * max(map(abs, op.alpha)))
    return found[1]


def test_displacements_equal_torchvisions_for_the_same_noise_within_a_millionth_of_alpha(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = random.Random(9)
    largest = 0.0
    for number in range(DRAWS):
        sigma = draw.choice(([0.0, 0.0], [draw.uniform(0.05, 3), draw.uniform(0.05, 3)]))
        alpha = [draw.uniform(-90, 90), 10 ** draw.uniform(-1, 2)]
        least = int(4 * max(sigma)) + 2
        size = draw.randint(least, least + 50), draw.randint(least, least + 50)
        key = some_key(draw)
        noise = uniform_noise_of(key, *size)
        wanted = drawn(monkeypatch, v2.ElasticTransform(alpha, sigma), noise, size)
        found = ours.elastic_displacement(size, alpha, sigma, key)
        assert (found.shape, found.dtype) == (wanted.shape, np.float32)
        if not any(sigma):
            assert np.allclose(found, wanted, rtol=2e-7, atol=0), number
        # In pixels: the grid's numbers are halves of the image's sides.
        pixels = np.abs(found - wanted) * np.array(size[::-1]) / np.abs(alpha)
        largest = max(largest, float(pixels.max()))
    assert 0 < largest < 1e-6, largest


def test_the_elastic_noise_equals_the_golden_vectors() -> None:
    found = ours.elastic_displacement((2, 3), 1, 0, [1, 2, 3, 4]) * np.float32([3, 2])
    assert np.round(found[0] * 2**23).astype(int).tolist() == [
        [[5084970, -7121255], [474976, -7475328], [-1614158, 7810744]],
        [[-2136293, 1019103], [8182970, 4802545], [8169150, -2475592]],
    ]


def test_the_noise_is_uniform_and_independent_from_pixel_to_pixel() -> None:
    values = uniform_noise_of([9, 8, 7, 6], 300, 300)
    assert stats.kstest(values.ravel(), "uniform", (-1, 2)).pvalue > 1e-4
    flat = values.reshape(-1)
    for distance in (1, 2, 3, 8, 16, 600):
        correlation = np.corrcoef(flat[:-distance], flat[distance:])[0, 1]
        assert abs(correlation) < 5 / np.sqrt(flat.size), distance


@pytest.mark.slow
def test_displacements_have_torchvisions_distribution() -> None:
    size, op = (24, 30), v2.ElasticTransform(40.0, [2.0, 1.0])
    places = [(0, 0), (0, 13), (12, 15), (12, 16), (23, 29)]
    torch.manual_seed(4)
    data = ppm(np.zeros((*size, 3), np.uint8))
    theirs, own = [], []
    for sample in range(1000):
        made = op.make_params([torch.empty(3, *size)])["displacement"].numpy()
        theirs.append([made[0, y, x] for y, x in places])
        (_, given), *_ = ours.replay(data, [t.ElasticTransform(40, (2, 1))], sample=sample)
        own.append([given["displacement"][0, y, x] for y, x in places])
    a, b = np.array(own).reshape(1000, -1), np.array(theirs).reshape(1000, -1)
    for column in range(a.shape[1]):
        assert stats.ks_2samp(a[:, column], b[:, column]).pvalue > 1e-4, column
    # Five standard deviations of the difference of two correlations that are near 0.
    assert np.abs(np.corrcoef(a.T) - np.corrcoef(b.T)).max() < 5 * (2 / 1000) ** 0.5


def made(data: bytes, steps: Any, **key: int) -> np.ndarray[Any, Any]:
    """The result of a replay's functions on an image."""
    image = ours.decode(data)
    for name, given in ours.replay(data, steps, **key):
        image = getattr(ours, name)(image, **given)
    return image


def ppm(image: np.ndarray[Any, Any]) -> bytes:
    return b"P6 %d %d 255\n" % (image.shape[1], image.shape[0]) + image.tobytes()


def test_replay_gives_arguments_with_which_torchvisions_functional_gives_the_same_bytes() -> None:
    data = jpeg(120, 90)
    for sample in range(6):
        step = t.ElasticTransform(30 * sample, 2.5, fill=(3, 99, 255))
        (name, given), *rest = ours.replay(data, [step], seed=8, epoch=2, sample=sample)
        assert (name, rest) == ("elastic", [])
        assert given["displacement"].shape == (1, 90, 120, 2)
        image = made(data, [step], seed=8, epoch=2, sample=sample)
        given["displacement"] = torch.from_numpy(given["displacement"])
        del given["version"]
        given["interpolation"] = v1.InterpolationMode(given["interpolation"])
        with torch_kernels.fused():
            wanted = second.elastic(Image.fromarray(ours.decode(data)), **given)
        assert np.array_equal(image, np.asarray(wanted)), sample


def test_every_sample_and_position_in_the_list_has_its_own_displacements() -> None:
    steps = [t.ElasticTransform(9, 1), t.ElasticTransform(9, 1)]
    found = {
        given["displacement"].tobytes()
        for sample in range(3)
        for _, given in ours.replay(jpeg(50, 50), steps, seed=1, sample=sample)
    }
    assert len(found) == 6


def png(image: np.ndarray[Any, Any]) -> bytes:
    out = io.BytesIO()
    Image.fromarray(image).save(out, "PNG")
    return out.getvalue()


FORMATS = ("xyxy", "xywh", "cxcywh", "xyxyxyxy", "xywhr", "cxcywhr")


def some_boxes(draw: random.Random, label: str, size: tuple[int, int]) -> Any:
    """Boxes inside and beyond the image, in one of six formats."""
    height, width = size
    rows = []
    for _ in range(6):
        x = sorted(draw.uniform(-0.1, 1.1) * width for _ in range(2))
        y = sorted(draw.uniform(-0.1, 1.1) * height for _ in range(2))
        row = [x[0], y[0], x[1], y[1]]
        if label in ("xywh", "cxcywh"):
            row = [x[0], y[0], x[1] - x[0], y[1] - y[0]]
        elif label in ("xyxyxyxy", "xywhr", "cxcywhr"):
            row = [(x[0] + x[1]) / 2, (y[0] + y[1]) / 2, x[1] - x[0], y[1] - y[0]]
            row.append(draw.uniform(-180, 180))
        rows.append(row)
    values = torch.tensor(rows)
    if label in ("xyxyxyxy", "xywhr"):
        values = second.convert_bounding_box_format(values, "CXCYWHR", label.upper())
    return values


def takes_corners_at_the_edge() -> bool:
    """Whether this torchvision does: some up to 0.26 look up the movement of corners outside the
    image."""
    box = tv_tensors.BoundingBoxes([[1, 1, 9, 9]], format="XYXY", canvas_size=(9, 9))
    try:
        second.elastic(box, torch.zeros(1, 9, 9, 2))
    except IndexError:
        return False
    return True


@pytest.mark.skipif(not takes_corners_at_the_edge(), reason="this torchvision raises at the edge")
@pytest.mark.parametrize("clamp", [True, False])
@pytest.mark.parametrize("label", FORMATS)
def test_boxes_move_as_in_torchvision(label: str, clamp: bool) -> None:
    draw, close = random.Random(2), 0
    for _ in range(DRAWS):
        size, key = (draw.randint(9, 60), draw.randint(9, 60)), some_key(draw)
        given = {"alpha": draw.uniform(-60, 60), "sigma": draw.choice((0.0, 0.7, 1.9))}
        values = some_boxes(draw, label, size)
        boxes = tv_tensors.BoundingBoxes(
            values, format=label.upper(), canvas_size=size, clamping_mode="soft" if clamp else None
        )
        field = torch.from_numpy(ours.elastic_displacement(size, key=key, **given))
        with torch_kernels.fused():
            wanted = second.elastic(boxes, field).numpy()
        step = {"name": "Elastic", "key": key, **given}
        found, _ = ours.move(t.Boxes(label, clamp), values.numpy(), size, [step])
        # The corners of a rotated box are converted through its angle, so near a corner of the
        # image a last bit decides how it is clamped.
        near = np.isclose(found, wanted, rtol=1e-4, atol=2e-3).all(axis=1)
        close += int(near.sum())
        assert near.all() or len(label) > 6, (size, step)
    assert close >= 0.98 * 6 * DRAWS, close


def test_points_and_masks_move_as_in_torchvision() -> None:
    draw, noise = random.Random(6), np.random.default_rng(6)
    for _ in range(DRAWS):
        size, key = (draw.randint(9, 60), draw.randint(9, 60)), some_key(draw)
        given = {"alpha": draw.uniform(-60, 60), "sigma": draw.choice((0.0, 0.7, 1.9))}
        field = torch.from_numpy(ours.elastic_displacement(size, key=key, **given))
        step = {"name": "Elastic", "key": key, **given}
        points = noise.uniform(-4, 64, (7, 2)).astype(np.float32)
        mask = noise.integers(0, 256, size, dtype=np.uint8)
        with torch_kernels.fused():
            moved = second.elastic(
                tv_tensors.KeyPoints(torch.from_numpy(points.copy()), canvas_size=size), field
            )
            seen = second.elastic(tv_tensors.Mask(torch.from_numpy(mask)), field, fill=7)
        found, kept = ours.move(t.KeyPoints(), points, size, [step])
        assert np.allclose(found, moved.numpy(), rtol=1e-6, atol=1e-5)
        assert kept.tolist() == list(range(7))
        assert np.array_equal(ours.move(t.Mask(fill=7), mask, size, [step]), seen.numpy())


def test_a_loader_moves_image_mask_and_boxes_by_the_same_displacements(tmp_path: Path) -> None:
    image = photographs()[0][:80, :100].copy()
    mask = np.random.default_rng(1).integers(0, 9, (80, 100), dtype=np.uint8)
    boxes = np.array([[5, 6, 50, 60], [30, 2, 99, 70]], np.float32)
    with hr.Writer(tmp_path / "set") as writer:
        for number in range(3):
            more = {"boxes": boxes, "mask": mask, "pair": png(image)}
            writer.add(png(image), label=number, **more)
    step = t.ElasticTransform(60, 3)
    steps = [t.CenterCrop((80, 100)), step]  # the whole image, but resized to one size
    labels = {"boxes": t.Boxes(), "mask": t.Mask(), "pair": t.Image()}
    given = {"transform": steps, "labels": labels, "dtype": "uint8", "layout": "NHWC"}
    with hr.Loader(tmp_path / "set", 3, seed=5, **given) as loader:
        images, numbers, fields = next(iter(loader))
        for place, number in enumerate(numbers.tolist()):
            key = {"seed": 5, "epoch": 0, "sample": number}
            wanted = made(png(image), steps, **key)
            assert np.array_equal(images[place], wanted)
            assert np.array_equal(fields["pair"][place], wanted)
            shown = ours.move(t.Mask(), mask, (80, 100), steps, **key)
            assert np.array_equal(fields["mask"][place], shown)
            moved, _ = ours.move(t.Boxes(), boxes, (80, 100), steps, **key)
            assert np.array_equal(fields["boxes"][place], moved)
            assert not np.array_equal(moved, boxes)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: ours.elastic(np.zeros((4, 4, 3), np.uint8), np.zeros((1, 4, 5, 2))),
            r"\(1, 4, 4, 2\)",
        ),
        (lambda: ours.elastic(np.zeros((4, 4, 3), np.uint8), "far"), r"\(1, 4, 4, 2\)"),
        (lambda: ours.elastic_displacement((9, 9), 1, [0, 2]), "sigma.*no 0, or 0 for both"),
        (lambda: ours.elastic_displacement((9, 9), 1, 128), "sigma is 128"),
        (lambda: ours.elastic_displacement((9, 9), 1e7), "alpha is"),
        (lambda: ours.elastic_displacement((20, 90)), "kernel of 41x41 pixels.* more than 20x20"),
    ],
)
def test_impossible_displacements_are_an_error_that_says_why(call: Any, words: str) -> None:
    with pytest.raises(errors.ArgumentError, match=words):
        call()


def test_zero_and_infinite_displacements_stay_inside_the_image() -> None:
    image = photographs()[0][:20, :20].copy()
    assert np.array_equal(ours.elastic(image, np.zeros((1, 20, 20, 2))), image)
    for number in (np.inf, -np.inf, np.nan, 1e38):
        field = np.full((1, 20, 20, 2), number, np.float32)
        assert (ours.elastic(image, field, "nearest", 9) == 9).all()
