#!/bin/bash
# Builds a release into dist/: wheel, source distribution, SHA256SUMS, NOTES.md. It uploads nothing
# and sets no tag; docs/releasing.md says what comes before and after.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh

version=$(.venv/bin/python tools/release.py check)
# Times in the archives are the time of the commit.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
tools/wheel.sh
.venv/bin/python -m build --sdist --no-isolation --outdir dist . >.build/sdist.log 2>&1 ||
  { tail -30 .build/sdist.log >&2; echo "release: the source distribution failed; see .build/sdist.log" >&2; exit 1; }
.venv/bin/python tools/release.py finish dist
echo "release: $version of commit $(git rev-parse --short HEAD) is in dist/; nothing was uploaded"
(cd dist && sha256sum --check SHA256SUMS)
