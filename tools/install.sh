#!/bin/bash
# Installs dist/headrace-*.whl with pip into a fresh environment, .build/venv, as a user would:
# the wheel and what it declares, nothing else. Then shows that it runs there, without torch and
# outside the source tree, and only after that lends the environment the test tools of .venv.
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

# torch, pytest and the rest come from .venv; what was installed here stands before them.
.venv/bin/python - <<'PY'
import sysconfig
from pathlib import Path

ours = Path(sysconfig.get_paths()["purelib"])
theirs = Path(".build/venv") / ours.resolve().relative_to(Path(".venv").resolve())
(theirs / "test-tools.pth").write_text(f"{ours}\n")
PY
echo "install: $(cd / && "$root/.build/venv/bin/python" -c 'import headrace, importlib.metadata as m; print("headrace", m.version("headrace"), "from", headrace.__file__)')"
