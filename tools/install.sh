#!/bin/bash
# Installs dist/headrace-*.whl with pip into a fresh environment, .build/venv, as a user would: only
# the wheel and what it declares. Then it shows that the package runs there, without torch and
# outside the source tree. Only after that it gives the environment access to the test tools of
# .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh

rm -rf .build/venv
.venv/bin/python -m venv --without-pip .build/venv
.venv/bin/python -m pip --python .build/venv/bin/python install --quiet --disable-pip-version-check dist/headrace-*.whl
(cd / && "$root/.build/venv/bin/python" -c '
import sys, headrace
assert "site-packages" in headrace.__file__, headrace.__file__
assert "torch" not in sys.modules
' && "$root/.build/venv/bin/headrace" --help >/dev/null && "$root/.build/venv/bin/python" -m headrace --help >/dev/null)

# torch, pytest and the rest come from .venv; packages that were installed here take precedence.
.venv/bin/python - <<'PY'
import sysconfig
from pathlib import Path

ours = Path(sysconfig.get_paths()["purelib"])
theirs = Path(".build/venv") / ours.resolve().relative_to(Path(".venv").resolve())
(theirs / "test-tools.pth").write_text(f"{ours}\n")
PY
echo "install: $(cd / && "$root/.build/venv/bin/python" -c 'import headrace, importlib.metadata as m; print("headrace", m.version("headrace"), "from", headrace.__file__)')"
