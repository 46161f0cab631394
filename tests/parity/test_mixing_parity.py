"""MixUp and CutMix: torchvision's arithmetic to the last bit, and the distributions of draws."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from torchvision.transforms import v2

import cases
import headrace as hr
import images
from draws import below, uniform, words
from headrace import transforms as t

COUNT, CLASSES, BATCH = 41, 4, 8
SEED, EPOCH = 3, 0
HEIGHT, WIDTH = 20, 24
STEPS: list[Any] = [
    t.RandomResizedCrop((HEIGHT, WIDTH)),
    t.RandomHorizontalFlip(),
    t.RandAugment(),
    t.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.25)),
    t.RandomErasing(0.7, value="random"),
]
FIELDS = ["index", "label", "partner", "partner_label", "lam", "box"]
# Draws of one distribution; correct code gives a p-value below this once in 10,000 runs.
DRAWS, LEAST = cases.some(20_000, of=100_000), 1e-4


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("mixing")
    hr.pack(images.plain_tree(root / "photos", COUNT, CLASSES), root / "photos.hr")
    return root / "photos.hr"


def batches(packed: Path, mix: Any = None, **options: Any) -> list[Any]:
    steps = [*STEPS, mix] if mix is not None else STEPS
    fields = FIELDS if mix is not None else ["index"]
    settings = {"batch_size": BATCH, "shuffle": True, "seed": SEED, "num_threads": 2, **options}
    with hr.Loader(packed, transform=steps, fields=fields, **settings) as loader:
        return list(loader)


def theirs(batch: torch.Tensor, fields: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """torchvision's images and labels for the parameters that the batch reports."""
    lam = float(fields["lam"][0])
    top, left, height, width = fields["box"][0].tolist()
    labels = fields["label"]
    params: dict[str, Any] = {"lam": lam, "labels": labels, "batch_size": len(batch)}
    op: Any = v2.MixUp(num_classes=CLASSES)
    if height * width or lam == 1:
        op = v2.CutMix(num_classes=CLASSES)
        params |= {"box": (left, top, left + width, top + height), "lam_adjusted": lam}
    return op.transform(batch, params), op._mixup_label(labels, lam=lam)


