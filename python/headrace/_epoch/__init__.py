"""One pass over a ``Loader``: its order, its position, and its batches by number."""
