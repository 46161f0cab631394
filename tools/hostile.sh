#!/bin/bash
# Tests of hostile use that need special tools or time: the sanitizers of tools/asan.sh with four
# times as many random cases; containers damaged in 3,000 ways each (CONTAINERS=10: in 10,000, some
# ten minutes); threads that decode with shared state under the thread sanitizer; and calls of the C
# ABI in any order (capi/ctest) for so many seconds. LIBRARY_ASAN=1 also builds the library's Go and
# C with the address sanitizer; its first build compiles Go's standard library again and takes
# minutes.
#
# Go's own code has its race detector (make race). The whole library cannot run under the thread
# sanitizer, because Go's runtime makes threads and switches stacks of which C's sanitizer knows
# nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh
seconds=${1:-30}
build=$root/.build/ctest
mkdir -p "$build"

TIMES=4 tools/asan.sh
# By itself, internal/scan damages each container in 50 ways.
TIMES=$((20 * ${CONTAINERS:-3})) go test -count 1 -timeout 30m ./internal/scan
make -s --no-print-directory -C native/ctest tsan BUILD="$build"

flags=(-O1 -g)
go_flags=()
library=$build/libheadrace.so
if [ "${LIBRARY_ASAN:-0}" = 1 ]; then
  flags+=(-fsanitize=address,undefined)
  go_flags+=(-asan)
  library=$build/libheadrace-asan.so
  # Go's runtime frees nothing at exit.
  export ASAN_OPTIONS=detect_leaks=0
fi
go build "${go_flags[@]}" -buildmode=c-shared -o "$library" ./capi
${CC:-gcc} -std=c11 -D_GNU_SOURCE -Wall -Wextra ${CGO_CFLAGS:-} "${flags[@]}" capi/ctest/*.c \
  native/ctest/{grammar,grammar_jpeg,grammar_png,images_jpeg,images_png}.c \
  ${CGO_LDFLAGS:-} -l:libjpeg.a -l:libwebpdemux.a -l:libwebp.a -l:libz.a -lm -lpthread -ldl -o "$build/calls"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$build/calls" -t "$seconds" -j 3 "$library" "$work"
