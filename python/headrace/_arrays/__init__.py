"""Datasets whose images are arrays of pixels: HDF5, Zarr, NumPy and others."""
