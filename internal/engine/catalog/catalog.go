package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/store"
)

// Options say what to read besides the listing. The zero value reads what a restore and a
// snapshotter need.
type Options struct {
	// Parallel bounds the requests under way at a time; 0 means 16.
	Parallel int

	// Headers chooses the deltas whose headers are read, of those that can have one and have no
	// manifest. nil means all. A native delta whose header is not read counts as one of the
	// unnamed lineage, so leave out only what is of no interest.
	Headers func(snapshot.Name) bool

	// Tags says for which objects to ask for tags where the store does not list them.
	Tags TagPolicy

	// IgnoreExclusions counts excluded snapshots like others.
	IgnoreExclusions bool

	// SkipDigests leaves out measuring keys of several versions. They are streamed whole.
	SkipDigests bool

	// Retention asks for the lock of every snapshot and manifest where the store does not
	// list it. What the store may not tell us stays nil.
	Retention bool

	// NewestLocks asks for the locks of the newest chain of each lineage where the store does not
	// list them.
	NewestLocks bool

	// Memory, if set, remembers what is learned for the next reading.
	Memory *Memory

	// Progress, if set, is called from several goroutines, one at a time.
	Progress func(Progress)

	maxObjects int // tests need fewer objects
}

// TagPolicy says for which objects to ask for tags. The tag [ExcludeTag] takes a snapshot out
// of restores.
type TagPolicy int

// The policies. Stores that list tags (Capabilities.InlineTags) are never asked.
//
// The original believes the tag on S3 only for a key that is also hidden by a delete marker. Here
// it counts without one, so whatever a decision rests on is asked for.
const (
	TagsOfFulls TagPolicy = iota // ask for fulls, for the newest chain of each lineage, and for keys that have a delete marker
	TagsOfAll                    // ask for every version of every snapshot
	NoTags                       // do not ask
)

// Progress counts while a catalog is read.
type Progress struct {
	Listed int   // versions and markers listed
	Read   int   // small objects read or asked about
	ToRead int   // of how many; 0 until the listing is complete
	Bytes  int64 // streamed to measure digests
}

// Catalog is what a prefix holds.
type Catalog struct {
	Prefix   snapshot.Prefix
	Listing  timeline.Listing
	Timeline timeline.Timeline
	// Objects are the versions as the store told them, with tags and retention where asked.
	Objects Objects
	// Owner is the record that counts, the one of the highest number; nil: nobody claimed the prefix.
	Owner *OwnerRecord
	// Notes are sentences about what could not be learned and what that means, sorted.
	Notes []string
}

// ErrMistaken is wrapped by Read when there are no backups below the prefix, but below one that is
// easily confused with it. Such a bucket must not count as empty: a member would begin without its data.
var ErrMistaken = errors.New("the backups are below another prefix")

// errChanged: something was listed that is gone now. The catalog is read anew.
var errChanged = errors.New("the bucket changed while it was read")

// Read lists everything below prefix and reads what explains it.
//
// An object that disappears between being listed and being read (collected by somebody) makes
// Read begin anew, at most twice.
func Read(ctx context.Context, s store.Reader, prefix snapshot.Prefix, o Options) (*Catalog, error) {
	var err error
	for range 3 {
		var c *Catalog
		if c, err = readOnce(ctx, s, prefix, o); err == nil {
			return c, nil
		}
		if !errors.Is(err, errChanged) {
			break
		}
	}
	return nil, fmt.Errorf("read the catalog of %s: %w", place(s, prefix), err)
}

func place(s store.Reader, prefix snapshot.Prefix) string {
	if prefix == "" {
		return s.Capabilities().Location
	}
	return s.Capabilities().Location + " below " + string(prefix)
}

func readOnce(ctx context.Context, s store.Reader, prefix snapshot.Prefix, o Options) (*Catalog, error) {
	r := &reading{store: s, opts: o, progress: counter{report: o.Progress}}
	if err := r.list(ctx, prefix); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(r.items, func(it *item) bool { return it.key.Object == snapshot.SnapshotObject }) {
		if err := r.mistaken(ctx, prefix); err != nil {
			return nil, err
		}
	}
	if err := r.explain(ctx); err != nil {
		return nil, err
	}
	for {
		c := r.catalog(prefix)
		changed, err := r.askNewest(ctx, c.Timeline)
		if err != nil {
			return nil, err
		}
		if !changed {
			c.Objects = r.objects(prefix) // with the tags and locks that were asked for last
			r.opts.Memory.remember(r.items)
			r.noteUntagged()
			slices.Sort(r.notes)
			c.Notes = r.notes
			return c, nil
		}
	}
}

// catalog is what the items amount to.
func (r *reading) catalog(prefix snapshot.Prefix) *Catalog {
	c := &Catalog{Prefix: prefix, Owner: r.owner}
	c.Listing.Objects = make([]timeline.Object, 0, len(r.items))
	hidden := r.hidden()
	for _, it := range r.items {
		ref := it.ref()
		switch it.key.Object {
		case snapshot.SnapshotObject, snapshot.ChunkObject:
			c.Listing.Objects = append(c.Listing.Objects, timeline.Object{
				Ref: ref, Size: it.Size, Modified: it.Modified, Marker: it.Marker, Latest: it.Latest, Hidden: hidden[it.key],
				Excluded: r.excluded(it), Empty: it.Size == 0 && !it.Marker, Unreadable: it.unreadable(), Digest: it.digest, Header: it.header,
			})
		case snapshot.ManifestObject:
			c.Listing.Manifests = append(c.Listing.Manifests, timeline.StoredManifest{
				Key: it.key, Version: it.ID, Modified: it.Modified, Marker: it.Marker, Hidden: hidden[it.key], Manifest: it.manifest, Err: it.err, Excluded: r.excluded(it),
			})
		}
	}
	c.Listing.Foreign, c.Listing.Omitted, c.Listing.BadOwner = r.foreign, r.omitted, r.badOwner
	c.Timeline = timeline.Build(c.Listing)
	return c
}

func (r *reading) objects(prefix snapshot.Prefix) Objects {
	o := newObjects(prefix, len(r.items))
	for _, it := range r.items {
		o.add(it.Object)
	}
	return o
}

// counter adds up progress and reports it.
type counter struct {
	mu     sync.Mutex
	now    Progress
	report func(Progress)
}

func (c *counter) add(change func(*Progress)) {
	if c.report == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.now)
	c.report(c.now)
}
