#!/bin/bash
# Builds versitygw, the S3 server that tests run on this machine, into .build/bin: two minutes of
# one core, once. If it cannot be built, the tests that need it say so and skip.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh

version=v1.8.0
stamp="$version $(go version)"
[ "$(cat .build/bin/versitygw.version 2>/dev/null)" = "$stamp" ] && exit
mkdir -p .build/bin
echo "versitygw: building $version"
if ! GOBIN="$root/.build/bin" CGO_ENABLED=0 go install -ldflags='-s -w' \
  "github.com/versity/versitygw/cmd/versitygw@$version" 2>.build/versitygw.log; then
  tail -3 .build/versitygw.log
  echo "versitygw: it could not be built; tests against S3 will be skipped"
  exit
fi
echo "$stamp" >.build/bin/versitygw.version
