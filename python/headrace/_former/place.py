"""Of ``headrace._torch.place`` now."""

from headrace._torch.place import Place, Standing

__all__ = ["Place", "Standing"]
