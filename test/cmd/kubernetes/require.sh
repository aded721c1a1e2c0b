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
set -euo pipefail
cd "$(dirname "$0")"
[ $# = 4 ] || { sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0" >&2; exit 2; }
file=$1 kubernetes=$2 coredns=$3 etcd=$4

theirs=$(cd "$(mktemp -d)" && GOFLAGS=-mod=mod go mod download -json "k8s.io/kubernetes@$kubernetes" | sed -n 's/^.*"GoMod": "\(.*\)".*$/\1/p')
{
	printf 'module druid.internal/druid/test/cmd/kubernetes\n\ngo 1.26.0\n\n'
	printf 'require (\n\tgithub.com/coredns/coredns %s\n\tgo.etcd.io/etcd/server/v3 %s\n\tk8s.io/kubernetes %s\n)\n\n' "$coredns" "$etcd" "$kubernetes"
	printf 'replace (\n'
	grep -oE '^\s*k8s.io/[a-z-]+ => \./staging' "$theirs" | awk -v v="v0.${kubernetes#v1.}" '{print "\t" $1 " => " $1 " " v}' | sort -u
	printf ')\n'
} >"$file"
rm -f "${file%.mod}.sum"
GOFLAGS=-mod=mod go mod tidy -modfile="$file"
