"""One loader in each module; compare.py runs each in its own environment; see protocol.py."""
