"""Chunks as HDF5's filters and numcodecs write them, for the tests beside.

Each holds the same bytes, as many as its name ends with. Run with h5py, hdf5plugin and
numcodecs: python make.py
"""

from pathlib import Path

import h5py
import hdf5plugin
import numcodecs
import numpy as np

HERE = Path(__file__).parent


def values(count: int) -> np.ndarray:
    number = np.arange(count)
    return (number // 7 ^ number % 3).astype(np.uint8)


def of_hdf5(name: str, **form: object) -> None:
    """The only chunk of a dataset, as it is stored."""
    with h5py.File("memory", "w", driver="core", backing_store=False) as file:
        data = file.create_dataset("x", data=values(6000), chunks=(6000,), **form)
        mask, chunk = data.id.read_direct_chunk((0,))
        assert mask == 0
        (HERE / name).write_bytes(chunk)


def main() -> None:
    of_hdf5("zlib.6000", compression="gzip")
    of_hdf5("zlib-fletcher32.6000", compression="gzip", fletcher32=True)
    of_hdf5("plain-fletcher32.6000", fletcher32=True)
    of_hdf5("pieces.6000", **hdf5plugin.LZ4(nbytes=1024))
    of_hdf5("zstd.6000", **hdf5plugin.Zstd())
    of_hdf5("blosc-hdf5.6000", **hdf5plugin.Blosc(cname="zstd", shuffle=2))
    (HERE / "sized.6000").write_bytes(numcodecs.LZ4().encode(values(6000)))
    for count in (6000, 6001):
        for codec in ("lz4", "zlib", "zstd"):
            for shuffle in (0, 2):
                made = numcodecs.Blosc(codec, 5, shuffle, blocksize=2048).encode(values(count))
                (HERE / f"blosc-{codec}-{shuffle}.{count}").write_bytes(made)
    made = numcodecs.Blosc("lz4", 0, 0).encode(values(6000))
    (HERE / "blosc-stored.6000").write_bytes(made)


if __name__ == "__main__":
    main()
