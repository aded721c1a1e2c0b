package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/upload"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/dbstream"
	"druid.internal/druid/internal/etcd/member"
)

// takeFulls takes the fulls that are due, by the schedule or because something demands one, and
// tries again until it succeeds.
func (n *session) takeFulls(ctx context.Context) error {
	for {
		var scheduled <-chan time.Time
		stop := func() bool { return true }
		if n.cfg.Schedule != nil {
			now := n.cfg.Now()
			if next := n.cfg.Schedule.Next(now); !next.IsZero() {
				timer := time.NewTimer(next.Sub(now))
				scheduled, stop = timer.C, timer.Stop
			}
		}
		why, demanded := "", false
		select {
		case <-ctx.Done():
			stop()
			return ctx.Err()
		case <-scheduled:
			if err := n.rests(ctx); err != nil {
				return err
			}
			why = "it is scheduled"
		case <-n.asked:
			n.mu.Lock()
			why, demanded = n.due, true
			n.mu.Unlock()
		}
		stop()
		if why == "" {
			continue // somebody took one meanwhile
		}
		for failures := 1; ; failures++ {
			n.log.Info("taking a full snapshot", "reason", why)
			_, err := n.takeFull(ctx, asked{demanded: demanded, scheduled: !demanded})
			if err == nil {
				break
			}
			switch {
			case errors.Is(err, errRests):
				if err := n.rests(ctx); err != nil {
					return err
				}
				continue
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, ErrOwned), errors.Is(err, errHistory):
				return err
			}
			n.log.Error("a full snapshot failed, trying again", "error", err, "failures", failures)
			if err := n.cfg.Retry.wait(ctx, failures); err != nil {
				return err
			}
		}
	}
}

// restPace is how often is asked whether a planned stop is still near.
const restPace = time.Second

// errRests is why a full that is due by the schedule is not taken now.
var errRests = errors.New("members are about to stop, and the newest full is the final one")

// ending: the newest full is the last one before a planned stop, which is near.
func (n *session) ending(ctx context.Context) bool {
	n.mu.Lock()
	final := n.lastFull != nil && n.lastFull.Key.Name.Final
	n.mu.Unlock()
	return final && n.cfg.Ending != nil && n.cfg.Ending(ctx)
}

// rests waits until a full that is due by the schedule may be taken.
func (n *session) rests(ctx context.Context) error {
	for told := false; n.ending(ctx); told = true {
		if !told {
			n.log.Info("a full snapshot is due, and waits: members are about to stop, and the newest one is the final one")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(restPace):
		}
	}
	return nil
}

// asked is which full is asked for.
type asked struct {
	final     bool   // the last one before a planned stop
	purpose   string // of a final one; empty: none in particular
	demanded  bool   // it is not taken if a full that began since was enough
	scheduled bool   // it is not taken before a planned stop that is near, nor is one that is demanded
	unwatched bool   // the watch has ended: it does not wait for deltas
}

// takeFull takes one full, after the one that is being taken, if there is any. It ends with ctx or
// with the session.
func (n *session) takeFull(ctx context.Context, which asked) (Taken, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(n.life, func() { cancel(ErrStopped) })()
	select {
	case n.slot <- struct{}{}:
		defer func() { <-n.slot }()
	case <-ctx.Done():
		return Taken{}, fmt.Errorf("take a full snapshot: %w", context.Cause(ctx))
	}
	if (which.scheduled || which.demanded) && n.ending(ctx) { // the one before was the final one
		return Taken{}, errRests
	}
	began := n.cfg.Now()
	n.mu.Lock()
	due := n.due
	n.due = "" // what becomes due from here on is due again
	n.mu.Unlock()
	if which.demanded && due == "" {
		return Taken{}, nil
	}
	t, err := n.full(ctx, which)
	n.note(err)
	if err != nil {
		if due != "" {
			n.wantFull(due) // it is still owed
		}
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
			err = errors.Join(cause, err)
		}
		n.cfg.Metrics.failed(snapshot.Full, err, began, n.cfg.Now())
		n.setFailed(true)
		return Taken{}, fmt.Errorf("take a full snapshot: %w", err)
	}
	n.setFailed(false)
	n.mu.Lock()
	if f := n.lastFull; n.due == writtenOn && f != nil && (!f.Key.Name.Final || n.lastDelta == nil || n.lastDelta.Key.Name.Last <= f.Manifest.LastRevision) {
		n.due = "" // what was written on is in this one: its own deltas were uploaded before
	}
	n.mu.Unlock()
	if t.Reused {
		return t, nil
	}
	n.cfg.Metrics.taken(t.Key.Name, t.Manifest.LastRevision, began, n.cfg.Now())
	n.cfg.Metrics.deltas.Set(0)
	n.cfg.Metrics.deltaRevisions.Set(0)
	_, known := n.buffer.position()
	n.cfg.Metrics.need(snapshot.Full, t.Manifest.LastRevision < known)
	n.log.Info("full snapshot uploaded", "name", t.Key.Name.String(), "bytes", t.Manifest.Size,
		"content", t.Manifest.ContentSize, "revision", int64(t.Manifest.LastRevision), "took", n.cfg.Now().Sub(began))
	return t, nil
}

