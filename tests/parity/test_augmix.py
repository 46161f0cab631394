"""AugMix: for equal chains and weights the bytes are torchvision's, and draws have its
distribution.
"""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest import mock

import numpy as np
import pytest
import timm_golden
import torch
import torch_kernels
from PIL import Image
from skimage import data
from torchvision.transforms import _functional_tensor, autoaugment
from torchvision.transforms import functional as theirs

from headrace import functional as ours
from headrace import transforms as t

PICTURE = timm_golden.picture()
PPM = b"P6 %d %d 255\n" % PICTURE.shape[1::-1] + PICTURE.tobytes()


def on_tensors(step: dict[str, Any], image: torch.Tensor) -> torch.Tensor:
    """Applies a drawn step by torchvision's own function on a tensor."""
    name, given = step["function"], dict(step["arguments"])
    if name == "tensor_affine":
        matrix, fill = given["coefficients"], given["fill"]
        fill = None if fill is None else [float(value) for value in fill]
        return _functional_tensor.affine(image, matrix, given["interpolation"], fill)
    given.pop("tensor", None)
    function: Any = getattr(theirs, name)
    return function(image, *given.values())


def in_torchvision(mixed: dict[str, Any], image: Any) -> Any:
    """torchvision's AugMix with given chains and weights."""
    steps = iter([step for chain in mixed["chains"] for step in chain])

    def apply(image: Any, *_: Any, **__: Any) -> torch.Tensor:
        return on_tensors(next(steps), image)

    # The product with the second weight is rounded already, so here that weight is 1.
    shares = iter([[mixed["original"], 1.0], mixed["weights"]])

    def sample_dirichlet(_self: Any, _: Any) -> torch.Tensor:
        return torch.tensor([next(shares)], dtype=torch.float32)

    kind = autoaugment.AugMix
    with (
        mock.patch.object(autoaugment, "_apply_op", apply),
        mock.patch.object(kind, "_sample_dirichlet", sample_dirichlet),
    ):
        chains, depth = len(mixed["chains"]), len(mixed["chains"][0])
        return kind(mixture_width=chains, chain_depth=depth)(image)


@pytest.mark.slow
def test_a_mixture_equals_torchvisions_for_the_same_chains_and_weights() -> None:
    rng = np.random.default_rng(3)
    photographs = [data.astronaut(), data.coffee(), data.rocket(), data.chelsea()]
    for sample in range(200):
        size = [int(side) for side in rng.integers(1, 130, 2)]
        picture = np.asarray(Image.fromarray(photographs[sample % 4]).resize(size))
        ppm = b"P6 %d %d 255\n" % picture.shape[1::-1] + picture.tobytes()
        fill = [None, 9, (255, 0, 100)][sample % 3]
        mode = ["bilinear", "nearest"][sample % 2]
        step = t.AugMix(10, 3, 1 + sample % 3, 0.5, interpolation=mode, fill=fill)
        ((_, mixed),) = ours.replay(ppm, [step], sample=sample)
        with torch_kernels.fused():
            wanted = np.asarray(in_torchvision(mixed, Image.fromarray(picture)))
        assert np.array_equal(ours.mix_chains(picture, **mixed), wanted), (sample, mixed)


def test_the_ops_of_a_chain_equal_torchvisions_on_tensors() -> None:
    """At severity 4 each op has the outcomes that torchvision's augmentation space gives."""
    image, wanted = theirs.pil_to_tensor(Image.fromarray(PICTURE)), {}
    mode = theirs.InterpolationMode.BILINEAR
    with torch_kernels.fused():
        space = autoaugment.AugMix()._augmentation_space(10, PICTURE.shape[:2])
        for name, (magnitudes, signed) in space.items():
            for magnitude in magnitudes[:4].tolist() if magnitudes.ndim else [0.0]:
                for value in (magnitude, -magnitude) if signed else (magnitude,):
                    made = autoaugment._apply_op(image, name, value, mode, None)
                    wanted[made.numpy().tobytes()] = (name, value)
    found = {}
    seen = set()
    for sample in range(1200):
        step = t.AugMix(severity=4, mixture_width=4, chain_depth=1)
        ((_, mixed),) = ours.replay(PPM, [step], sample=sample)
        for ((drawn,),) in zip(mixed["chains"], strict=True):
            if str(drawn) not in seen:
                seen.add(str(drawn))
                made = getattr(ours, drawn["function"])(PICTURE, **drawn["arguments"])
                found[made.transpose(2, 0, 1).tobytes()] = drawn
    assert {wanted[key] for key in wanted.keys() - found.keys()} == set()
    assert [found[key] for key in found.keys() - wanted.keys()] == []


@pytest.mark.slow
def test_the_weights_have_torchs_dirichlet_and_beta_distributions() -> None:
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
    """Kolmogorov's distance between two samples."""
    places = np.sort(np.concatenate([a, b]))
    shares = [np.searchsorted(np.sort(x), places, "right") / len(x) for x in (a, b)]
    return float(np.abs(shares[0] - shares[1]).max())


def test_chains_have_one_to_three_ops() -> None:
    depths: Counter[int] = Counter()
    for sample in range(300):
        ((_, mixed),) = ours.replay(PPM, [t.AugMix()], sample=sample)
        depths.update(len(chain) for chain in mixed["chains"])
    # A posterize or equalize that changes nothing counts as a step, too.
    assert set(depths) == {1, 2, 3}
    assert min(depths.values()) > 240
