// Command etcd is the real etcd server, built from the same modules as the product. The
// upstream module cannot be installed by `go install module@version` because of its replace
// directives, hence this one line. Tests run it as a process of its own, so that killing it
// is what a crash is.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
