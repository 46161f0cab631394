"""Files that take a decoder longer than any photograph of their size.

What costs: blocks that are gone through again by scans without data; codes as long as they may be;
coefficients none of which is zero; arithmetic-coded decisions, which need no bytes once their
probabilities are learned; PNG filters that look at three neighbours; deflate blocks that are all
header. ``bench/slowest.py`` measures them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import numpy as np

import images

Factors = tuple[tuple[int, int], ...]
F444: Factors = ((1, 1), (1, 1), (1, 1))
F420: Factors = ((2, 2), (1, 1), (1, 1))
F411: Factors = ((4, 1), (1, 1), (1, 1))
CMYK: Factors = ((1, 1), (1, 1), (1, 1), (1, 1))


# ---- JPEG ----------------------------------------------------------------------------------------


def segment(marker: int, body: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body


def scan_header(components: list[int], band: tuple[int, int], high: int, low: int) -> bytes:
    """SOS with Huffman tables 0 for components of these numbers, from 1."""
    named = b"".join(bytes([c, 0]) for c in components)
    return segment(0xDA, bytes([len(components)]) + named + bytes([*band, high * 16 + low]))


def tables(dc: dict[int, list[int]], ac: dict[int, list[int]]) -> bytes:
    """Huffman tables 0: their symbols by the length of their codes."""
    made = b""
    for number, by_length in enumerate((dc, ac)):
        counts = bytes(len(by_length.get(length, [])) for length in range(1, 17))
        symbols = b"".join(bytes(by_length[length]) for length in sorted(by_length))
        made += segment(0xC4, bytes([number * 16]) + counts + symbols)
    return made


def head(width: int, height: int, factors: Factors, process: int, restart: int = 0) -> bytes:
    """Everything in front of the Huffman tables; steps of 1."""
    frame = struct.pack(">BHHB", 8, height, width, len(factors))
    for number, (h, v) in enumerate(factors):
        frame += bytes([number + 1, h * 16 + v, 0])
    made = b"\xff\xd8" + segment(0xDB, b"\0" + b"\1" * 64) + segment(process, frame)
    return made + (segment(0xDD, struct.pack(">H", restart)) if restart else b"")


def mcus(width: int, height: int, factors: Factors) -> int:
    h, v = (max(f[axis] for f in factors) for axis in (0, 1))
    return -(-width // (8 * h)) * -(-height // (8 * v))


def blocks(width: int, height: int, factors: Factors, component: int) -> int:
    """Blocks of a scan with only this component."""
    h, v = (max(f[axis] for f in factors) for axis in (0, 1))
    columns = -(-width * factors[component][0] // h)
    rows = -(-height * factors[component][1] // v)
    return -(-columns // 8) * -(-rows // 8)


def entropy(bits: str, times: int) -> bytes:
    """The bits repeated that many times, padded with ones and stuffed."""
    digits = np.frombuffer(bits.encode(), np.uint8) - ord("0")
    whole = np.tile(digits, times)
    padded = np.concatenate([whole, np.ones(-len(whole) % 8, np.uint8)])
    return np.packbits(padded).tobytes().replace(b"\xff", b"\xff\0")


def ends_of_band(count: int) -> bytes:
    """That many blocks without a coefficient, with 0 as the code of EOB14 and 10 of EOB0."""
    runs = ""
    while count >= 1 << 14:
        run = min(count, (1 << 15) - 1)
        runs += "0" + f"{run - (1 << 14):014b}"
        count -= run
    return entropy(runs + "10" * count, 1)


def empty_scans(
    width: int, height: int, factors: Factors = F444, scans: int = 99, *, refining: bool = True
) -> bytes:
    """A progressive JPEG whose scans have no coefficient: a quarter of a byte for 30,000 blocks.
    Scans that refine still look at each coefficient."""
    count = len(factors)
    made = head(width, height, factors, 0xC2) + tables({1: [0]}, {1: [0xE0], 2: [0]})
    each = sum(h * v for h, v in factors)
    made += scan_header(list(range(1, count + 1)), (0, 0), 0, 1)
    made += entropy("0" * each, mcus(width, height, factors))
    data = [ends_of_band(blocks(width, height, factors, c)) for c in range(count)]
    for number in range(scans - 1):
        first = number < count or not refining
        made += scan_header([number % count + 1], (1, 63), *((0, 1) if first else (1, 0)))
        made += data[number % count]
    return made + b"\xff\xd9"


def full_blocks(
    width: int,
    height: int,
    factors: Factors = F444,
    *,
    long: bool = False,
    restart: int = 0,
    behind: bytes = b"",
) -> bytes:
    """A baseline JPEG none of whose coefficients is zero, in the shortest codes or the longest.

    `behind` stands before the end marker.
    """
    if long:
        made = tables({16: [11]}, {16: [0x0A]})
        dc = ["0" * 16 + "10000000000", "0" * 16 + "01111111111"]
        ac = ("0" * 16 + "1000000000") * 63
    else:
        made = tables({1: [1]}, {1: [1]})
        dc, ac = ["01", "00"], "01" * 63
    each = sum(h * v for h, v in factors)
    bits = "".join((sign + ac) * each for sign in dc)
    made = head(width, height, factors, 0xC1, restart) + made
    made += scan_header(list(range(1, len(factors) + 1)), (0, 63), 0, 0)
    count = mcus(width, height, factors)
    if restart:
        one = entropy(bits[: len(bits) // 2], 1)
        parts = (one + bytes([0xFF, 0xD0 + i % 8]) for i in range(count - 1))
        return made + b"".join(parts) + one + behind + b"\xff\xd9"
    return made + entropy(bits, -(-count // 2)) + behind + b"\xff\xd9"


def refined_at_random(width: int, height: int, scans: int = 12) -> bytes:
    """A progressive grey JPEG: half of the coefficients, at random places, refined again and again.

    A bit decides on a branch that nothing can predict.
    """
    count = blocks(width, height, ((1, 1),), 0)
    random = np.random.default_rng(1)
    made = head(width, height, ((1, 1),), 0xC2)
    made += tables({1: [0]}, {1: [0x01], 2: [0x11], 3: [0x00], 4: [0xE0]})
    made += scan_header([1], (0, 0), 0, 1) + entropy("0", count)
    some = min(count, 512)  # repeated
    data, ones = [], []
    for _ in range(some):
        place, bits, found = 1, "", 0
        while place < 63:
            run = int(random.integers(0, 2))
            bits += ("101" if run else "01") + ""
            place += run + 1
            found += 1
        data.append(bits + ("110" if place == 63 else ""))
        ones.append(found)
    first = "".join(data)
    made += scan_header([1], (1, 63), 0, 1) + entropy(first, -(-count // some))
    for _ in range(scans - 2):
        runs = ""
        left = count
        while left > 0:  # after the run there is a correction bit for each coefficient
            run = min(left, (1 << 15) - 1)
            if run < 1 << 14:
                break
            runs += "1110" + f"{run - (1 << 14):014b}"
            bits = sum(ones) * (run // some) + sum(ones[: run % some])
            runs += "1" * bits
            left -= run
        made += scan_header([1], (1, 63), 1, 0) + entropy(runs, 1)
    return made + b"\xff\xd9"


def _sized(jpeg: bytes, width: int, height: int) -> bytes:
    """The file with a different size in its frame header."""
    at = next(at for at in range(len(jpeg)) if jpeg[at : at + 2] in (b"\xff\xc9", b"\xff\xca"))
    return jpeg[: at + 5] + struct.pack(">HH", height, width) + jpeg[at + 9 :]


def arithmetic(width: int, height: int, cut: int = 16805) -> bytes:
    """An arithmetic-coded JPEG of a few rows of full blocks, which says that it has more rows.

    Behind its last byte the decoder goes on with zeros: every decision is the likely one, and by
    then that is another large coefficient. Of some hundred places to cut at this is the worst.
    """
    few = images.jpeg(1024, 32, "4:4:4", flags=("arithmetic", "dense"))
    return _sized(few[:cut], width, height) + b"\xff\xd9"


def arithmetic_scans(width: int, height: int, scans: int) -> bytes:
    """A progressive file that repeats its first scan of a band, truncated as above."""
    few = images.jpeg(1024, 32, "4:4:4", flags=("arithmetic", "dense", "progressive"))
    starts = [at for at in range(len(few)) if few[at : at + 2] == b"\xff\xda"]
    # libjpeg's script: DC of all, then 1 to 5 of the first component and 1 to 63 of the third.
    chroma = few[starts[2] : starts[3]]
    assert chroma[:10] == bytes([0xFF, 0xDA, 0, 8, 1, 3, chroma[6], 1, 63, 1])
    data = chroma[10 : 10 + 18587]
    made = _sized(few[: starts[1]], width, height)
    for number in range(scans - 1):
        made += chroma[:5] + bytes([number % 3 + 1]) + chroma[6:10] + data
    return made + b"\xff\xd9"


# ---- PNG -----------------------------------------------------------------------------------------


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _passes(width: int, height: int, interlaced: bool) -> Iterator[tuple[int, int]]:
    if not interlaced:
        yield width, height
        return
    for x, y, dx, dy in images.ADAM7:
        columns, rows = -(-(width - x) // dx), -(-(height - y) // dy)
        if columns > 0 and rows > 0:
            yield columns, rows


def png(
    width: int,
    height: int,
    *,
    interlaced: bool = False,
    noise: bool = True,
    idat: int = 1 << 30,
    data: bytes | None = None,
) -> bytes:
    """RGBA of 16 bits with Paeth's filter in every row, in IDAT chunks of ``idat`` bytes.

    `data` replaces the zlib stream.
    """
    random = np.random.default_rng(1)
    rows = []
    for columns, count in _passes(width, height, interlaced):
        part = np.zeros((count, columns * 8 + 1), np.uint8)
        if noise:
            part[:] = random.integers(0, 256, part.shape, dtype=np.uint8)
        part[:, 0] = 4
        rows.append(part.tobytes())
    stream = zlib.compress(b"".join(rows), 1) if data is None else data
    header = struct.pack(">IIBBBBB", width, height, 16, 6, 0, 0, int(interlaced))
    chunks = (_chunk(b"IDAT", stream[at : at + idat]) for at in range(0, len(stream), idat))
    made = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header)
    return made + b"".join(chunks) + _chunk(b"IEND", b"")


def empty_deflate_blocks(count: int) -> bytes:
    """A zlib stream of blocks with tables of their own (RFC 1951, 3.2.7) and nothing in them."""

    def field(value: int, width: int) -> str:
        return f"{value:0{width}b}"[::-1]

    # 257 and 1 codes; lengths of the codes 18 (many zeros) and 1, in the order of the format.
    order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1]
    bits = "0" + field(2, 2) + field(0, 5) + field(0, 5) + field(len(order) - 4, 4)
    bits += "".join(field(int(symbol in (1, 18)), 3) for symbol in order)
    # 256 literals without a code, the end of block with one of one bit, and so one distance.
    bits += "1" + field(138 - 11, 7) + "1" + field(118 - 11, 7) + "0" + "0"
    bits += "0"  # the end of block
    digits = np.frombuffer(bits.encode(), np.uint8) - ord("0")
    return b"\x78\x01" + np.packbits(np.tile(digits, count), bitorder="little").tobytes()


# ---- all of them ---------------------------------------------------------------------------------

# By what makes them slow; each function takes a side in pixels and makes side * side of them.
EVERY = {
    "JPEG, baseline: no coefficient is 0": lambda n: full_blocks(n, n),
    "JPEG, baseline: the longest codes": lambda n: full_blocks(n, n, long=True),
    "JPEG, baseline: the same, and a comment behind the pixels": lambda n: full_blocks(
        n, n, long=True, behind=segment(0xFE, b"x")
    ),
    "JPEG, baseline, 4:2:0: no coefficient is 0": lambda n: full_blocks(n, n, F420),
    "JPEG, baseline, 4:1:1: no coefficient is 0": lambda n: full_blocks(n, n, F411),
    "JPEG, baseline, CMYK: the longest codes": lambda n: full_blocks(n, n, CMYK, long=True),
    "JPEG, baseline: a restart marker behind each MCU": lambda n: full_blocks(n, n, restart=1),
    "JPEG, progressive: 99 scans without a coefficient": lambda n: empty_scans(n, n),
    "JPEG, progressive: two scans, smoothed over": lambda n: empty_scans(n, n, scans=2),
    "JPEG, progressive, grey: refined 28 times at random places": lambda n: refined_at_random(
        n, n, 30
    ),
    "JPEG, arithmetic: no coefficient is 0": lambda n: arithmetic(n, n),
    "JPEG, arithmetic: 60 scans of a component each": lambda n: arithmetic_scans(n, n, 61),
    "PNG, 16-bit RGBA: Paeth's filter over noise": lambda n: png(n, n),
    "PNG, 16-bit RGBA: the same, interlaced": lambda n: png(n, n, interlaced=True),
    "PNG, 16-bit RGBA: a chunk for each byte": lambda n: png(n, n, idat=1),
    "PNG, 16-bit RGBA: zeros": lambda n: png(n, n, noise=False),
    "PNG, 16-bit RGBA: one column": lambda n: png(1, n * n),
    "PPM": lambda n: b"P6 %d %d 255 " % (n, n) + bytes(3 * n * n),
}
