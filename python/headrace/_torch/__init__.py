"""The parts of ``headrace.DataLoader`` and ``headrace.IterableDataset``."""
