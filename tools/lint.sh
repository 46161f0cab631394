#!/bin/bash
# Runs every linter to its end, so that one run shows everything that has to be fixed.
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh

# A check is silent unless it fails. Failures are noted in a file, because lanes are processes.
failed=$(mktemp)
trap 'rm -f "$failed"' EXIT
check() { # name command...
  local name=$1 output
  shift
  if ! output=$("$@" 2>&1); then
    echo "$name" >>"$failed"
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
c_packages() { # of native/: imports of those whose headers reach them, headers embedded, the same flags
  local file folder imports name bad=0
  for file in native/native.go native/*/doc.go; do
    folder=$(dirname "$file")
    imports=$(go list -f '{{join .Imports "\n"}}' "./$folder") || return 1
    while read -r name; do
      grep -qx ".*/native/$name" <<<"$imports" || { echo "$file: imports no native/$name, whose headers reach it"; bad=1; }
    done < <(cd "$folder" && ${CC:-gcc} ${CGO_CFLAGS:-} -std=c11 -D_GNU_SOURCE -MM ./*.c ./*.h | tr -s ' \\' '\n' |
      grep '\.h$' | xargs realpath --relative-to="$root/native" | grep / | grep -v "^\.\./" | cut -d/ -f1 | sort -u | grep -vx "$(basename "$folder")")
    [ "$folder" = native ] || grep -qx '//go:embed \*\.h' "$file" || { echo "$file: does not embed its headers"; bad=1; }
    cmp -s <(grep '^#cgo CFLAGS' "$file") <(grep '^#cgo CFLAGS' native/core/doc.go) ||
      { echo "$file: other flags than native/core/doc.go"; bad=1; }
  done
  return $bad
}
python_files=(python tests bench examples tools)
[ -f setup.py ] && python_files+=(setup.py)

each_module() { # command...
  local failed=0
  "$@" ./... || failed=1
  for module in bench/utilisation bench/slowfs; do
    (cd "$module" && "$@" ./...) || failed=1
  done
  return $failed
}

# Two lanes run at the same time: mypy and clang-format use one core, and Go's tools use all that
# they get.
{
  check gofmt go_format
  check "go vet" each_module go vet
  check staticcheck each_module staticcheck
} &
check ruff .venv/bin/ruff check "${python_files[@]}" internal
check "ruff format" .venv/bin/ruff format --check "${python_files[@]}" internal
check "mypy --strict" .venv/bin/mypy --strict python/headrace
check clang-format c_format
check NOTICE notice
check "C packages" c_packages
wait

if [ -s "$failed" ]; then echo "lint: $(wc -l <"$failed") of 9 failed: $(paste -sd' ' "$failed")"; exit 1; fi
echo "lint: gofmt, go vet, staticcheck, ruff, ruff format, mypy --strict, clang-format, NOTICE and C packages: clean"
