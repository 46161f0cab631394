#!/bin/bash
# gcc for tools/coverage.sh: compiles the project's own C with gcov's counters, and everything else
# unchanged. gcov writes beside the object file, and go deletes its folder of objects after a build.
# So the object is made in COVERAGE_OBJECTS and copied to where it was asked for. What cgo compiles
# gets no counters unless COVERAGE_CGO is set: a Go program ends without C's exit handlers, and so
# without writing the counters; a C program with the library writes them.
set -euo pipefail

source="" object="" compiles="" reads_stdin="" flags=()
arguments=("$@")
for ((i = 0; i < $#; i++)); do
  case ${arguments[i]} in
    -c) compiles=yes ;;
    -E | -S | -M | -MM | -fsyntax-only | -\#\#\#) compiles=other ;;
    -) reads_stdin=yes ;;
    -o) object=${arguments[i + 1]} && i=$((i + 1)) && continue ;;
    *.c) source=${arguments[i]} && continue ;;
    # These options are cgo's; they would change the recorded place of the counters.
    -f*-prefix-map=*) if [ -z "${COVERAGE_CGO:-}" ]; then exec gcc "$@"; else continue; fi ;;
  esac
  flags+=("${arguments[i]}")
done

if [ "$compiles" = yes ] && [ -n "$source" ] && [ -n "$object" ]; then
  real=$(realpath "$source")
  case $real in
    */ctest/*) ;;
    "$COVERAGE_ROOT"/native/*.c | "$COVERAGE_ROOT"/capi/*.c | "$COVERAGE_ROOT"/internal/*.c | \
      "$COVERAGE_ROOT"/mmap/*.c | "$COVERAGE_ROOT"/pinned/*.c)
      name=${real#"$COVERAGE_ROOT"/}
      # There is one object for each file and each set of flags; names of temporary folders do not
      # count.
      way=$(printf '%s\n' "${flags[@]}" | grep -v -e /tmp/ -e -frandom-seed | cksum | cut -d' ' -f1)
      kept=$COVERAGE_OBJECTS/$way/${name//\//-}.o
      if [ ! -e "$kept" ]; then
        mkdir -p "${kept%/*}"
        gcc "${flags[@]}" "$real" -o "$kept" -O1 --coverage -fprofile-update=prefer-atomic
      fi
      cp "$kept" "$object"
      exit
      ;;
  esac
fi
if [ -z "$compiles" ] && [ -z "$reads_stdin" ]; then exec gcc "$@" -lgcov; fi
exec gcc "$@"
