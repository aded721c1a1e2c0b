// Command etcd35 is a real etcd of the minor version before the one that members run, whose data
// they have to take over. It is a module of its own, since two minor versions of one module cannot
// be built together.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
