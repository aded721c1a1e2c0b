package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"druid.internal/druid/internal/engine/copier"
)

func (a *app) copyCommand() *cobra.Command {
	var (
		from, to           storeFlags
		out                outputFlag
		maxBackups         int
		maxAge, parallel   int
		waitFinal          bool
		waitTimeout        time.Duration
		record             string
		readBack, takeOver bool
		dryRun             bool
	)
	cmd := &cobra.Command{
		Use:   "copy",
		Short: "Copy snapshots to another bucket or prefix, digests checked, resumable",
		Long: `Copy snapshots to another bucket or prefix, digests checked, resumable.

Objects with a manifest are copied inside the store where it can do that, and the copy is read back; all others
are streamed. What is compared is the SHA-256 of the whole object that its manifest tells, or of the payload that
the header of a native delta tells. The original records none: of its objects the SHA-256 of what was read and
sent is reported. The column PROOF tells which it was. What is there already counts only if its content is proven:
it is read again where it has neither a version ID nor a lock, or is younger than its manifest, unless --copy-manifest
recorded it and its modification time is still the same.

Fulls come before their deltas, so what has arrived is restorable. Nothing at the destination is overwritten or
deleted; run it again after an interruption.`,
		Example: `  etcdbrctl copy --source-storage-provider=S3 --source-store-container=old --source-store-prefix=ns--uid/etcd-main \
      --storage-provider=S3 --store-container=new --store-prefix=ns--uid/etcd-main`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			source, err := a.openStore(cmd.Context(), from)
			if err != nil {
				return err
			}
			target, err := a.openStore(cmd.Context(), to)
			if err != nil {
				return err
			}
			p := newProgress(a.sys.err, a.log)
			o := copier.Options{MaxBackups: maxBackups, MaxAge: copier.All, Verify: readBack, TakeOver: takeOver, Parallel: parallel,
				Ranges: to.parallelUploads, Log: a.log, Progress: p.report}
			if maxAge >= 0 {
				o.MaxAge = time.Duration(maxAge) * 24 * time.Hour
			}
			if record != "" {
				if o.State, err = copier.OpenState(record); err != nil {
					return &usageError{fmt.Errorf("--copy-manifest: %w", err)}
				}
			}
			c, err := copier.New(copier.Source{Store: source, Prefix: from.prefix}, copier.Destination{Store: target, Prefix: to.prefix}, o)
			if err != nil {
				return &usageError{err}
			}
			if waitFinal {
				waited, err := c.WaitForFinal(cmd.Context(), waitTimeout)
				if err != nil {
					return err
				}
				if waited.Note != "" {
					a.log.Warn(waited.Note)
				}
			}
			plan, err := c.Plan(cmd.Context())
			if err != nil {
				return err
			}
			if dryRun {
				return out.print(a.sys.out, plan, plan.WriteTable)
			}
			if err := plan.WriteTable(a.sys.err); err != nil {
				return err
			}
			report, err := c.Execute(cmd.Context(), plan)
			p.end()
			if printErr := out.print(a.sys.out, report, report.WriteTable); printErr != nil && err == nil {
				err = printErr
			}
			return err
		},
	}
	flags := cmd.Flags()
	from.add(flags, sourceSet, "the store to copy from")
	to.add(flags, "", "the store to copy to")
	to.addLock(flags)
	out.add(flags)
	flags.IntVar(&maxBackups, "max-backups-to-copy", -1, "copy so many of the newest fulls, each with its deltas; -1: all")
	flags.IntVar(&maxAge, "max-backup-age", -1, "leave out fulls that are older, in days, with their deltas; -1: none")
	flags.IntVar(&parallel, "max-parallel-copy-operations", 10, "objects copied at the same time")
	flags.BoolVar(&waitFinal, "wait-for-final-snapshot", false, "wait until one of the latest 4 fulls at the source is final, and none goes further")
	flags.DurationVar(&waitTimeout, "wait-for-final-snapshot-timeout", 0, "copy anyway after so long; 0: wait for ever")
	flags.StringVar(&record, "copy-manifest", "", "local file that records the state of each object (None, Copied or NotFound), so that the next run need not read again what this one proved")
	flags.BoolVar(&readBack, "verify", false, "read back also what was streamed, and what was there and proven already")
	flags.BoolVar(&takeOver, "take-over", false, "copy even into a prefix that holds another history or has another owner")
	flags.BoolVar(&dryRun, "dry-run", false, "print the plan and stop")
	return cmd
}
