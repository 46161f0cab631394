"""Images made by the tests: every kind that parity tests compare and fault tests damage.

Content is smooth shapes with noise on top, so that chroma upsampling, IDCT and resize all have
something to get wrong. Everything is a pure function of its arguments.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import struct
import subprocess
import tarfile
import tempfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]

# Sampling factors of each component as encode_jpeg takes them.
SAMPLINGS = {
    "4:4:4": "1x1,1x1,1x1",
    "4:2:2": "2x1,1x1,1x1",
    "4:2:0": "2x2,1x1,1x1",
    "4:4:0": "1x2,1x1,1x1",
    "4:1:1": "4x1,1x1,1x1",
    "4:1:0": "4x2,1x1,1x1",
}
# Samplings whose two chroma components differ; only tests write them.
UNEVEN_SAMPLINGS = {
    "4:2:1": "4x1,2x1,1x1",
    "4:1:2": "4x1,1x1,2x1",
    "2:2:1": "2x2,2x1,1x2",
    "2:1:2": "2x1,1x1,2x1",
    "1:2:1": "1x1,2x2,1x1",
}


@functools.lru_cache(maxsize=64)
def pixels(width: int, height: int, channels: int = 3, seed: int = 0) -> Pixels:
    """Height x width x channels of a picture with edges, ramps and grain in it."""
    random = np.random.default_rng([seed, width, height, channels])
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    planes = []
    for channel in range(channels):
        a, b, phase = random.uniform(0.02, 0.4, 3)
        plane = 110 + 60 * np.sin(a * x + phase * 9) + 50 * np.cos(b * y + channel)
        plane += 40 * (((x // 11) + (y // 7) + channel) % 2)
        planes.append(plane + random.normal(0, 12, (height, width)))
    return np.clip(np.stack(planes, axis=2), 0, 255).astype(np.uint8)


@functools.cache
def photographs() -> list[Pixels]:
    """Real photographs, height x width x 3, from packages that contain some."""
    from skimage import data
    from sklearn.datasets import load_sample_image

    theirs = [data.astronaut(), data.chelsea(), data.coffee()]
    return theirs + [load_sample_image(name) for name in ("china.jpg", "flower.jpg")]


@functools.cache
def _encoder() -> Path:
    place = Path(tempfile.mkdtemp(prefix="headrace-encode-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    program = place / "encode_jpeg"
    source = Path(__file__).with_name("encode_jpeg.c")
    compiler = shutil.which("gcc") or shutil.which("cc") or "gcc"
    subprocess.run([compiler, "-O1", str(source), "-ljpeg", "-o", str(program)], check=True)
    return program


def jpeg(
    width: int = 96,
    height: int = 72,
    sampling: str = "4:2:0",
    *,
    colour: str = "ycc",
    quality: int = 90,
    restart: int = 0,
    flags: tuple[str, ...] = (),
    seed: int = 0,
    samples: Pixels | None = None,
) -> bytes:
    """A JPEG of the stored colour space `colour`: grey, ycc, rgb, cmyk or ycck.

    `samples` are its pixels (height x width x channels) in place of those that `seed` makes.
    """
    channels = {"grey": 1, "ycc": 3, "rgb": 3, "cmyk": 4, "ycck": 4}[colour]
    factors = {"grey": "1x1", "ycc": (SAMPLINGS | UNEVEN_SAMPLINGS)[sampling]}.get(
        colour, "1x1,1x1,1x1,1x1"
    )
    if colour == "ycck":
        factors = SAMPLINGS[sampling] + "," + SAMPLINGS[sampling].split(",")[0]
    command = [str(_encoder()), str(width), str(height), colour, str(quality), factors]
    return subprocess.run(
        [*command, str(restart), *flags],
        input=(pixels(width, height, channels, seed) if samples is None else samples).tobytes(),
        stdout=subprocess.PIPE,
        check=True,
    ).stdout


# PNG colour type -> samples a pixel (PNG specification, table 11.1).
PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
# Adam7's passes: first column, first row, step right, step down (PNG specification, 8.2).
ADAM7 = [
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
]


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(
    width: int,
    height: int,
    colour_type: int,
    bits: int = 8,
    *,
    interlaced: bool = False,
    transparent: bytes | None = None,
    seed: int = 0,
) -> bytes:
    """A PNG of any colour type and depth; Pillow's writer has only some of them.

    `transparent` is the body of a tRNS chunk. A palette has 2 ** bits entries.
    """
    channels = PNG_CHANNELS[colour_type]
    random = np.random.default_rng([seed, width, height, colour_type, bits])
    if bits == 16:
        values = random.integers(0, 65536, (height, width, channels), dtype=np.uint16)
    else:
        values = pixels(width, height, channels, seed).astype(np.uint16) >> (8 - bits)

    def rows(part: NDArray[np.uint16]) -> bytes:
        out = []
        for row in part.reshape(part.shape[0], -1):
            if bits == 16:
                body = row.astype(">u2").tobytes()
            elif bits == 8:
                body = row.astype(np.uint8).tobytes()
            else:
                digits = (row[:, None] >> np.arange(bits - 1, -1, -1)) & 1
                body = np.packbits(digits.astype(np.uint8).ravel()).tobytes()
            out.append(b"\0" + body)  # filter type: none
        return b"".join(out)

    if interlaced:
        parts = [values[y::dy, x::dx] for x, y, dx, dy in ADAM7]
        data = b"".join(rows(part) for part in parts if part.size)
    else:
        data = rows(values)
    header = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, int(interlaced))
    chunks = [_chunk(b"IHDR", header)]
    if colour_type == 3:
        chunks.append(_chunk(b"PLTE", random.bytes(3 << bits)))
    if transparent is not None:
        chunks.append(_chunk(b"tRNS", transparent))
    chunks += [_chunk(b"IDAT", zlib.compress(data)), _chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def write_tree(root: Path, files: dict[str, bytes]) -> Path:
    """Files by relative path below `root`, which is returned."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def plain_tree(root: Path, count: int = 24, classes: int = 3, side: int = 64) -> Path:
    """An image folder of small JPEGs, all different, class after class."""
    samplings = ["4:4:4", "4:2:0", "4:2:2"]
    return write_tree(
        root,
        {
            f"class{i % classes}/image{i:04d}.jpg": jpeg(
                side + i % 7, side * 3 // 4 + i % 5, samplings[i % 3], seed=i
            )
            for i in range(count)
        },
    )


