// Command etcd3512 is a real etcd 3.5.12, whose watch from a compacted revision lacks the deletions
// of that revision. It is a module of its own, since two versions of one module cannot be built
// together.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
