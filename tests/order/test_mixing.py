"""Mixed batches: the same for any threads and ranks, resumed anywhere; labels and refusals."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

import headrace as hr
import images
from headrace import samplers
from headrace import transforms as t
from headrace._batch import lending
from headrace.errors import ArgumentError, UnsupportedError

COUNT, CLASSES, STEP = 53, 5, 24
CROP = [t.RandomResizedCrop((10, 12)), t.RandomHorizontalFlip(), t.Normalize(0.5, 0.25)]
FIELDS = ["index", "label", "partner", "partner_label", "lam", "box"]
MIXES: dict[str, Any] = {
    "MixUp": t.MixUp(0.5, CLASSES),
    "CutMix, pairs of labels": t.CutMix(1.0, labels="pair"),
    "either": t.RandomChoice([t.MixUp(1.0, CLASSES), t.CutMix(1.0, CLASSES)]),
    "timm, batch": t.Mixup(0.8, 1.0, num_classes=CLASSES),
    "timm, pair": t.Mixup(0.8, 1.0, mode="pair", num_classes=CLASSES),
    "timm, elem": t.Mixup(0.8, cutmix_minmax=(0.2, 0.8), mode="elem", num_classes=CLASSES),
}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("mixing")
    hr.pack(images.plain_tree(root / "photos", COUNT, CLASSES), root / "photos.hr")
    return root / "photos.hr"


def loader(source: Any, mix: Any, **options: Any) -> hr.Loader:
    settings = {"batch_size": STEP, "shuffle": True, "seed": 7, "output": "numpy", "fields": FIELDS}
    return hr.Loader(source, transform=[*CROP, mix], **{**settings, **options})


def rows(batch: Any) -> list[bytes]:
    """Everything that a batch has of each sample, beginning with pixels and labels."""
    pixels, labels, fields = batch
    targets = labels if isinstance(labels, tuple) else (labels,)
    columns = [pixels, *targets, *fields.values()]
    return [b"".join(np.asarray(part[i]).tobytes() for part in columns) for i in range(len(pixels))]


def whole(packed: Path, mix: Any, world_size: int, **options: Any) -> list[list[bytes]]:
    """The steps of an epoch, put together from all ranks."""
    steps: list[list[bytes]] = []
    for rank in range(world_size):
        part = {"rank": rank, "world_size": world_size, "batch_size": STEP // world_size}
        with loader(packed, mix, **part, **options) as source:
            for step, batch in enumerate(source):
                if not rank:
                    steps.append([])
                steps[step] += rows(batch)
    return steps


def digest(steps: list[list[bytes]]) -> str:
    return hashlib.sha256(b"".join(map(b"".join, steps))).hexdigest()


@pytest.mark.parametrize("mix", MIXES)
def test_mixed_batches_have_one_hash_for_any_number_of_threads_and_ranks(
    packed: Path, mix: str
) -> None:
    expected = whole(packed, MIXES[mix], 1, num_threads=1)
    assert [len(step) for step in expected] == [24, 24, 5]
    for world_size, threads in ((1, 2), (1, 3), (1, 8), (2, 1), (2, 3), (3, 2), (4, 1), (4, 8)):
        assert digest(whole(packed, MIXES[mix], world_size, num_threads=threads)) == digest(
            expected
        )
    # In the last step every rank has one sample or none.
    assert digest(whole(packed, MIXES[mix], 24, num_threads=1)) == digest(expected)
    options = {"drop_last": True, "num_threads": 2, "prefetch": 5}
    assert whole(packed, MIXES[mix], 4, **options) == expected[:2]


@pytest.mark.parametrize("mix", ["either", "timm, elem"])
def test_a_padded_step_is_mixed_with_its_padding(packed: Path, mix: str) -> None:
    for world_size in (2, 4):
        steps = whole(packed, MIXES[mix], world_size, pad=True)
        assert [len(step) for step in steps] == [24, 24, {2: 6, 4: 8}[world_size]]
        assert steps[:2] == whole(packed, MIXES[mix], 1)[:2]


@pytest.mark.parametrize("mix", MIXES)
def test_every_batch_boundary_can_be_resumed_with_other_threads_and_ranks(
    packed: Path, mix: str
) -> None:
    expected, following = [], []
    options = {"batch_size": 8}
    with loader(packed, MIXES[mix], **options) as source:
        states = [source.state_dict()]
        for batch in source:
            expected.append(rows(batch))
            states.append(json.loads(json.dumps(source.state_dict())))
        following = [rows(batch) for batch in source]
    assert expected != following
    for step, state in enumerate(states):
        with loader(packed, MIXES[mix], num_threads=3, **options) as source:
            source.load_state_dict(state)
            assert [rows(batch) for batch in source] == (expected[step:] or following)
        parts = []
        for rank in range(2):
            part = {"rank": rank, "world_size": 2, "batch_size": 4, "num_threads": 1}
            with loader(packed, MIXES[mix], **part) as source:
                source.load_state_dict(state)
                parts.append([rows(batch) for batch in source])
        joined = [a + b for a, b in zip(*parts, strict=True)]
        assert joined == (expected[step:] or following)


@pytest.mark.parametrize("mix", ["MixUp", "timm, pair"])
def test_repeats_of_a_sample_are_mixed_with_other_samples_on_any_number_of_ranks(
    packed: Path, mix: str
) -> None:
    options = {"shuffle": False, "sampler": samplers.Repeated(3)}
    expected = whole(packed, MIXES[mix], 1, **options)
    assert [len(step) for step in expected] == [24, 24, 5]
    for world_size in (2, 3, 4):
        assert whole(packed, MIXES[mix], world_size, **options) == expected
    with loader(packed, MIXES[mix], **options) as source:
        for _, _, fields in source:
            index, partner = fields["index"], fields["partner"]
            if mix == "MixUp":
                assert partner.tolist() == np.roll(index, 1).tolist()
            if len(index) == STEP:  # the last step is short; one of its samples is at both ends
                assert (index != partner).all()


@pytest.mark.parametrize("mix", ["MixUp", "either", "timm, pair"])
def test_a_batch_of_one_sample_or_of_none_is_mixed_as_by_torch(packed: Path, mix: str) -> None:
    with loader(packed, MIXES[mix], sampler=samplers.Subset([3, 9, 11]), batch_size=1) as source:
        for _, labels, fields in source:
            assert fields["partner"] == fields["index"]
            assert labels.sum() == pytest.approx(1)
    part = {"rank": 3, "world_size": 4, "batch_size": 2}
    with loader(packed, MIXES[mix], sampler=samplers.Subset([3, 9]), **part) as source:
        [(pixels, labels, fields)] = source
        assert pixels.shape == (0, 3, 10, 12)
        assert labels.shape == (0, CLASSES)
        assert fields["box"].shape == (0, 4)
    with loader(packed, MIXES[mix], sampler=samplers.Subset([3, 9]), output="torch", **part) as one:
        [(tensor, targets, _)] = one
        assert (*tensor.shape, *targets.shape) == (0, 3, 10, 12, 0, CLASSES)


@pytest.mark.parametrize("mix", MIXES)
def test_soft_labels_add_up_to_one(packed: Path, mix: str) -> None:
    with loader(packed, MIXES[mix], batch_size=7) as source:
        for _, labels, fields in source:
            if isinstance(labels, tuple):
                own, other, lam = labels
                assert (own == fields["label"]).all()
                assert (other == fields["partner_label"]).all()
                assert ((lam >= 0) & (lam <= 1)).all()
                continue
            assert labels.shape == (len(fields["label"]), CLASSES)
            assert labels.dtype == np.float32
            np.testing.assert_allclose(labels.sum(axis=1), 1, atol=1e-6)


def test_a_partner_has_the_pixels_of_its_own_row_or_of_its_substitute(
    tmp_path: Path,
) -> None:
    tree = images.plain_tree(tmp_path / "photos", 24, CLASSES)
    broken = sorted(tree.rglob("*.jpg"))[7]
    broken.write_bytes(broken.read_bytes()[:300])
    mix = t.CutMix(0.01, labels="pair")  # one image or the other as a whole
    expected = whole(tree, mix, 1, on_error="replace")
    for world_size in (2, 4, 8):
        assert whole(tree, mix, world_size, on_error="replace") == expected
    places = 0
    for rank in range(24):  # in one of them it is the partner alone
        part = {"rank": rank, "world_size": 24, "batch_size": 1, "on_error": "replace"}
        with loader(tree, mix, **part) as source:
            list(source)
            report = source.report()
            places += len(report)
            assert all(line["place"] == 0 for line in report)
    assert places == 1
    with pytest.raises(hr.errors.HeadraceError, match=broken.name), loader(tree, mix) as source:
        list(source)


def test_batches_in_lent_memory_and_held_batches_have_all_fields(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocate = lambda size: torch.empty(size, dtype=torch.uint8)  # noqa: E731
    monkeypatch.setattr(lending, "allocator", lambda: allocate)
    for mix in MIXES.values():
        with (
            loader(packed, mix, batch_size=9, output="torch") as own,
            loader(packed, mix, batch_size=9, output="torch", pin_memory=True) as lent,
        ):
            held = list(own)
            assert [rows(batch) for batch in held] == [rows(batch) for batch in lent]
        again = [rows(batch) for batch in held]
        with loader(packed, mix, batch_size=9) as anew:
            assert again == [rows(batch) for batch in anew]


def test_batches_of_an_iterable_dataset_and_of_a_users_order_are_mixed_too(packed: Path) -> None:
    mix = MIXES["either"]
    dataset = hr.IterableDataset(packed, STEP, shuffle=True, seed=7, transform=[*CROP, mix])
    with loader(packed, mix, output="torch") as source:
        for (a, b), (c, d, _) in zip(
            torch.utils.data.DataLoader(dataset, batch_size=None), source, strict=True
        ):
            assert torch.equal(a, c)
            assert torch.equal(b, d)
    dataset.loader.close()
    order = [i * 7 % COUNT for i in range(30)]
    with loader(packed, mix, sampler=order, shuffle=False, batch_size=8) as source:
        found = [fields["index"].tolist() for _, _, fields in source]
        assert [index for batch in found for index in batch] == order
        again = [rows(batch) for batch in source]
        source.set_epoch(1)
        assert [rows(batch) for batch in source] == again
        for _, _, fields in source:
            assert (np.roll(fields["index"], 1) == fields["partner"]).all()
    part = {"sampler": order, "shuffle": False, "rank": 0, "world_size": 2}
    with pytest.raises(UnsupportedError, match="other ranks"):
        loader(packed, mix, **part)
    spread = hr.IterableDataset(packed, STEP, transform=[*CROP, mix])
    with pytest.raises(UnsupportedError, match="num_workers=0"):
        list(torch.utils.data.DataLoader(spread, batch_size=None, num_workers=1))


@pytest.mark.parametrize("mix", ["either", "timm, pair"])
@pytest.mark.parametrize("by", ["epoch", "step"])
def test_a_batch_of_a_scheduled_size_is_mixed_as_if_that_size_were_the_only_one(
    packed: Path, mix: str, by: str
) -> None:
    sizes = {"epoch": {0: (6, 8), 1: (10, 12)}, "step": {0: (6, 8), 3: (10, 12), 5: (4, 4)}}[by]

    def epochs(world_size: int, resolution: Any) -> list[list[bytes]]:
        parts: list[list[bytes]] = [[] for _ in range(6)]
        for rank in range(world_size):
            part = {"rank": rank, "world_size": world_size, "batch_size": STEP // world_size}
            with loader(packed, MIXES[mix], resolution=resolution, **part) as source:
                for step, batch in enumerate([*source, *source]):
                    parts[step] += rows(batch)
        return parts

    alone = {size: epochs(1, {0: size}) for size in sizes.values()}
    at = [
        sizes[max(k for k in sizes if k <= (step if by == "step" else step // 3))]
        for step in range(6)
    ]
    expected = [alone[size][step] for step, size in enumerate(at)]
    assert len({len(steps[0]) for steps in expected}) == len(set(at)) > 1
    for world_size in (1, 2):
        assert epochs(world_size, t.Schedule(sizes, by=by)) == expected


def test_a_single_view_is_mixed_as_its_plain_list_of_transforms(packed: Path) -> None:
    with loader(packed, MIXES["MixUp"]) as source:
        expected = [rows(batch) for batch in source]
    view = t.Views([*CROP, MIXES["MixUp"]])
    options = {"batch_size": STEP, "shuffle": True, "seed": 7, "output": "numpy", "fields": FIELDS}
    with hr.Loader(packed, transform=view, **options) as source:
        assert [rows((pixels[0], *rest)) for pixels, *rest in source] == expected


def test_impossible_mixes_are_refused_by_name(packed: Path) -> None:
    for steps, options, text in (
        ([t.MixUp(num_classes=CLASSES), *CROP], {}, "not the last transform"),
        ([*CROP, t.MixUp(num_classes=5), t.CutMix(num_classes=5)], {}, "not the last transform"),
        ([*CROP, t.MixUp()], {}, r"transform 3 \(MixUp\): num_classes is null"),
        ([*CROP, t.MixUp(num_classes=4)], {}, "at least 5, the classes of the dataset"),
        ([*CROP, t.MixUp(0, 5)], {}, "alpha is 0"),
        ([*CROP, t.Mixup(0, 0)], {}, "mixup_alpha is 0, and so is cutmix_alpha"),
        ([*CROP, t.Mixup(mode="half")], {}, "mode is"),
        ([*CROP, t.Mixup(cutmix_minmax=(0.5, 0.52))], {}, "cutmix_minmax is"),
        ([*CROP, t.Mixup(cutmix_minmax=(0.6, 0.2))], {}, "the lower bound first"),
        ([CROP[0], t.RandomApply([t.MixUp(1, 5)])], {}, "inside of another"),
        ([*CROP, t.RandomChoice([t.MixUp(1, 5), t.CutMix(1, 6)])], {}, "num_classes or labels"),
        ([*CROP, t.RandomChoice([t.MixUp(1, 5), t.Mixup()])], {}, "MixUp and CutMix alone"),
        ([*CROP, t.RandomChoice([t.MixUp(1, 5), t.RandomInvert()])], {}, "MixUp and CutMix alone"),
        ([*CROP, t.RandomChoice([t.MixUp(1, 5)], p=[0])], {}, "no weight above 0"),
        ([*CROP[:2], t.MixUp(1, 5)], {"dtype": "uint8"}, "CutMix alone takes bytes"),
        ([*CROP[:2], t.Mixup(1, 1)], {"dtype": "uint8"}, "CutMix alone takes bytes"),
        ([t.Resize(9), t.MixUp(1, 5)], {}, "differ in size"),
        (
            t.Views([*CROP, t.MixUp(1, 5)], repeat=2),
            {},
            "views is 2 .expected one image of a sample",
        ),
        (t.Views(CROP, [*CROP, t.MixUp(1, 5)]), {}, "views is 2 .expected one image of a sample"),
        ([t.FiveCrop(9), t.MixUp(1, 5)], {}, "MixUp.: it mixes one image a sample, and FiveCrop"),
        (
            [t.TenCrop(9), CROP[-1], t.Mixup()],
            {},
            "Mixup.: it mixes one image a sample, and TenCrop",
        ),
        ([*CROP, t.CutMix(1, 5), t.FiveCrop(9)], {}, "it is not the last"),
    ):
        with pytest.raises(ArgumentError, match=text):
            hr.Loader(packed, 8, transform=steps, **options)
    part = samplers.Subset(range(40, 46))
    with (
        hr.Loader(packed, 8, sampler=part, transform=[*CROP, t.MixUp(1, 4)]) as source,
        pytest.raises(ArgumentError, match=r"record 43 \(.*the label is 4 .expected 0 to 3"),
    ):
        list(source)
    with pytest.raises(ArgumentError, match="the dataset has no 'lam'"):
        hr.Loader(packed, 8, transform=CROP, fields=["lam"])
    with pytest.raises(ArgumentError, match="collate_fn"):
        list(hr.DataLoader(hr.Dataset(packed), 8, transform=[*CROP, t.MixUp(1, 5)]))
