"""Several views of a sample, and sizes by epoch or step: shapes, streams, refusals."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headrace as hr
from headrace import transforms as t
from headrace.errors import ArgumentError, HeadraceError, UnsupportedError
from timing import eventually

CROP = [t.RandomResizedCrop(20), t.RandomHorizontalFlip()]
LOCAL = [t.RandomResizedCrop((8, 12), scale=(0.1, 0.4)), t.RandomGrayscale(0.5)]
VIEWS = t.Views(CROP, LOCAL, repeat=(2, 3))
SIZES = {0: 8, 1: (12, 16), 3: 20}


def loader_of(source: Any, batch_size: int = 5, **options: Any) -> hr.Loader:
    settings = {"transform": VIEWS, "dtype": "uint8", "shuffle": True, "seed": 2, "num_threads": 2}
    return hr.Loader(source, batch_size, **{**settings, **options})


def digest(batches: Any) -> list[str]:
    """A hash of each batch's images."""
    found = []
    for images, *_ in batches:
        parts = images if isinstance(images, list) else [images]
        joined = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
        found.append(hashlib.sha256(joined).hexdigest())
    return found


def by_sample(batches: Any) -> dict[int, list[bytes]]:
    """Each sample's views."""
    found: dict[int, list[bytes]] = {}
    for images, _, fields in batches:
        for place, index in enumerate(fields["index"].tolist()):
            found[index] = [np.ascontiguousarray(view[place]).tobytes() for view in images]
    return found


def test_views_come_as_a_list_of_tensors_in_order(packed: Path) -> None:
    with loader_of(packed) as loader:
        for images, labels in loader:
            assert isinstance(images, list)
            count = len(labels)
            assert [tuple(view.shape) for view in images] == (
                [(count, 3, 20, 20)] * 2 + [(count, 3, 8, 12)] * 3
            )
            assert all(view.is_contiguous() for view in images)


def test_views_with_names_are_a_dict(packed: Path) -> None:
    named = t.Views(large=CROP, small=LOCAL, repeat={"small": 2})
    plain = t.Views(CROP, LOCAL, repeat=(1, 2))
    with loader_of(packed, transform=named) as one, loader_of(packed, transform=plain) as other:
        (found, _), (listed, _) = next(iter(one)), next(iter(other))
    assert list(found) == ["large", "small"]
    assert torch.equal(found["large"], listed[0])
    assert len(found["small"]) == 2
    assert all(map(torch.equal, found["small"], listed[1:]))


@pytest.mark.parametrize("output", ["torch", "numpy"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "channels_last"])
def test_views_come_in_every_layout_and_output(packed: Path, output: str, layout: str) -> None:
    with loader_of(packed, output=output, layout=layout, dtype="float16") as loader:
        images, _ = next(iter(loader))
    assert len(images) == len(VIEWS)
    wanted = (5, 20, 20, 3) if layout == "NHWC" else (5, 3, 20, 20)
    assert tuple(images[0].shape) == wanted
    assert np.from_dlpack(images[3]).dtype == np.float16


def test_views_do_not_depend_on_threads_ranks_or_a_resume(packed: Path) -> None:
    with loader_of(packed, num_threads=1, fields=["index"]) as loader:
        wanted = by_sample(loader)
    for threads in (2, 7):
        with loader_of(packed, num_threads=threads, fields=["index"]) as loader:
            assert by_sample(loader) == wanted
    found: dict[int, list[bytes]] = {}
    for rank in range(3):
        with loader_of(packed, 2, rank=rank, world_size=3, fields=["index"]) as loader:
            found |= by_sample(loader)
    assert found == wanted
    with loader_of(packed, 4, fields=["index"]) as loader:
        batches = iter(loader)
        found = by_sample([next(batches), next(batches)])
        state = loader.state_dict()
    with loader_of(packed, 3, fields=["index"]) as loader:
        loader.load_state_dict(state)
        found |= by_sample(loader)
    assert found == wanted


def test_an_iterable_dataset_passes_views_on(packed: Path) -> None:
    dataset = hr.IterableDataset(packed, 5, transform=VIEWS, dtype="uint8", seed=2, shuffle=True)
    dataset = pickle.loads(pickle.dumps(dataset))
    found = digest(torch.utils.data.DataLoader(dataset, batch_size=None))
    with loader_of(packed) as loader:
        assert found == digest(loader)
    dataset.loader.close()


