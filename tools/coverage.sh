#!/bin/bash
# Measures how much of the code the tests run: Go's statements, C's lines (gcov) and Python's
# statements, by the tests beside the code, by the whole-system tests, and by both together.
# Everything is built again below .build/coverage; nothing else is touched. TESTS and PYTEST_ARGS
# are make's.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh

home=$root/.build/coverage
rm -rf "$home"
mkdir -p "$home"/{unit,system,objects-unit,objects-system}
packages=$(go list ./capi ./internal/... ./mmap ./native/... ./pinned | grep -v '/inject$')
listed=$(tr '\n' ',' <<<"$packages")
export COVERAGE_ROOT=$root CC=$root/tools/coverage_cc.sh GOCACHE=$home/go-cache
cover=(-covermode=atomic "-coverpkg=${listed%,}")

echo "coverage: Go tests, and the C tests that they run"
# Results with a failure still count, and the failure is reported again at the end.
failed=()
COVERAGE_OBJECTS=$home/objects-unit go test "${cover[@]}" $packages \
  -args -test.gocoverdir="$home/unit" >"$home/unit.log" 2>&1 || failed+=("Go tests: $home/unit.log")

echo "coverage: the wheel, with counters"
COVERAGE_CGO=yes COVERAGE_OBJECTS=$home/objects-system GOFLAGS="$GOFLAGS -cover ${cover[*]} -tags=coverage" \
  .venv/bin/python -m build --wheel --no-isolation --outdir "$home/wheel" . >"$home/wheel.log" 2>&1
rm -rf build python/headrace.egg-info
.venv/bin/python -m venv --without-pip "$home/venv"
.venv/bin/python -m uv pip install --quiet --python "$home/venv/bin/python" \
  "$home"/wheel/*.whl -r tools/coverage.txt
"$home/venv/bin/python" - <<'PY'
import sys, sysconfig
from pathlib import Path

own = Path(sysconfig.get_paths()["purelib"])
theirs = Path(".venv", own.relative_to(sys.prefix)).resolve()
(own / "test-tools.pth").write_text(f"{theirs}\n")
PY

echo "coverage: whole-system tests"
cat >"$home/coveragerc" <<RC
[run]
source_pkgs = headrace
data_file = $home/python
parallel = true
concurrency = thread, multiprocessing
patch = subprocess
RC
# Words in quotes stay together, as in make's other targets: PYTEST_ARGS='-m "not slow"'.
eval "options=(${PYTEST_ARGS:-})"
# The tests run one folder at a time, so that ending one by hand loses no other folder's figures.
for part in ${TESTS:-tests/api tests/arrays tests/deferred tests/formats tests/order tests/remote tests/faults tests/parity tests/test_*.py}; do
  log=$home/system-$(tr / - <<<"$part").log
  GOCOVERDIR=$home/system "$home/venv/bin/python" -m coverage run --rcfile "$home/coveragerc" \
    -m pytest "$part" --timeout 900 -p no:cacheprovider -n "${PYTEST_PROCESSES:-2}" \
    --dist loadfile "${options[@]}" >"$log" 2>&1 || failed+=("$part: $log")
  echo "coverage: $part: $(tail -1 "$log")"
done

"$home/venv/bin/python" tools/coverage_report.py "$home" | tee "$home/report.md"
for each in "${failed[@]}"; do echo "coverage: some tests failed under measurement: $each"; done
