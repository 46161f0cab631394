"""TimmAugment against timm's own package: its golden vectors, and how its AugMix mixes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from PIL import Image

import headrace as hr

sys.path.insert(0, str(Path(__file__).parents[1] / "parity"))

import timm_golden

PICTURE = timm_golden.picture()
PPM = b"P6 %d %d 255\n" % PICTURE.shape[1::-1] + PICTURE.tobytes()


def test_the_golden_vectors_are_this_timms() -> None:
    assert timm_golden.golden() == json.loads(timm_golden.FILE.read_text())


@pytest.mark.parametrize("config", ["augmix-m5-w4-d2", "augmix-m3-mstd0.5"])
def test_a_mixture_is_what_timm_makes_of_the_same_chains_and_weights(config: str) -> None:
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
