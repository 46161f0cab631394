"""The classes of ``headrace.transforms``: transforms as data."""