// full does the work of takeFull.
func (n *session) full(ctx context.Context, which asked) (Taken, error) {
	m, st, err := n.connect(ctx)
	if err != nil {
		return Taken{}, err
	}
	rev, err := m.Revision(ctx)
	if err != nil {
		return Taken{}, err
	}
	auth, authErr := m.AuthRevision(ctx) // before the stream, which has this revision or a later one
	if authErr != nil {
		n.log.Debug("the revision of etcd's users is unknown", "error", authErr)
	}
	if which.final {
		if t := n.reusable(rev, auth, which.purpose); t != nil {
			return *t, nil
		}
	}
	if err := n.stillOwner(ctx); err != nil {
		return Taken{}, err
	}
	if n.cfg.DeltaPeriod > 0 && !which.unwatched {
		if rev, err = n.boundary(ctx, m, rev); err != nil {
			return Taken{}, err
		}
	}
	var compared Comparison
	if n.cfg.Compare != nil {
		if compared, err = n.cfg.Compare(ctx, m, rev); err != nil {
			return Taken{}, fmt.Errorf("compare the members: %w", err)
		}
	}
	name := snapshot.Name{Kind: snapshot.Full, Last: rev, Created: n.nextStamp(rev), Compression: n.cfg.Compression, Final: which.final}
	manifest, err := n.stream(ctx, m, st, name)
	if err != nil {
		if errors.As(err, new(*StallError)) {
			return Taken{}, err // it names the full
		}
		return Taken{}, fmt.Errorf("%s: %w", name, err)
	}
	manifest.Suspect, manifest.For, manifest.AuthRevision = compared.Suspect, which.purpose, auth
	if compared.HashKV != nil && compared.HashKV.Revision == manifest.LastRevision {
		manifest.HashKV = compared.HashKV
	} else if !n.cfg.SkipHashKV {
		bounded, cancel := context.WithTimeout(ctx, n.cfg.StreamTimeout)
		defer cancel()
		if h, err := m.HashKV(bounded, manifest.LastRevision); err == nil && h.Revision == manifest.LastRevision {
			manifest.HashKV = &h
		} else {
			n.log.Info("etcd does not tell the hash of the snapshot's revision", "revision", int64(manifest.LastRevision), "error", err)
		}
	}
	// The full is in the bucket. A stop that comes now waits for the manifest: without it the full
	// belongs to no lineage.
	settle, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(n.cfg.Grace, stop) })()
	if err := n.putManifest(settle, name, manifest); err != nil {
		return Taken{}, err
	}
	t := Taken{Key: snapshot.SnapshotKey(n.cfg.Prefix, name), Manifest: manifest, Own: true}
	n.setOwn(&t)
	n.mu.Lock()
	n.lastFull, n.stored = &t, true
	n.ends[string(snapshot.Full)] = link{name.Last, manifest.Digest}
	n.deltas, n.deltaBytes, n.revisions = 0, 0, 0
	n.mu.Unlock()
	n.buffer.based(name.Last)
	return t, nil
}

// reusable is the newest full, if it is final, was taken for the same and etcd is still at its revision. Who
// names no purpose is served by any.
func (n *session) reusable(rev snapshot.Revision, auth uint64, purpose string) *Taken {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lastFull != nil && auth > 0 && n.lastFull.Manifest.AuthRevision != auth {
		return nil
	}
	if n.lastFull == nil || !n.lastFull.Key.Name.Final || n.lastFull.Manifest.LastRevision != rev {
		return nil
	}
	if purpose != "" && n.lastFull.Manifest.For != purpose {
		return nil
	}
	t := *n.lastFull
	t.Reused = true
	return &t
}

