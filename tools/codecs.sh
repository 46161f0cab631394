#!/bin/bash
# Builds libjpeg-turbo, the decoders of libwebp, and zlib-ng under zlib's name, as static libraries
# below .build/codecs, from the sources that tools/codecs/Cargo.lock pins by checksum; tools/env.sh
# makes builds use them. A second run takes a moment. Needs cargo, which only fetches, cmake and
# nasm.
#
# The system's libraries may be older: Debian 12 has libjpeg-turbo 2.1.5 and libwebp 1.2.4, while
# Pillow 13's wheel has 3.2 and 1.6. zlib-ng inflates like zlib, with the same errors, in half the
# time or less.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh

for tool in cargo cmake nasm; do
  command -v "$tool" >/dev/null || { echo "codecs: $tool is missing" >&2; exit 1; }
done
work=$root/.build/codecs
stamp="$(cat tools/codecs/Cargo.lock tools/codecs.sh; ${CC:-gcc} --version | head -1)"
if [ "$(cat "$work/stamp" 2>/dev/null)" = "$stamp" ]; then exit 0; fi

rm -rf "$work"
mkdir -p "$work/lib" "$work/include/webp" "$work/webp"
log=$work/build.log
failed() { tail -5 "$log" >&2; echo "codecs: $1; all of it is in $log" >&2; exit 1; }
# The manifest has no code, and cargo looks for none until it compiles.
cargo vendor --locked --manifest-path tools/codecs/Cargo.toml "$work/source" >/dev/null 2>"$log" ||
  failed "cargo could not fetch the sources"

# REQUIRE_SIMD makes a missing assembler an error; otherwise the library would take three times as
# long.
cmake -S "$work/source/turbojpeg-sys/libjpeg-turbo" -B "$work/jpeg" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_POSITION_INDEPENDENT_CODE=1 -DENABLE_SHARED=0 -DREQUIRE_SIMD=1 -DWITH_TURBOJPEG=0 >>"$log" 2>&1 &&
  make -C "$work/jpeg" -j"$(nproc)" jpeg-static >>"$log" 2>&1 || failed "libjpeg-turbo was not built"
cp "$work/jpeg/libjpeg.a" "$work/lib/"
cp "$work/jpeg/jconfig.h" "$work"/source/turbojpeg-sys/libjpeg-turbo/src/{jpeglib,jmorecfg,jerror}.h "$work/include/"

# ZLIB_COMPAT: zlib's names and structures, so that the same code is built with either.
cmake -S "$work/source/libz-ng-sys/src/zlib-ng" -B "$work/zlib" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_POSITION_INDEPENDENT_CODE=1 -DZLIB_COMPAT=1 -DBUILD_SHARED_LIBS=0 -DBUILD_TESTING=0 -DWITH_GZFILEOP=0 >>"$log" 2>&1 &&
  make -C "$work/zlib" -j"$(nproc)" >>"$log" 2>&1 || failed "zlib-ng was not built"
cp "$work/zlib/libz.a" "$work/lib/"
cp "$work"/zlib/{zlib,zconf,zlib_name_mangling}.h "$work/include/"

# libwebp chooses instructions at run time; each file of dsp/ is compiled for its own. No single
# block of memory is larger than 512 MiB, because a damaged header may ask for any number of tables.
cd "$work/source/libwebp-sys/vendor"
flags() { # what a file of dsp/ is compiled for
  case $1 in *_sse41.c) echo -msse4.1 ;; *_avx2.c) echo -mavx2 ;; esac
}
defines="-DWEBP_USE_THREAD -DWEBP_MAX_ALLOCABLE_MEMORY=(1ULL<<29)"
case $(uname -m) in x86_64) defines="$defines -DWEBP_HAVE_SSE2 -DWEBP_HAVE_SSE41 -DWEBP_HAVE_AVX2" ;; esac
export -f flags
# shellcheck disable=SC2016
printf '%s\n' src/dec/*.c src/demux/demux.c src/dsp/*.c src/utils/*.c |
  xargs -P "$(nproc)" -I FILE bash -c '"${0}" -O2 -fPIC -fvisibility=hidden $1 $(flags FILE) -I. -c FILE -o "$2/webp/$(basename FILE .c).o"' \
    "${CC:-gcc}" "$defines" "$work" >>"$log" 2>&1 || failed "libwebp was not built"
ar rcs "$work/lib/libwebpdemux.a" "$work/webp/demux.o"
rm "$work/webp/demux.o"
ar rcs "$work/lib/libwebp.a" "$work"/webp/*.o
cp src/webp/{decode,demux,mux_types,types}.h "$work/include/webp/"
rm -rf "$work/jpeg" "$work/webp" "$work/zlib"
printf '%s\n' "$stamp" >"$work/stamp"
echo "codecs: built libjpeg-turbo, libwebp and zlib-ng"
