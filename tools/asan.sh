#!/bin/bash
# The C code under address and undefined-behaviour sanitizers: its own tests, and MUTATIONS
# (25,000) damaged copies of generated images and, where IMAGES names a folder, of photographs.
# TIMES=4 does all that is random four times as often: as long as `make hostile` has for it.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh
make -s --no-print-directory -C native/ctest asan BUILD="$root/.build/ctest" \
  TIMES="${TIMES:-1}" ${MUTATIONS:+MUTATIONS="$MUTATIONS"} IMAGES="${IMAGES:+$(realpath "$IMAGES")}"
