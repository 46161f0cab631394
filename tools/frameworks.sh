#!/bin/bash
# Runs the frameworks' tests, each family in its own environment below .build/frameworks, with
# released packages, pinned in tests/frameworks/*.txt. torch and the test tools come from .venv, and
# the wheel from .build/venv. With PYTHONPATH=python they run against the source tree instead.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh

home=.build/frameworks
environment() { # name: makes $home/name, unless it holds what is asked for
  local list=tests/frameworks/$1.txt stamp=$home/$1/.installed
  if ! cmp -s "$list" "$stamp"; then
    rm -rf "${home:?}/$1"
    .venv/bin/python -m venv --without-pip "$home/$1"
    .venv/bin/python -m uv pip install --quiet --no-deps --compile-bytecode --python "$home/$1/bin/python" -r "$list"
    cp "$list" "$stamp"
  fi
  # Python searches these folders in this order, after the environment's own packages.
  "$home/$1/bin/python" - <<'PY'
import sys, sysconfig
from pathlib import Path

own = Path(sysconfig.get_paths()["purelib"])
inside = own.relative_to(sys.prefix)
places = [str(Path(place, inside).resolve()) for place in (".build/venv", ".venv")]
(own / "borrowed.pth").write_text("\n".join(places) + "\n")
PY
}

mkdir -p "$home"
.venv/bin/python tools/demo_photographs.py --count 256 "$home/photographs"
for name in torch arrays; do
  environment "$name"
  echo "frameworks: $name: $(grep -cv '^#' "tests/frameworks/$name.txt") packages"
done
export HF_HUB_OFFLINE=1 TF_CPP_MIN_LOG_LEVEL=3 JAX_PLATFORMS=cpu OMP_NUM_THREADS=1
run() { "$home/$1/bin/python" -m pytest -p no:cacheprovider --timeout 600 "${@:2}" ${PYTEST_ARGS:-}; }
run torch tests/frameworks --ignore tests/frameworks/test_arrays.py
run arrays tests/frameworks/test_arrays.py
