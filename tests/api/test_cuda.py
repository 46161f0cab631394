"""Batches for a CUDA device, tested with one: copied by the loader itself, and by its user."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import headrace as hr
from headrace import errors
from images import plain_tree

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is here")

CROP = [{"name": "RandomResizedCrop", "size": [20, 24]}]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """256 images, packed."""
    destination = tmp_path_factory.mktemp("many") / "photos.hr"
    hr.pack(plain_tree(tmp_path_factory.mktemp("tree"), 256, 4), destination)
    return destination


def loader_of(source: Path, batch_size: int = 2, **arguments: Any) -> hr.Loader:
    return hr.Loader(source, batch_size, **{"transform": CROP, "num_threads": 2, **arguments})


def busy(milliseconds: int) -> None:
    """Keeps the current stream at work."""
    torch.cuda._sleep(2_000_000 * milliseconds)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("layout", ["NCHW", "channels_last"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_batches_on_the_device_equal_those_of_the_cpu(
    packed: Path, dtype: str, layout: str, shuffle: bool
) -> None:
    form = {"dtype": dtype, "layout": layout, "fields": ["index", "key"], "shuffle": shuffle}
    with loader_of(packed, 5, **form) as own, loader_of(packed, 5, device="cuda", **form) as copied:
        for _ in range(3):
            for (a, b, c), (d, e, f) in zip(own, copied, strict=True):
                assert d.device.type == e.device.type == f["index"].device.type == "cuda"
                assert torch.equal(a, d.cpu())
                assert a.stride() == d.stride()
                assert torch.equal(b, e.cpu())
                assert torch.equal(c["index"], f["index"].cpu())
                assert c["key"] == f["key"]


def test_mixed_batches_and_views_come_to_the_device_whole(packed: Path) -> None:
    pair = [*CROP, hr.transforms.MixUp(num_classes=3, labels="pair")]
    with (
        loader_of(packed, 4, transform=pair, seed=1, shuffle=True) as own,
        loader_of(packed, 4, transform=pair, seed=1, shuffle=True, device="cuda") as copied,
    ):
        for (a, b), (c, d) in zip(own, copied, strict=True):
            assert torch.equal(a, c.cpu())
            assert all(torch.equal(x, y.cpu()) for x, y in zip(b, d, strict=True))
    views = hr.transforms.Views(large=CROP, small=[hr.transforms.CenterCrop(8)])
    with (
        loader_of(packed, 4, transform=views) as own,
        loader_of(packed, 4, transform=views, device="cuda") as copied,
    ):
        for (a, _), (c, _) in zip(own, copied, strict=True):
            assert all(torch.equal(a[name], c[name].cpu()) for name in ("large", "small"))


def test_held_batches_on_the_device_never_change_also_if_another_stream_reads_them(
    many: Path,
) -> None:
    crop = [{"name": "CenterCrop", "size": 32}]
    form = {"dtype": "uint8", "fields": ["index"], "transform": crop}
    with loader_of(many, 16, **form) as own:
        expected = {i: image for images, _, more in own
                    for i, image in zip(more["index"].tolist(), images, strict=True)}  # fmt: skip
    side = torch.cuda.Stream()
    with loader_of(many, 16, device="cuda", **form) as copied:
        held, sums = [], []
        for epoch in range(4):
            for images, _, more in copied:
                if epoch % 2:
                    held.append((images, more["index"]))
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    busy(2)
                    # Read long after everybody but this stream has dropped the batch.
                    dropped = images.clone()
                    images.record_stream(side)
                    sums.append((dropped.long().sum((1, 2, 3)), more["index"]))
    torch.cuda.synchronize()
    for images, index in held:
        for image, i in zip(images.cpu(), index.tolist(), strict=True):
            assert torch.equal(image, expected[i])
    for found, index in sums:
        assert found.tolist() == [int(expected[i].long().sum()) for i in index.tolist()]


@pytest.mark.parametrize("to", [{"device": "cuda"}, {"pin_memory": True}], ids=["device", "pinned"])
def test_no_batch_is_overwritten_while_its_copy_or_a_kernel_still_runs(
    many: Path, to: dict[str, Any]
) -> None:
    crop = [{"name": "CenterCrop", "size": 32}]
    form = {"dtype": "uint8", "fields": ["index"], "shuffle": True, "transform": crop}
    expected = torch.zeros(256, dtype=torch.int64)
    with loader_of(many, 16, **form) as own:
        for images, _, more in own:
            expected[more["index"]] = images.long().sum((1, 2, 3))
    expected = expected.cuda()
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    with loader_of(many, 16, **form, **to) as loader:
        for epoch in range(30):
            for images, _, more in loader:
                index = more["index"].to("cuda", non_blocking=True)
                if epoch % 3 == 0:
                    busy(1)  # so copies wait behind kernels, and batches outrun them
                moved = images.to("cuda", non_blocking=True)
                del images, more
                wrong += (moved.long().sum((1, 2, 3)) != expected[index]).any()
    assert int(wrong) == 0


def test_pinned_batches_are_pinned_according_to_pytorch_and_equal_ordinary_ones(
    packed: Path,
) -> None:
    with loader_of(packed, pin_memory=True) as pinned, loader_of(packed) as own:
        for (a, b), (c, d) in zip(pinned, own, strict=True):
            assert a.is_pinned()
            assert b.is_pinned()
            assert torch.equal(a, c)
            assert torch.equal(b, d)


def test_pinned_batches_of_dataloader_are_pinned_and_equal_torchs(folder: Path) -> None:
    vision = pytest.importorskip("torchvision")
    transform = vision.transforms.Compose(
        [
            vision.transforms.Resize(24),
            vision.transforms.CenterCrop(20),
            vision.transforms.ToTensor(),
        ]
    )
    dataset = vision.datasets.ImageFolder(str(folder), transform)
    theirs = torch.utils.data.DataLoader(dataset, 5, pin_memory=True)
    ours = hr.DataLoader(dataset, 5, pin_memory=True, strict=True)
    for (a, b), (c, d) in zip(ours, theirs, strict=True):
        assert a.is_pinned()
        assert b.is_pinned()
        assert torch.equal(a, c)
        assert torch.equal(b, d)
    ours.close()


def test_a_state_counts_batches_that_were_handed_out_and_not_those_copied_ahead(
    packed: Path,
) -> None:
    class Own:
        def __iter__(self) -> Iterator[int]:
            yield from reversed(range(24))

        def __len__(self) -> int:
            return 24

    for order in ({"shuffle": True}, {"sampler": Own()}):
        form = {"fields": ["index"], "device": "cuda", **order}
        with loader_of(packed, **form) as whole:
            all_of_it = [more["index"].tolist() for _, _, more in whole]
        for stop in (1, 5, 11):
            with loader_of(packed, **form) as first:
                batches = iter(first)
                seen = [next(batches)[2]["index"].tolist() for _ in range(stop)]
                state = first.state_dict()
            assert state["position"] == 2 * stop
            with loader_of(packed, **form) as second:
                second.load_state_dict(state)
                seen += [more["index"].tolist() for _, _, more in second]
            assert seen == all_of_it


def test_a_damaged_image_is_an_error_at_its_batch_and_later_batches_come(
    tmp_path: Path,
) -> None:
    root = plain_tree(tmp_path / "tree", 24, 1)
    files = sorted(root.rglob("*.jpg"))
    bad = files[9]
    bad.write_bytes(bad.read_bytes()[:200])
    with loader_of(root, device="cuda", prefetch=4) as loader:
        batches = iter(loader)
        for _ in range(4):
            batch = next(batches)
            busy(20)
            del batch
        with pytest.raises((errors.BadImageError, errors.TruncatedError), match=bad.name):
            next(batches)
        assert loader.state_dict()["position"] == 10
        assert len(list(batches)) == 7  # the later batches


def test_an_early_break_and_close_leave_nothing_and_batches_outlive_the_loader(
    packed: Path,
) -> None:
    loader = loader_of(packed, device="cuda")
    for _ in range(4):
        images, labels = next(iter(loader))
        busy(5)
    loader.close()
    kept = images.cpu()
    del loader
    gc.collect()
    assert torch.equal(images.cpu(), kept)
    assert labels.shape == (2,)


def test_normalising_bytes_on_the_device_gives_the_engines_floats(packed: Path) -> None:
    normalised = [*CROP, hr.transforms.Normalize(MEAN, STD)]
    module = hr.torch.Normalize(MEAN, STD).cuda()
    with (
        loader_of(packed, transform=normalised, device="cuda") as floats,
        loader_of(packed, dtype="uint8", device="cuda") as raw,
    ):
        for (a, _), (b, _) in zip(floats, raw, strict=True):
            torch.testing.assert_close(module(b), a)
