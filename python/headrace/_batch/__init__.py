"""Tensors, arrays and labels, made of the memory of a batch."""
