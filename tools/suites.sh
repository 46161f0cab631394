#!/bin/bash
# Runs other projects' tests of loaders, with torch's loader and with Headrace's: suites.sh SOURCES
# [NAME...], in the environment that `make test-frameworks` makes. tools/suites.py says what SOURCES
# has to contain.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh

home=.build/frameworks
[ -x "$home/torch/bin/python" ] || { echo "suites: run make test-frameworks first"; exit 1; }
.venv/bin/python -m uv pip install --quiet --no-deps --python "$home/torch/bin/python" \
  --target "$home/suites" -r tests/frameworks/suites.txt
PYTHONPATH=$root/$home/suites exec "$home/torch/bin/python" tools/suites.py "$@"
