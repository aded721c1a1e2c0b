package catalog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/store"
)

// reading is a catalog in the making.
type reading struct {
	store    store.Reader
	opts     Options
	items    []*item // in the order of the listing: keys ascending, versions newest first
	foreign  []timeline.Foreign
	empty    []*item // empty snapshots and manifests, at most 2 x maxEmpty
	omitted  timeline.Omitted
	owner    *OwnerRecord
	badOwner *timeline.BadOwner     // the owner record is none
	present  map[snapshot.Key]bool  // snapshots of which more than a manifest is there
	records  map[snapshot.Key]*item // exclusion records that count, by the snapshot they are about
	progress counter

	mu    sync.Mutex
	notes []string
}

// item is one listed version or marker, and what was learned about it.
type item struct {
	store.Object
	key snapshot.Key

	learned
	refused error // its content may not be read
}

// unreadable is why the item is no object, or empty.
func (it *item) unreadable() string {
	if it.Unreadable == nil {
		return ""
	}
	return it.Unreadable.Error()
}

func (it *item) ref() timeline.Ref { return timeline.Ref{Key: it.key, Version: it.ID} }

// errFound ends a listing at the first object that answers the question.
var errFound = errors.New("found")

// mistaken returns ErrMistaken if there are backups below a prefix that is easily confused with one
// that holds none. Credentials that may not list there say nothing about it.
func (r *reading) mistaken(ctx context.Context, prefix snapshot.Prefix) error {
	for _, other := range prefix.Mistaken() {
		err := r.hasSnapshot(ctx, other)
		switch {
		case errors.Is(err, errFound):
			// A store may drop the leading slash: then both are one place, where the first full came just now.
			if err := r.hasSnapshot(ctx, prefix); errors.Is(err, errFound) {
				return errChanged
			} else if err != nil {
				return err
			}
			return fmt.Errorf("%w: none are below %q, but there are some below %q; set the prefix to %q to use them, or choose one that differs by more", ErrMistaken, prefix, other, other)
		case err != nil && !errors.Is(err, store.ErrForbidden) && !errors.Is(err, store.ErrUnsupported):
			return err
		}
	}
	return nil
}

// hasSnapshot returns errFound if there is a snapshot with content below prefix.
func (r *reading) hasSnapshot(ctx context.Context, prefix snapshot.Prefix) error {
	return r.store.List(ctx, string(prefix), func(o store.Object) error {
		r.progress.add(func(p *Progress) { p.Listed++ })
		if key, err := snapshot.ParseKey(prefix, o.Key); err == nil && !o.Marker && o.Size > 0 && key.Object == snapshot.SnapshotObject {
			return errFound
		}
		return nil
	})
}

// explain reads everything that says more about the items. Manifests come first, because a
// delta with a manifest needs no header and a key without a manifest no digest.
func (r *reading) explain(ctx context.Context) error {
	described := map[snapshot.Key][]int64{} // snapshots that have manifests, and the sizes these tell
	versions := map[snapshot.Key]int{}
	hidden := map[snapshot.Key]bool{}
	var manifests, rest []func(context.Context) error
	r.present = map[snapshot.Key]bool{}
	r.opts.Memory.recall(r.items)
	for _, it := range r.items {
		if it.key.Object == snapshot.SnapshotObject && !it.Marker {
			r.present[it.key] = true
		}
		switch {
		case it.Marker:
			hidden[it.key] = true
		case it.key.Object == snapshot.ManifestObject && it.Size == 0:
			_ = r.readManifest(ctx, it) // needs no request
		case it.key.Object == snapshot.ManifestObject && it.content:
		case it.key.Object == snapshot.ManifestObject:
			manifests = append(manifests, func(ctx context.Context) error { return r.readManifest(ctx, it) })
		default:
			versions[it.key]++
		}
	}
	r.progress.add(func(p *Progress) { p.ToRead += len(manifests) })
	if err := r.all(ctx, manifests); err != nil {
		return err
	}
	if err := r.settleRefused(); err != nil {
		return err
	}
	r.recallStats(hidden)
	for _, it := range r.items {
		if it.manifest != nil {
			k := it.key.Snapshot()
			described[k] = append(described[k], it.manifest.Size)
		}
	}
	alike := map[snapshot.Key][]*item{} // versions of a key with several, of a size that its manifest tells
	for _, it := range r.items {
		if it.Marker {
			continue
		}
		snap := it.key.Object == snapshot.SnapshotObject
		if snap && it.Size > 0 && !it.content && r.wantsHeader(it.key.Name) && len(described[it.key]) == 0 {
			rest = append(rest, func(ctx context.Context) error { return r.readHeader(ctx, it) })
		}
		// A version of another size is none that a manifest describes, however large it may be.
		if snap && versions[it.key] > 1 && slices.Contains(described[it.key], it.Size) && !r.opts.SkipDigests {
			alike[it.key] = append(alike[it.key], it)
		}
		if r.wantsStat(it, hidden[it.key]) {
			rest = append(rest, func(ctx context.Context) error { return r.stat(ctx, it) })
		}
	}
	for _, list := range alike {
		for _, it := range list[max(0, len(list)-maxMeasured):] { // they come newest first
			if it.digest.IsZero() {
				rest = append(rest, func(ctx context.Context) error { return r.measure(ctx, it) })
			}
		}
	}
	r.records = r.newestRecords()
	for _, it := range r.records {
		if it.content {
			continue
		}
		rest = append(rest, func(ctx context.Context) error { return r.readRecord(ctx, it) })
	}
	if newest := r.newestOwner(); newest != nil {
		rest = append(rest, func(ctx context.Context) error { return r.readOwner(ctx, newest) })
	}
	r.progress.add(func(p *Progress) { p.ToRead += len(rest) })
	if err := r.all(ctx, rest); err != nil {
		return err
	}
	return r.settleRefused()
}

