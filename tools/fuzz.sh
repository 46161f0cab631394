#!/bin/bash
# Runs every Go fuzz target in turn, each for so many seconds, because go test takes only one at a
# time.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh
seconds=${1:-60}

grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r package; do
  grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$package"/*_test.go | cut -d' ' -f2 | sort | while read -r target; do
    echo "fuzz: $package $target for ${seconds}s"
    go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "${seconds}s" </dev/null
  done
done

# This runs the decoders with hostile seek points and damaged data under sanitizers: 2 million runs,
# and as many for each kind of file.
make -s --no-print-directory -C native/ctest fuzz fuzz-kinds BUILD="$root/.build/ctest"
