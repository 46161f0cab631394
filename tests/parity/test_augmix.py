"""AugMix: for equal chains and weights it mixes as torchvision does, and it draws them alike."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest import mock

import numpy as np
import timm_golden
import torch
from PIL import Image
from torchvision.transforms import autoaugment
from torchvision.transforms import functional as theirs

from headrace import functional as ours
from headrace import transforms as t

PICTURE = timm_golden.picture()
PPM = b"P6 %d %d 255\n" % PICTURE.shape[1::-1] + PICTURE.tobytes()


def test_a_mixture_is_what_torchvision_makes_of_the_same_chains_and_weights() -> None:
    for sample in range(60):
        step = t.AugMix(severity=5, alpha=0.5, chain_depth=2)
        ((_, mixed),) = ours.replay(PPM, [step], sample=sample)
        steps = iter([step for chain in mixed["chains"] for step in chain])

        def apply(image: Any, *_: Any, steps: Any = steps, **__: Any) -> torch.Tensor:
            step = next(steps)
            array = image[0].permute(1, 2, 0).numpy()
            found = getattr(ours, step["function"])(array, **step["arguments"])
            return torch.from_numpy(found).permute(2, 0, 1)[None]

        # The product with the second share was rounded before, so that one is 1 here.
        shares = iter([[mixed["original"], 1.0], mixed["weights"]])

        def sample_dirichlet(_self: Any, _: Any, shares: Any = shares) -> torch.Tensor:
            return torch.tensor([next(shares)], dtype=torch.float32)

        kind = autoaugment.AugMix
        with (
            mock.patch.object(autoaugment, "_apply_op", apply),
            mock.patch.object(kind, "_sample_dirichlet", sample_dirichlet),
        ):
            wanted = kind(severity=5, chain_depth=2)(Image.fromarray(PICTURE))
        assert np.array_equal(ours.mix_chains(PICTURE, **mixed), np.asarray(wanted)), sample


def test_the_ops_of_a_chain_are_torchvisions_on_pil_images() -> None:
    """Severity 4: each op's outcomes, as torchvision's space of ops has them."""
    space = autoaugment.AugMix()._augmentation_space(10, PICTURE.shape[:2])
    image, wanted = Image.fromarray(PICTURE), set()
    mode = theirs.InterpolationMode.BILINEAR
    for name, (magnitudes, signed) in space.items():
        for magnitude in magnitudes[:4].tolist() if magnitudes.ndim else [0.0]:
            for value in (magnitude, -magnitude) if signed else (magnitude,):
                made = autoaugment._apply_op(image, name, value, mode, None)
                wanted.add(timm_golden.hash_of(made))
    found = set()
    seen = {}
    for sample in range(1200):
        step = t.AugMix(severity=4, mixture_width=4, chain_depth=1)
        ((_, mixed),) = ours.replay(PPM, [step], sample=sample)
        for ((drawn,),) in zip(mixed["chains"], strict=True):
            key = str(drawn)
            if key not in seen:
                made = getattr(ours, drawn["function"])(PICTURE, **drawn["arguments"])
                seen[key] = timm_golden.hash_of(made)
            found.add(seen[key])
    assert found == wanted


def test_the_weights_are_torchs_dirichlet_and_beta() -> None:
    for alpha in (0.3, 1.0, 4.0):
        step = t.AugMix(alpha=alpha, chain_depth=1)
        originals, firsts = [], []
        for sample in range(2500):
            ((_, mixed),) = ours.replay(PPM, [step], seed=11, sample=sample)
            originals.append(mixed["original"])
            firsts.append(mixed["weights"][0] / max(1e-30, 1 - mixed["original"]))
        torch.manual_seed(0)
        for found, shape in ((originals, [alpha] * 2), (firsts, [alpha] * 3)):
            theirs_ = torch._sample_dirichlet(torch.tensor(shape).expand(20000, -1))[:, 0]
            apart = distance(np.array(found), theirs_.numpy())
            assert apart < 2.1 * np.sqrt(1 / 2500 + 1 / 20000), (alpha, apart)


def distance(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    """Kolmogorov's, between two samples."""
    places = np.sort(np.concatenate([a, b]))
    shares = [np.searchsorted(np.sort(x), places, "right") / len(x) for x in (a, b)]
    return float(np.abs(shares[0] - shares[1]).max())


def test_chains_have_one_to_three_ops() -> None:
    depths: Counter[int] = Counter()
    for sample in range(300):
        ((_, mixed),) = ours.replay(PPM, [t.AugMix()], sample=sample)
        depths.update(len(chain) for chain in mixed["chains"])
    # A posterizing or an equalizing that changes nothing is a step as well.
    assert set(depths) == {1, 2, 3}
    assert min(depths.values()) > 240
