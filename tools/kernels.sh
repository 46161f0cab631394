#!/bin/bash
# Parity must not depend on the CPU on which torch computes. So this runs the tests that compare
# with torch with every kernel that this CPU can be made to use. ATEN_CPU_CAPABILITY chooses torch's
# own, ONEDNN_MAX_CPU_ISA those of convolutions, MKL_ENABLE_INSTRUCTIONS and MKL_CBWR those of
# matrices and exponentials. MKL has different kernels for Intel's CPUs and for AMD's, and asks one
# of its own functions which CPU it is; a preloaded library answers that it is Intel's. It takes an
# hour on two cores.
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh
python=$root/.build/venv/bin/python work=$root/.build/kernels
level=$("$python" -c 'import torch; print(torch.backends.cpu.get_cpu_capability())')
[ "$level" = AVX2 ] || [ "$level" = AVX512 ] || { echo "kernels: torch has $level here; needs a CPU with AVX2" >&2; exit 1; }
mkdir -p "$work"
echo 'int mkl_serv_intel_cpu_true(void) { return 1; }' >"$work/intel.c"
cc -shared -fPIC -o "$work/intel.so" "$work/intel.c" || exit 1
printf 'import torch\n\ntorch.backends.mkldnn.set_flags(False)\n' >"$work/without_onednn.py"
export HEADRACE_CASES=all
mapfile -t tests < <(grep -lE '^(import|from) torch( |$)' tests/parity/test_*.py)

failed=0
with() { # NAME=VALUE... [-- argument of pytest...]
  local variables=()
  while [ $# -gt 0 ] && [ "$1" != -- ]; do variables+=("$1") && shift; done
  printf '%s: ' "kernels: ${variables[*]/$root\//}"
  if env "${variables[@]}" "$python" -m pytest "${tests[@]}" --timeout 900 -q -n "${PYTEST_PROCESSES:-2}" \
    --dist loadfile "${@:2}" >"$work/log" 2>&1; then
    tail -1 "$work/log"
  else
    failed=1
    tail -1 "$work/log"
    grep -E '^(FAILED|ERROR)' "$work/log"
  fi
}
intel=LD_PRELOAD=$work/intel.so

with MKL_CBWR=AUTO # the default
with ATEN_CPU_CAPABILITY=default
with ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2
with ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 ONEDNN_MAX_CPU_ISA=SSE41
with MKL_CBWR=COMPATIBLE OMP_NUM_THREADS=1
with OMP_NUM_THREADS=7
with PYTHONPATH="$work" -- -p without_onednn
with "$intel"
with "$intel" ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2
with "$intel" ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 ONEDNN_MAX_CPU_ISA=SSE41
exit $failed