def old_files(root: Path, count: int = 12) -> list[str]:
    """The paths of such JPEGs, with old times, so that a later change shows in the time."""
    found = sorted(str(path) for path in plain_tree(root, count).rglob("*.jpg"))
    for path in found:
        os.utime(path, (1e9, 1e9))
    return found


def every_jpeg(width: int, height: int) -> dict[str, bytes]:
    """One JPEG of each kind that is read, by a name that describes the kind."""
    files = {}
    for sampling in SAMPLINGS:
        name = sampling.replace(":", "")
        files[f"baseline-{name}"] = jpeg(width, height, sampling)
        files[f"progressive-{name}"] = jpeg(width, height, sampling, flags=("progressive",))
    files["restart-420"] = jpeg(width, height, "4:2:0", restart=3)
    files["arithmetic-420"] = jpeg(width, height, "4:2:0", flags=("arithmetic",))
    files["quality30-420"] = jpeg(width, height, "4:2:0", quality=30)
    files["quality100-444"] = jpeg(width, height, "4:4:4", quality=100)
    files["grey"] = jpeg(width, height, colour="grey")
    files["grey-progressive"] = jpeg(width, height, colour="grey", flags=("progressive",))
    files["rgb"] = jpeg(width, height, "4:4:4", colour="rgb")
    files["cmyk"] = jpeg(width, height, colour="cmyk")
    files["ycck-444"] = jpeg(width, height, "4:4:4", colour="ycck")
    files["ycck-420"] = jpeg(width, height, "4:2:0", colour="ycck")
    return files


def every_png(width: int, height: int) -> dict[str, bytes]:
    """One PNG of each colour type and depth, plain and interlaced, and with transparency."""
    files = {}
    for colour_type in PNG_CHANNELS:
        depths = {0: (1, 2, 4, 8, 16), 3: (1, 2, 4, 8)}.get(colour_type, (8, 16))
        for bits in depths:
            for interlaced in (False, True):
                name = f"type{colour_type}-{bits}bit{'-interlaced' * interlaced}"
                files[name] = png(width, height, colour_type, bits, interlaced=interlaced)
    files["grey-transparent"] = png(width, height, 0, transparent=b"\0\x40")
    files["rgb-transparent"] = png(width, height, 2, transparent=b"\0\x10\0\x20\0\x30")
    files["palette-transparent"] = png(width, height, 3, transparent=b"\x00\x80\xff")
    return files


def members(dataset: Path) -> dict[str, bytes]:
    """The images in a packed dataset's shards by name, without the leading "class/"."""
    found = {}
    for shard in sorted(dataset.glob("*.tar")):
        with tarfile.open(shard) as tar:
            for member in tar:
                file = tar.extractfile(member)
                assert file is not None
                if not member.name.endswith(".cls"):
                    found[member.name.removeprefix("class/")] = file.read()
    return found
