"""WebP, BMP, GIF and TIFF files of every kind, drawn at random; by Pillow's writers and by hand.

``variants(kind, seed)`` never ends and is the same each time. Files by Pillow are like those of
data sets; files made here have the rest of each format, valid or nearly so.
"""

from __future__ import annotations

import io
import random
import struct
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image, TiffImagePlugin

import images

KINDS = ("webp", "bmp", "gif", "tiff")
SIDES = (1, 2, 3, 7, 8, 16, 17, 33, 64, 100)
EXIF = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"

Pixels = NDArray[np.uint8]


def _picture(chance: random.Random) -> Pixels:
    """A smooth picture or noise, with alpha."""
    width, height = chance.choice(SIDES), chance.choice(SIDES)
    if chance.random() < 0.3:
        rng = np.random.default_rng(chance.randrange(1 << 32))
        return rng.integers(0, 256, (height, width, 4), np.uint8)
    return images.pixels(width, height, 4, seed=chance.randrange(1 << 16))


def _of_mode(picture: Pixels, mode: str) -> Image.Image:
    if mode == "RGBA":
        return Image.fromarray(picture)
    if mode == "I;16":
        return Image.fromarray(picture[..., 0].astype(np.uint16) * 200)
    return Image.fromarray(np.ascontiguousarray(picture[..., :3])).convert(mode)


# ---- WebP ----------------------------------------------------------------------------------------


def _chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)


def _three(number: int) -> bytes:
    return struct.pack("<I", number)[:3]


