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
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the timeline of a backup: fulls, deltas, gaps, protection, and what one can restore to",
		Long: `Show the timeline of a backup: fulls, deltas, gaps, protection, and what one can restore to.

A chain is a full with its deltas; it is protected until the first of them is not any more. In -o json the digest
of a snapshot is the SHA-256 of the whole stored object; where "digestOf" is "payload", of a native delta without
its header.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := a.openBackup(cmd.Context(), from, catalog.Options{Retention: true, Tags: catalog.TagsOfAll})
			if err != nil {
				return err
			}
			locks := map[timeline.Ref]*immutability.Retention{}
			for ref, o := range b.catalog.Objects.All() {
				locks[ref] = o.Retention
			}
			caps := b.store.Capabilities()
			v := newListView(caps.Provider+" "+caps.Location, b.catalog.Prefix, b.catalog.Timeline, locks)
			return out.print(a.sys.out, v, func(w io.Writer) error { return v.table(w, terminalWidth(w), all) })
		},
	}
	from.add(cmd.Flags(), "", "the store")
	out.add(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all", false, "list every snapshot also of a lineage with more than 60 of them")
	return cmd
}
