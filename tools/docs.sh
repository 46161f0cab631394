#!/bin/bash
# Builds docs/ as a site into .build/site, with Zensical in an environment of its own. A link to a
# page or a heading that is not there ends it with an error; tests/test_docs.py looks at pictures
# and at the pages' list in zensical.toml, which Zensical passes over.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh

home=.build/docs-env
if ! cmp -s tools/docs.txt "$home/.installed"; then
  rm -rf "$home"
  .venv/bin/python -m uv venv --quiet --python .venv/bin/python "$home"
  .venv/bin/python -m uv pip install --quiet --python "$home/bin/python" -r tools/docs.txt
  cp tools/docs.txt "$home/.installed"
fi
rm -rf .build/site
"$home/bin/zensical" build --strict --clean >.build/docs.log 2>&1 ||
  { grep -v '^ *File\|^Traceback\|^    ' .build/docs.log >&2; echo "docs: the site was not built" >&2; exit 1; }
echo "docs: $(find .build/site -name '*.html' | wc -l) pages; open $root/.build/site/index.html"
