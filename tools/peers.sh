#!/bin/bash
# Makes an environment for each loader that bench/compare.py measures against, and one for the
# chart, below .build/peers, from bench/peers/requirements. If names are given, it makes only those,
# such as "gpu" of bench/feed.py, which nothing else needs. torch and torchvision come from .venv,
# so that they are installed only once. If a loader cannot be installed, its name and the reason are
# printed, and the others are still made; compare.py then leaves it out.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh

say() { printf 'peers: %s\n' "$*"; }
peers=.build/peers
mkdir -p "$peers"
failed=()

# Packages that each one needs, and why: FFCV is compiled (opencv4.pc, libturbojpeg.pc, a C++
# compiler), SPDL loads FFmpeg's libraries at run time.
declare -A packages=(
  [ffcv]="g++ pkg-config libopencv-dev libturbojpeg0-dev"
  [spdl]="ffmpeg"
)
declare -A imports=(
  [torchvision]="import torch, torchvision"
  [dali]="import torch, nvidia.dali.fn"
  [gpu]="import torch, nvidia.dali.fn, nvidia.nvimgcodec"
  [ffcv]="import torch, ffcv.loader, ffcv.writer, PIL"
  [tf]="import tensorflow"
  [spdl]="import spdl.pipeline, spdl.io; spdl.io.ImagePackets"
  [huggingface]="import torch, datasets"
  [mosaic]="import torch, streaming"
  [litdata]="import torch, litdata, zstd"
  [lmdb]="import lmdb"
  [chart]="import matplotlib"
)

system_packages() { # name...: installs those Debian packages that are missing
  local missing=()
  local package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  [ "${#missing[@]}" -eq 0 ] && return
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    reason="these Debian packages are missing: ${missing[*]}"
    return 1
  fi
  say "installing ${missing[*]} with apt-get"
  DEBIAN_FRONTEND=noninteractive
  export DEBIAN_FRONTEND
  apt-get update -qq </dev/null >.build/peers/apt.log 2>&1 || true
  apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${missing[@]}" \
    </dev/null >>.build/peers/apt.log 2>&1 || { reason="apt-get could not install ${missing[*]} (see .build/peers/apt.log)"; return 1; }
}

share_torch() { # environment: what it lacks is looked up in .venv
  .venv/bin/python - "$1" <<'PY'
import sys, sysconfig
from pathlib import Path

ours = Path(sysconfig.get_paths()["purelib"])
theirs = Path(sys.argv[1]) / ours.relative_to(sys.prefix)
(theirs / "project.pth").write_text(f"{ours}\n")
PY
}

install() { # name
  local name=$1 place=$peers/$1 list=bench/peers/requirements/$1.txt log=.build/peers/$1.log
  local uv=(.venv/bin/python -m uv pip install --quiet --python "$place/bin/python")
  local wanted
  wanted=$(cat "$list" 2>/dev/null; readlink -f .venv; .venv/bin/python --version; echo "${packages[$name]:-}")
  # The stamp holds the list that was installed. If it is unchanged, the environment is only tried.
  if [ "$(cat "$place/.installed" 2>/dev/null)" = "$wanted" ] &&
    "$place/bin/python" -c "${imports[$name]}" >"$log" 2>&1; then return; fi
  say "making $place"
  # shellcheck disable=SC2086
  system_packages ${packages[$name]:-} || return 1
  rm -rf "$place"
  reason="see $log"
  .venv/bin/python -m uv venv --quiet --python .venv/bin/python "$place" >"$log" 2>&1 || return 1
  case $name in
    torchvision) share_torch "$place" ;;
    dali | gpu | huggingface) share_torch "$place" && "${uv[@]}" -r "$list" >>"$log" 2>&1 ;;
    # What they also ask for is a second torch and the clients of clouds.
    mosaic | litdata) share_torch "$place" && "${uv[@]}" --no-deps -r "$list" >>"$log" 2>&1 ;;
    ffcv)
      share_torch "$place" &&
        grep -v '^ffcv==' "$list" | "${uv[@]}" -r - >>"$log" 2>&1 &&
        "${uv[@]}" --no-deps --no-build-isolation "$(grep '^ffcv==' "$list")" >>"$log" 2>&1
      ;;
    *) "${uv[@]}" -r "$list" >>"$log" 2>&1 ;;
  esac || return 1
  "$place/bin/python" -c "${imports[$name]}" >>"$log" 2>&1 || { reason="it does not run: $(tail -1 "$log")"; return 1; }
  printf '%s\n' "$wanted" >"$place/.installed"
}

names=("$@")
if [ "${#names[@]}" -eq 0 ]; then names=(torchvision dali ffcv tf spdl huggingface mosaic litdata lmdb chart); fi
for name in "${names[@]}"; do
  reason=""
  if install "$name"; then
    say "$name: ready"
  else
    rm -f "$peers/$name/.installed" "$peers/$name/bin/python"
    say "$name: cannot be installed here, $reason; the benchmark leaves it out"
    failed+=("$name")
  fi
done
[ "${#failed[@]}" -eq 0 ] || say "left out: ${failed[*]}"
