"""One pass over a ``Loader``: its order, where it stands, and its batches by number."""