// recallStats takes over the tags and locks that are remembered. Those of a key of which the
// markers changed are not: excluding an object of an S3 bucket takes one.
func (r *reading) recallStats(hidden map[snapshot.Key]bool) {
	if r.opts.Memory == nil {
		return
	}
	for _, it := range r.items {
		it.stat = it.stat && it.hidden == hidden[it.key]
		it.hidden = hidden[it.key]
	}
	r.opts.Memory.stale(r.items)
	for _, it := range r.items {
		if it.stat && it.Tags == nil {
			it.Tags = it.tags
		}
		if it.stat && it.Retention == nil {
			it.Retention = it.retention
		}
	}
}

// settleRefused decides what a version means whose content may not be read. Whoever may write
// into a bucket can add such a version to any key, as an object of an account that lets nobody
// else read it: where another version of the key can be read, that must not keep anybody from
// restoring. Else the permission is ours, and missing.
func (r *reading) settleRefused() error {
	if !slices.ContainsFunc(r.items, func(it *item) bool { return it.refused != nil }) {
		return nil
	}
	readable := map[snapshot.Key]bool{}
	for _, it := range r.items {
		if !it.Marker && it.refused == nil {
			readable[it.key] = true
		}
	}
	for _, it := range r.items {
		switch {
		case it.refused == nil || it.err != nil:
		case !readable[it.key]:
			return it.refused
		default:
			it.err = fmt.Errorf("%w: %w", snapshot.ErrManifest, it.refused)
			r.note(fmt.Sprintf("%s may not be read, and does not count: another version of it can be read", it.Version))
		}
	}
	return nil
}

// hidden are the keys of which a store with versions tells that neither a version nor a marker
// is the latest: somebody deleted them by their names. Versions of one key follow each other.
func (r *reading) hidden() map[snapshot.Key]bool {
	if !r.store.Capabilities().Versions {
		return nil
	}
	none := map[snapshot.Key]bool{}
	latest := false
	for i, it := range r.items {
		latest = latest || it.Latest
		if i+1 < len(r.items) && r.items[i+1].key == it.key {
			continue
		}
		if !latest {
			none[it.key] = true
		}
		latest = false
	}
	return none
}

