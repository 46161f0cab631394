"""Of ``headrace._torch.share`` now."""

from headrace._torch.share import Epochs, Share, _copied, _shared

__all__ = ["Epochs", "Share", "_copied", "_shared"]
