#!/bin/bash
# Installs servers that speak Google's and Azure's protocols into .build: fake-gcs-server by Go,
# Azurite by npm. They are large, so only `make emulators` installs them; without them, the tests
# that need them say so and skip.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh

google=v1.56.1 azure=3.37.0
mkdir -p .build/bin
if [ "$(cat .build/bin/fake-gcs-server.version 2>/dev/null)" != "$google" ]; then
  echo "emulators: building fake-gcs-server $google"
  if GOBIN="$root/.build/bin" CGO_ENABLED=0 go install -ldflags='-s -w' \
    "github.com/fsouza/fake-gcs-server@$google" 2>.build/emulators.log; then
    echo "$google" >.build/bin/fake-gcs-server.version
  else
    tail -3 .build/emulators.log
    echo "emulators: fake-gcs-server could not be built; tests against it will be skipped"
  fi
fi
if [ "$(cat .build/azurite/version 2>/dev/null)" != "$azure" ]; then
  if ! command -v npm >/dev/null; then
    echo "emulators: there is no npm for Azurite; tests against it will be skipped"
    exit
  fi
  echo "emulators: installing Azurite $azure"
  mkdir -p .build/azurite
  if npm install --prefix .build/azurite --no-audit --no-fund --ignore-scripts "azurite@$azure" >.build/emulators.log 2>&1; then
    echo "$azure" >.build/azurite/version
  else
    tail -3 .build/emulators.log
    echo "emulators: Azurite could not be installed; tests against it will be skipped"
  fi
fi
