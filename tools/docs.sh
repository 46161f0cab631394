#!/bin/bash
# Builds docs/ as a site into .build/site, with Zensical in its own environment. A link to a missing
# page or heading ends it with an error. tests/test_docs.py checks pictures and the list of pages in
# zensical.toml, which Zensical does not check.
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
