package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/store"
)

// The bounds of a listing. Anyone who can write to a bucket chooses what it lists.
const (
	// MaxObjects bounds the versions and markers of snapshots, manifests and records that a catalog
	// holds. One needs about 1.3 KB, so a catalog needs at most 260 MB. A full every day and a delta
	// every five minutes reach the bound after 300 days without garbage collection.
	MaxObjects = 200_000
	// maxForeign bounds the objects of other layouts that a catalog names. It counts the others.
	maxForeign = 10
	// maxEmpty bounds the empty snapshots and manifests that a catalog holds, each. It holds those
	// of the highest revisions and counts the others.
	maxEmpty = 100
)

// ErrFlooded is returned by Read for a prefix with more than MaxObjects snapshots.
var ErrFlooded = errors.New("too many objects")

func (r *reading) list(ctx context.Context, prefix snapshot.Prefix) error {
	limit := r.opts.maxObjects
	if limit == 0 {
		limit = MaxObjects
	}
	listed := 0
	var versions []*item // of the key that is being listed
	err := r.store.List(ctx, string(prefix), func(o store.Object) error {
		listed++
		r.progress.add(func(p *Progress) { p.Listed++ })
		key, err := snapshot.ParseKey(prefix, o.Key)
		switch {
		case o.Unreadable != nil && snapshot.IsDirectory(prefix, o.Key):
			return fmt.Errorf("%s: the snapshots in it cannot be listed: %w", o.Key, o.Unreadable)
		case o.Unreadable != nil && err != nil:
			r.addForeign(timeline.Foreign{Key: o.Key, Version: o.ID, Err: o.Unreadable})
		case err != nil:
			r.addForeign(timeline.Foreign{Key: o.Key, Version: o.ID, Err: err, Probe: snapshot.IsProbe(prefix, o.Key)})
		case len(r.items)+len(versions) >= limit:
			return fmt.Errorf("%w: more than %d versions of snapshots, manifests and records are below it, %d objects were listed in all; "+
				"delete those that no backup wrote, or move the backups to another prefix if they are locked", ErrFlooded, limit, listed)
		case len(versions) > 0 && versions[0].key != key:
			r.addVersions(versions)
			versions = append(versions[:0], &item{Object: o, key: key})
		default:
			versions = append(versions, &item{Object: o, key: key})
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.addVersions(versions)
	r.keepEmpty()
	return nil
}

// addVersions adds all versions and markers of one key, newest first. Of a snapshot or manifest
// with nothing but empty versions, it adds the newest to the empty objects, of which not all are
// kept. An empty version beside another one is kept, since it shows that someone overwrote the key.
func (r *reading) addVersions(versions []*item) {
	if len(versions) == 0 {
		return
	}
	kind := versions[0].key.Object
	if kind != snapshot.SnapshotObject && kind != snapshot.ManifestObject ||
		slices.ContainsFunc(versions, func(it *item) bool { return it.Size > 0 || it.Marker }) {
		r.items = append(r.items, versions...)
		return
	}
	if n := len(versions) - 1; n > 0 {
		r.omitted.Empty += n
		r.omitted.EmptyExample = versions[0].Key
	}
	if r.empty = append(r.empty, versions[0]); len(r.empty) >= 2*maxEmpty*emptyKinds {
		r.dropEmpty()
	}
}

func (r *reading) addForeign(f timeline.Foreign) {
	if len(r.foreign) < maxForeign {
		r.foreign = append(r.foreign, f)
		return
	}
	r.omitted.Foreign++
	if f.Probe {
		r.omitted.Probes++
	}
}

// emptyKinds is the number of kinds in dropEmpty.
const emptyKinds = 4

// dropEmpty keeps the empty objects of the highest revisions, for each kind of object: they count
// as known revisions, which a restore must not leave out silently.
func (r *reading) dropEmpty() {
	kind := func(it *item) string { return fmt.Sprint(it.key.Object, it.key.Name.Kind) }
	slices.SortStableFunc(r.empty, func(a, b *item) int { return cmp.Compare(b.key.Name.Last, a.key.Name.Last) })
	seen := map[string]int{}
	r.empty = slices.DeleteFunc(r.empty, func(it *item) bool {
		seen[kind(it)]++
		if seen[kind(it)] <= maxEmpty {
			return false
		}
		r.omitted.Empty++
		r.omitted.EmptyExample = it.Key
		return true
	})
}

// keepEmpty puts the empty objects that are kept where the listing had them.
func (r *reading) keepEmpty() {
	if len(r.empty) == 0 {
		return
	}
	r.dropEmpty()
	r.items = append(r.items, r.empty...)
	r.empty = nil
	slices.SortStableFunc(r.items, func(a, b *item) int { return cmp.Compare(a.Key, b.Key) })
}
