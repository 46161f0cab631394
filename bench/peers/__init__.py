"""One loader a module, each run in its own environment by compare.py; see protocol.py."""
