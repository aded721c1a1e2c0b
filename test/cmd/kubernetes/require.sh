#!/usr/bin/env bash
# Writes the requirements for building one version of Kubernetes. Kubernetes' own module takes its
# libraries from its source tree; here they are the released modules of the same version.
#
#   ./require.sh FILE KUBERNETES COREDNS ETCD
#   ./require.sh go.mod    v1.36.3 v1.14.7 v3.6.16
#   ./require.sh older.mod v1.34.4 v1.12.4 v3.6.16
#
# CoreDNS has to be one that wants no newer Kubernetes libraries and etcd than these, or the
# version of etcd rises with it. The versions are repeated in stores/pin.go; a test compares.
#
# If the tests use libraries of the same minor version, all that both need is built in the versions of
# the tests, newer patches of those libraries included: a third of Kubernetes is compiled by then. The
# same test says when they differ. Where Kubernetes or CoreDNS want something newer, raise it in the
# modules of the tests and of the product first (go get MODULE@VERSION).
set -euo pipefail
cd "$(dirname "$0")"
[ $# = 4 ] || { sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0" >&2; exit 2; }
file=$1 kubernetes=$2 coredns=$3 etcd=$4
export GOFLAGS=-mod=mod

libraries=v0.${kubernetes#v1.}
shared=
tests=$(cd ../.. && go list -m -f '{{.Version}}' k8s.io/client-go)
if [ "${tests%.*}" = "${libraries%.*}" ]; then
	libraries=$tests
	shared=$(cd ../.. && go list -m -f '{{if and .Version (not .Replace)}}{{.Path}} {{.Version}}{{end}}' all | grep -v '^k8s.io/kubernetes ')
fi

theirs=$(cd "$(mktemp -d)" && go mod download -json "k8s.io/kubernetes@$kubernetes" | sed -n 's/^.*"GoMod": "\(.*\)".*$/\1/p')
{
	printf 'module druid.internal/druid/test/cmd/kubernetes\n\ngo 1.26.0\n\n'
	printf 'require (\n\tgithub.com/coredns/coredns %s\n\tgo.etcd.io/etcd/server/v3 %s\n\tk8s.io/kubernetes %s\n)\n\n' "$coredns" "$etcd" "$kubernetes"
	if [ -n "$shared" ]; then
		printf 'require (\n%s\n)\n\n' "$(sed 's/^/\t/; s/$/ \/\/ indirect/' <<<"$shared")"
	fi
	printf 'replace (\n'
	grep -oE '^\s*k8s.io/[a-z-]+ => \./staging' "$theirs" | awk -v v="$libraries" '{print "\t" $1 " => " $1 " " v}' | sort -u
	printf ')\n'
} >"$file"
rm -f "${file%.mod}.sum"
go mod tidy -modfile="$file"
