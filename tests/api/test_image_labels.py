"""Pairs of images in a loader's batches: the second one moves with the first."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import headrace as hr
from headrace import transforms as t
from headrace._command import cli
from headrace.errors import (
    ArgumentError,
    BadFileError,
    BadImageError,
    EmptyDatasetError,
    HeadraceError,
    LimitError,
    MissingFileError,
    TruncatedError,
)
from images import png

SAMPLES = 11
SCALE = 4
TURNS = t.RandomChoice([t.RandomRotation((angle, angle)) for angle in (0, 90, 180, 270)])
PATCHES = [t.RandomCrop(12), t.RandomHorizontalFlip(), t.RandomVerticalFlip(), TURNS]
TARGET = {"target": t.Image(scale=SCALE)}


def small(number: int) -> Any:
    """Pixels that tell their position and their image."""
    height, width = 20 + number, 40 - number
    y, x = np.mgrid[:height, :width]
    return np.stack([x, y, np.full_like(x, number)], -1).astype(np.uint8)


def large(number: int) -> Any:
    height, width = (SCALE * side for side in small(number).shape[:2])
    y, x = np.mgrid[:height, :width]
    return np.stack([x, y, np.full_like(x, 100 + number)], -1).astype(np.uint8)


def encoded(pixels: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Pairs named as in DIV2K, some of them in a subfolder."""
    root = tmp_path_factory.mktemp("pairs")
    for number in range(SAMPLES):
        below = "more/" if number % 3 == 0 else ""
        write(root / "low" / f"{below}{number:04}x4.png", encoded(small(number)))
        write(root / "high" / f"{below}{number:04}.png", encoded(large(number)))
    return root / "low", root / "high"


@pytest.fixture(scope="module")
def paired(folders: tuple[Path, Path]) -> hr.Dataset:
    return hr.Dataset.from_pairs(*folders, suffixes=("x4", ""))


def loader(dataset: hr.Dataset, **changed: Any) -> hr.Loader:
    given: dict[str, Any] = {"batch_size": 4, "seed": 3, "shuffle": True, "dtype": "uint8"}
    given |= {"layout": "NHWC", "transform": PATCHES, "labels": TARGET}
    return hr.Loader(dataset, **given | changed)


def singly(dataset: hr.Dataset, epochs: int = 1, **changed: Any) -> list[tuple[Any, Any]]:
    with loader(dataset, **changed) as made:
        return [
            (first.numpy().copy(), second.numpy().copy())
            for _ in range(epochs)
            for images, _, moved in made
            for first, second in zip(images, moved["target"], strict=True)
        ]


def same(one: list[tuple[Any, Any]], other: list[tuple[Any, Any]]) -> bool:
    images = ([image for pair in pairs for image in pair] for pairs in (one, other))
    return all(np.array_equal(*both) for both in zip(*images, strict=True))


def symmetries() -> Iterator[Callable[[Any], Any]]:
    for mirrored in (False, True):
        for turns in range(4):
            yield lambda p, m=mirrored, k=turns: np.rot90(p[:, ::-1] if m else p, k)


def expected(first: Any, made: Callable[[int], Any], original: Callable[[int], Any]) -> Any:
    """The part of `made` where `first` shows `original`, mirrored and turned in the same way."""
    number = int(first[0, 0, 2])
    left, top = first[..., 0].min(), first[..., 1].min()
    height, width = first.shape[:2]
    part = original(number)[top : top + height, left : left + width]
    whole = made(number)
    larger = len(whole) // len(original(number))
    second = whole[larger * top :, larger * left :][: larger * height, : larger * width]
    (turn,) = [turn for turn in symmetries() if np.array_equal(turn(part), first)]
    return turn(second)


def test_the_second_image_is_cropped_flipped_and_turned_as_the_first(paired: hr.Dataset) -> None:
    seen = set()
    for first, second in singly(paired, epochs=3):
        assert second.shape == (48, 48, 3)
        assert np.array_equal(second, expected(first, large, small))
        seen.add((first[0, 0] < first[-1, -1]).tobytes() + (first[0, 0] < first[0, -1]).tobytes())
    assert len(seen) > 4


