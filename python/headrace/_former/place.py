"""The former name of a module whose contents are in ``headrace._torch.place``."""

from headrace._torch.place import Place, Standing

__all__ = ["Place", "Standing"]
