"""Writes the containers of this folder with their official writers, and what their readers find.

Run it where webdataset, tfrecord, mosaicml-streaming, lmdb, numpy and Pillow are. The files are
committed, so that the tests of Go need none of these.
"""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import lmdb
import lz4.frame
import numpy as np
import webdataset
from PIL import Image
from streaming import MDSWriter
from streaming.base.compression import decompress
from streaming.base.format.mds.reader import MDSReader
from tfrecord import TFRecordWriter, tfrecord_loader

HERE = Path(__file__).parent


def jpeg(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 4, (16, 16, 3), dtype=np.uint8) * 60
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=50)
    return out.getvalue()


def members(name: str, files: dict[str, bytes], format: int) -> None:
    """A tar archive of Python's tarfile."""
    with tarfile.open(HERE / name, "w", format=format) as archive:
        for path, data in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def found(name: str) -> list[dict[str, Any]]:
    """What webdataset reads: keys, and a CRC-32 of each member of a sample."""
    dataset = webdataset.WebDataset(str(HERE / name), shardshuffle=False)
    return [
        {
            "key": sample["__key__"],
            "members": {
                suffix: zlib.crc32(data)
                for suffix, data in sample.items()
                if not suffix.startswith("__")
            },
        }
        for sample in dataset
    ]


def tars() -> dict[str, Any]:
    with webdataset.TarWriter(str(HERE / "webdataset.tar")) as writer:
        for i in range(5):
            sample = {"__key__": f"a.b/{i:03d}", "jpg": jpeg(i), "cls": i % 3}
            sample |= {"json": {"name": f"image {i}"}, "txt": "ü" * i, "seg.png": b"mask"}
            if i == 3:
                del sample["txt"]
            writer.write(sample)
    long = "long/" * 50
    members(
        "gnu.tar",
        {
            f"{long}1.JPG": jpeg(1),
            f"{long}1.cls": b"dog\n",
            "__meta__/x.jpg": b"?",
            "none": b"?",
            "x/.hidden.jpg": jpeg(2),
            "x/.hidden.cls": b"?",
            ".dot.jpg": b"?",
            "a.b/.c.jpg": b"?",
            "2.jpeg": jpeg(3),
            "2.cls": b"cat",
        },
        tarfile.GNU_FORMAT,
    )
    folders = ["top/b/2.jpg", "top/a/x-y/1.png", "top/a/x/1.jpg", "top/b/10.JPEG", "top/a/z.ppm"]
    members(
        "folders.tar",
        {name: jpeg(i) for i, name in enumerate(folders)},
        tarfile.PAX_FORMAT,
    )
    members("unlabelled.tar", {f"{i}.jpg": jpeg(i) for i in range(3)}, tarfile.USTAR_FORMAT)
    nested()
    both = (HERE / "unlabelled.tar").read_bytes() + (HERE / "webdataset.tar").read_bytes()
    (HERE / "concatenated.tar").write_bytes(both)
    names = ["webdataset.tar", "gnu.tar", "unlabelled.tar", "concatenated.tar"]
    said = {name: found(name) for name in names}
    (HERE / "concatenated.tar").unlink()  # the tests put it together themselves
    return said


def nested() -> None:
    """A tar of a tar for each class, as ImageNet's training images are published."""
    inner = {}
    for number, name in enumerate(["n01443537", "n01440764"]):
        files = {f"{name}_{i}.JPEG": jpeg(3 * number + i) for i in (2, 0, 1)}
        members("inner.tar", files, tarfile.GNU_FORMAT)
        inner[f"{name}.tar"] = (HERE / "inner.tar").read_bytes()
    (HERE / "inner.tar").unlink()
    members("nested.tar", inner, tarfile.GNU_FORMAT)


