"""Finding what limits a training, by measuring it or by working it out beforehand."""
