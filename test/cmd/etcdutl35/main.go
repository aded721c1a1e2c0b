// Command etcdutl35 is etcd's own tool for data directories, of the minor version before the one that
// members run: it restores what an etcd of that version shall go on with. It is a module of its own,
// since two minor versions of one module cannot be built together.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
)

func main() {
	root := &cobra.Command{Use: "etcdutl", SilenceUsage: true}
	root.AddCommand(etcdutl.NewSnapshotCommand())
	root.PersistentFlags().StringVarP(&etcdutl.OutputFormat, "write-out", "w", "simple", "form of the output")
	if root.Execute() != nil {
		os.Exit(1)
	}
}
