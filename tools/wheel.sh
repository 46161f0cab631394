#!/bin/bash
# Builds the wheel from the tree as it is and leaves one file in dist/, which auditwheel tags with
# the oldest glibc that its symbols allow.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh

rm -rf .build/wheel build dist
.venv/bin/python -m build --wheel --no-isolation --outdir .build/wheel . >.build/wheel.log 2>&1 ||
  { tail -30 .build/wheel.log >&2; echo "wheel: the build failed; all of it is in .build/wheel.log" >&2; exit 1; }
.venv/bin/auditwheel repair --wheel-dir dist .build/wheel/headrace-*.whl >.build/auditwheel.log 2>&1 ||
  { tail -30 .build/auditwheel.log >&2; echo "wheel: auditwheel refused it" >&2; exit 1; }
stat -c 'wheel: %n, %s bytes' dist/*.whl