def zips() -> None:
    """Members as Python's zipfile writes them, stored or deflated, with what macOS adds."""
    names = ["top/b/2.jpg", "top/a/x-y/1.png", "top/a/x/1.jpg", "top/b/10.JPEG", "top/a/z.ppm"]
    with zipfile.ZipFile(HERE / "deflated.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for i, name in enumerate(names):
            archive.writestr(name, jpeg(i), zipfile.ZIP_STORED if i == 2 else None)
    with zipfile.ZipFile(HERE / "folders.zip", "w") as archive:
        for i, name in enumerate(names):
            archive.writestr(name, jpeg(i))
        archive.writestr("__MACOSX/top/b/._2.jpg", b"?")
        archive.writestr("top/README", b"?")


def tfrecord() -> dict[str, Any]:
    """The package tfrecord's own writer and reader, which use protobuf's."""
    path = HERE / "slim.tfrecord"
    writer = TFRecordWriter(str(path))
    for i in range(4):
        feature = {
            "image/encoded": (jpeg(i), "byte"),
            "image/class/label": (i + 1, "int"),
            "image/class/text": (f"class {i}".encode(), "byte"),
            "image/height": (16, "int"),
            "weight": (i / 2, "float"),
            "image/object/bbox/xmin": ([0.25, 0.5], "float"),
        }
        if i == 2:
            del feature["weight"]
        writer.write(feature)
    writer.close()
    read = tfrecord_loader(str(path), None)
    return {
        "slim.tfrecord": [
            {
                "key": f"slim/{i}",
                "members": {
                    name: zlib.crc32(np.asarray(value).tobytes()) for name, value in example.items()
                },
            }
            for i, example in enumerate(read)
        ]
    }


NUMBERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
NUMBERS += ["float16", "float32", "float64"]


def encodings() -> dict[str, Any]:
    """Every encoding of one value, and the pixels of each mode of PIL that is read or refused."""
    path = HERE / "mdsall"
    shutil.rmtree(path, ignore_errors=True)
    columns = {name: name for name in NUMBERS} | {"label": "int", "digits": "str_int"}
    columns |= {"fraction": "str_float", "exact": "str_decimal", "words": "json", "said": "str"}
    columns |= {"pixels": "pil", "grey": "pil", "alpha": "pil", "drawn": "png", "photo": "jpeg"}
    columns |= {"both": "pil", "palette": "pil", "pictures": "list[pil]"}
    columns |= {"several": "jpeg_array", "many": "list[png]"}
    found: list[dict[str, Any]] = []
    with MDSWriter(out=str(path), columns=columns) as writer:
        for i in range(3):
            values = {name: np.dtype(name).type(-i if name[0] == "i" else i) for name in NUMBERS}
            noise = np.random.default_rng(i).integers(0, 256, (5 + i, 7, 4), dtype=np.uint8)
            pixels = Image.fromarray(noise[..., :3].copy())
            png = io.BytesIO()
            pixels.save(png, "PNG")
            sample = values | {"label": i, "digits": -i, "fraction": i / 4, "said": "ü" * i}
            sample |= {"exact": Decimal(i) / 8, "words": {"n": i}, "pixels": pixels}
            sample |= {"grey": Image.fromarray(noise[..., 0].copy()), "photo": jpeg(i)}
            sample |= {"alpha": Image.fromarray(noise), "drawn": png.getvalue()}
            sample |= {"both": Image.fromarray(noise[..., :2].copy(), "LA"), "pictures": [pixels]}
            sample |= {"palette": pixels.crop((0, 0, 7, 5)).quantize(8)}
            sample |= {"several": [jpeg(i)], "many": [pixels]}
            writer.write(sample)
            members = {name: zlib.crc32(str(value).encode()) for name, value in values.items()}
            members |= {"pixels": zlib.crc32(pixels.tobytes()), "drawn": zlib.crc32(png.getvalue())}
            members |= {"grey": zlib.crc32(noise[..., 0].tobytes()), "photo": zlib.crc32(jpeg(i))}
            members |= {"alpha": zlib.crc32(noise.tobytes()), "several": members["photo"]}
            members |= {"both": zlib.crc32(noise[..., :2].tobytes()), "many": members["drawn"]}
            members |= {"palette": zlib.crc32(sample["palette"].tobytes())}
            members |= {"pictures": members["pixels"]}
            found.append({"key": f"shard.00000/{i}", "members": members})
    return {"mdsall": found}


def mds(folder: str, compression: str | None) -> dict[str, Any]:
    """MosaicML's own writer and reader."""
    path = HERE / folder
    shutil.rmtree(path, ignore_errors=True)
    columns = {"photo": "jpeg", "label": "int", "caption": "str", "raw": "bytes", "meta": "json"}
    columns |= {"half": "float16", "small": "int8", "wide": "uint64", "digits": "str_int"}
    columns |= {"array": "ndarray", "pickled": "pkl", "weight": "float64"}
    samples = []
    with MDSWriter(
        out=str(path), columns=columns, compression=compression, size_limit=5000
    ) as writer:
        for i in range(6):
            sample = {"photo": jpeg(i), "label": i + 3, "caption": "é" * i, "raw": bytes(i)}
            sample |= {"meta": {"n": i}, "half": np.float16(i / 2), "small": np.int8(-i)}
            sample |= {"wide": np.uint64(i), "digits": -i, "weight": np.float64(i / 3)}
            samples.append(sample | {"array": np.arange(i + 1), "pickled": {i}})
            writer.write(samples[-1])
    index = json.loads((path / "index.json").read_text())
    found = []
    raw = Path(tempfile.mkdtemp())
    for shard in index["shards"]:
        if shard["zip_data"]:
            packed = (path / shard["zip_data"]["basename"]).read_bytes()
            data = decompress(shard["compression"], packed)
        else:
            data = (path / shard["raw_data"]["basename"]).read_bytes()
        (raw / shard["raw_data"]["basename"]).write_bytes(data)
        reader = MDSReader.from_json(str(raw), None, shard)
        name = shard["raw_data"]["basename"].removesuffix(".mds")
        for i in range(shard["samples"]):
            data = reader.get_sample_data(i)
            values = reader.decode_sample(data)
            members = {n: zlib.crc32(str(v).encode()) for n, v in values.items() if n != "photo"}
            members["photo"] = zlib.crc32(samples[len(found)]["photo"])
            found.append({"key": f"{name}/{i}", "members": members})
    shutil.rmtree(raw)
    return {folder: found}


def datum(data: bytes, label: int, encoded: bool) -> bytes:
    """Caffe's Datum in protobuf's wire format: numbers here have one byte."""
    length = bytes([len(data) & 0x7F | 0x80, len(data) >> 7])
    start = bytes([8, 3, 16, 16, 24, 16, 34]) + length + data
    return start + bytes([40, label]) + (bytes([56, 1]) if encoded else b"")


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def pixels() -> None:
    """Datums as Caffe's convert_imageset writes them: planes of blue, green and red, or of grey."""
    path = HERE / "pixels.lmdb"
    path.unlink(missing_ok=True)
    environment = lmdb.open(str(path), subdir=False, map_size=1 << 20, lock=False)
    with environment.begin(write=True) as transaction:
        for i in range(4):
            channels = 1 if i == 3 else 3
            planes = np.arange(channels * (20 + i) * 30).reshape(channels, 20 + i, 30) * 7 + i
            head = bytes([8, channels, 16, 20 + i, 24, 30, 34]) + varint(planes.size)
            value = head + planes.astype(np.uint8).tobytes() + bytes([40, i * 2])
            transaction.put(f"{i:08d}_photo".encode(), value)
    environment.close()


def lz4s() -> dict[str, Any]:
    """Frames of lz4 as values: images, with and without their length in the head, and a text."""
    path = HERE / "lz4.lmdb"
    path.unlink(missing_ok=True)
    environment = lmdb.open(str(path), subdir=False, map_size=1 << 20, lock=False)
    with environment.begin(write=True) as transaction:
        for i in range(6):
            data = lz4.frame.compress(jpeg(i) + bytes(3000), store_size=i % 2 == 0)
            transaction.put(f"k{i}".encode(), data)
        transaction.put(b"plain", jpeg(6))
        transaction.put(b"text", lz4.frame.compress(b"a text"))
    with environment.begin() as transaction:
        values = [
            (k, lz4.frame.decompress(v) if k[:1] == b"k" else v) for k, v in transaction.cursor()
        ]
    environment.close()
    found = [{"key": k.decode(), "members": {"value": zlib.crc32(v)}} for k, v in values[:-1]]
    return {"lz4.lmdb": found}


def several() -> None:
    """Environments with two named databases, and with one beside entries of its own."""
    for name, databases in (("several.lmdb", [b"train", b"val"]), ("mixed.lmdb", [None, b"val"])):
        path = HERE / name
        path.unlink(missing_ok=True)
        environment = lmdb.open(str(path), subdir=False, max_dbs=2, map_size=1 << 20, lock=False)
        for named in databases:
            with environment.begin(write=True, db=environment.open_db(named)) as transaction:
                transaction.put(b"k", jpeg(1))
        environment.close()


def lmdbs() -> dict[str, Any]:
    """py-lmdb's: plain images of many sizes, and Datums in a named database."""
    found: dict[str, Any] = {}
    for name, named in (("plain.lmdb", None), ("datum.lmdb", b"images")):
        path = HERE / name
        path.unlink(missing_ok=True)
        environment = lmdb.open(str(path), subdir=False, max_dbs=2, map_size=1 << 20, lock=False)
        database = environment.open_db(named)
        with environment.begin(write=True, db=database) as transaction:
            for i in range(9):
                value = jpeg(i) + bytes(0 if i % 3 else 3000)  # beyond a page, or inside a leaf
                if named:
                    value = datum(jpeg(i), i * 2, True)
                transaction.put(f"k{i}".encode(), value)
            transaction.put(b"__len__", b"9")
        with environment.begin(db=database) as transaction:
            found[name] = [
                {"key": key.decode(), "members": {"value": zlib.crc32(value)}}
                for key, value in transaction.cursor()
                if key != b"__len__"
            ]
        environment.close()
    for i, sample in enumerate(found["datum.lmdb"]):
        sample["members"] = {"value": zlib.crc32(jpeg(i))}
    return found


if __name__ == "__main__":
    zips()
    pixels()
    several()
    said = tars() | tfrecord() | mds("mds", None) | mds("mdszstd", "zstd:3") | encodings()
    for codec in ("gz", "bz2", "br", "snappy"):
        said |= mds(f"mds{codec}", codec)
    said |= lmdbs() | lz4s()
    (HERE / "expected.json").write_text(json.dumps(said, indent=1) + "\n")