// boundary ends the current delta at rev or later, has it uploaded, and returns its last
// revision: the full is named after it, so that the next delta continues the full by name. The
// member that will stream has that revision. If the watch does not keep up, the full does not
// wait for it: it is named after rev, which the deltas will then overlap.
func (n *session) boundary(ctx context.Context, m Member, rev snapshot.Revision) (snapshot.Revision, error) {
	patience, cancel := context.WithTimeout(ctx, drainPatience)
	err := n.buffer.drained(patience, rev)
	cancel()
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err != nil {
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errRoom) {
			return 0, err
		}
		n.log.Warn("the watch is behind; the full snapshot does not wait for it", "revision", int64(rev))
		return rev, nil
	}
	last, err := n.buffer.flush(ctx, true)
	if err != nil {
		return 0, fmt.Errorf("upload what is before it: %w", err)
	}
	now, err := m.Revision(ctx)
	if err != nil {
		return 0, err
	}
	if now < last {
		return 0, fmt.Errorf("%w: etcd is at revision %d and was at %d before", errHistory, now, last)
	}
	return last, nil
}

// drainPatience is how long a full waits for the watch to deliver what etcd has already.
const drainPatience = 30 * time.Second

// nextStamp is the time for the name of a full that ends at last, in seconds; never the same
// twice, and later than that of the delta with the same end. The original sorts by end, then by
// time, and takes what follows a full for its deltas: one whose events the full contains already
// makes it fail.
func (n *session) nextStamp(last snapshot.Revision) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stamp = max(n.cfg.Now().Unix(), n.stamp+1)
	if n.lastDelta != nil && n.lastDelta.Key.Name.Last == last {
		n.stamp = max(n.stamp, n.lastDelta.Key.Name.Created+1)
	}
	return n.stamp
}

// stream moves etcd's database into the store: nothing is kept on disk, and whatever goes wrong
// on the way makes the upload fail, so that only a complete and verified file gets a name.
//
//	etcd ─▶ dbstream (digest at the end, last revision) ─▶ compress ─▶ store
func (n *session) stream(ctx context.Context, m Member, st member.Status, name snapshot.Name) (snapshot.Manifest, error) {
	ctx, stall := watchStall(ctx, name, st.DBSize, n.cfg.StreamTimeout)
	defer stall.stop()
	body, storage, err := m.Snapshot(ctx)
	if err != nil {
		return snapshot.Manifest{}, stalled(ctx, err)
	}
	defer body.Close()
	seen := &meter{r: stall.of(body), now: Progress{Name: name, Total: st.DBSize}, tell: n.cfg.Progress}
	defer seen.over()
	content := dbstream.NewReader(seen, name.Last)
	packed, err := codec.Compress(content, name.Compression)
	if err != nil {
		return snapshot.Manifest{}, err
	}
	written, err := upload.Put(ctx, n.cfg.Store, snapshot.SnapshotKey(n.cfg.Prefix, name).String(), packed)
	body.Close()   // ends a read that is under way,
	packed.Close() // for which this waits: from here on nobody reads content
	switch {
	case err != nil:
		return snapshot.Manifest{}, stalled(ctx, err)
	case !content.Complete():
		return snapshot.Manifest{}, fmt.Errorf("the store took %d bytes and left the rest unread", written.Size)
	}
	last, lastErr := content.LastRevision()
	if lastErr != nil {
		last = name.Last
		n.tell(Event{Code: RevisionUnknown, Revision: last, Text: fmt.Sprintf("%s: %v; its manifest tells the lower bound %d", name, lastErr, last)})
	}
	if storage == "" {
		storage = st.StorageVersion
	}
	return snapshot.Manifest{
		Version: snapshot.ManifestVersion, Snapshot: name.String(), Lineage: n.lineage,
		Digest: written.Digest, Size: written.Size, ContentSize: content.Size(), LastRevision: last, Latest: n.cfg.Now().UTC(),
		ClusterID: st.ClusterID, MemberID: st.MemberID, EtcdVersion: st.Version, StorageVersion: storage, Writer: n.cfg.Writer,
	}, nil
}

// setFailed remembers for the next session whether a full is owed.
func (s *Snapshotter) setFailed(failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fullFailed = failed
}

// setOwn remembers for the next session which full this process took.
func (s *Snapshotter) setOwn(t *Taken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own = t
}

// took says whether this process took a full that is in the bucket. The name alone does not tell: another version of it, or
// another manifest, may be somebody else's.
func (s *Snapshotter) took(t *Taken) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own != nil && s.own.Key == t.Key && s.own.Manifest.Digest == t.Manifest.Digest
}

func (s *Snapshotter) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fullFailed
}
