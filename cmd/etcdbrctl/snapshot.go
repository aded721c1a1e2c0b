package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"druid.internal/druid/internal/engine/snapshotter"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/member"
)

func (a *app) snapshotCommand() *cobra.Command {
	var (
		to          storeFlags
		etcd        etcdFlags
		packing     compressionFlags
		schedule    string
		deltaPeriod time.Duration
		deltaLimit  bytesFlag
		format      string
		dataDir     string
		owner       string
		takeOver    bool
		multiplier  float64
		attempts    int
		threshold   time.Duration
		once        bool
	)
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Back up a running etcd until stopped: fulls by schedule, deltas in between",
		Long: `Back up a running etcd until stopped: fulls by schedule, deltas in between.

Everything is streamed into the store as it comes and written once. The first writer claims the
prefix; another one is refused until it says --take-over. With --data-dir the lineage is kept
beside the data, which is the surest way to recognise a history again. Events that find no room, because
the disk for temporary data is full, are dropped and said; they are fetched from etcd again and uploaded in
small deltas, and a full makes up for what is too large even for that.

With --once it takes one full, reads it back as verify does, prints its name and ends: exit code 0
means exactly one verified full. It takes no deltas, and the next run of the same etcd continues.`,
		Example: `  etcdbrctl snapshot --endpoints=https://etcd-main:2379 --storage-provider=S3 --store-container=backups --store-prefix=ns--uid/etcd-main
  etcdbrctl snapshot --once --endpoints=https://etcd-main:2379 --storage-provider=S3 --store-container=backups --store-prefix=ns--uid/etcd-main`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config := snapshotter.Config{
				Prefix: to.prefix, DeltaPeriod: deltaPeriod, DeltaLimit: int64(deltaLimit), SpillDir: to.tempDir,
				StreamTimeout: etcd.streamTimeout, Owner: owner, OwnerNote: ownerNote(), TakeOver: takeOver,
				Retry:  snapshotter.Backoff{Max: threshold, Multiply: multiplier, Attempts: attempts},
				Writer: writer(), Log: a.log,
			}
			shown := newProgress(a.sys.err, a.log)
			config.Progress = func(p snapshotter.Progress) {
				shown.report("full snapshot", p.Read, p.Total)
				if p.Over {
					shown.end()
				}
			}
			if once {
				for _, name := range []string{"schedule", "delta-snapshot-period"} {
					if cmd.Flags().Changed(name) {
						return &usageError{fmt.Errorf("--once contradicts --%s: it takes one full snapshot and no deltas", name)}
					}
				}
			}
			var err error
			switch config.Format = codec.Format(format); config.Format {
			case codec.Native, codec.V2JSON:
			default:
				return &usageError{fmt.Errorf("--snapshot-format %q is neither %s nor %s", format, codec.Native, codec.V2JSON)}
			}
			if config.Compression, err = packing.build(config.Format); err != nil {
				return err
			}
			config.DeltaCompression = config.Compression
			if config.DeltaPeriod < time.Second {
				config.DeltaPeriod = 0 // as the original: below a second means no deltas
				a.log.Warn("no deltas are taken: --delta-snapshot-period is below one second")
			}
			if schedule != "" {
				if config.Schedule, err = snapshotter.ParseSchedule(schedule); err != nil {
					return &usageError{fmt.Errorf("--schedule: %w", err)}
				}
			}
			if dataDir != "" {
				if _, err := os.Stat(dataDir); err != nil {
					return &usageError{fmt.Errorf("--data-dir: %w; leave it out if the data directory is not on this machine", err)}
				}
				config.Data = snapshotter.DataDir(dataDir)
			}
			connection, err := etcd.config()
			if err != nil {
				return err
			}
			cluster, err := member.New(connection)
			if err != nil {
				return err
			}
			defer cluster.Close()
			config.Connect = func(ctx context.Context) (snapshotter.Member, error) {
				m, err := cluster.Member(ctx)
				if err != nil {
					return nil, err
				}
				return m, nil
			}
			if config.Store, err = a.openStore(cmd.Context(), to); err != nil {
				return err
			}
			if once {
				return a.snapshotOnce(cmd.Context(), config)
			}
			s, err := snapshotter.New(config)
			if err != nil {
				return &usageError{err}
			}
			if err := s.Run(cmd.Context()); err != nil {
				return err
			}
			a.log.Info("stopped", "cause", context.Cause(cmd.Context()))
			err = s.BackedUp()
			if errors.Is(err, snapshotter.ErrNoBackup) && exitCode(err) == exitFailure {
				err = fmt.Errorf("%w: %w", err, context.Cause(cmd.Context()))
			}
			return err
		},
	}
	flags := cmd.Flags()
	to.add(flags, "", "the store")
	to.addLock(flags)
	etcd.add(flags)
	packing.add(cmd)
	flags.StringVarP(&schedule, "schedule", "s", "0 */1 * * *", "cron expression for fulls, five fields, in UTC unless it begins with CRON_TZ=ZONE; where clocks change, a run at a skipped time comes at the change, and a run at a repeated time is made once; empty: only when needed")
	flags.Lookup("schedule").Annotations = map[string][]string{mayBeEmpty: {"only the fulls that are needed"}}
	flags.DurationVar(&deltaPeriod, "delta-snapshot-period", 20*time.Second, "longest time between a change and its delta; below 1s: no deltas")
	deltaLimit = 10 << 20
	flags.Var(&deltaLimit, "delta-snapshot-memory-limit", "cut a delta earlier when it has as many bytes before packing; what outgrows memory is spilled to --snapstore-temp-directory")
	flags.StringVar(&format, "snapshot-format", string(codec.Native), "encoding of deltas: native, or v2-json, which the original can read")
	flags.BoolVar(&once, "once", false, "take one full snapshot, verify it, print its name and end; needs room for two databases in --snapstore-temp-directory")
	flags.StringVarP(&dataDir, "data-dir", "d", "", "the etcd's data directory, if it is on this machine: the lineage is kept there; that of another etcd is refused")
	flags.StringVar(&owner, "owner", "", "who owns the prefix, for example the cluster's UID; default: the lineage of the data")
	flags.BoolVar(&takeOver, "take-over", false, "write although another owner has claimed the prefix")
	flags.Float64Var(&multiplier, "backoff-multiplier", 2, "how much longer each further wait after a failure is")
	flags.IntVar(&attempts, "backoff-attempt-limit", 6, "give up when so many attempts in a row to begin could not do anything; 0: never")
	flags.DurationVar(&threshold, "backoff-threshold-time", 128*time.Second, "longest wait after a failure")
	acceptWithoutEffect(flags, "snapshot deletes nothing; see `etcdbrctl collect`", "garbage-collection-period", "garbage-collection-policy", "max-backups", "delta-snapshot-retention-period")
	acceptWithoutEffect(flags, "snapshot does not defragment", "etcd-defrag-timeout", "defragmentation-schedule")
	return cmd
}

// ownerNote tells people who wrote an owner record.
func ownerNote() string {
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	return fmt.Sprintf("etcdbrctl %s on %s", version, host)
}
