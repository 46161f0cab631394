#!/bin/bash
# The C code under address and undefined-behaviour sanitizers: its own tests, and MUTATIONS
# (100,000) damaged copies of generated images and, where IMAGES names a folder, of photographs.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh
make -s --no-print-directory -C native/ctest asan BUILD="$root/.build/ctest" \
  MUTATIONS="${MUTATIONS:-100000}" IMAGES="${IMAGES:+$(realpath "$IMAGES")}"
