"""Files of TFRecords with tf.train.Examples, from the published framing and feature.proto."""

from __future__ import annotations

import struct
from pathlib import Path

Value = bytes | int | float | list[int] | list[float]


def _table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _table()


def masked_crc(data: bytes) -> bytes:
    """CRC-32C as tensorflow/core/lib/hash/crc32c.h masks it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _feature(value: Value) -> bytes:
    if isinstance(value, list):  # packed, as protobuf writes numbers
        if isinstance(value[0], float):
            return _field(2, _field(1, struct.pack(f"<{len(value)}f", *value)))
        return _field(3, _field(1, b"".join(_varint(int(number)) for number in value)))
    if isinstance(value, bytes):
        return _field(1, _field(1, value))
    if isinstance(value, float):
        return _field(2, _field(1, struct.pack("<f", value)))
    return _field(3, _field(1, _varint(value)))


def example(features: dict[str, Value]) -> bytes:
    entries = [_field(1, n.encode()) + _field(2, _feature(v)) for n, v in features.items()]
    return _field(1, b"".join(_field(1, entry) for entry in entries))


def write(path: Path, examples: list[dict[str, Value]]) -> Path:
    with path.open("wb") as file:
        for features in examples:
            data = example(features)
            length = struct.pack("<Q", len(data))
            file.write(length + masked_crc(length) + data + masked_crc(data))
    return path
