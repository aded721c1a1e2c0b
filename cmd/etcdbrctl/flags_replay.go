package main

import (
	"context"

	"github.com/spf13/pflag"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/replay"
)

// replayFlags bound what a verb uses that replays a chain.
type replayFlags struct {
	memory  bytesFlag
	scratch string

	ignoreExclusions bool
}

func (f *replayFlags) add(flags *pflag.FlagSet) {
	f.addWith(flags, "directory with room for two databases, made if need be; default: the system's temporary directory")
}

func (f *replayFlags) addWith(flags *pflag.FlagSet, scratch string) {
	flags.Var(&f.memory, "memory-limit", "bytes the replay may keep in memory, for example 128Mi; more is spilled to disk; 0: 512Mi")
	flags.StringVar(&f.scratch, "restoration-temp-snapshots-dir", "", scratch)
}

// addExclusions adds the flag that uses excluded snapshots, for verbs that change nothing in the bucket.
func (f *replayFlags) addExclusions(flags *pflag.FlagSet) {
	flags.BoolVar(&f.ignoreExclusions, "ignore-exclusions", false, "use excluded snapshots like others")
}

// replaying is a backup that is about to be replayed.
type replaying struct {
	*backup
	from    replay.Options
	shown   *progress
	release func() // what is left in the directory for temporary data
}

// openReplay opens the backup that from names and says how to replay it. Nothing is written yet.
func (a *app) openReplay(ctx context.Context, from storeFlags, target targetFlags, f replayFlags) (*replaying, error) {
	to, err := target.target()
	if err != nil {
		return nil, err
	}
	// Damage may lead to any snapshot, so it must be known of each whether it is excluded.
	b, err := a.openBackup(ctx, from, catalog.Options{Tags: catalog.TagsOfAll, IgnoreExclusions: f.ignoreExclusions})
	if err != nil {
		return nil, err
	}
	p := newProgress(a.sys.err, a.log)
	return &replaying{backup: b, shown: p, release: func() {}, from: replay.Options{
		Store: b.store, Timeline: b.catalog.Timeline, Target: to, Lineage: target.lineage.id,
		AcceptLossTo: snapshot.Revision(target.acceptLossTo), Ranges: from.parallelUploads, ReadAhead: readAhead(int64(f.memory)),
		Progress: p.report, Log: a.log}}, nil
}

// prepare makes the directory for temporary data and bounds this process's memory.
func (r *replaying) prepare(f replayFlags) (err error) {
	r.release, err = makeScratch(f.scratch)
	if err == nil {
		limitMemory(int64(f.memory))
	}
	return err
}
