#!/bin/bash
# Runs the C code under address and undefined-behaviour sanitizers: its own tests, and MUTATIONS
# (25,000) damaged copies of generated images and, if IMAGES names a folder, of photographs. TIMES=4
# does everything random four times as often, which is as long as `make hostile` allows.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh
make -s --no-print-directory -C native/ctest asan BUILD="$root/.build/ctest" \
  TIMES="${TIMES:-1}" ${MUTATIONS:+MUTATIONS="$MUTATIONS"} IMAGES="${IMAGES:+$(realpath "$IMAGES")}"

mkdir -p "$root/.build/ctest"
${CC:-gcc} -std=c11 -D_GNU_SOURCE -Wall -Wextra ${CGO_CFLAGS:-} -O1 -g -fsanitize=address,undefined \
  -fno-sanitize-recover=all header/header.c header/ctest/mutate.c ${CGO_LDFLAGS:-} -l:libz.a \
  -o "$root/.build/ctest/header"
"$root/.build/ctest/header" "$((50000 * ${TIMES:-1}))"
