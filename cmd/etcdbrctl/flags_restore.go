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

// targetFlags name the state to restore. Each flag parses its value when it is given, and refuses an
// empty or zero one: an unset variable of a script must not become the newest state.
type targetFlags struct {
	revision, acceptLossTo, lastKnown revisionFlag
	time                              timeFlag
	snapshot                          nameFlag
	lineage                           lineageFlag
}

func (f *targetFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var(&f.revision, "to-revision", "restore the state at this revision")
	flags.Var(&f.time, "to-time", "restore the state after the last revision received at or before this time (RFC 3339, for example 2026-11-20T10:00:00Z or 2026-11-20T11:00:00+01:00); refused if the backup ends before it")
	flags.Var(&f.snapshot, "snapshot", "restore the state at the end of the snapshot of this `NAME`")
	flags.Var(&f.acceptLossTo, "accept-loss-to", "allow the result to end before the target, or before the newest known revision, but not before this `REVISION`")
	flags.Var(&f.lineage, "lineage", "restore from this lineage `ID` instead of the newest; unnamed: from snapshots without one")
}

// target is the state that the flags name, or the newest one.
func (f *targetFlags) target() (restoreplan.Target, error) {
	var named []restoreplan.Target
	if f.revision != 0 {
		named = append(named, restoreplan.AtRevision(snapshot.Revision(f.revision)))
	}
	if f.time.given {
		named = append(named, restoreplan.AtTime(f.time.Time))
	}
	if f.snapshot.Kind != "" {
		named = append(named, restoreplan.Snapshot(f.snapshot.Name))
	}
	switch len(named) {
	case 0:
		return restoreplan.Latest(), nil
	case 1:
		return named[0], nil
	}
	return restoreplan.Target{}, &usageError{fmt.Errorf("give only one of --to-revision, --to-time and --snapshot")}
}

// revisionFlag is a revision; 0: it was not given.
type revisionFlag snapshot.Revision

func (r *revisionFlag) Type() string   { return "int" }
func (r *revisionFlag) String() string { return strconv.FormatInt(int64(*r), 10) }
func (r *revisionFlag) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a revision, which is a number above 0", s)
	}
	*r = revisionFlag(n)
	return nil
}

// timeFlag is a moment, which may be the zero time.
type timeFlag struct {
	time.Time
	given bool
}

func (t *timeFlag) Type() string { return "time" }
func (t *timeFlag) String() string {
	if !t.given {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

func (t *timeFlag) Set(s string) error {
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return fmt.Errorf("%q is not a time like 2026-11-20T10:00:00Z", s)
	}
	t.Time, t.given = at, true
	return nil
}

// nameFlag is the name of a snapshot; the zero one: it was not given.
type nameFlag struct{ snapshot.Name }

func (n *nameFlag) Type() string { return "name" }
func (n *nameFlag) String() string {
	if n.Kind == "" {
		return ""
	}
	return n.Name.String()
}

func (n *nameFlag) Set(s string) (err error) {
	if n.Name, err = snapshot.ParseName(s); err != nil {
		return fmt.Errorf("%w; `etcdbrctl list` shows the names", err)
	}
	return nil
}

// unnamedLineage is what users type for the lineage without an id.
const unnamedLineage = "unnamed"

// lineageFlag is the id of a lineage; nil: it was not given.
type lineageFlag struct{ id *snapshot.LineageID }

func (l *lineageFlag) Type() string { return "lineage" }
func (l *lineageFlag) String() string {
	switch {
	case l.id == nil:
		return ""
	case *l.id == "":
		return unnamedLineage
	}
	return string(*l.id)
}

func (l *lineageFlag) Set(s string) error {
	if s == "" {
		return fmt.Errorf("%q is not a lineage; `etcdbrctl list` shows the ids, and %s is the lineage without one", s, unnamedLineage)
	}
	id := snapshot.LineageID(s)
	if s == unnamedLineage {
		id = ""
	}
	l.id = &id
	return nil
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
