"""The former name of a module whose contents are in ``headrace._torch.share``."""

from headrace._torch.share import Epochs, Share, _copied, _shared

__all__ = ["Epochs", "Share", "_copied", "_shared"]
