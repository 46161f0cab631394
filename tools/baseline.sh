#!/bin/bash
# Shows that no instruction beyond those of every x86-64 CPU is needed. It runs the C and Go tests
# of native on an emulated CPU without others (qemu64: SSE3), where they are illegal instructions.
# It also searches the C code for AVX and BMI instructions outside the functions that are chosen at
# run time. Needs qemu-user and objdump.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh
for tool in qemu-x86_64 objdump; do
  command -v "$tool" >/dev/null || { echo "baseline: $tool is missing; on Debian or Ubuntu: apt-get install qemu-user binutils" >&2; exit 1; }
done

# This C test contains all C code of the library and no Go, whose runtime asks the CPU itself. The
# names of functions that are chosen at run time end in their instruction set. libjpeg-turbo's
# assembly has local labels after a dot, and zlib-ng's files for one instruction set have two
# functions whose names do not say it.
make -s --no-print-directory -C native/ctest BUILD="$root/.build/ctest" "$root/.build/ctest/windows"
objdump -d --no-show-raw-insn .build/ctest/windows | awk '
  /^[0-9a-f]+ <.*>:$/ { name = substr($2, 2, length($2) - 3); next }
  $2 ~ /^v[a-z0-9]+$/ && $2 !~ /^ver[rw]$/ ||
  $2 ~ /^(andn|bextr|blsi|blsr|blsmsk|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx)[lq]?$/ { count[name]++ }
  END { for (name in count) print name, count[name] }' | sort >.build/instructions.txt
if grep -viE '^[a-z_0-9]*(_|DspInit)(avx2|avx512|avx512_vnni|bmi2|vpclmulqdq(_[a-z]+)?)(\.[A-Za-z_0-9]+)? |^(adler32_fold_copy_impl|partial_fold)(\.[a-z0-9.]+)? ' .build/instructions.txt; then
  echo "baseline: those functions hold AVX or BMI instructions, and nobody asks the CPU for them" >&2
  exit 1
fi
echo "baseline: AVX and BMI instructions in $(wc -l <.build/instructions.txt) functions, all chosen at run time"

HEADRACE_CTEST_RUN="qemu-x86_64 -cpu qemu64" go test -timeout 60m -exec "qemu-x86_64 -cpu qemu64" -skip CanBeForced \
  ./native
