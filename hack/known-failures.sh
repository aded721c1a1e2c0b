#!/usr/bin/env bash
# Every test that docs/reference/known-failures.md names must exist.
set -euo pipefail
cd "$(dirname "$0")/.."
missing=0
for name in $(grep -o '`Test[A-Za-z0-9]*`' docs/reference/known-failures.md | tr -d '`' | sort -u); do
	grep -rqE "^func $name\(" --include=*_test.go cmd internal test || { echo "docs/reference/known-failures.md names $name, which does not exist"; missing=1; }
done
exit $missing