def placed_webp(chance: random.Random) -> bytes:
    """An animation whose first frame does not fill the canvas."""
    file = io.BytesIO()
    picture = Image.fromarray(_picture(chance))
    picture.save(file, "WEBP", lossless=chance.random() < 0.5, quality=80)
    chunks = file.getvalue()[12:]
    if chunks.startswith(b"VP8X"):
        chunks = chunks[18:]
    left, top = 2 * chance.randrange(20), 2 * chance.randrange(20)
    width = left + picture.width + chance.randrange(9)
    height = top + picture.height + chance.randrange(9)
    place = _three(left // 2) + _three(top // 2)
    frame = place + _three(picture.width - 1) + _three(picture.height - 1)
    frame += _three(50) + bytes([chance.randrange(4)]) + chunks
    alpha = chance.choice((0x10, 0x00)) if b"ALPH" not in chunks and b"VP8L" not in chunks else 0x10
    body = _chunk(b"VP8X", bytes([0x02 | alpha, 0, 0, 0]) + _three(width - 1) + _three(height - 1))
    body += _chunk(b"ANIM", bytes(6)) + _chunk(b"ANMF", frame)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def _webp(chance: random.Random) -> bytes:
    if chance.random() < 0.15:
        return placed_webp(chance)
    picture, file = (
        _of_mode(_picture(chance), chance.choice(("RGB", "RGB", "RGBA", "L"))),
        io.BytesIO(),
    )
    options: dict[str, object] = {
        "quality": chance.choice((0, 10, 50, 80, 95, 100)),
        "method": chance.choice((0, 4)),
        "lossless": chance.random() < 0.3,
        "exact": chance.random() < 0.5,
        "alpha_quality": chance.choice((0, 50, 100)),
    }
    if chance.random() < 0.3:
        options |= {"exif": EXIF, "icc_profile": b"abc"}
    if chance.random() < 0.2:
        turned = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        options |= {"save_all": True, "append_images": [turned], "allow_mixed": True}
    picture.save(file, "WEBP", **options)
    return file.getvalue()


# ---- BMP -----------------------------------------------------------------------------------------

MASKS = {
    32: (
        (0xFF0000, 0xFF00, 0xFF, 0),
        (0xFF000000, 0xFF0000, 0xFF00, 0),
        (0xFF000000, 0xFF00, 0xFF, 0),
        (0xFF000000, 0xFF0000, 0xFF00, 0xFF),
        (0xFF, 0xFF00, 0xFF0000, 0xFF000000),
        (0xFF0000, 0xFF00, 0xFF, 0xFF000000),
        (0xFF000000, 0xFF00, 0xFF, 0xFF0000),
        (0, 0, 0, 0),
    ),
    24: ((0xFF0000, 0xFF00, 0xFF, 0),),
    16: ((0xF800, 0x7E0, 0x1F, 0), (0x7C00, 0x3E0, 0x1F, 0)),
}


def _runs(chance: random.Random, width: int, height: int, bits: int) -> bytes:
    """Rows as runs, copies and jumps; sometimes a run goes beyond the end of its row."""
    made = bytearray()
    for _ in range(height):
        x = 0
        while x < width:
            left, kind = width - x, chance.randrange(6)
            if kind < 3 or left < 3:
                count = min(chance.randrange(1, 9), left)
                made += bytes([count, chance.randrange(256)])
            elif kind < 5:
                count = chance.randrange(3, 20)
                count = min(count, left) if chance.random() < 0.95 else count
                body = chance.randbytes((count + 1) // 2 if bits == 4 else count)
                made += bytes([0, count]) + body + b"\0" * (len(body) % 2)
            else:
                count = chance.randrange(left)
                made += bytes([0, 2, count, 0])
            x += count
        made += b"\0\0" if chance.random() < 0.8 else b""
    return bytes(made) + b"\0\1"


def _bmp_palette(chance: random.Random, colours: int, entry: int) -> bytes:
    if chance.random() < 0.75:
        return chance.randbytes(entry * colours)
    greys = [255 * n if colours == 2 else n & 255 for n in range(colours)]
    return b"".join(bytes([n] * 3) + bytes(entry - 3) for n in greys)


def _bmp(chance: random.Random) -> bytes:
    width, height = chance.choice(SIDES), chance.choice(SIDES)
    size = chance.choice((12, 40, 40, 40, 52, 56, 64, 108, 124))
    bits = chance.choice((1, 4, 8, 8, 16, 24, 24, 32, 32))
    core, compression, colours = size == 12, 0, 0
    if not core and chance.random() < 0.45:
        compression = {1: 0, 4: 2, 8: 1}.get(bits, 3)
    if not core and bits <= 8:
        colours = chance.choice((0, 0, 0, 1, 2, 1 << bits, max(1, (1 << bits) - 3), 256, 5))
    entry, count = 3 if core else 4, colours or 1 << bits
    palette = _bmp_palette(chance, count, entry) if bits <= 8 else b""
    masks = chance.choice(MASKS[bits]) if compression == 3 else (0, 0, 0, 0)
    packed = struct.pack("<4I", *masks)
    if core:
        header = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        signed = -height if chance.random() < 0.3 else height
        header = struct.pack("<IIiHHIIIIII", size, width, signed, 1, bits, compression, 0, 2835,
                             2835, colours, 0)  # fmt: skip
        fields = packed[:12] if compression == 3 else b""
        header += fields if size == 40 else (packed + bytes(100))[: size - 40]
    if compression in (1, 2):
        data = _runs(chance, width, height, 4 if compression == 2 else 8)
    else:
        data = chance.randbytes((width * bits + 31) // 32 * 4 * height)
    gap = chance.randbytes(chance.choice((0, 0, 0, 5)))
    begin = 14 + len(header) + len(palette) + len(gap)
    said = begin if gap else chance.choice((begin, begin, begin, 0, 14 + size))
    return b"BM" + struct.pack("<IHHI", 0, 0, 0, said) + header + palette + gap + data


# ---- GIF -----------------------------------------------------------------------------------------


def _gif_codes(chance: random.Random, indices: bytes, bits: int) -> bytes:
    """LZW in blocks of any length; a full table is cleared at once, later or never."""
    clear, size = 1 << bits, bits + 1
    table, after = {bytes([n]): n for n in range(clear)}, clear + 2
    made, held, count = bytearray(), 0, 0

    def put(code: int) -> None:
        nonlocal held, count
        held |= code << count
        count += size
        while count >= 8:
            made.append(held & 255)
            held >>= 8
            count -= 8

    put(clear)
    last = b""
    for index in indices:
        string = last + bytes([index])
        if string in table:
            last = string
            continue
        put(table[last])
        if after < 4096:
            table[string] = after
            size += after == 1 << size and size < 12
            after += 1
        elif chance.random() < 0.7:
            put(clear)
            table, after = {bytes([n]): n for n in range(clear)}, clear + 2
            size = bits + 1
        last = bytes([index])
    if last:
        put(table[last])
    put(clear + 1)
    if count:
        made.append(held & 255)
    blocks = bytearray()
    while made:
        block = made[: chance.choice((255, 255, 100, 17))]
        del made[: len(block)]
        blocks += bytes([len(block)]) + block
    return bytes(blocks) + b"\0"


def _gif_palette(chance: random.Random, exponent: int) -> bytes:
    if chance.random() < 0.25:
        return bytes(n for n in range(2 << exponent) for _ in range(3))
    return chance.randbytes(3 * (2 << exponent))


def _gif_by_pillow(chance: random.Random) -> bytes:
    picture, file = (
        _of_mode(_picture(chance), chance.choice(("RGB", "RGBA", "L", "1", "P"))),
        io.BytesIO(),
    )
    options: dict[str, object] = {"interlace": chance.randrange(2)}
    if chance.random() < 0.4:
        turned = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        options |= {"save_all": True, "append_images": [turned], "disposal": chance.randrange(4)}
    if chance.random() < 0.3:
        options["transparency"] = chance.randrange(4)
    picture.save(file, "GIF", **options)
    return file.getvalue()


def _gif(chance: random.Random) -> bytes:
    if chance.random() < 0.25:
        return _gif_by_pillow(chance)
    screen = chance.randrange(1, 80), chance.randrange(1, 60)
    at, side = (0, 0), screen
    if chance.random() < 0.5:
        at = chance.randrange(20), chance.randrange(20)
        side = chance.randrange(1, 90), chance.randrange(1, 90)
    bits, count = chance.choice((1, 2, 3, 4, 7, 8, 8, 8)), side[0] * side[1]
    if chance.random() < 0.5:
        indices = bytes(chance.choices(range(1 << bits), k=count))
    else:
        indices = bytes(n // 7 % (1 << bits) for n in range(count))
    if chance.random() < 0.1:  # too few, or too many
        indices = chance.choice((indices[:-3], indices + b"\0\0\0"))
    colours, own = chance.randrange(8), chance.randrange(8)
    with_palette, with_own = chance.random() < 0.7, chance.random() < 0.4
    made = chance.choice((b"GIF87a", b"GIF89a")) + struct.pack("<HH", *screen)
    made += bytes([128 * with_palette | colours, chance.randrange(256), 0])
    made += _gif_palette(chance, colours) if with_palette else b""
    for _ in range(chance.randrange(4)):
        control = bytes([chance.randrange(32), 1, 0, chance.randrange(256)])
        made += chance.choice((b"!\xf9\x04" + control + b"\0", b"!\xfe\x05hello\x03abc\0",
                               b"!\xff\x0bNETSCAPE2.0\x03\1\0\0\0", b"\0"))  # fmt: skip
    flags = 128 * with_own | 64 * chance.randrange(2) | own
    made += b"," + struct.pack("<HHHHB", *at, *side, flags)
    made += _gif_palette(chance, own) if with_own else b""
    return made + bytes([bits]) + _gif_codes(chance, indices, bits) + b";"


# ---- TIFF ----------------------------------------------------------------------------------------

# Photometric interpretation, bits per sample, samples per pixel, extra samples.
LAYOUTS: tuple[tuple[int, int, int, tuple[int, ...]], ...] = (
    *((photo, bits, 1, ()) for photo in (0, 1, 3) for bits in (1, 2, 4, 8)),
    *((2, 8, 3, ()), (2, 8, 4, ()), (2, 8, 4, (0,)), (2, 8, 4, (2,)), (2, 8, 4, (1,))),
    *((1, 8, 2, (2,)), (1, 8, 2, (0,)), (5, 8, 4, ()), (1, 16, 1, ()), (2, 8, 5, (2, 0))),
)


def tiff_of(tags: dict[int, tuple[int, list[int]]], strips: list[bytes], order: str) -> bytes:
    """A directory after the strips, and after that the values that do not fit into it."""
    body, offsets = b"", []
    for strip in strips:
        offsets.append(8 + len(body))
        body += strip + b"\0" * (len(strip) % 2)
    tags[273] = (4, offsets)
    begin, entries, more = 8 + len(body), b"", b""
    behind = begin + 2 + 12 * len(tags) + 4
    for tag, (kind, values) in sorted(tags.items()):
        packed = struct.pack(order + "HI"[kind - 3] * len(values), *values)
        if len(packed) > 4:
            place = struct.pack(order + "I", behind + len(more))
            more += packed + b"\0" * (len(packed) % 2)
            packed = place
        entries += struct.pack(order + "HHI", tag, kind, len(values)) + packed.ljust(4, b"\0")
    first = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", begin)
    return first + body + struct.pack(order + "H", len(tags)) + entries + bytes(4) + more


# Each byte with its bits in reverse order.
TURNED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def _lzw(data: bytes) -> bytes:
    """Bytes as libtiff codes them, taken from a strip that it writes."""
    file = io.BytesIO()
    row = Image.frombytes("L", (len(data), 1), data)
    row.save(file, "TIFF", compression="tiff_lzw")
    with Image.open(file) as written:
        assert isinstance(written, TiffImagePlugin.TiffImageFile)
        (at,), (length,) = written.tag_v2[273], written.tag_v2[279]
    return file.getvalue()[at : at + length]


def _tiff_by_hand(chance: random.Random) -> bytes:
    width, height = chance.randrange(1, 40), chance.randrange(1, 30)
    photo, bits, samples, extra = chance.choice(LAYOUTS)
    compression = chance.choice((1, 1, 5, 8, 32946))
    planar, order = chance.choice((1, 1, 2)), chance.choice((1, 1, 1, 1, 2))
    rows = chance.choice((height, 1, max(1, height // 2), height + 5, 3))
    planes = samples if planar == 2 else 1
    row = (width * (samples // planes) * bits + 7) // 8
    strips = [
        chance.randbytes(row * min(rows, height - y))
        for _ in range(planes)
        for y in range(0, height, rows)
    ]
    if compression != 1:
        strips = [(_lzw if compression == 5 else zlib.compress)(strip) for strip in strips]
        if order == 2:
            strips = [strip.translate(TURNED) for strip in strips]
    number = chance.choice((3, 4))
    tags = {256: (number, [width]), 257: (number, [height]), 258: (3, [bits] * samples),
            259: (3, [compression]), 262: (3, [photo]), 277: (3, [samples]), 278: (number, [rows]),
            279: (4, [len(strip) for strip in strips])}  # fmt: skip
    if extra:
        tags[338] = (3, list(extra))
    if photo == 3:
        tags[320] = (3, [chance.randrange(65536) for _ in range(3 << bits)])
    if planar == 2 or chance.random() < 0.3:
        tags[284] = (3, [planar])
    if order == 2 or chance.random() < 0.1:
        tags[266] = (3, [order])
    if chance.random() < 0.4:
        tags[274] = (3, [chance.randrange(10)])
    if compression != 1 and bits == 8 and chance.random() < 0.3:
        tags[317] = (3, [2])
    return tiff_of(tags, strips, chance.choice("<>"))


def _tiff(chance: random.Random) -> bytes:
    if chance.random() < 0.5:
        return _tiff_by_hand(chance)
    mode = chance.choice(("1", "L", "P", "RGB", "RGB", "RGBA", "CMYK", "LA", "YCbCr", "I;16"))
    compression = chance.choice((None, "tiff_lzw", "tiff_lzw", "tiff_adobe_deflate", "packbits"))
    fields = TiffImagePlugin.ImageFileDirectory_v2()
    if compression in ("tiff_lzw", "tiff_adobe_deflate") and mode != "1" and chance.random() < 0.5:
        fields[317] = 2
    if chance.random() < 0.5:
        fields[278] = chance.choice((1, 2, 5, 8, 1000))
    file = io.BytesIO()
    _of_mode(_picture(chance), mode).save(
        file, "TIFF", compression=compression, tiffinfo=fields,
        strip_size=chance.choice((100, 1000, 65536)),
    )  # fmt: skip
    return file.getvalue()


def variants(kind: str, seed: int) -> Iterator[bytes]:
    """An endless stream of files."""
    chance = random.Random(f"{kind} {seed}")
    make = {"webp": _webp, "bmp": _bmp, "gif": _gif, "tiff": _tiff}[kind]
    while True:
        yield make(chance)
