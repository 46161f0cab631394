#!/bin/bash
# Tests Headrace with another libjpeg-turbo than the system's. It builds the source tree SOURCE as a
# static library below .build/libjpeg, and runs with it what depends on the library: the C and Go
# tests of native, and the tests that compare every byte with Pillow. Needs cmake and nasm.
set -euo pipefail
[ $# -eq 1 ] && [ -f "$1/CMakeLists.txt" ] || { echo "usage: tools/libjpeg.sh SOURCE (a source tree of libjpeg-turbo)" >&2; exit 2; }
source=$(realpath "$1")
cd "$(dirname "$0")/.."
. tools/env.sh

for tool in cmake nasm; do
  command -v "$tool" >/dev/null || { echo "libjpeg: $tool is missing; on Debian or Ubuntu: apt-get install $tool" >&2; exit 1; }
done
version=$(sed -n 's/^set(VERSION \([0-9.]*\))$/\1/p' "$source/CMakeLists.txt")
work=$root/.build/libjpeg/$version
mkdir -p "$work/python"
echo "libjpeg: building libjpeg-turbo $version"
{ cmake -S "$source" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$work" \
    -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_POSITION_INDEPENDENT_CODE=1 -DENABLE_SHARED=0 -DREQUIRE_SIMD=1 \
    -DWITH_TURBOJPEG=0 -DWITH_TOOLS=0 -DWITH_TESTS=0 &&
  make -C "$work/build" -j2 install; } >"$work/build.log" 2>&1 ||
  { tail -5 "$work/build.log" >&2; exit 1; }

export CGO_CFLAGS="-I$work/include ${CGO_CFLAGS:--g -O2}" CGO_LDFLAGS="-L$work/lib ${CGO_LDFLAGS:-}"
go test ./native
# This is the Python package of the tree, with its own library.
rm -rf "$work/python/headrace"
cp -r python/headrace "$work/python/"
go build -buildmode=c-shared -o "$work/python/headrace/libheadrace.so" ./capi
PYTHONPATH="$work/python" .venv/bin/python -m pytest tests/parity --timeout 300 -q