def test_two_equal_images_of_a_pair_stay_equal(folders: tuple[Path, Path]) -> None:
    """At a scale of 1 with ops that resize, turn and pad; colour ops leave the second image
    unchanged."""
    recipe = [
        t.RandomShortestSize((30, 50)),
        t.Pad((3, 4), padding_mode="reflect"),
        t.RandomRotation(30, interpolation="bilinear", expand=True, fill=9),
        t.RandomPerspective(0.3, 1.0),
        t.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 10, interpolation="bicubic"),
        t.CenterCrop((70, 20)),
        t.RandomCrop(64, padding=2, pad_if_needed=True, fill=(1, 2, 3)),
        t.RandomResizedCrop(32, interpolation="bicubic"),
        t.RandomVerticalFlip(),
    ]
    twice = hr.Dataset.from_pairs(folders[1], folders[1])
    pairs = singly(twice, 2, transform=recipe, labels={"target": t.Image()})
    assert all(np.array_equal(*pair) for pair in pairs)
    coloured = [*recipe, t.ColorJitter(0.9, 0.9), t.RandomGrayscale(0.5), t.Cutout(9)]
    changed = singly(twice, 2, transform=coloured, labels={"target": t.Image()})
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(pairs, changed, strict=True))
    assert not any(np.array_equal(*pair) for pair in changed)


