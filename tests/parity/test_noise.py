"""GaussianNoise: torchvision's arithmetic on bytes, with normal values computed by the test."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from scipy import stats
from torchvision.transforms import v2

from draws import noise_of
from headrace import functional as ours
from headrace import transforms as t
from images import jpeg, photographs


def test_noise_equals_torchvisions_in_every_byte_for_the_same_normal_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = random.Random(5)
    for number in range(200):
        source = photographs()[number % len(photographs())]
        rows, columns = draw.randint(1, 60), draw.randint(1, 60)
        array = source[40 : 40 + rows, 50 : 50 + columns].copy()
        key = [draw.getrandbits(32) for _ in range(4)]
        mean = draw.choice([0.0, draw.uniform(-10, 10)])
        sigma = draw.choice([0.1, 10 ** draw.uniform(-3, 1)])
        clip = draw.random() < 0.6
        normal = torch.from_numpy(noise_of(key, rows, columns)).permute(2, 0, 1)
        monkeypatch.setattr(torch, "randn_like", lambda *_, z=normal, **__: z)
        tensor = torch.from_numpy(array).permute(2, 0, 1)
        wanted = v2.functional.gaussian_noise(tensor, mean, sigma, clip).permute(1, 2, 0).numpy()
        found = ours.gaussian_noise(array, mean, sigma, clip, key)
        assert np.array_equal(found, wanted), (array.shape, key, mean, sigma, clip)


def test_noise_equals_the_golden_vectors() -> None:
    grey = np.full((3, 4, 3), 128, np.uint8)
    found = ours.gaussian_noise(grey, key=[1, 2, 3, 4])
    assert (
        found.tobytes().hex()
        == "7389875f70aa879d9a918681a27991a581626f90517b866a9971a86d8f96a48c65929ba2"
    )


def test_noise_is_normal_and_independent_from_value_to_value() -> None:
    values = noise_of([9, 8, 7, 6], 500, 500)
    assert stats.kstest(values.ravel(), "norm").pvalue > 1e-4
    assert 4.5 < np.abs(values).max() < 6
    flat = values.reshape(-1)
    for distance in (1, 2, 3, 4, 8, 1500):
        correlation = np.corrcoef(flat[:-distance], flat[distance:])[0, 1]
        assert abs(correlation) < 5 / np.sqrt(flat.size), distance


def test_every_sample_and_position_in_the_list_has_its_own_noise_which_replay_reports() -> None:
    data = jpeg(50, 50)
    steps = [t.GaussianNoise(), t.GaussianNoise(0.2, 0.3, clip=False)]
    keys = set()
    for sample in range(3):
        found = ours.replay(data, steps, seed=1, sample=sample)
        assert [name for name, _ in found] == ["gaussian_noise", "gaussian_noise"]
        told = {name: value for name, value in found[1][1].items() if name != "key"}
        assert told == {"mean": 0.2, "sigma": 0.3, "clip": False}
        keys |= {tuple(arguments["key"]) for _, arguments in found}
    assert len(keys) == 6
