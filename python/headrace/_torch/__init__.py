"""What ``headrace.DataLoader`` and ``headrace.IterableDataset`` are made of."""
