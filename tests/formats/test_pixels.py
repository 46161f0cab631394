"""Containers that hold pixels instead of image files: in place, indexed and packed."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa

import headrace as hr
import headrace.transforms as T
import images
import mds

PIXELS = Path(__file__).parents[2] / "internal" / "scan" / "testdata" / "pixels.lmdb"


def expected(number: int) -> np.ndarray:
    """The images that internal/scan/testdata/make.py wrote, as RGB."""
    channels = 1 if number == 3 else 3
    planes = np.arange(channels * (20 + number) * 30).reshape(channels, 20 + number, 30) * 7
    rgb = (planes + number).astype(np.uint8)[::-1].transpose(1, 2, 0)
    return np.broadcast_to(rgb, (20 + number, 30, 3))


def test_planes_of_caffes_datum_are_images_in_place_indexed_and_packed(tmp_path: Path) -> None:
    source = shutil.copy(PIXELS, tmp_path / "train.lmdb")
    hr.index(source, tmp_path / "index.hr")
    hr.pack(source, tmp_path / "packed.hr")
    for path in (source, tmp_path / "index.hr", tmp_path / "packed.hr"):
        with hr.Dataset(path) as dataset:
            assert [sample.label for sample in dataset] == [0, 2, 4, 6]
            assert dataset[1].key == "00000001_photo"
            assert all(np.array_equal(dataset[i].image, expected(i)) for i in range(4))
            how = {"transform": [T.CenterCrop(16)], "dtype": "uint8", "layout": "NHWC"}
            with hr.Loader(dataset, 4, **how, output="numpy") as loader:
                batch, _ = next(iter(loader))
        for number in range(4):
            top, left = round((20 + number - 16) / 2), 7
            crop = expected(number)[top : top + 16, left : left + 16]
            assert np.array_equal(batch[number], crop)
    assert hr.verify(tmp_path / "index.hr", decode=True)["ok"]
    assert hr.verify(tmp_path / "packed.hr", decode=True)["ok"]


def test_a_zstd_frame_without_its_content_size_is_read(tmp_path: Path) -> None:
    samples = [(images.jpeg(24, 24, seed=i), i, f"caption {i}") for i in range(5)]
    stream = pa.BufferOutputStream()
    with pa.CompressedOutputStream(stream, "zstd") as file:
        file.write(mds.shard(samples))
    (tmp_path / "shard.00000.mds.zstd").write_bytes(stream.getvalue().to_pybytes())
    with hr.Dataset(tmp_path) as dataset:
        assert [sample.label for sample in dataset] == [0, 1, 2, 3, 4]
        assert [dataset.read(i) for i in range(5)] == [image for image, _, _ in samples]
