"""One pass over a ``Loader``: its order and place, and the batches by their numbers."""
