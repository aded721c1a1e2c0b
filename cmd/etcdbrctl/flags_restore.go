package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"druid.internal/druid/internal/agent/config"
	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/restorer"
	"druid.internal/druid/internal/etcd/datadir"
)

// targetFlags say which state to restore.
type targetFlags struct {
	revision, acceptLossTo, lastKnown int64
	time, snapshot                    string
	lineage                           string
	lineageGiven                      func() bool
}

func (f *targetFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Int64Var(&f.revision, "to-revision", 0, "restore the state at this revision")
	flags.StringVar(&f.time, "to-time", "", "restore the state after the last revision received at or before this time (RFC 3339, for example 2026-11-20T10:00:00Z)")
	flags.StringVar(&f.snapshot, "snapshot", "", "restore the state at the end of the snapshot of this name")
	flags.Int64Var(&f.acceptLossTo, "accept-loss-to", 0, "allow the result to end before the newest known revision, but not before this one")
	flags.StringVar(&f.lineage, "lineage", "", "restore from this lineage `ID` instead of the newest; unnamed: from snapshots without one")
	f.lineageGiven = func() bool { return flags.Changed("lineage") }
}

func (f *targetFlags) target() (restoreplan.Target, error) {
	given := 0
	var t restoreplan.Target
	if f.revision != 0 {
		given++
		if f.revision < 0 {
			return t, &usageError{fmt.Errorf("--to-revision must be above 0")}
		}
		t = restoreplan.AtRevision(snapshot.Revision(f.revision))
	}
	if f.time != "" {
		given++
		at, err := time.Parse(time.RFC3339Nano, f.time)
		if err != nil {
			return t, &usageError{fmt.Errorf("--to-time %q is not a time like 2026-11-20T10:00:00Z", f.time)}
		}
		t = restoreplan.AtTime(at)
	}
	if f.snapshot != "" {
		given++
		n, err := snapshot.ParseName(f.snapshot)
		if err != nil {
			return t, &usageError{fmt.Errorf("--snapshot: %w; `etcdbrctl list` shows the names", err)}
		}
		t = restoreplan.Snapshot(n)
	}
	if given > 1 {
		return t, &usageError{fmt.Errorf("give only one of --to-revision, --to-time and --snapshot")}
	}
	if f.acceptLossTo < 0 {
		return t, &usageError{fmt.Errorf("--accept-loss-to must be above 0")}
	}
	return t, nil
}

// unnamedLineage is what users type for the lineage without an id.
const unnamedLineage = "unnamed"

func (f *targetFlags) lineageID() *snapshot.LineageID {
	if !f.lineageGiven() {
		return nil
	}
	id := snapshot.LineageID(f.lineage)
	if f.lineage == unnamedLineage {
		id = ""
	}
	return &id
}

// clusterFlags describe the new cluster that a restored directory belongs to.
type clusterFlags struct {
	dataDir, name, cluster, token string
	peerURLs                      []string
}

func (f *clusterFlags) add(flags *pflag.FlagSet) {
	flags.StringVarP(&f.dataDir, "data-dir", "d", "default.etcd", "data directory to make")
	flags.StringVar(&f.name, "name", "default", "name of this member")
	flags.StringVar(&f.cluster, "initial-cluster", "default=http://localhost:2380", "all members: NAME=PEERURL,NAME=PEERURL,...")
	flags.StringVar(&f.token, "initial-cluster-token", "", "token of the new cluster; default: a new one, so that no forgotten member of the old cluster can join")
	flags.StringSliceVar(&f.peerURLs, "initial-advertise-peer-urls", []string{"http://localhost:2380"}, "this member's own peer URLs")
}

func (f *clusterFlags) membership(lineage snapshot.LineageID) datadir.Membership {
	token := f.token
	if token == "" {
		token = "etcd-cluster-" + string(lineage)
	}
	return datadir.Membership{Name: f.name, InitialCluster: f.cluster, Token: token, PeerURLs: f.peerURLs}
}

// bumpFlag is --bump-revision.
type bumpFlag struct{ restorer.Bump }

func (b *bumpFlag) Type() string { return "0|N|auto" }
func (b *bumpFlag) Set(s string) (err error) {
	b.Bump, err = restorer.ParseBump(s)
	return err
}

// bytesFlag is a number of bytes with an optional unit: 128Mi, 1Gi, 500M, 1048576.
type bytesFlag int64

func (b *bytesFlag) Type() string   { return "bytes" }
func (b *bytesFlag) String() string { return strconv.FormatInt(int64(*b), 10) }
func (b *bytesFlag) Set(s string) error {
	n, err := config.ParseBytes(s)
	*b = bytesFlag(n)
	return err
}
