package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/engine/verifier"
)

func (a *app) verifyCommand() *cobra.Command {
	var (
		from    storeFlags
		target  targetFlags
		out     outputFlag
		memory  bytesFlag
		all     bool
		scratch string
	)
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Read a whole chain and prove that it can be restored, without etcd",
		Long: `Read a whole chain and prove that it can be restored, without etcd.

The newest chain (or the one of --to-revision, --to-time, --snapshot) is replayed as restore
would: digests, trailer, no gap, every key's history, every page, HashKV where etcd told it.
The result is thrown away; room for one database is needed meanwhile.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := target.target()
			if err != nil {
				return err
			}
			if all && (target.revision != 0 || target.time != "" || target.snapshot != "") {
				return &usageError{fmt.Errorf("--all contradicts --to-revision, --to-time and --snapshot")}
			}
			b, err := a.openBackup(cmd.Context(), from)
			if err != nil {
				return err
			}
			p := newProgress(a.sys.err, a.log)
			removeScratch, err := makeScratch(scratch)
			if err != nil {
				return err
			}
			defer removeScratch()
			limitMemory(int64(memory))
			report, err := verifier.Verify(cmd.Context(), verifier.Request{
				From: replay.Options{Store: b.store, Timeline: b.catalog.Timeline, Target: t, Lineage: target.lineageID(),
					AcceptLossTo: snapshot.Revision(target.acceptLossTo), Ranges: from.parallelUploads, ReadAhead: readAhead(int64(memory)), Progress: p.report, Log: a.log},
				All: all, ScratchDir: scratch, MemoryLimit: int64(memory), Verified: func(verifier.Chain) { p.end() },
			})
			p.end()
			var loss *restoreplan.LossError
			if errors.As(err, &loss) { // refused when restoring; here it is the answer
				return fmt.Errorf("%w: %w", verifier.ErrBroken, b.withFindings(err))
			}
			if err != nil && !errors.Is(err, verifier.ErrBroken) {
				return b.withFindings(err)
			}
			if printErr := out.print(a.sys.out, report, func(w io.Writer) error { return verifyTable(w, report) }); printErr != nil {
				return printErr
			}
			return err
		},
	}
	flags := cmd.Flags()
	from.add(flags, "", "the store")
	target.add(cmd)
	out.add(flags)
	flags.BoolVar(&all, "all", false, "verify every full of every lineage, each with the deltas up to the next good one")
	flags.Var(&memory, "memory-limit", "bytes the replay may keep in memory, for example 128Mi; more is spilled to disk; 0: 512Mi")
	flags.StringVar(&scratch, "restoration-temp-snapshots-dir", "", "directory with room for one database, made if need be; default: the system's temporary directory")
	return cmd
}

func verifyTable(w io.Writer, r *verifier.Report) error {
	rows := [][]string{{"CHAIN", "DELTAS", "TO REVISION", "KEYS", "READ", "TOOK", "VERDICT"}}
	for _, c := range r.Chains {
		verdict := "restorable"
		if c.BaseHashKV {
			verdict += ", HashKV of the full as etcd told"
		}
		if !c.OK {
			verdict = "BROKEN: " + c.Reason
		}
		rows = append(rows, []string{c.Base, fmt.Sprint(c.Deltas), fmt.Sprint(c.End), fmt.Sprint(c.Keys), bytesString(c.Bytes),
			(time.Duration(c.Seconds * float64(time.Second))).Round(time.Millisecond).String(), verdict})
	}
	return columns(w, rows)
}
