package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/excluder"
)

func (a *app) excludeCommand() *cobra.Command {
	var leaveNothing bool
	var reason string
	cmd := a.exclusionCommand(&cobra.Command{
		Use:   "exclude NAME...",
		Short: "Leave snapshots out of restores without deleting them, also where they are locked",
		Long: `Leave snapshots out of restores without deleting them, also where they are locked.

The tag x-etcd-snapshot-exclude=true says it, on a store without tags a small object beside the snapshot. Nothing is
deleted, and include takes it back. restore, verify, compact and copy leave out what is excluded, and say so;
--ignore-exclusions uses it all the same. What can be restored before and after is printed.

Copies of a snapshot that extend-snapshot-immutability made go with it, and are told.

The last chain that a lineage can be restored from is excluded only with --yes-leave-nothing.

The original's restore believes the tag on S3 only where a delete marker hides the snapshot, too.`,
		Example: `  etcdbrctl exclude --storage-provider=S3 --store-container=backups --store-prefix=ns--uid/etcd-main \
      --reason="written by the faulty release" Full-00000000-00009002-1565021494.zst`,
	}, func(q *excluder.Request) { q.Reason, q.LeaveNothing = reason, leaveNothing })
	cmd.Flags().BoolVar(&leaveNothing, "yes-leave-nothing", false, "exclude also the last chain that a lineage can be restored from")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for people; kept only on a store without tags, where a small object tells the exclusion; else the output says that it is not")
	return cmd
}

func (a *app) includeCommand() *cobra.Command {
	return a.exclusionCommand(&cobra.Command{
		Use:   "include NAME...",
		Short: "Take back what exclude did",
		Long:  "Take back what exclude did: restores use the snapshots again, and copies that extend-snapshot-immutability made of them.",
		Example: `  etcdbrctl include --storage-provider=S3 --store-container=backups --store-prefix=ns--uid/etcd-main \
      Full-00000000-00009002-1565021494.zst`,
	}, func(q *excluder.Request) { q.Include = true })
}

// exclusionCommand adds to cmd what exclude and include have in common.
func (a *app) exclusionCommand(cmd *cobra.Command, set func(*excluder.Request)) *cobra.Command {
	var from storeFlags
	var out outputFlag
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return &usageError{errors.New("name at least one snapshot; `etcdbrctl list` shows the names")}
		}
		var names []snapshot.Name
		for _, arg := range args {
			n, err := snapshot.ParseName(arg)
			if err != nil {
				return &usageError{fmt.Errorf("%w; `etcdbrctl list` shows the names", err)}
			}
			names = append(names, n)
		}
		s, err := a.openStore(cmd.Context(), from)
		if err != nil {
			return err
		}
		q := excluder.Request{Store: s, Prefix: from.prefix, Names: names}
		set(&q)
		report, err := excluder.Run(cmd.Context(), q)
		if err != nil && len(report.Changes) == 0 {
			return withRemedy(err)
		}
		if printErr := out.print(a.sys.out, report, func(w io.Writer) error { return exclusionTable(w, report) }); printErr != nil && err == nil {
			err = printErr
		}
		return err
	}
	from.add(cmd.Flags(), "", "the store")
	out.add(cmd.Flags())
	return cmd
}

func exclusionTable(w io.Writer, r excluder.Report) error {
	rows := [][]string{{"SNAPSHOT", "NOW", "BEFORE", "TOLD BY"}}
	state := map[bool]string{true: "excluded", false: "used"}
	for _, c := range r.Changes {
		by := "a record beside it"
		if c.Versions > 0 {
			by = "the tag of " + counted(c.Versions, "version")
		}
		if !c.Changed {
			by = "-"
		}
		what := c.Key
		if c.CopyOf != "" {
			what += " (a copy of " + c.CopyOf + ")"
		}
		rows = append(rows, []string{what, state[c.Excluded], state[c.Excluded != c.Changed], by})
	}
	if err := columns(w, rows); err != nil {
		return err
	}
	fmt.Fprintln(w)
	rows = [][]string{{"RESTORABLE", "LINEAGE", "REVISIONS", "FROM", "TO"}}
	for _, part := range []struct {
		when   string
		ranges []excluder.Reach
	}{{"before", r.Before}, {"now", r.After}} {
		if part.ranges == nil {
			continue // not read again, because something failed
		}
		if len(part.ranges) == 0 {
			rows = append(rows, []string{part.when, "-", "nothing"})
		}
		for _, x := range part.ranges {
			id := string(x.Lineage)
			if id == "" {
				id = unnamedLineage
			}
			rows = append(rows, []string{part.when, id, fmt.Sprintf("%d-%d", x.From, x.To), moment(x.FromTime), moment(x.ToTime)})
		}
	}
	if err := columns(w, rows); err != nil {
		return err
	}
	if r.ReasonLost != "" {
		fmt.Fprintf(w, "\nThe reason is not kept: %s.\n", r.ReasonLost)
	}
	if r.Newest {
		fmt.Fprintln(w, "\nThe newest chain has changed: what a running backup adds to it may not be restorable. Have it take a full now.")
	}
	return nil
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
