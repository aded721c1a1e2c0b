package extender

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/excluder"
	"druid.internal/druid/internal/engine/fetch"
	"druid.internal/druid/internal/engine/upload"
	"druid.internal/druid/internal/store"
)

// made is a copy and its manifest, with the locks that were read back.
type made struct {
	way                immutability.Way
	snapshot, manifest string
	lock, manifestLock immutability.Retention
}

// copy makes a copy of another name, whose lock begins anew. The source is not touched.
//
//	manifest of the copy ──> copy ──> locks of both read back
//
// The manifest comes first, unlike that of any other snapshot: of what is interrupted it is left, and tells
// the next run which name to go on with and everybody that nothing is missing but a copy. A copy without
// a manifest would pass for a snapshot of somebody who knows no lineages.
func (x *run) copy(ctx context.Context, s timeline.Snapshot) (made, error) {
	x.asked.Lock()
	earlier, done := x.copies[s.Ref]
	x.asked.Unlock()
	if done {
		return earlier, nil
	}
	m := made{way: immutability.WayCopy}
	if s.Header != nil {
		return m, fmt.Errorf("%s tells its own name in its header, so a copy of another name could not be restored, and nothing in place can prolong it: "+
			"make one full of the chain (etcdbrctl compact) and have that kept", s.Ref)
	}
	manifest, err := x.manifest(ctx, s)
	if err != nil {
		return m, err
	}
	x.copying.Lock()
	defer x.copying.Unlock()
	for range maxNames {
		key, described := x.begun(ctx, s, manifest)
		if described == nil {
			key = x.free(s.Name())
		}
		m, err = x.copyAs(ctx, s, key, manifest, described)
		if !errors.Is(err, store.ErrExists) && !errors.Is(err, upload.ErrConflict) {
			break
		}
	}
	if err == nil {
		x.asked.Lock()
		x.copies[s.Ref] = m
		x.asked.Unlock()
	}
	return m, err
}

// maxNames is how many names are tried for a copy of which somebody else wrote a part since the listing: of that nothing is used.
const maxNames = 3

// copyAs makes the copy of a name that no snapshot had when it was listed. described is its manifest, if there is one.
func (x *run) copyAs(ctx context.Context, s timeline.Snapshot, key snapshot.Key, manifest snapshot.Manifest, described *store.Version) (made, error) {
	x.taken[key], x.made[key] = true, true
	manifest.Snapshot = key.Name.String()
	m := made{way: immutability.WayCopy, snapshot: key.String(), manifest: key.Manifest().String()}
	if described == nil {
		w, err := upload.Put(ctx, x.q.Store, m.manifest, bytes.NewReader(manifest.Encode()))
		if err != nil {
			return m, fmt.Errorf("write the manifest of a copy of %s: %w", s.Ref, err)
		}
		x.changes.Add(1)
		described = &w.Version
	}
	x.asked.Lock()
	x.written[s.Ref] = key.Name // it may be there also if nobody says so
	x.asked.Unlock()
	got, way, err := x.transfer(ctx, s, m.snapshot, manifest)
	m.way = way
	if err != nil {
		return m, fmt.Errorf("copy %s to %s: %w", s.Ref, m.snapshot, err)
	}
	if got.Size != manifest.Size {
		return m, fmt.Errorf("copy %s to %s: %w: %d bytes arrived, not %d", s.Ref, m.snapshot, fetch.ErrDamaged, got.Size, manifest.Size)
	}
	if _, read := x.measured[s.Ref]; read && way == immutability.WayCopy {
		if err := x.proven(ctx, got, manifest); err != nil {
			return m, fmt.Errorf("read the copy of %s back: %w; exclude it (etcdbrctl exclude)", s.Ref, err)
		}
	}
	if m.lock, err = x.lockOf(ctx, got.Version); err != nil {
		return m, err
	}
	m.manifestLock, err = x.lockOf(ctx, *described)
	return m, err
}

// afterwards is for how long a run that has to end goes on to see whether anything was excluded while it was copied.
const afterwards = 20 * time.Second

// excludedSince has the copies of this run be excluded whose source was while it was copied: whoever did that looked for copies, but
// perhaps before these were there. It is looked once, when all are written: then each of the two sees what the other wrote, or both do.
func (x *run) excludedSince(ctx context.Context) error {
	if len(x.written) == 0 {
		return nil
	}
	ended := ctx // the copies are there all the same
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ended, func() { time.AfterFunc(afterwards, end) })()
	now, err := catalog.Read(ctx, x.q.Store, x.q.Prefix, catalog.Options{Tags: catalog.TagsOfAll})
	if err != nil {
		return fmt.Errorf("see whether anything was excluded while it was copied: %w", err)
	}
	var all error
	for _, l := range now.Timeline.Lineages {
		for _, s := range l.Snapshots {
			if name, copied := x.written[s.Ref]; copied && s.Excluded {
				all = errors.Join(all, x.excludeCopy(ctx, s.Name(), name))
			}
		}
	}
	return all
}

// excludeCopy excludes one, and says so in any case: what the run wanted to keep is not kept.
func (x *run) excludeCopy(ctx context.Context, of, name snapshot.Name) error {
	_, err := excluder.Run(ctx, excluder.Request{Store: x.q.Store, Prefix: x.q.Prefix, Names: []snapshot.Name{name}, LeaveNothing: true, Reason: "a copy of " + of.String() + ", which was excluded while it was copied"})
	if errors.Is(err, excluder.ErrUnknown) {
		return nil // it is not there
	}
	if err != nil {
		return fmt.Errorf("%s was excluded while it was copied to %s, which restores would use in its place: exclude that, too (etcdbrctl exclude): %w", of, name, err)
	}
	return fmt.Errorf("%s was excluded while it was copied: the copy %s is excluded, too; run again to keep what is left", of, name)
}

