package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/etcd/member"
)

// session is one run over one history of etcd.
type session struct {
	*Snapshotter
	log     *slog.Logger
	lineage snapshot.Lineage
	owner   catalog.OwnerRecord
	cluster uint64
	buffer  *buffer
	leases  *leases
	slot    chan struct{}   // holds a token while a full is taken
	asked   chan struct{}   // a full is due
	wrote   chan struct{}   // a delta was uploaded since followAuth looked
	seen    trace           // of the last revision that the watch told; the watch's own
	life    context.Context // ends with the session
	finish  context.CancelFunc

	mu         sync.Mutex
	due        string          // why a full is due; empty: none is
	lastFull   *Taken          // newest full of the lineage
	lastDelta  *Taken          // newest delta of the lineage
	ends       map[string]link // what a delta can continue, by kind
	deltas     int             // since the newest full
	deltaBytes int64           // of their content
	trouble    error           // of the last upload; nil: it succeeded
	revisions  snapshot.Revision
	stamp      int64 // seconds in the name of the last full
	stored     bool  // something was uploaded
}

// link is the end of a snapshot, with its digest.
type link struct {
	last   snapshot.Revision
	digest snapshot.Digest
}

// errHistory is wrapped by failures that question which history etcd holds.
var errHistory = errors.New("etcd's history is not the one being backed up")

// begin finds out what is true and prepares a session.
func (s *Snapshotter) begin(ctx context.Context) (*session, error) {
	m, err := s.cfg.Connect(ctx)
	if err != nil {
		return nil, err
	}
	status, err := m.Status(ctx)
	if err != nil {
		return nil, err
	}
	cat, err := catalog.Read(ctx, s.cfg.Store, s.cfg.Prefix, catalog.Options{})
	if err != nil {
		return nil, err
	}
	// After the catalog: another member's snapshotter may be uploading what etcd has just done,
	// and an etcd asked earlier would seem to be behind the bucket.
	rev, err := m.Revision(ctx)
	if err != nil {
		return nil, err
	}
	v, owner, err := s.identify(ctx, m, status, rev, cat)
	if err != nil {
		return nil, err
	}
	own, _ := cat.Timeline.Lineage(v.lineage.ID)
	n := &session{
		Snapshotter: s, lineage: v.lineage, owner: owner, cluster: status.ClusterID,
		log:  s.log.With("lineage", string(v.lineage.ID)),
		slot: make(chan struct{}, 1), asked: make(chan struct{}, 1), wrote: make(chan struct{}, 1),
		ends: map[string]link{}, leases: newLeases(),
	}
	n.life, n.finish = context.WithCancel(context.WithoutCancel(ctx))
	next := n.resume(own, strangers(cat.Timeline), rev)
	n.buffer = newBuffer(codec.DeltaOptions{
		Format: s.cfg.Format, Compression: s.cfg.DeltaCompression, SpillDir: s.cfg.SpillDir,
	}, s.cfg.DeltaLimit, s.cfg.SpillLimit, next)
	n.buffer.tight = s.tightNow()
	if n.lastFull == nil {
		n.buffer.holdAll()
	}
	s.log.Info("backing up begins", "lineage", string(v.lineage.ID), "revision", int64(rev), "from", int64(next), "full", n.due)
	return n, nil
}

