#!/bin/bash
# Every linter, each to its end, so that one run shows all there is to mend.
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh

failed=()
check() { # name command...
  local name=$1 output
  shift
  if ! output=$("$@" 2>&1); then
    failed+=("$name")
    printf -- '---- %s\n%s\n' "$name" "$output"
  fi
}

go_format() {
  local files
  files=$("$(go env GOROOT)/bin/gofmt" -l $(git ls-files --cached --others --exclude-standard '*.go'))
  [ -z "$files" ] || { echo "not as gofmt writes them:"; echo "$files"; return 1; }
}
c_format() {
  git ls-files -z --cached --others --exclude-standard '*.c' '*.h' | xargs -0 .venv/bin/clang-format --dry-run -Werror
}
notice() { # every Go module that is linked into the library is named in NOTICE
  local missing
  missing=$(go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}' ./capi | sort -u |
    while read -r module; do grep -qwF "$module" NOTICE || echo "$module"; done)
  [ -z "$missing" ] || { echo "linked but not in NOTICE:"; echo "$missing"; return 1; }
}
python_files=(python tests bench examples tools)
[ -f setup.py ] && python_files+=(setup.py)

each_module() { # command...
  local failed=0
  "$@" ./... || failed=1
  (cd bench/utilisation && "$@" ./...) || failed=1
  return $failed
}

check gofmt go_format
check "go vet" each_module go vet
check staticcheck each_module staticcheck
check ruff .venv/bin/ruff check "${python_files[@]}"
check "ruff format" .venv/bin/ruff format --check "${python_files[@]}"
check "mypy --strict" .venv/bin/mypy --strict python/headrace
check clang-format c_format
check NOTICE notice

if [ "${#failed[@]}" -gt 0 ]; then echo "lint: ${#failed[@]} of 8 failed: ${failed[*]}"; exit 1; fi
echo "lint: gofmt, go vet, staticcheck, ruff, ruff format, mypy --strict, clang-format and NOTICE: clean"
