package main

import (
	"io"

	"github.com/spf13/cobra"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
)

func (a *app) listCommand() *cobra.Command {
	var from storeFlags
	var out outputFlag
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the timeline of a backup: fulls, deltas, gaps, protection, and what one can restore to",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := a.openBackupWith(cmd.Context(), from, catalog.Options{Retention: true})
			if err != nil {
				return err
			}
			locks := map[timeline.Ref]*immutability.Retention{}
			for ref, o := range b.catalog.Objects {
				locks[ref] = o.Retention
			}
			caps := b.store.Capabilities()
			v := newListView(caps.Provider+" "+caps.Location, b.catalog.Prefix, b.catalog.Timeline, locks)
			return out.print(a.sys.out, v, func(w io.Writer) error { return v.table(w, terminalWidth(w)) })
		},
	}
	from.add(cmd.Flags(), "", "the store")
	out.add(cmd.Flags())
	return cmd
}
