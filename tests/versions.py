"""What tests need of the versions that are installed."""

from __future__ import annotations

import PIL
import pytest

_PILLOW = int(PIL.__version__.partition(".")[0])

since_pillow_13 = pytest.mark.skipif(_PILLOW < 13, reason=f"Pillow {PIL.__version__} is before 13")

# Before 13 some run lengths of a BMP are other pixels, or bad.
BMP = pytest.param("bmp", marks=since_pillow_13)
