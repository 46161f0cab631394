#!/bin/bash
# Runs the tests of programs that open images themselves, and of crops and resizes, with older
# Pillows. Their images have other attributes: 10.4 has no property `im`, and no version before 13
# chooses which `info` a copy gets. A resize before 13 always began with the horizontal pass.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh

for version in 10.4.0 11.3.0 12.3.0; do
  place=.build/pillows/$version
  if [ ! -d "$place/PIL" ]; then
    .venv/bin/python -m uv pip install --quiet --python .venv/bin/python --no-deps --target "$place" "pillow==$version"
  fi
  echo "pillows: $version"
  PYTHONPATH="$root/$place" .build/venv/bin/python -m pytest tests/deferred/test_own_code.py tests/deferred/test_programs.py \
    tests/deferred/test_functions.py tests/deferred/test_public_programs.py \
    tests/parity/test_crop_parity.py tests/parity/test_training_parity.py tests/parity/test_evaluation_parity.py -m "not slow" --timeout 300 -q -n 2
done
