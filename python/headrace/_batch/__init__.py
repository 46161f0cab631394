"""What the memory of a batch becomes: tensors, arrays and labels."""