def test_a_bad_sample_is_replaced_in_all_views(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "photos"
    for path in sorted(folder.rglob("*.jpg")):
        to = source / path.relative_to(folder)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(path.read_bytes())
    victim = sorted(source.rglob("*.jpg"))[5]
    victim.write_bytes(victim.read_bytes()[:300])
    with loader_of(source) as loader, pytest.raises(HeadraceError, match=victim.name):
        list(loader)
    with loader_of(source, on_error="replace", fields=["index"]) as loader:
        for images, _, _ in loader:
            assert len(images) == len(VIEWS)
        (line,) = loader.report()
        assert loader.stats()["samples"] == 24
    assert (line["index"], line["substitute"] >= 0) == (5, True)


def test_the_memory_of_views_is_freed_with_the_last_of_them(packed: Path) -> None:
    with loader_of(packed, 24) as loader:
        images, _ = next(iter(loader))
        kept = images[4]
        before = kept.clone()
        del images
        for _ in range(3):
            list(loader)
        assert torch.equal(kept, before)
        slots = loader.stats()["batches_open"]
        assert slots <= 4


def test_memory_does_not_grow_with_epochs_of_views_and_sizes(packed: Path) -> None:
    def resident() -> int:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise AssertionError("no VmRSS")

    sizes = {epoch: 8 + 4 * (epoch % 3) for epoch in range(40)}
    with loader_of(packed, transform=t.Views(CROP, repeat=4), resolution=sizes) as loader:
        for _ in range(10):
            list(loader)
        before = resident()
        for _ in range(30):
            list(loader)
        eventually(lambda: resident() - before < 4096)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: t.Views(), "one view or more"),
        (lambda: t.Views(CROP, a=CROP), "by place or by name"),
        (lambda: t.Views(CROP, repeat=33), "1 to 32"),
        (lambda: t.Views(CROP, LOCAL, repeat=17), "at most 32 images"),
        (lambda: t.Views(CROP, LOCAL, repeat=(1, 2, 3)), "a number for each of 2 views"),
        (lambda: t.Views(CROP, repeat=True), "repeat=True"),
        (lambda: t.Views(a=CROP, repeat={"b": 2}), "the name of a view"),
        (lambda: t.Views(t.RandomResizedCrop(8)), r"views\[0\]"),
        (lambda: t.Views([3]), "one of headrace.transforms"),
        (lambda: t.Schedule({1: 8}), "a size from epoch 0 on"),
        (lambda: t.Schedule({0: 0}), r"sizes\[0\]"),
        (lambda: t.Schedule({0: (1, 2, 3)}), "height and width"),
        (lambda: t.Schedule({0: 8, -1: 3}), "a key of sizes"),
        (lambda: t.Schedule({0: 8}, by="batch"), "epoch, step"),
        (lambda: t.Schedule([8]), "a dict of sizes"),
    ],
)
def test_impossible_views_and_schedules_are_refused_by_name(make: Any, sentence: str) -> None:
    with pytest.raises(ArgumentError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"transform": t.Views(CROP, [t.RandomResizedCrop(0)])},
            r"view 1, transform 0 \(RandomResizedCrop\): size is 0",
        ),
        ({"transform": t.Views(CROP, [t.Pad(float("nan"))])}, r"view 1, transform 0 \(Pad\)"),
        ({"transform": t.Views(CROP, [t.Grayscale(3)])}, "one size"),
        ({"transform": [t.Grayscale(3)], "resolution": {0: 8}}, "no size that it could replace"),
        ({"transform": CROP, "resolution": {0: 70000}}, "size is 70000"),
        ({"transform": CROP, "resolution": 8}, "a dict of sizes by epoch"),
        ({"transform": [*CROP, t.Pad(2)], "resolution": {0: 8}}, "12x12, height x width"),
        (
            {
                "transform": [t.Resize(t.Schedule({0: 9, 2: 9})), t.CenterCrop(8)],
                "resolution": t.Schedule({0: 8}, by="step"),
            },
            "one by steps",
        ),
        ({"transform": CROP, "resolution": dict.fromkeys(range(257), 8)}, "1 to 256"),
        (
            {"transform": CROP, "resolution": t.Schedule({0: 8}, "step"), "sampler": [1, 2]},
            "a size by steps",
        ),
    ],
)
def test_impossible_views_and_sizes_of_a_loader_are_refused_when_it_is_made(
    packed: Path, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ArgumentError, match=sentence):
        loader_of(packed, **{"shuffle": False, **options})


def test_views_that_exceed_memory_are_refused_with_the_needed_size(packed: Path) -> None:
    huge = t.Views([t.RandomResizedCrop(60000)], repeat=32)
    needed = 24 * 32 * 60000 * 60000 * 3 + 2 * 24 * 8  # images, labels, indices
    with pytest.raises(MemoryError, match=f"a slot of {needed} bytes"):
        loader_of(packed, 24, transform=huge)
    with pytest.raises(ArgumentError, match="batch_size is"):
        loader_of(packed, 2**40, transform=huge)


def test_a_dataloader_refuses_several_views(packed: Path) -> None:
    with hr.Dataset(packed) as dataset, pytest.raises(UnsupportedError, match="several views"):
        hr.DataLoader(dataset, transform=VIEWS)


# ---- sizes by epoch or step ---------------------------------------------------------------------


def test_images_have_the_size_of_their_epoch(packed: Path) -> None:
    with loader_of(packed, transform=CROP, resolution=SIZES) as loader:
        wanted = [(8, 8), (12, 16), (12, 16), (20, 20), (20, 20)]
        for epoch, size in enumerate(wanted):
            assert {tuple(images.shape[2:]) for images, _ in loader} == {size}, epoch
        loader.set_epoch(0)
        assert {tuple(images.shape[2:]) for images, _ in loader} == {(8, 8)}