def test_paddings_and_central_crops_are_scaled(paired: hr.Dataset) -> None:
    recipe = [t.Pad((1, 2, 3, 4), fill=240), t.RandomZoomOut(240), t.CenterCrop(61)]
    for first, second in singly(paired, transform=recipe):
        larger = second.reshape(61, SCALE, 61, SCALE, 3)
        for corner in (0, 3):
            shown = larger[:, corner, :, corner]
            inside = (first != 240).any(-1) & (first != 0).any(-1)
            assert inside.sum() > 100
            assert np.array_equal(shown[inside][:, :2] // SCALE, first[inside][:, :2])
            assert np.array_equal((shown == 240).all(-1), (first == 240).all(-1))


def test_the_second_image_has_its_own_dtype_and_normalisation(paired: hr.Dataset) -> None:
    plain = singly(paired)
    label = t.Image(4, dtype="float32", mean=0.5, std=(0.5, 1, 2))
    for (_, wanted), (_, found) in zip(
        plain, singly(paired, labels={"target": label}), strict=True
    ):
        floats = torch.from_numpy(wanted).float() / 255
        floats = (floats - 0.5) / torch.tensor([0.5, 1, 2])
        assert found.dtype == np.float32
        assert np.array_equal(found, floats.numpy())


@pytest.mark.parametrize("output", ["torch", "numpy"])
@pytest.mark.parametrize("layout", ["NCHW", "channels_last"])
def test_the_second_image_has_the_layout_of_the_images(
    paired: hr.Dataset, layout: str, output: str
) -> None:
    wanted = singly(paired)
    with loader(paired, layout=layout, output=output, dtype="float32") as made:
        found = [second for _, _, moved in made for second in moved["target"]]
    for (_, second), other in zip(wanted, found, strict=True):
        floats = torch.from_numpy(second.copy()).permute(2, 0, 1).float() / 255
        assert np.array_equal(floats.numpy(), np.asarray(other))


@pytest.mark.parametrize("changed", [{"num_threads": 1}, {"num_threads": 5}, {"read_ahead": 1}])
def test_pairs_do_not_depend_on_threads_and_read_ahead(
    paired: hr.Dataset, changed: dict[str, Any]
) -> None:
    assert same(singly(paired, 2, **changed), singly(paired, 2))


def test_all_ranks_together_have_the_same_pairs_as_one(paired: hr.Dataset) -> None:
    def by_number(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        return sorted(pairs, key=lambda pair: int(pair[0][0, 0, 2]))

    parts = [pair for rank in range(3) for pair in singly(paired, rank=rank, world_size=3)]
    assert same(by_number(parts), by_number(singly(paired)))


def test_a_resumed_loader_goes_on_with_the_same_pairs(paired: hr.Dataset) -> None:
    with loader(paired) as made:
        every = [moved["target"].clone() for _, _, moved in made]
    with loader(paired) as made:
        next(iter(made))
        state = made.state_dict()
    with loader(paired) as made:
        made.load_state_dict(state)
        rest = [moved["target"].clone() for _, _, moved in made]
    assert len(rest) == len(every) - 1
    assert all(map(torch.equal, rest, every[1:]))


def test_a_field_of_a_packed_set_is_a_second_image(paired: hr.Dataset, tmp_path: Path) -> None:
    with hr.Writer(tmp_path / "set") as writer:
        for number in range(len(paired)):
            facts = paired.facts(number)
            writer.add(bytes(paired.read(number)), label=0, **facts["fields"])
    assert same(singly(hr.Dataset(tmp_path / "set")), singly(paired))


def test_packed_pairs_are_the_same_pairs(
    folders: tuple[Path, Path], paired: hr.Dataset, tmp_path: Path
) -> None:
    made = hr.pack(paired, tmp_path / "one")
    assert made["rows"] == SAMPLES
    packed = hr.Dataset(tmp_path / "one")
    assert same(singly(packed, epochs=2), singly(paired, epochs=2))
    assert [packed.facts(number)["key"] for number in range(SAMPLES)] == [
        paired.facts(number)["key"] for number in range(SAMPLES)
    ]
    low, high = map(str, folders)
    command = ["pack", low, high, str(tmp_path / "two"), "--pairs", "image", "--suffixes", "x4", ""]
    assert CliRunner().invoke(cli.app, command).exit_code == 0
    for file in (tmp_path / "one").iterdir():
        assert (tmp_path / "two" / file.name).read_bytes() == file.read_bytes()
    refused = CliRunner().invoke(cli.app, ["pack", low, str(tmp_path / "3"), "--pairs", "image"])
    assert refused.exit_code != 0
    assert "--pairs takes two folders" in str(refused.exception)


def test_packed_pairs_resume_where_they_were_stopped(paired: hr.Dataset, tmp_path: Path) -> None:
    hr.pack(paired, tmp_path / "set")
    every = singly(hr.Dataset(tmp_path / "set"))
    with loader(hr.Dataset(tmp_path / "set")) as made:
        next(iter(made))
        state = made.state_dict()
    with loader(hr.Dataset(tmp_path / "set"), num_threads=1) as made:
        made.load_state_dict(state)
        rest = [
            (first.numpy().copy(), second.numpy().copy())
            for images, _, moved in made
            for first, second in zip(images, moved["target"], strict=True)
        ]
    assert len(rest) == SAMPLES - 4
    assert same(rest, every[4:])


def test_two_columns_of_a_container_are_a_pair(paired: hr.Dataset, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    numbers = range(len(paired))
    columns = {
        "lr": [bytes(paired.read(number)) for number in numbers],
        "hr": [paired.facts(number)["fields"]["target"] for number in numbers],
    }
    parquet.write_table(arrow.table(columns), tmp_path / "pairs.parquet", compression="snappy")
    with pytest.warns(UserWarning, match="no column is known as the label"):
        dataset = hr.Dataset(tmp_path / "pairs.parquet", image="lr")
    with loader(dataset, labels={"hr": t.Image(scale=4)}) as made:
        found = [
            (first.numpy().copy(), second.numpy().copy())
            for images, _, moved in made
            for first, second in zip(images, moved["hr"], strict=True)
        ]
    assert same(found, singly(paired))


def test_pairs_are_listed_by_their_names(folders: tuple[Path, Path], paired: hr.Dataset) -> None:
    assert len(paired) == SAMPLES
    assert paired.kind == "listed"
    facts = [paired.facts(number) for number in range(SAMPLES)]
    assert [fact["key"] for fact in facts][:2] == ["0001x4", "0002x4"]
    assert facts[-1]["key"] == "more/0009x4"
    assert facts[-1]["fields"]["target"] == (folders[1] / "more" / "0009.png").read_bytes()
    assert paired[0].label == -1
    both = hr.Dataset.concat([paired, paired])
    assert both.facts(SAMPLES + 1)["fields"] == facts[1]["fields"]
    assert paired.fingerprint != hr.Dataset.from_pairs(folders[1], folders[1]).fingerprint


def test_files_without_a_partner_are_named_or_left_out(tmp_path: Path) -> None:
    for name in ("low/a.png", "low/b/c.png", "low/d.png", "high/a.JPG", "high/b/c.png"):
        write(tmp_path / name, encoded(small(0)))
    low, high = tmp_path / "low", tmp_path / "high"
    with pytest.raises(BadFileError) as caught:
        hr.Dataset.from_pairs(low, high)
    assert f"1 of 3 images of {low} have no partner in {high}: d.png" in str(caught.value)
    assert len(hr.Dataset.from_pairs(low, high, unpaired="skip")) == 2
    write(high / "d.png", b"")
    write(high / "e.png", b"")
    with pytest.raises(BadFileError, match=r"1 of 4 images .*high have no partner .*: e\.png"):
        hr.Dataset.from_pairs(low, high)
    write(low / "a.jpg", b"")
    with pytest.raises(BadFileError, match=r"a\.jpg and a\.png differ in their extension alone"):
        hr.Dataset.from_pairs(low, high)
    with pytest.raises(EmptyDatasetError, match='ends with "x4"'):
        hr.Dataset.from_pairs(low, high, suffixes=("x4", ""))
    with pytest.raises(MissingFileError):
        hr.Dataset.from_pairs(tmp_path / "nowhere", high)


def bomb(width: int, height: int, blocks: int = 0) -> bytes:
    """A PNG whose header claims that many pixels, with one row's data and many empty blocks."""

    def chunk(name: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(name + data)
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    packed = zlib.compress(bytes(3 * width + 1), 9)
    data = packed[:2] + b"\0\0\0\xff\xff" * blocks + packed[2:]
    signature = b"\x89PNG\r\n\x1a\n"
    return signature + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


GOOD = encoded(large(0))
HOSTILE = {
    "empty": (b"", TruncatedError, 'field "target": the file is truncated, it is empty'),
    "truncated": (GOOD[: len(GOOD) // 2], TruncatedError, 'field "target": '),
    "no image": (b"x" * 900, BadImageError, 'field "target": '),
    "another size": (encoded(large(0)[:-1]), BadFileError, r"79 x 160 pixels.* first image has "
                     r"20 x 40 \(expected 4 times as many: 80 x 160\)"),
    "missing": (None, MissingFileError, "cannot read it"),
    "bomb of sides": (bomb(60_000, 60_000), LimitError, 'field "target": .*max_pixels'),
    "bomb of another size": (bomb(9_000, 9_000), BadFileError, "9000 x 9000 pixels"),
    "bomb of data": (bomb(160, 80, 300_000), LimitError, 'field "target": .*image data'),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_a_bad_second_file_is_an_error_of_its_sample(tmp_path: Path, what: str) -> None:
    data, kind, text = HOSTILE[what]
    for number in range(3):
        write(tmp_path / "low" / f"{number}.png", encoded(small(number)))
        write(tmp_path / "high" / f"{number}.png", encoded(large(number)))
    dataset = hr.Dataset.from_pairs(tmp_path / "low", tmp_path / "high")
    bad = tmp_path / "high" / "0.png"
    bad.unlink() if data is None else bad.write_bytes(data)
    given: dict[str, Any] = {"transform": [t.CenterCrop(20)], "batch_size": 1, "shuffle": False}
    with loader(dataset, **given) as made:
        iteration = iter(made)
        with pytest.raises(HeadraceError, match=text) as caught:
            next(iteration)
        assert isinstance(caught.value, kind)
        assert (caught.value.file, caught.value.record) == (str(bad), 0)
        assert len(list(iteration)) == 2
    with loader(dataset, on_error="replace", **given) as made:
        assert len(list(made)) == 3
        (report,) = made.report()
    assert str(bad) in report["error"]


def jpeg(pixels: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", **options)
    return out.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        encoded(large(0)[:16, :12]),
        jpeg(large(0)[:16, :12]),
        jpeg(large(0)[:16, :12], progressive=True),
    ],
    ids=["PNG", "JPEG", "progressive JPEG"],
)
def test_a_second_image_truncated_at_any_byte_is_an_error_or_complete(
    tmp_path: Path, data: bytes
) -> None:
    """It is never another image, and it never ends the epoch: later samples are delivered."""
    with hr.Writer(tmp_path / "set") as writer:
        for end in range(1, len(data) + 1):
            writer.add(encoded(small(0)[:4, :3]), label=end, target=data[:end])
    wanted = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    refused, whole = [], 0
    given: dict[str, Any] = {"transform": [t.CenterCrop((4, 3))], "batch_size": 1}
    with loader(hr.Dataset(tmp_path / "set"), shuffle=False, **given) as made:
        iteration = iter(made)
        for end in range(1, len(data) + 1):
            try:
                _, labels, moved = next(iteration)
            except HeadraceError as failure:
                refused.append(failure)
                continue
            assert labels.tolist() == [end]
            assert np.array_equal(moved["target"][0], wanted), end
            whole += 1
    assert len(refused) + whole == len(data)
    assert 1 <= whole < 32  # a cut after the last row's data
    # All other cuts are errors, and each names its own sample.
    assert [failure.record for failure in refused] == list(range(len(refused)))
    assert all('field "target": ' in str(failure) for failure in refused)


def test_limits_hold_for_the_second_image(folders: tuple[Path, Path]) -> None:
    given = {"suffixes": ("x4", ""), "limits": {"max_pixels": 40 * 30}}
    with (
        loader(hr.Dataset.from_pairs(*folders, **given)) as made,
        pytest.raises(LimitError, match=r'field "target": .*max_pixels is 1200'),
    ):
        list(made)


@pytest.mark.parametrize(
    ("transform", "name"),
    [
        ([t.Resize(32), t.CenterCrop(12)], "Resize"),
        ([t.RandomResizedCrop(12)], "RandomResizedCrop"),
        ([t.RandomRotation(10), t.CenterCrop(12)], "RandomRotation"),
        ([t.RandomRotation((90, 180)), t.CenterCrop(12)], "RandomRotation"),
        ([t.RandomApply([t.RandomAffine(5)]), t.CenterCrop(12)], "RandomAffine"),
        ([t.RandomPerspective(), t.CenterCrop(12)], "RandomPerspective"),
        ([t.RandomCrop(12, 3, padding_mode="reflect")], "reflect"),
        ([t.RandAugment(), t.CenterCrop(12)], "RandAugment"),
    ],
)
def test_transforms_that_a_second_image_of_another_scale_cannot_follow_are_refused_by_name(
    paired: hr.Dataset, transform: list[Any], name: str
) -> None:
    with pytest.raises(ArgumentError, match=name):
        loader(paired, transform=transform)


def test_impossible_images_are_refused_when_the_loader_is_made(paired: hr.Dataset) -> None:
    for label, text in (
        (t.Image(0), "scale is 0"),
        (t.Image(65), "scale is 65"),
        (t.Image(4, dtype="int8"), "dtype is"),
        (t.Image(4, mean=0.5), "normalize needs a float dtype"),
        (t.Image(4, dtype="float32", std=0), "std"),
    ):
        with pytest.raises(ArgumentError, match=text):
            loader(paired, labels={"target": label})


def test_a_folder_of_masks_is_paired_with_the_images(tmp_path: Path) -> None:
    """A palette image gives its indices, as Pillow's mode P, and a grey image its values."""
    for number in range(6):
        pixels = small(number)
        mask = Image.fromarray(pixels[..., 0] // 3, "L" if number % 2 else "P")
        if number % 2 == 0:
            mask.putpalette([(7 * n) % 256 for n in range(3 * (16 if number == 2 else 256))])
        out = io.BytesIO()
        mask.save(out, "PNG", **({"bits": 4} if number == 2 else {}))
        write(tmp_path / "images" / f"{number}.png", encoded(pixels))
        write(tmp_path / "masks" / f"{number}.png", out.getvalue())
        assert np.array_equal(np.asarray(Image.open(out)), pixels[..., 0] // 3)
    masks = hr.Dataset.from_pairs(tmp_path / "images", tmp_path / "masks", kind="mask")
    with loader(masks, labels={"mask": t.Mask()}) as made:
        for images, _, moved in made:
            assert torch.equal(images[..., 0] // 3, moved["mask"])
    write(tmp_path / "masks" / "3.png", encoded(small(2)[..., 0]))
    with loader(masks, labels={"mask": t.Mask()}) as made, pytest.raises(BadImageError) as caught:
        list(made)
    assert caught.value.file == str(tmp_path / "masks" / "3.png")
    assert "a mask of 22 x 38 (expected the image's 23 x 37)" in str(caught.value)


def test_a_palette_mask_beside_a_jpeg_has_the_classes_of_pascal_voc(tmp_path: Path) -> None:
    """JPEGImages beside SegmentationClass: VOC's own palette, and 255 around the objects."""
    bits = [
        [(n >> 3 * place + c & 1) << 7 - place for place in range(3)]
        for n in range(256)
        for c in range(3)
    ]
    palette = [sum(each) for each in bits]
    assert palette[:12] == [
        0,
        0,
        0,
        128,
        0,
        0,
        0,
        128,
        0,
        128,
        128,
        0,
    ]  # background, aeroplane, ...
    classes = {}
    for number in range(5):
        height, width = 40 + number, 60 - number
        mask = np.zeros((height, width), np.uint8)
        mask[8:30, 10:40], mask[10:28, 12:38] = 255, 1 + 4 * number
        out = io.BytesIO()
        saved = Image.fromarray(mask, "P")
        saved.putpalette(palette)
        saved.save(out, "PNG")
        name = f"2007_{number:06}"
        write(tmp_path / "JPEGImages" / f"{name}.jpg", jpeg(np.stack([mask] * 3, -1), quality=95))
        write(tmp_path / "SegmentationClass" / f"{name}.png", out.getvalue())
        classes[number] = np.asarray(Image.open(out))
    folders = tmp_path / "JPEGImages", tmp_path / "SegmentationClass"
    dataset = hr.Dataset.from_pairs(*folders, kind="mask")
    steps = [t.RandomHorizontalFlip(), t.RandomCrop((32, 32))]
    given: dict[str, Any] = {"transform": steps, "labels": {"mask": t.Mask()}, "batch_size": 5}
    with loader(dataset, fields=["index"], **given) as made:
        ((images, _, moved),) = list(made)
        for place, number in enumerate(moved["index"].tolist()):
            wanted = classes[number]
            seen = hr.functional.move(t.Mask(), wanted, wanted.shape, steps, seed=3, sample=number)
            assert np.array_equal(moved["mask"][place], seen)
            # The mask covers the part of the image that shows its values, up to JPEG's loss.
            off = np.abs(images[place, ..., 0].numpy().astype(int) - seen)
            assert np.median(off) <= 2
            assert set(np.unique(seen)) <= {0, 1 + 4 * number, 255}


# Colour type and bit depth of every kind of mask: grey, and with a palette.
MASKS = [(kind, bits) for kind in (0, 3) for bits in (1, 2, 4, 8)]


def classes_of(data: bytes) -> Any:
    """The indices of a palette image, or the grey values of Pillow's mode L."""
    opened = Image.open(io.BytesIO(data))
    return np.asarray(opened if opened.mode == "P" else opened.convert("L"))


@pytest.mark.parametrize("interlaced", [False, True])
def test_a_partly_decoded_mask_of_any_kind_moves_as_the_whole_mask(
    tmp_path: Path, interlaced: bool
) -> None:
    masks = [
        png(40 + n, 31 + n, kind, bits, interlaced=interlaced, seed=n,
                   transparent=b"\0\1" if kind == 0 and n % 2 else None)
        for n, (kind, bits) in enumerate(3 * MASKS)
    ]  # fmt: skip
    for number, data in enumerate(masks):
        height, width = classes_of(data).shape
        picture = np.full((height, width, 3), number, np.uint8)
        write(tmp_path / f"images/{number:02}.png", encoded(picture))
        write(tmp_path / f"masks/{number:02}.png", data)
    dataset = hr.Dataset.from_pairs(tmp_path / "images", tmp_path / "masks", kind="mask")
    recipes = [
        [t.RandomCrop((9, 13)), t.RandomHorizontalFlip(), t.RandomVerticalFlip()],
        [t.RandomVerticalFlip(), t.RandomResizedCrop((21, 16), (0.05, 0.5)), t.Pad(2, fill=7)],
        [t.RandomCrop((60, 70), pad_if_needed=True, fill=9), t.CenterCrop(12)],
        [t.CenterCrop((12, 30)), t.RandomRotation(30), t.RandomCrop(8)],
        [t.Pad(40, fill=3), t.RandomCrop(16)],  # some crops show only padding
        [t.RandomCrop(24, padding=30), t.ElasticTransform(30.0)],
    ]
    for recipe in recipes:
        given = {"transform": recipe, "labels": {"mask": t.Mask()}, "fields": ["index"]}
        with loader(dataset, **given) as made:
            for _, _, moved in made:
                for found, number in zip(moved["mask"], moved["index"].tolist(), strict=True):
                    whole = classes_of(masks[number])
                    wanted = hr.functional.move(
                        t.Mask(), whole, whole.shape, recipe, seed=3, sample=number
                    )
                    assert np.array_equal(found, wanted), number


def test_only_the_rows_of_a_mask_down_to_the_end_of_its_crop_are_read(tmp_path: Path) -> None:
    """Missing rows below the crop are not noticed; missing rows inside it are an error."""
    noise = np.random.default_rng(5).integers(0, 256, (64, 48), np.uint8)
    whole = encoded(noise)
    write(tmp_path / "images/0.png", encoded(np.stack([noise] * 3, -1)))
    write(tmp_path / "masks/0.png", whole[: len(whole) * 3 // 4])
    dataset = hr.Dataset.from_pairs(tmp_path / "images", tmp_path / "masks", kind="mask")
    given: dict[str, Any] = {"labels": {"mask": t.Mask()}, "batch_size": 1}
    with loader(dataset, transform=[t.CenterCrop((24, 30))], **given) as made:
        ((_, _, moved),) = list(made)
        assert np.array_equal(moved["mask"][0], noise[20:44, 9:39])
    with (
        loader(dataset, transform=[t.CenterCrop((60, 30))], **given) as made,
        pytest.raises(TruncatedError, match='field "mask": the file is truncated'),
    ):
        next(iter(made))


@pytest.mark.parametrize("kind", [0, 3], ids=["grey", "palette"])
@pytest.mark.parametrize("interlaced", [False, True])
def test_a_mask_truncated_at_any_byte_is_an_error_or_complete(
    tmp_path: Path, kind: int, interlaced: bool
) -> None:
    data = png(13, 9, kind, interlaced=interlaced)
    wanted = classes_of(data)
    with hr.Writer(tmp_path / "set") as writer:
        for end in range(len(data) + 1):
            writer.add(encoded(small(0)[:9, :13]), label=end, mask=data[:end])
    given: dict[str, Any] = {"transform": [t.CenterCrop((9, 13))], "labels": {"mask": t.Mask()}}
    refused, whole = [], 0
    with loader(hr.Dataset(tmp_path / "set"), shuffle=False, batch_size=1, **given) as made:
        iteration = iter(made)
        for end in range(len(data) + 1):
            try:
                _, labels, moved = next(iteration)
            except TruncatedError as failure:
                refused.append(failure.record)
                continue
            assert labels.tolist() == [end]
            assert np.array_equal(moved["mask"][0], wanted), end
            whole += 1
    assert 1 <= whole < 32
    assert refused == list(range(len(refused)))


def test_a_mask_obeys_the_limits_of_its_dataset(tmp_path: Path) -> None:
    noise = np.random.default_rng(5).integers(0, 256, (128, 160), np.uint8)
    write(tmp_path / "images/0.png", encoded(np.zeros((128, 160, 3), np.uint8)))
    write(tmp_path / "masks/0.png", encoded(noise))
    folders = tmp_path / "images", tmp_path / "masks"
    dataset = hr.Dataset.from_pairs(*folders, kind="mask", limits={"max_record_bytes": 2000})
    given: dict[str, Any] = {"labels": {"mask": t.Mask()}, "batch_size": 1}
    with (
        loader(dataset, transform=[t.CenterCrop((128, 160))], **given) as made,
        pytest.raises(LimitError, match="max_record_bytes is 2000"),
    ):
        next(iter(made))
