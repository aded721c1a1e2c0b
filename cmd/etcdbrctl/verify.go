package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/engine/verifier"
)

func (a *app) verifyCommand() *cobra.Command {
	var (
		from   storeFlags
		target targetFlags
		out    outputFlag
		limits replayFlags
		all    bool
	)
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Read a whole chain and prove that it can be restored, without etcd",
		Long: `Read a whole chain and prove that it can be restored, without etcd.

The newest chain (or the one of --to-revision, --to-time, --snapshot) is replayed as restore
would: digests, trailer, no gap, every key's history, every page, HashKV where etcd told it.
The result is thrown away; room for two databases is needed meanwhile.

With --all the deltas between two fulls must also lead to the content of the later one. If they do
not, the watch that they come from lacked an event, and the verdict names them.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			to, err := target.target()
			if err != nil {
				return err
			}
			if all && !to.IsLatest() {
				return &usageError{fmt.Errorf("--all contradicts --to-revision, --to-time and --snapshot")}
			}
			b, err := a.openReplay(cmd.Context(), from, target, limits)
			if err != nil {
				return err
			}
			if err := b.prepare(limits); err != nil {
				return err
			}
			defer b.release()
			report, err := verifier.Verify(cmd.Context(), verifier.Request{
				From: b.from, All: all, ScratchDir: limits.scratch, KeepFree: keepFree, MemoryLimit: int64(limits.memory), Verified: func(verifier.Chain) { b.shown.end() },
			})
			b.shown.end()
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
	limits.add(flags)
	limits.addExclusions(flags)
	return cmd
}

func verifyTable(w io.Writer, r *verifier.Report) error {
	rows := [][]string{{"CHAIN", "DELTAS", "TO REVISION", "KEYS", "READ", "TOOK", "VERDICT"}}
	for _, c := range r.Chains {
		verdict := "restorable"
		if c.BaseHashKV {
			verdict += ", HashKV of the full as etcd told"
		}
		if c.Next != "" {
			verdict += ", leads to the content of " + c.Next
		}
		switch {
		case c.Code != "":
			verdict = "WRONG: " + c.Reason
		case !c.OK:
			verdict = "BROKEN: " + c.Reason
		}
		rows = append(rows, []string{c.Base, fmt.Sprint(c.Deltas), fmt.Sprint(c.End), fmt.Sprint(c.Keys), bytesString(c.Bytes),
			(time.Duration(c.Seconds * float64(time.Second))).Round(time.Millisecond).String(), verdict})
	}
	return columns(w, rows)
}