// manifest is that of the copy, but for its name.
func (x *run) manifest(ctx context.Context, s timeline.Snapshot) (snapshot.Manifest, error) {
	if s.Manifest != nil {
		m := *s.Manifest
		if m.CopiedFrom == "" {
			m.CopiedFrom = s.Name().String()
		}
		return m, nil
	}
	read, known := x.measured[s.Ref]
	if !known { // it was not to be verified, but nothing else tells its digest
		var err error
		if read, err = x.read(ctx, s); err != nil {
			return snapshot.Manifest{}, fmt.Errorf("read %s: %w", s.Ref, err)
		}
	}
	if read.last < s.Name().Last {
		return snapshot.Manifest{}, fmt.Errorf("%s: its last revision cannot be told, and the manifest of a copy needs it: make a new full of it (etcdbrctl compact) and have that kept", s.Ref)
	}
	ended := s.NotAfter()
	if s.Full() { // its name tells when its stream began; when that had ended is not later than this
		ended = latest(ended, s.Modified)
	}
	return snapshot.Manifest{Latest: ended.UTC(), Version: snapshot.ManifestVersion, Lineage: snapshot.Lineage{ID: s.Lineage}, Digest: read.digest, Size: read.size,
		ContentSize: read.content, LastRevision: read.last, CopiedFrom: s.Name().String()}, nil
}

// begun is a copy of which an earlier run wrote only the manifest, not long ago; described is that, nil if there is none.
//
// Whoever may write can write one that looks like it. So it has to be, to the last byte, what this run would write, for a name that
// it could have chosen: what is copied to it is then a copy like any other. Of several versions none counts.
func (x *run) begun(ctx context.Context, of timeline.Snapshot, m snapshot.Manifest) (key snapshot.Key, described *store.Version) {
	policy := x.policy
	policy.Copies = true
	l, _ := x.catalog.Timeline.Lineage(of.Lineage)
	for _, s := range l.Missing {
		m.Snapshot = s.Name().String()
		is := s.Manifest
		switch {
		case is == nil || s.Excluded || len(s.Others) > 0 || x.made[s.Key] || s.Key != x.keyOf(s.Name()):
			continue
		case !renamed(s.Name(), of.Name()) || s.Name().Created > x.now.Add(immutability.MaxSkew).Unix() || !bytes.Equal(is.Encode(), m.Encode()):
			continue
		}
		versions := x.manifests(s.Key)
		if len(versions) != 1 {
			continue
		}
		if r, err := x.lockOf(ctx, versions[0]); err == nil && (r.Hold || r.Until.Sub(x.now) >= policy.Due()) {
			return s.Key, &versions[0]
		}
	}
	return snapshot.Key{}, nil
}

// manifests are the versions and markers of the manifest of a snapshot.
func (x *run) manifests(of snapshot.Key) (all []store.Version) {
	for _, m := range x.catalog.Listing.Manifests {
		if m.Key == of.Manifest() {
			all = append(all, store.Version{Key: m.Key.String(), ID: m.Version})
		}
	}
	return all
}

// free is the key of a copy made now, which nothing has.
func (x *run) free(n snapshot.Name) snapshot.Key {
	n.Created = max(x.now.Unix(), n.Created+1)
	for x.taken[x.keyOf(n)] {
		n.Created++
	}
	return x.keyOf(n)
}

// transfer sends the bytes: inside the store if it can.
func (x *run) transfer(ctx context.Context, s timeline.Snapshot, key string, m snapshot.Manifest) (store.Object, immutability.Way, error) {
	from := store.Version{Key: s.Key.String(), ID: s.Version}
	if c, can := store.As[store.Copier](x.q.Store); can {
		got, err := c.Copy(ctx, x.q.Store, from, key, store.PutOptions{})
		if !errors.Is(err, store.ErrUnsupported) {
			x.changes.Add(1)
			return got, immutability.WayCopy, err
		}
	}
	body, err := fetch.Open(ctx, x.q.Store, from, fetch.Options{Size: m.Size, Digest: m.Digest, Parallel: x.q.Ranges, OnRead: func(n int) { x.bytesRead.Add(int64(n)) }})
	if err != nil {
		return store.Object{}, immutability.WayStream, err
	}
	defer body.Close()
	w, err := upload.Put(ctx, x.q.Store, key, body)
	x.changes.Add(1)
	if err == nil {
		x.bytesMoved.Add(w.Size)
	}
	return store.Object{Version: w.Version, Size: w.Size}, immutability.WayStream, err
}

// proven reads what the store copied for us.
func (x *run) proven(ctx context.Context, o store.Object, m snapshot.Manifest) error {
	body, err := fetch.Open(ctx, x.q.Store, o.Version, fetch.Options{Size: m.Size, Digest: m.Digest, Parallel: x.q.Ranges})
	if err != nil {
		return err
	}
	defer body.Close()
	n, err := io.Copy(io.Discard, body)
	x.bytesRead.Add(n)
	return err
}

// lockOf reads back what protects a new object. What is not told protects nothing.
func (x *run) lockOf(ctx context.Context, v store.Version) (immutability.Retention, error) {
	o, err := x.q.Store.Stat(ctx, v)
	if err != nil {
		return immutability.Retention{}, fmt.Errorf("read the lock of %s back: %w", v, err)
	}
	if r := o.Retention; r == nil || !r.Hold && (!r.Mode.Locks() || !r.Until.After(x.now)) {
		return immutability.Retention{}, fmt.Errorf("%s was written, and the store does not tell a lock of it that ends in the future", v)
	}
	return *o.Retention, nil
}