// identify decides the lineage and claims the prefix for it. The identity is stored before
// anything is written that carries it, so that a crash leaves nothing that is not ours.
func (s *Snapshotter) identify(ctx context.Context, m Member, st member.Status, rev snapshot.Revision, cat *catalog.Catalog) (verdict, catalog.OwnerRecord, error) {
	var file Identity
	found := false
	if s.cfg.Data != nil {
		if err := sameCluster(s.cfg.Data, st.ClusterID); err != nil {
			return verdict{}, catalog.OwnerRecord{}, err
		}
		var err error
		if file, found, err = s.cfg.Data.Load(); err != nil {
			return verdict{}, catalog.OwnerRecord{}, fmt.Errorf("read the lineage of the data: %w; if the file is damaged remove it, and the bucket and the cluster id will tell", err)
		}
	}
	e := evidence{
		bucket: knownLineages(cat.Timeline), cluster: st.ClusterID, revision: rev, mint: datadir.NewLineageID,
		compare: func(k known) agreement { return s.compare(ctx, m, k) },
		retrace: func(k known) agreement { return s.retrace(ctx, m, k) },
	}
	if found {
		e.file = &file.Lineage
	}
	v := judge(e)
	ids := ownerIDs(s.cfg.Owner, file.Owner, v, e, s.cfg.Data != nil)
	if cat.Owner != nil && ours(cat.Owner, ids) {
		ids[0] = cat.Owner.ID // keep the name it has
	}
	want := Identity{Lineage: v.lineage, Owner: file.Owner}
	if cat.Owner != nil && !ours(cat.Owner, ids) { // refuse before anything is written
		switch may, err := s.mayTakeOver(ctx, cat.Owner); {
		case err != nil:
			return verdict{}, catalog.OwnerRecord{}, err
		case !may:
			return verdict{}, catalog.OwnerRecord{}, refusal(cat.Owner, ids[0])
		}
	}
	if s.cfg.Data != nil && (!found || file != want) {
		if err := s.cfg.Data.Store(want); err != nil {
			return verdict{}, catalog.OwnerRecord{}, fmt.Errorf("write the lineage beside the data: %w", err)
		}
	}
	owner, err := s.guard(ctx, cat.Owner, ids, st.ClusterID)
	if err != nil {
		return verdict{}, catalog.OwnerRecord{}, err
	}
	if cat.Owner == nil && owner.ID != ids[0] {
		return verdict{}, catalog.OwnerRecord{}, fmt.Errorf("%w: %s, another member of this cluster, claimed the prefix at the same moment; looking again what it writes", errHistory, owner.ID)
	}
	// Only a name under which the prefix was claimed may stand alone from now on: a member that
	// was slower than another one has to find out the name of both.
	if s.cfg.Data != nil && want.Owner == "" {
		want.Owner = owner.ID
		if err := s.cfg.Data.Store(want); err != nil {
			return verdict{}, catalog.OwnerRecord{}, fmt.Errorf("write the owner beside the data: %w", err)
		}
	}
	s.tell(v.events...)
	return v, owner, nil
}

// sameCluster returns ErrOtherData if the data are those of another cluster than the one that answers.
// Their lineage and owner would name the history of that cluster, and would be overwritten.
func sameCluster(data IdentityFile, cluster uint64) error {
	switch id, err := data.ClusterID(); {
	case err != nil:
		return fmt.Errorf("read the cluster id of the data: %w", err)
	case id != 0 && id != cluster:
		return fmt.Errorf("%w: the data are those of cluster %x, and cluster %x answers; name the data directory of that etcd, or leave it out", ErrOtherData, id, cluster)
	}
	return nil
}

// compare asks etcd whether it has the past that the bucket recorded.
func (s *Snapshotter) compare(ctx context.Context, m Member, k known) agreement {
	if s.cfg.SkipHashKV {
		return unknown
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StreamTimeout)
	defer cancel()
	got, err := m.HashKV(ctx, k.hash.Revision)
	switch {
	case err != nil, got.Revision != k.hash.Revision, got.CompactRevision != k.hash.CompactRevision:
		return unknown
	case got.Hash != k.hash.Hash:
		return differs
	}
	return agrees
}

// strangers are the snapshots that belong to no lineage: the original's, or such as lack their
// manifest because their writer died before it.
func strangers(t timeline.Timeline) []timeline.Snapshot {
	unnamed, _ := t.Lineage("")
	return unnamed.Snapshots
}