@pytest.mark.parametrize("layout", ["NCHW", "channels_last"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_mixed_batches_equal_torchvisions_to_the_last_bit(
    packed: Path, dtype: str, layout: str
) -> None:
    kinds = set()
    for seed, mix in (
        (1, t.MixUp(0.4, CLASSES)),
        (2, t.CutMix(1.0, CLASSES)),
        (3, t.RandomChoice([t.MixUp(1.0, CLASSES), t.CutMix(1.0, CLASSES)], p=[1, 2])),
        (4, t.RandomChoice([t.MixUp(1.0, CLASSES), t.CutMix(1.0, CLASSES)])),
    ):
        form = {"dtype": dtype, "layout": layout, "seed": seed}
        for (batch, _, of), (mixed, labels, fields) in zip(
            batches(packed, **form), batches(packed, mix, **form), strict=True
        ):
            assert torch.equal(of["index"], fields["index"])
            assert torch.equal(of["index"].roll(1), fields["partner"])
            assert torch.equal(fields["label"].roll(1), fields["partner_label"])
            assert len(fields["lam"].unique()) == 1
            wanted, wanted_labels = theirs(batch, fields)
            assert torch.equal(mixed, wanted)
            assert torch.equal(labels, wanted_labels)
            assert mixed.is_contiguous(
                memory_format=torch.channels_last
                if layout == "channels_last"
                else torch.contiguous_format
            )
            kinds.add((type(mix).__name__, bool(fields["box"].any())))
    assert kinds >= {("MixUp", False), ("CutMix", True), ("RandomChoice", True)}


@pytest.mark.parametrize("layout", ["NCHW", "channels_last"])
def test_cutouts_of_a_sample_are_mixed_with_the_sample(packed: Path, layout: str) -> None:
    steps = [*STEPS[:-1], t.Cutout(9, count=2, fill=(0.5, -1, 2))]
    form: dict[str, Any] = {"shuffle": True, "seed": SEED, "num_threads": 2, "layout": layout}
    for mix in (t.MixUp(1.0, CLASSES), t.CutMix(1.0, CLASSES)):
        with (
            hr.Loader(packed, BATCH, transform=steps, **form) as plain,
            hr.Loader(packed, BATCH, transform=[*steps, mix], fields=FIELDS, **form) as mixed,
        ):
            for (batch, _), (found, labels, fields) in zip(plain, mixed, strict=True):
                wanted, wanted_labels = theirs(batch, fields)
                assert torch.equal(found, wanted)
                assert torch.equal(labels, wanted_labels)


def test_bytes_can_be_mixed_by_cutmix_but_not_by_mixup(packed: Path) -> None:
    steps = [t.RandomResizedCrop(16), t.CutMix(num_classes=CLASSES)]
    with (
        hr.Loader(packed, BATCH, dtype="uint8", transform=steps[:1]) as plain,
        hr.Loader(packed, BATCH, dtype="uint8", transform=steps, fields=FIELDS) as mixed,
    ):
        for (batch, _), (found, labels, fields) in zip(plain, mixed, strict=True):
            wanted, wanted_labels = theirs(batch, fields)
            assert torch.equal(found, wanted)
            assert torch.equal(labels, wanted_labels)
    with pytest.raises(RuntimeError):  # torchvision would have to round, and does not
        v2.MixUp(num_classes=CLASSES)(batch, fields["label"])


def test_a_pair_of_labels_with_lambda_equals_the_soft_labels(packed: Path) -> None:
    for kind in (t.MixUp, t.CutMix):
        soft = batches(packed, kind(num_classes=CLASSES))
        pairs = batches(packed, kind(labels="pair"))
        for (a, targets, _), (b, (own, other, lam), fields) in zip(soft, pairs, strict=True):
            assert torch.equal(a, b)
            assert own.dtype == other.dtype == torch.int64
            assert lam.dtype == torch.float32
            assert torch.equal(fields["label"], own)
            hot = torch.nn.functional.one_hot
            joined = hot(own, CLASSES) * lam[:, None] + hot(other, CLASSES) * (1 - lam[:, None])
            torch.testing.assert_close(joined, targets)


def neighbours(count: int) -> list[int]:
    return [place ^ 1 if place ^ 1 < count else place for place in range(count)]


@pytest.mark.parametrize("mode", ["batch", "pair", "elem"])
def test_timms_mixup_mixes_neighbours_with_timms_arithmetic(packed: Path, mode: str) -> None:
    smoothing = 0.1
    off = smoothing / CLASSES
    on = 1.0 - smoothing + off
    mix = t.Mixup(0.8, 1.0, prob=0.8, mode=mode, label_smoothing=smoothing, num_classes=CLASSES)
    kinds = set()
    for seed in range(6):
        options = {"seed": seed}
        for (batch, _, of), (mixed, labels, fields) in zip(
            batches(packed, **options), batches(packed, mix, **options), strict=True
        ):
            partners = neighbours(len(batch))
            assert torch.equal(of["index"][partners], fields["partner"])
            hot = torch.full((len(batch), CLASSES), off)
            hot.scatter_(1, fields["label"][:, None], on)
            for place, partner in enumerate(partners):
                lam, box = float(fields["lam"][place]), fields["box"][place].tolist()
                x, other = batch[place], batch[partner]
                top, left, height, width = box
                wanted = x.clone()
                if height * width:
                    part = (..., slice(top, top + height), slice(left, left + width))
                    wanted[part] = other[part]
                elif lam != 1:
                    wanted = x * lam + other * (1.0 - lam)
                assert torch.equal(mixed[place], wanted)
                assert torch.equal(labels[place], hot[place] * lam + hot[partner] * (1.0 - lam))
                assert lam == 1 or partner != place
                kinds.add((lam == 1, height * width > 0))
            drawn = [
                (float(lam), *box.tolist())
                for lam, box in zip(fields["lam"], fields["box"], strict=True)
            ]
            pairs = [drawn[place] == drawn[partners[place]] for place in range(len(batch))]
            assert all(pairs) or mode == "elem"
            if mode == "batch":
                assert len(set(drawn[: len(drawn) // 2 * 2])) <= 1
    assert kinds >= {(False, False), (False, True), (True, False)}


def test_mixing_draws_are_philox_numbers_keyed_by_step_and_row(packed: Path) -> None:
    """Two words give lambda, two more the place of the box: a promise of native/draws/mixing.c."""
    alpha, op = 0.3, 4  # after four ops on single samples; Normalize is no op
    for step, (_, _, fields) in enumerate(batches(packed, t.CutMix(alpha, CLASSES))):

        def word(block: int) -> list[int]:
            counter = block | op << 64 | step * BATCH << 128  # noqa: B023 - used at once
            made = np.random.Philox(counter=(counter - 1) % 2**256, key=SEED | EPOCH << 64)
            return [int(number) for number in made.random_raw(4)]

        first, box = word(0), word(1)
        u, turn = 1 - uniform(first[2]), math.cos(2 * math.pi * uniform(first[3]))
        t_squared = math.expm1(-math.log(u) / alpha) * turn**2
        lam = np.float32(0.5 + math.copysign(0.5 / math.sqrt(1 + 1 / t_squared), turn))
        r = 0.5 * math.sqrt(1.0 - float(lam))
        x, y = below(box[0], WIDTH), below(box[1], HEIGHT)
        top, left = max(y - int(r * HEIGHT), 0), max(x - int(r * WIDTH), 0)
        height = min(y + int(r * HEIGHT), HEIGHT) - top
        width = min(x + int(r * WIDTH), WIDTH) - left
        assert fields["box"].tolist() == [[top, left, height, width]] * len(fields["box"])
        assert set(fields["lam"].tolist()) == {1.0 - height * width / (HEIGHT * WIDTH)}
    assert words(SEED, EPOCH, 0, op, 0)  # the generator that draws.py implements for single samples


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two samples of raw pixels, which take no time to decode."""
    root = tmp_path_factory.mktemp("one")
    tree = images.plain_tree(root / "photos", 2, 2, side=16)
    hr.pack(tree, root / "photos.hr", raw=True)
    return root / "photos.hr"


def drawn(
    one: Path, mix: Any, size: tuple[int, int], batch_size: int, draws: int = DRAWS
) -> dict[str, Any]:
    """The parameters by which that many samples were mixed."""
    sampler = hr.samplers.Weighted([1.0, 1.0], draws)
    with hr.Loader(
        one,
        batch_size,
        sampler=sampler,
        transform=[t.Resize(size, interpolation="nearest"), mix],
        fields=["lam", "box"],
        output="numpy",
    ) as loader:
        rows = [(fields["lam"].copy(), fields["box"].copy()) for _, _, fields in loader]
    lam, box = zip(*rows, strict=True)
    return {"lam": np.concatenate(lam), "box": np.concatenate(box)}


@pytest.mark.parametrize("alpha", [0.2, 1.0, 8.0])
def test_lambda_is_beta_distributed(one: Path, alpha: float) -> None:
    mix = t.Mixup(alpha, mode="elem", label_smoothing=0, labels="pair")
    lam = drawn(one, mix, (1, 1), 1000)["lam"]
    assert len(lam) == DRAWS
    torch.manual_seed(1)
    concentration = torch.tensor(alpha, dtype=torch.float64)
    made = torch.distributions.Beta(concentration, concentration).sample((DRAWS,))
    theirs = made.to(torch.float32).numpy()  # in float32 as ours, where almost one becomes one
    assert scipy.stats.ks_2samp(lam, theirs).pvalue > LEAST
    inside = lam[(lam > 1e-6) & (lam < 1 - 1e-6)]
    low, high = scipy.stats.beta.cdf([1e-6, 1 - 1e-6], alpha, alpha)
    assert abs(len(inside) / DRAWS - (high - low)) < 5 * math.sqrt(0.25 / DRAWS)
    shares = (scipy.stats.beta.cdf(inside, alpha, alpha) - low) / (high - low)
    assert scipy.stats.kstest(shares, "uniform").pvalue > LEAST


def test_cutmix_boxes_have_torchvisions_distribution(one: Path) -> None:
    size = (12, 10)
    count = DRAWS // 5  # one for each batch
    found = drawn(one, t.CutMix(1.0, labels="pair"), size, 1, count)
    torch.manual_seed(2)
    op = v2.CutMix(alpha=1.0, num_classes=2)
    image = [torch.zeros(1, 3, *size)]
    made = [op.make_params(image) for _ in range(count)]
    lam = np.array([params["lam_adjusted"] for params in made])
    boxes = np.array([params["box"] for params in made])  # x1, y1, x2, y2
    top, left, height, width = found["box"].T
    for ours, theirs_too in (
        (found["lam"], lam),
        (left, boxes[:, 0]),
        (top, boxes[:, 1]),
        (left + width, boxes[:, 2]),
        (top + height, boxes[:, 3]),
    ):
        values = np.unique(np.concatenate([ours, theirs_too]))
        table = np.array(
            [[np.count_nonzero(side == value) for value in values] for side in (ours, theirs_too)]
        )
        table = table[:, table.sum(axis=0) >= 10]  # the chi-squared test needs this
        assert scipy.stats.chi2_contingency(table).pvalue > LEAST


def test_whether_to_mix_and_how_have_the_given_probabilities(one: Path) -> None:
    mix = t.Mixup(1, 1, prob=0.6, switch_prob=0.3, mode="elem", labels="pair")
    found = drawn(one, mix, (64, 64), 1000)
    cut = found["box"][:, 2] * found["box"][:, 3] > 0
    none = found["lam"] == 1
    # A box below a pixel, or a lambda that rounds to one, is rare and still counts as mixed.
    for share, probability, slack in ((cut, 0.6 * 0.3, 0.002), (none, 0.4, 0.002)):
        error = 4.5 * math.sqrt(probability * (1 - probability) / DRAWS)
        assert abs(share.mean() - probability) < error + slack
    choice = t.RandomChoice([t.MixUp(1, labels="pair"), t.CutMix(1, labels="pair")], p=[3, 1])
    found = drawn(one, choice, (64, 64), 1, DRAWS // 10)
    cut = found["box"].any(axis=1)
    assert abs(cut.mean() - 0.25) < 4.5 * math.sqrt(0.25 * 0.75 / len(cut)) + 0.002


def test_boxes_of_cutmix_minmax_have_the_distribution_of_numpys_integers(one: Path) -> None:
    mix = t.Mixup(0, cutmix_minmax=(0.2, 0.7), mode="elem", labels="pair")
    top, left, height, width = drawn(one, mix, (20, 30), 1000)["box"].T
    for length, begin, side in ((height, top, 20), (width, left, 30)):
        choices = range(int(side * 0.2), int(side * 0.7))
        counts = [np.count_nonzero(length == value) for value in choices]
        assert sum(counts) == DRAWS
        assert scipy.stats.chisquare(counts).pvalue > LEAST
        for value in itertools.islice(choices, 0, None, 4):
            places = np.bincount(begin[length == value], minlength=side - value + 1)
            assert len(places) == side - value + 1
            assert scipy.stats.chisquare(places).pvalue > LEAST
