"""Marks for tests that need certain versions of installed packages."""

from __future__ import annotations

import PIL
import pytest

_PILLOW = int(PIL.__version__.partition(".")[0])

since_pillow_13 = pytest.mark.skipif(_PILLOW < 13, reason=f"Pillow {PIL.__version__} is before 13")

# Before 13 Pillow reads some run lengths of a BMP as other pixels, or refuses them.
BMP = pytest.param("bmp", marks=since_pillow_13)
