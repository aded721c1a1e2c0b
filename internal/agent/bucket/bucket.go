// Package bucket tells what the backups in a bucket are to the data a member has: whether there
// are any, how far they reach, and whether they are of the same history.
//
// It decides nothing, restores nothing and writes nothing. A bucket that does not answer is an
// error, never an empty one.
package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/store"
)

// Relation is what data are to the newest history in the bucket.
type Relation string

// The relations.
const (
	Same    Relation = "same"    // of that history, or of a later one that forked from it
	Other   Relation = "other"   // of another history, or of one that was left behind by a restore
	Unknown Relation = "unknown" // nothing tells
)

// Own is what is known of a member's data.
type Own struct {
	Lineage   *snapshot.Lineage // of the file beside the data; nil: there is none
	ClusterID uint64
	// HashAt is the hash of the key space at a revision; an error: it cannot be told any more.
	HashAt func(context.Context, snapshot.Revision) (snapshot.HashKV, error)
}

// Facts is what a bucket tells.
type Facts struct {
	// Empty: there is certainly no snapshot.
	Empty bool
	// Newest is the newest revision known to have been uploaded, in the newest lineage; Reach is
	// what a restore of it arrives at.
	Newest, Reach snapshot.Revision
	Lineage       snapshot.Lineage
	// Broken says why the newest state cannot be restored as it is, or is not certainly the one that is
	// meant; nil: it can.
	Broken error
	// Relation of the data to Lineage, and in one clause why it is thought so.
	Relation Relation
	Why      string
	// Catalog is what all this was read from.
	Catalog *catalog.Catalog
}

// Look reads the bucket. own is nil for a member without data.
func Look(ctx context.Context, s store.Reader, prefix snapshot.Prefix, own *Own) (Facts, error) {
	return look(ctx, s, prefix, own, nil)
}

// The bounds of LookBriefly.
const (
	// crowd is a number of objects that few backups of one etcd have.
	crowd = 20_000
	// patience is how long more than a crowd is read.
	patience = 15 * time.Second
)

// ErrCrowded is returned by LookBriefly: the bucket answers, and holds too much to be read.
var ErrCrowded = errors.New("there are too many objects to be read first")

// LookBriefly is Look for a member that can serve its data in any case. It gives up with ErrCrowded
// when reading more than a crowd of objects takes longer than patience, or when there are more
// than a catalog holds: anyone who can write to the bucket can add any number, and must not keep
// etcd from starting. A bucket that does not answer is an error as for Look, however slow it is.
func LookBriefly(ctx context.Context, s store.Reader, prefix snapshot.Prefix, own *Own, now func() time.Time) (Facts, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := now()
	f, err := look(ctx, s, prefix, own, func(p catalog.Progress) {
		if took := now().Sub(began); p.Listed+p.Read > crowd && took > patience {
			cancel(fmt.Errorf("%w: %d objects were listed and %d of them read in %s; etcdbrctl list names those that are no snapshots", ErrCrowded, p.Listed, p.Read, took.Round(time.Second)))
		}
	})
	switch cause := context.Cause(ctx); {
	case err == nil:
	case errors.Is(cause, ErrCrowded):
		return Facts{}, cause
	case errors.Is(err, catalog.ErrFlooded):
		return Facts{}, fmt.Errorf("%w: %w", ErrCrowded, err)
	}
	return f, err
}

func look(ctx context.Context, s store.Reader, prefix snapshot.Prefix, own *Own, progress func(catalog.Progress)) (Facts, error) {
	c, err := catalog.Read(ctx, s, prefix, catalog.Options{Progress: progress})
	if err != nil {
		return Facts{}, fmt.Errorf("read the bucket: %w", err)
	}
	f := Facts{Catalog: c, Relation: Unknown}
	newest := newestOf(c.Timeline)
	if newest == nil {
		f.Empty = true
		return f, nil
	}
	f.Lineage, f.Newest = newest.Lineage, newest.Newest
	plan, err := replay.Plan(replay.Options{Store: s, Timeline: c.Timeline, Target: restoreplan.Latest(), Lineage: &newest.ID})
	switch {
	case err == nil:
		if contest := c.Timeline.Contest(newest.ID); contest != "" {
			f.Broken = errors.New(contest)
		} else {
			f.Reach = plan.End
		}
	case isPlanning(err):
		f.Broken = err
	default:
		return Facts{}, err
	}
	if own != nil {
		f.Relation, f.Why = relate(ctx, c.Timeline, *newest, *own)
	}
	return f, nil
}

