#!/usr/bin/env bash
# Raises what a test server is built from to the versions that the tests use, so that what both need
# is compiled once: a package in another version is another package, and so is everything above it.
#
#   ./align.sh DIRECTORY...
#   ./align.sh certmanager fakegcs rclone
#
# Where a server wants something newer, raise it in the modules of the tests and of the product first
# (go get MODULE@VERSION). A test of stores says when they differ. Kubernetes: kubernetes/require.sh.
set -euo pipefail
cd "$(dirname "$0")"
[ $# -gt 0 ] || { sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0" >&2; exit 2; }
export GOFLAGS=-mod=mod
versions=$(cd .. && go list -m -f '{{if and .Version (not .Replace)}}{{.Path}} {{.Version}}{{end}}' all)
for directory; do
	(
		cd "$directory"
		used=$(go list -m -f '{{if not .Main}}{{.Path}}{{end}}' all)
		mapfile -t raised < <(join <(sort <<<"$versions") <(sort <<<"$used") | sed 's/^/-require=/; s/ /@/')
		go mod edit "${raised[@]}"
		go mod tidy
	)
done