// resume decides where deltas go on and whether a full is due, from what the bucket has of
// the lineage, and of none, and the revision etcd is at.
func (n *session) resume(own timeline.Lineage, strangers []timeline.Snapshot, rev snapshot.Revision) (next snapshot.Revision) {
	prior := Prior{Failed: n.failed()}
	if n.cfg.Schedule != nil {
		prior.Window = n.cfg.Schedule.Window
	}
	next = rev + 1
	if c, is := own.NewestChain(); is {
		prior.Exists, prior.Full = true, c.Base.Name()
		n.lastFull = taken(c.Base)
		n.lastFull.Own = n.took(n.lastFull)
		prior.Found = n.cfg.FullFirst != nil && n.cfg.FullFirst() && !n.lastFull.Own
		n.stamp = c.Base.Name().Created
		n.continues(c.Base)
		next = c.Base.Name().Last + 1
		for _, d := range c.Deltas {
			next = d.Last + 1
			n.lastDelta = taken(d.Snapshot)
			n.continues(d.Snapshot)
			n.deltas++
			n.deltaBytes += contentBytes(n.lastDelta)
			n.revisions += d.To - d.From + 1
		}
		// Deltas of ours will overlap theirs, which the original cannot read; a full parts them.
		wrote := c.Base.Taken()
		if n.lastDelta != nil {
			wrote = max(wrote, n.lastDelta.Key.Name.Created)
		}
		for _, s := range strangers {
			if s.Last >= next && s.Name().Created >= wrote {
				prior.Unclear = fmt.Sprintf("%s was written without a lineage since the last of this one", s.Name())
			}
		}
		if c.Gap != nil {
			prior.Unclear = fmt.Sprintf("the bucket lacks %s", c.Gap)
			n.tell(Event{Code: BucketGap, Revision: c.Gap.From, Text: prior.Unclear + "; they are backed up again if etcd still has them, and a full snapshot is taken"})
		}
	}
	if n.cfg.DeltaPeriod == 0 {
		next = rev + 1
	}
	var schedule func(time.Time) time.Time
	if n.cfg.Schedule != nil {
		schedule = n.cfg.Schedule.Next
	}
	n.due = FullReason(prior, n.cfg.Now(), schedule)
	if n.due != "" {
		n.asked <- struct{}{}
	}
	return next
}

func taken(s timeline.Snapshot) *Taken {
	t := &Taken{Key: s.Key, Manifest: snapshot.Manifest{Snapshot: s.Name().String(), LastRevision: s.Last, Size: s.Size}}
	if s.Manifest != nil {
		t.Manifest = *s.Manifest
	}
	return t
}

func (n *session) continues(s timeline.Snapshot) {
	if s.Manifest != nil {
		n.ends[string(s.Name().Kind)] = link{s.Name().Last, s.Manifest.Digest}
	}
}

// run works until ctx ends or the session's premises fail.
func (n *session) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if n.cfg.DeltaPeriod > 0 {
		g.Go(func() error { return n.watch(ctx) })
		g.Go(func() error { return n.uploadDeltas(ctx) })
		g.Go(func() error { return n.learnLeases(ctx) })
		g.Go(func() error { return n.followAuth(ctx) })
	}
	g.Go(func() error { return n.takeFulls(ctx) })
	return g.Wait()
}

// end uploads what is buffered if the program is being stopped or the history ended, and then
// lets everybody go who waits. What cannot be uploaded in time is fetched again from etcd by
// the next session.
func (n *session) end(ctx context.Context) {
	n.buffer.cut()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.Grace)
	defer cancel()
	for d := n.buffer.head(); d != nil; d = n.buffer.head() {
		if err := n.uploadDelta(grace, d); err != nil {
			n.log.Warn("what was buffered is not uploaded", "error", err)
			break
		}
		n.buffer.uploaded(d)
	}
	if first, last := n.buffer.pending(); last > 0 {
		n.tell(Event{Code: BufferDropped, Revision: first,
			Text: fmt.Sprintf("revisions %d to %d were buffered and are not uploaded; they are fetched from etcd again, as long as it has them", first, last)})
	}
	if ctx.Err() != nil && n.cfg.DeltaPeriod > 0 { // the program stops, and nothing is wrong with the history
		n.endAuth(grace)
	}
	n.finish()
	n.buffer.close(ErrStopped)
}

// connect returns a member that continues the history of the session.
func (n *session) connect(ctx context.Context) (Member, member.Status, error) {
	m, err := n.cfg.Connect(ctx)
	if err != nil {
		return nil, member.Status{}, err
	}
	st, err := m.Status(ctx)
	if err != nil {
		return nil, st, err
	}
	if st.ClusterID != n.cluster {
		return nil, st, fmt.Errorf("%w: cluster %x answers, not %x", errHistory, st.ClusterID, n.cluster)
	}
	next, _ := n.buffer.position()
	rev, err := m.Revision(ctx)
	if err != nil {
		return nil, st, err
	}
	if rev < next-1 {
		return nil, st, fmt.Errorf("%w: etcd is at revision %d and was at %d before", errHistory, rev, next-1)
	}
	return m, st, nil
}
