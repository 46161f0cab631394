"""timm's augmentations: hr.transforms.TimmAugment gives the same results as timm, byte for byte.

tests/frameworks compares with timm itself; here its results are golden vectors (timm_golden.py).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import timm_golden

import headrace as hr
from headrace import functional as ours
from headrace import transforms as t

GOLDEN = json.loads(timm_golden.FILE.read_text())
PICTURE = timm_golden.picture()
PPM = b"P6 %d %d 255\n" % PICTURE.shape[1::-1] + PICTURE.tobytes()
DRAWS = 1500


def drawn(config: str, draws: int = DRAWS, **given: Any) -> Iterator[list[tuple[str, Any]]]:
    step = t.TimmAugment(config, **given)
    for sample in range(draws):
        yield ours.replay(PPM, [step], seed=3, sample=sample)


SEEN: dict[str, str] = {}


def made(step: tuple[str, Any]) -> str:
    """The hash of one step's result for the picture."""
    name = json.dumps(step)
    if name not in SEEN:
        SEEN[name] = timm_golden.hash_of(getattr(ours, step[0])(PICTURE, **step[1]))
    return SEEN[name]


@pytest.mark.parametrize("config", timm_golden.RAND)
def test_the_ops_of_each_configuration_give_timms_pixels_and_no_others(config: str) -> None:
    assert timm_golden.hash_of(PICTURE) == GOLDEN["picture"]
    found = set()
    for steps in drawn(config, fill=128):
        assert len(steps) <= 1  # ops without effect, such as posterize to 8 bits, are kept
        found |= {made(step) for step in steps}
    assert found == set(GOLDEN[config])


@pytest.mark.parametrize("config", timm_golden.AUTO)
def test_the_lines_of_each_policy_give_timms_pixels(config: str) -> None:
    lines = [[set(ops) for ops in line] for line in GOLDEN[config]]
    used = Counter()
    for steps in drawn(config):
        hashes = [made(step) for step in steps]
        fits = [
            number
            for number, line in enumerate(lines)
            if len(hashes) != 2 or all(h in ops for h, ops in zip(hashes, line, strict=True))
        ]
        assert fits, steps
        assert all(any(h in ops for line in lines for ops in line) for h in hashes), steps
        if len(fits) == 1:
            used[fits[0]] += 1
    assert len(used) > 12  # lines that differ from all others were seen


def test_three_augment_solarizes_greys_or_blurs() -> None:
    counted = Counter()
    for steps in drawn("3a"):
        ((function, arguments),) = steps
        counted[function] += 1
        if function == "solarize":
            assert arguments == {"threshold": 128}
        elif function == "adjust_saturation":
            assert arguments == {"saturation_factor": 0}
        else:
            assert 0.1 <= arguments["radius"] <= 2
    assert set(counted) == {"solarize", "adjust_saturation", "pillow_blur"}
    assert min(counted.values()) > DRAWS / 3 - 100


def test_a_deviation_makes_the_magnitude_normal_and_a_very_large_one_uniform() -> None:
    for config, expected in (("rand-m5-n1-p1-mstd1.5", None), ("rand-m10-n1-p1-mstd101", 0.5)):
        shares = []
        for steps in drawn(config, 6000, interpolation="bilinear"):
            for function, arguments in steps:
                if function == "solarize_add":
                    shares.append(arguments["add"] / 110)
        shares.sort()
        assert len(shares) > 300
        worst = 0.0
        for place, share in enumerate(shares):
            level = 10 * share + 0.05  # magnitudes are truncated to whole numbers
            if expected is None:
                below = 0.5 * (1 + math.erf((level - 5) / (1.5 * math.sqrt(2))))
            else:
                below = level / 10
            worst = max(worst, abs(below - (place + 0.5) / len(shares)))
        assert worst < 2 / math.sqrt(len(shares))  # Kolmogorov's bound at 0.0007


def test_layers_have_timms_probability_and_weighted_layers_are_drawn_without_repetition() -> None:
    lengths = Counter(len(steps) for steps in drawn("rand-m9-n3-p0.5"))
    for length in range(4):
        share = math.comb(3, length) / 8
        assert abs(lengths[length] / DRAWS - share) < 4 * math.sqrt(share * (1 - share) / DRAWS)
    for steps in drawn("rand-m9-n3-p1-t3a"):
        assert len(steps) == 3
    for steps in drawn("rand-m9-n14-p1-t3aw", 200):
        names = Counter(function for function, _ in steps)
        assert len(steps) == 14
        # Each op once: two of the 14 are the same function, as are three of the affine maps.
        assert (names["pillow_blur"], names["adjust_saturation"], names["affine_map"]) == (1, 2, 3)


def test_solarize_add_equals_timms_table() -> None:
    for add in (0, 1, 110, 128, 255):
        for thresh in (0, 128, 256):
            values = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, 2)
            wanted = [min(255, v + add) if v < thresh else v for v in range(256)]
            found = ours.solarize_add(values, add, thresh)[:, :, 0].ravel().tolist()
            assert found == wanted


@pytest.mark.parametrize(
    "step",
    [
        t.TimmAugment("augmix-m5-w4-d2"),
        t.TimmAugment("augmix-m3-a0.3-mstd0.7", interpolation="bicubic", fill=(1, 2, 3)),
        t.AugMix(),
        t.AugMix(7, 2, 5, 0.05, all_ops=False, interpolation="nearest", fill=9),
    ],
    ids=str,
)
def test_a_mixture_equals_the_mix_of_its_chains_made_alone(step: Any, tmp_path: Any) -> None:
    (tmp_path / "all").mkdir()
    for number in range(6):
        (tmp_path / "all" / f"{number}.ppm").write_bytes(PPM)
    depths = set()
    recipe = [t.CenterCrop(PICTURE.shape[:2]), step]
    with hr.Loader(tmp_path, 6, transform=recipe, dtype="uint8", output="numpy") as loader:
        for epoch in range(8):
            for images, _labels in loader:
                for sample in range(6):
                    steps = ours.replay(PPM, recipe, epoch=epoch, sample=sample)
                    _, (function, arguments) = steps
                    assert function == "mix_chains"
                    depths |= {len(chain) for chain in arguments["chains"]}
                    total = sum(arguments["weights"]) + arguments["original"]
                    assert abs(total - 1) < 1e-5
                    wanted = ours.mix_chains(PICTURE, **arguments)
                    assert any(np.array_equal(wanted, image.transpose(1, 2, 0)) for image in images)
    assert len(depths) == 1 or depths == {1, 2, 3}