func isPlanning(err error) bool {
	var loss *restoreplan.LossError
	var noWay *restoreplan.NoWayError
	return errors.As(err, &loss) || errors.As(err, &noWay)
}

// newestOf is the lineage that was written last, but for those of which somebody excluded everything, as of one that was forged; nil:
// there are no snapshots. Where all are excluded they count: they are there.
func newestOf(t timeline.Timeline) (newest *timeline.Lineage) {
	for i := range t.Lineages { // newest first
		l := &t.Lineages[i]
		if len(l.Snapshots)+len(l.Missing) == 0 {
			continue
		}
		if !l.Excluded() {
			return l
		}
		newest = cmp.Or(newest, l)
	}
	return newest
}

// relate compares data with the newest lineage. The file beside the data goes first, then the
// cluster that wrote the backups, then what both tell about the same revision.
func relate(ctx context.Context, t timeline.Timeline, newest timeline.Lineage, own Own) (Relation, string) {
	cluster := newest.Cluster()
	byCluster := cluster != 0 && cluster == own.ClusterID
	if own.Lineage != nil {
		id := own.Lineage.ID
		switch {
		case id == newest.ID:
			return byHash(ctx, newest, own, fmt.Sprintf("the data directory names %s", timeline.Title(id)))
		case byCluster:
			return byHash(ctx, newest, own, fmt.Sprintf("%s was written by this cluster, whose data directory still names %s", timeline.Title(newest.ID), timeline.Title(id)))
		case newest.ID == "" && own.Lineage.Fork == 0:
			return Unknown, fmt.Sprintf("the data are of %s, the backups name no lineage", timeline.Title(id))
		case descends(t, own.Lineage.Parent, newest.ID):
			return Same, fmt.Sprintf("the data are of %s, which forked from %s and was not uploaded yet", timeline.Title(id), timeline.Title(newest.ID))
		case descends(t, newest.ID, id):
			return Other, fmt.Sprintf("the data are of %s, from which %s was restored since", timeline.Title(id), timeline.Title(newest.ID))
		}
		return Other, fmt.Sprintf("the data are of %s, the newest backups of %s", timeline.Title(id), timeline.Title(newest.ID))
	}
	switch {
	case byCluster:
		return byHash(ctx, newest, own, "the backups were written by this cluster")
	case newest.ID == "" && cluster == 0:
		return byHash(ctx, newest, own, "neither the data nor the backups name a lineage")
	case cluster != 0:
		if r, why := byHash(ctx, newest, own, ""); why != "" && r == Same {
			return r, why
		}
		return Other, fmt.Sprintf("the backups were written by cluster %x, the data are of cluster %x and name no lineage", cluster, own.ClusterID)
	}
	r, why := byHash(ctx, newest, own, "")
	if why == "" {
		return Unknown, "neither the data name a lineage nor the backups a cluster"
	}
	return r, why
}

// byHash compares the newest recorded hash that the data can still tell. otherwise is why they
// are the same if nothing can be compared; empty: nothing tells.
func byHash(ctx context.Context, l timeline.Lineage, own Own, otherwise string) (Relation, string) {
	for i := len(l.Snapshots) - 1; i >= 0 && own.HashAt != nil; i-- {
		m := l.Snapshots[i].Manifest
		if m == nil || m.HashKV == nil {
			continue
		}
		got, err := own.HashAt(ctx, m.HashKV.Revision)
		if err != nil || got.CompactRevision != m.HashKV.CompactRevision {
			break // an older one would be compacted all the more
		}
		if got != *m.HashKV {
			return Other, fmt.Sprintf("the data at revision %d have the hash %d, what was backed up has %d", got.Revision, got.Hash, m.HashKV.Hash)
		}
		return Same, fmt.Sprintf("the data have the recorded hash at revision %d", got.Revision)
	}
	if otherwise == "" {
		return Unknown, ""
	}
	return Same, otherwise
}

// descends reports whether id is ancestor, or forked from it however far back.
func descends(t timeline.Timeline, id, ancestor snapshot.LineageID) bool {
	parents := map[snapshot.LineageID]snapshot.LineageID{}
	for _, l := range t.Lineages {
		parents[l.ID] = l.Parent
	}
	for range len(parents) + 1 {
		if id == ancestor {
			return true
		}
		next, known := parents[id]
		if !known || next == "" && ancestor != "" {
			return false
		}
		id = next
	}
	return false
}
