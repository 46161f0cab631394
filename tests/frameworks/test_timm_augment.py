"""TimmAugment compared with timm's own package: its golden vectors, and how its AugMix mixes."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import pytest
from PIL import Image

import headrace as hr

sys.path.insert(0, str(Path(__file__).parents[1] / "parity"))

import timm_golden

PICTURE = timm_golden.picture()
PPM = b"P6 %d %d 255\n" % PICTURE.shape[1::-1] + PICTURE.tobytes()


def test_the_golden_vectors_equal_the_installed_timms() -> None:
    assert timm_golden.golden() == json.loads(timm_golden.FILE.read_text())


def test_erasing_has_the_distribution_of_timms_own() -> None:
    """A Kolmogorov-Smirnov test of each side of the boxes, and a chi-square test of their
    number."""
    import torch
    from scipy import stats
    from timm.data.random_erasing import RandomErasing

    class Spy(torch.Tensor):
        boxes: ClassVar[list[tuple[int, int, int, int]]] = []

        def __setitem__(self, at: Any, _: Any) -> None:
            _, rows, columns = at
            self.boxes.append((rows.start, columns.start, rows.stop, columns.stop))

    given = {"min_area": 0.05, "max_area": 0.4, "min_aspect": 0.4, "min_count": 1, "max_count": 3}
    random.seed(3)
    theirs, image = [], torch.zeros(3, *PICTURE.shape[:2]).as_subclass(Spy)
    for _ in range(3000):
        Spy.boxes.clear()
        RandomErasing(0.8, device="cpu", **given)(image)
        theirs.append(list(Spy.boxes))
    ours = []
    for sample in range(3000):
        steps = hr.functional.replay(PPM, [hr.transforms.TimmErasing(0.8, **given)], sample=sample)
        boxes = [step[1] for step in steps]
        ours.append([(b["i"], b["j"], b["i"] + b["h"], b["j"] + b["w"]) for b in boxes])
    counts = [[sum(len(boxes) == n for boxes in many) for n in range(4)] for many in (ours, theirs)]
    assert stats.chi2_contingency(counts).pvalue > 1e-4, counts
    for side in range(4):
        a, b = ([box[side] for boxes in many for box in boxes] for many in (ours, theirs))
        assert stats.ks_2samp(a, b).pvalue > 1e-4, side


@pytest.mark.parametrize("config", ["augmix-m5-w4-d2", "augmix-m3-mstd0.5"])
def test_a_mixture_equals_timms_for_the_same_chains_and_weights(config: str) -> None:
    from timm.data.auto_augment import augment_and_mix_transform

    for sample in range(40):
        step = hr.transforms.TimmAugment(config)
        ((_, mixed),) = hr.functional.replay(PPM, [step], sample=sample)
        chains = iter(mixed["chains"])

        def of_chain(_ops: Any, _depth: int, chains: Any = chains, **_: Any) -> list[Any]:
            return [
                lambda image, s=s: Image.fromarray(
                    getattr(hr.functional, s["function"])(np.asarray(image), **s["arguments"])
                )
                for s in next(chains)
            ]

        with (
            mock.patch.object(np.random, "choice", of_chain),
            mock.patch.object(np.random, "dirichlet", lambda _, m=mixed: np.array(m["weights"])),
            mock.patch.object(np.random, "beta", lambda *_, m=mixed: m["blend"]),
        ):
            wanted = np.asarray(augment_and_mix_transform(config)(Image.fromarray(PICTURE)))
        assert np.array_equal(hr.functional.mix_chains(PICTURE, **mixed), wanted)