def test_images_of_a_scheduled_size_equal_those_of_a_recipe_of_that_size(packed: Path) -> None:
    evaluation = [t.Resize(24), t.CenterCrop(18)]
    for recipe, sized in (
        (CROP, lambda size: [t.RandomResizedCrop(size), CROP[1]]),
        (evaluation, lambda size: [evaluation[0], t.CenterCrop(size)]),
        ([t.Resize((9, 9))], lambda size: [t.Resize((size, size) if size in (8, 20) else size)]),
        (
            [t.RandomChoice([t.CenterCrop(9), t.RandomResizedCrop(9)])],
            lambda size: [t.RandomChoice([t.CenterCrop(size), t.RandomResizedCrop(size)])],
        ),
    ):
        with loader_of(packed, transform=recipe, resolution=SIZES) as loader:
            found = [digest(loader) for _ in range(4)]
        for epoch, size in enumerate([8, (12, 16), (12, 16), 20]):
            with loader_of(packed, transform=sized(size)) as loader:
                loader.set_epoch(epoch)
                assert digest(loader) == found[epoch]


def test_images_have_the_size_of_their_step_counted_over_all_epochs(packed: Path) -> None:
    schedule = t.Schedule({0: 8, 3: 12, 7: 16}, by="step")  # 5 steps an epoch
    wanted = [8, 8, 8, 12, 12, 12, 12, 16, 16, 16]
    with loader_of(packed, transform=CROP, resolution=schedule) as loader:
        found = [images.shape[2] for _ in range(2) for images, _ in loader]
    assert found == wanted


def test_sizes_do_not_depend_on_threads_ranks_or_a_resume(packed: Path) -> None:
    schedule = t.Schedule({0: 8, 2: 12, 5: 16}, by="step")
    for sizes in (schedule, {0: 8, 1: 12}):
        options = {"transform": CROP, "resolution": sizes, "fields": ["index"]}
        with loader_of(packed, 6, num_threads=1, **options) as loader:
            wanted = [
                {index: images[place].numpy().tobytes() for images, _, fields in [batch]
                 for place, index in enumerate(fields["index"].tolist())}
                for _ in range(2) for batch in loader
            ]  # fmt: skip
        ranks = []
        for rank in range(3):
            with loader_of(packed, 2, rank=rank, world_size=3, **options) as loader:
                ranks.append([batch for _ in range(2) for batch in loader])
        for step, parts in enumerate(zip(*ranks, strict=True)):
            found = {
                index: images[place].numpy().tobytes()
                for images, _, fields in parts
                for place, index in enumerate(fields["index"].tolist())
            }
            assert found == wanted[step]
        with loader_of(packed, 6, **options) as loader:
            loader.set_epoch(1)
            batches = iter(loader)
            next(batches)
            state = loader.state_dict()
        with loader_of(packed, 6, num_threads=5, **options) as loader:
            loader.load_state_dict(state)
            sides = [round((len(one) / 3) ** 0.5) for one in wanted[5].values()][:1]
            assert [images.shape[2] for images, _, _ in loader][:1] == sides


def test_a_size_of_one_transform_may_follow_a_schedule(packed: Path) -> None:
    recipe = [t.Resize(t.Schedule({0: 20, 1: 40})), t.CenterCrop(t.Schedule({0: 16, 2: 24}))]
    with loader_of(packed, transform=recipe) as loader:
        found = [digest(loader) for _ in range(3)]
    for epoch, (resize, crop) in enumerate([(20, 16), (40, 16), (40, 24)]):
        with loader_of(packed, transform=[t.Resize(resize), t.CenterCrop(crop)]) as loader:
            loader.set_epoch(epoch)
            assert digest(loader) == found[epoch]


def test_each_view_may_have_its_own_schedule_or_all_may_share_one(packed: Path) -> None:
    small = [t.RandomResizedCrop(t.Schedule({0: 8, 1: 10}))]
    with loader_of(packed, transform=t.Views(CROP, small)) as loader:
        shapes = [[view.shape[2] for view in next(iter(loader))[0]] for _ in range(2)]
    assert shapes == [[20, 8], [20, 10]]
    with loader_of(packed, transform=t.Views(CROP, LOCAL), resolution={0: 8, 1: 10}) as loader:
        shapes = [[view.shape[2] for view in next(iter(loader))[0]] for _ in range(2)]
    assert shapes == [[8, 8], [10, 10]]


def test_a_replay_uses_the_size_of_its_epoch(packed: Path) -> None:
    recipe = [t.RandomResizedCrop(t.Schedule({0: 8, 3: 12}))]
    with hr.Dataset(packed) as dataset:
        data = bytes(dataset.read(0))
    sizes = [hr.functional.replay(data, recipe, epoch=e)[-1][1]["size"] for e in (0, 2, 3, 9)]
    assert sizes == [[8, 8], [8, 8], [12, 12], [12, 12]]
    with pytest.raises(ArgumentError, match="a single image belongs to no step"):
        hr.functional.replay(data, [t.Resize(t.Schedule({0: (8, 8)}, by="step"))])