// all runs the jobs, a bounded number at a time, until the first failure.
func (r *reading) all(ctx context.Context, jobs []func(context.Context) error) error {
	limit := r.opts.Parallel
	if limit <= 0 {
		limit = 16
	}
	g, each := errgroup.WithContext(ctx)
	g.SetLimit(limit)
	for _, job := range jobs {
		if each.Err() != nil {
			break
		}
		g.Go(func() error {
			err := job(each)
			r.progress.add(func(p *Progress) { p.Read++ })
			if errors.Is(err, store.ErrNotFound) {
				return fmt.Errorf("%w: %w", errChanged, err)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// content reads up to n bytes of a version from its beginning.
func (r *reading) content(ctx context.Context, it *item, n int64) ([]byte, error) {
	n = min(n, it.Size)
	body, err := r.store.Open(ctx, it.Version, 0, n)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, n))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", it.Version, err)
	}
	return b, nil
}

// refusal keeps a refusal for later, see settleRefused, and returns all other errors.
func (it *item) refusal(err error) error {
	if !errors.Is(err, store.ErrForbidden) {
		return err
	}
	it.refused = err
	return nil
}

func (r *reading) readManifest(ctx context.Context, it *item) error {
	if it.Size == 0 {
		it.err = fmt.Errorf("%w of %s: it is empty", snapshot.ErrManifest, it.key.Name)
		return nil
	}
	if it.Size > snapshot.MaxManifestSize {
		it.err = fmt.Errorf("%w of %s: it has %d bytes, at most %d are expected", snapshot.ErrManifest, it.key.Name, it.Size, snapshot.MaxManifestSize)
		return nil
	}
	b, err := r.content(ctx, it, it.Size)
	if err != nil {
		return it.refusal(err)
	}
	it.content = true
	m, err := snapshot.ParseManifest(it.key.Name, b)
	if err != nil {
		it.err = err
		return nil
	}
	if r.opts.Memory != nil { // nobody restores with it, and they may be long
		m.Leases = nil
	}
	it.manifest = &m
	return nil
}

// wantsHeader: native deltas are always packed with zstd.
func (r *reading) wantsHeader(n snapshot.Name) bool {
	return n.Kind == snapshot.Delta && n.Compression == snapshot.Zstd && (r.opts.Headers == nil || r.opts.Headers(n))
}

// readHeader leaves the header nil where there is none or it cannot be understood: the delta is
// then judged by its name.
func (r *reading) readHeader(ctx context.Context, it *item) error {
	want := int64(codec.HeaderProbe)
	for {
		b, err := r.content(ctx, it, want)
		if err != nil {
			return it.refusal(err)
		}
		it.content = true
		m, _, need, err := codec.ParseHeader(b)
		if err != nil {
			return nil
		}
		if m != nil {
			m.Leases = nil // whoever replays the delta reads them there
			it.header = m
			return nil
		}
		if int64(need) <= want || want >= it.Size || need > codec.HeaderProbe+snapshot.MaxManifestSize {
			return nil // it would never be complete
		}
		want = int64(need)
	}
}

// maxMeasured bounds the versions of one key that are streamed whole to measure their digests: the
// oldest ones, since an overwrite comes later. Anyone who can write can add any number.
const maxMeasured = 8

func (r *reading) measure(ctx context.Context, it *item) error {
	body, err := r.store.Open(ctx, it.Version, 0, -1)
	if err != nil {
		return it.refusal(err)
	}
	defer body.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, body)
	if err != nil {
		return fmt.Errorf("measure %s: %w", it.Version, err)
	}
	sum.Sum(it.digest[:0])
	r.progress.add(func(p *Progress) { p.Bytes += n })
	return nil
}

func (r *reading) wantsStat(it *item, hidden bool) bool {
	caps := r.store.Capabilities()
	if it.stat || it.Unreadable != nil {
		return false
	}
	if !r.excludable(it) {
		return r.opts.Retention && it.Retention == nil
	}
	tags := caps.Tags && !caps.InlineTags && it.Tags == nil && !r.opts.IgnoreExclusions &&
		(r.opts.Tags == TagsOfAll || r.opts.Tags == TagsOfFulls && (hidden || it.key.Name.Kind == snapshot.Full || it.key.Object == snapshot.ManifestObject))
	return tags || r.opts.Retention && it.Retention == nil
}

// stat asks for tags and retention. A permission that is missing leaves them unknown, so that a
// restore with few rights goes on; unknown tags are noted, because the snapshot is then used.
func (r *reading) stat(ctx context.Context, it *item) error {
	o, err := r.store.Stat(ctx, it.Version)
	if err != nil && !errors.Is(err, store.ErrForbidden) {
		return err
	}
	it.moved = it.again && !sameLock(it.retention, o.Retention)
	it.stat, it.tags, it.retention = true, o.Tags, o.Retention
	if it.Retention == nil {
		it.Retention, it.ServerTime = o.Retention, o.ServerTime
	}
	if it.Tags == nil {
		it.Tags = o.Tags
	}
	if it.Tags == nil && r.excludable(it) && r.opts.Tags != NoTags && r.store.Capabilities().Tags {
		it.untagged = true
	}
	return nil
}

func sameLock(a, b *immutability.Retention) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Mode == b.Mode && a.Hold == b.Hold && a.Until.Equal(b.Until))
}

// maxNotes bounds the notes: a forged record of an exclusion makes one.
const maxNotes = 100

func (r *reading) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.notes) < maxNotes {
		r.notes = append(r.notes, text)
	}
}
