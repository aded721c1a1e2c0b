package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/upload"
	"druid.internal/druid/internal/etcd/codec"
)

// uploadDeltas cuts deltas by time and uploads what was cut, one after the other. A delta that
// cannot be uploaded is kept and tried again for as long as the session lasts; meanwhile the
// watch goes on filling the buffer.
func (n *session) uploadDeltas(ctx context.Context) error {
	period := time.NewTimer(n.cfg.DeltaPeriod)
	defer period.Stop()
	for {
		wake := n.buffer.wake()
		d := n.buffer.head()
		if d == nil {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-period.C:
				n.buffer.cut()
				period.Reset(n.cfg.DeltaPeriod)
			case <-wake:
			}
			continue
		}
		for failures := 1; ; failures++ {
			began := n.cfg.Now()
			err := n.uploadDelta(ctx, d)
			n.note(err)
			if err == nil {
				break
			}
			n.cfg.Metrics.failed(snapshot.Delta, err, began, n.cfg.Now())
			n.buffer.failed(err)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, ErrOwned), errors.Is(err, upload.ErrConflict), errors.Is(err, errBuffer):
				return err
			}
			n.log.Error("a delta was not uploaded, trying again", "error", err, "failures", failures)
			if err := n.cfg.Retry.wait(ctx, failures); err != nil {
				return err
			}
		}
		n.buffer.uploaded(d)
		if !period.Stop() {
			select {
			case <-period.C:
			default:
			}
		}
		period.Reset(n.cfg.DeltaPeriod)
	}
}

// writtenOn is why a full follows a final one: who waits for the end of a later stop must not take that for it.
const writtenOn = "clients write on after the final one"

// uploadDelta seals d, once, and puts it into the bucket.
func (n *session) uploadDelta(ctx context.Context, d *cutDelta) error {
	began := n.cfg.Now()
	if d.sealed == nil {
		m := n.deltaManifest(d)
		m.Leases = n.leaseRecords(ctx, d.LeaseIDs(), d.Last())
		sealed, err := d.Seal(began, m)
		if err != nil {
			n.noteTight() // the next session fetches it again, in smaller deltas
			return fmt.Errorf("%w: %w", errBuffer, err)
		}
		d.sealed = sealed
	}
	name := d.sealed.Name
	if err := n.stillOwner(ctx); err != nil {
		return err
	}
	key := snapshot.SnapshotKey(n.cfg.Prefix, name)
	if err := upload.PutSection(ctx, n.cfg.Store, key.String(), d.sealed.Reader()); err != nil {
		return fmt.Errorf("upload %s: %w", name, err)
	}
	if n.cfg.Format == codec.V2JSON { // a native delta carries its manifest in front
		if err := n.putManifest(ctx, name, d.sealed.Manifest); err != nil {
			return err
		}
	}
	n.mu.Lock()
	n.lastDelta, n.stored = &Taken{Key: key, Manifest: d.sealed.Manifest, Own: true}, true
	n.ends[string(snapshot.Delta)] = link{name.Last, d.sealed.Manifest.Digest}
	n.deltas++
	n.deltaBytes += contentBytes(n.lastDelta)
	n.revisions += name.Last - name.Start + 1
	deltas, revisions := n.deltas, n.revisions
	resumed := n.lastFull != nil && n.lastFull.Key.Name.Final && n.lastFull.Manifest.LastRevision < name.Last
	n.mu.Unlock()
	if resumed {
		n.wantFull(writtenOn)
	}
	select {
	case n.wrote <- struct{}{}:
	default:
	}
	now := n.cfg.Now()
	n.cfg.Metrics.taken(name, name.Last, began, now)
	n.cfg.Metrics.deltas.Set(float64(deltas))
	n.cfg.Metrics.deltaRevisions.Set(float64(revisions))
	next, known := n.buffer.position()
	n.cfg.Metrics.need(snapshot.Delta, name.Last < next-1)
	n.log.Info("delta uploaded", "name", name.String(), "events", d.sealed.Manifest.Events,
		"bytes", d.sealed.Size(), "spilled", d.Spilled(), "known", int64(known))
	n.log.Debug("in use", "goroutines", runtime.NumGoroutine())
	return nil
}

// deltaManifest is what is known about a delta besides its content.
func (n *session) deltaManifest(d *cutDelta) snapshot.Manifest {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := snapshot.Manifest{Lineage: n.lineage, ClusterID: n.cluster, EtcdVersion: d.etcd, Writer: n.cfg.Writer}
	for _, kind := range []snapshot.Kind{snapshot.Delta, snapshot.Full} {
		if end, ok := n.ends[string(kind)]; ok && end.last == d.First()-1 {
			m.Previous = end.digest
			break
		}
	}
	return m
}

// takeDelta: see Snapshotter.TakeDelta.
func (n *session) takeDelta(ctx context.Context) (*Taken, error) {
	fail := func(err error) (*Taken, error) {
		return nil, fmt.Errorf("take a delta snapshot: %w", err)
	}
	if n.cfg.DeltaPeriod == 0 {
		return fail(fmt.Errorf("%w: deltas are switched off; set --delta-snapshot-period", ErrConfig))
	}
	m, _, err := n.connect(ctx)
	if err != nil {
		return fail(err)
	}
	rev, err := m.Revision(ctx)
	if err != nil {
		return fail(err)
	}
	n.mu.Lock()
	before := n.lastDelta
	n.mu.Unlock()
	if err := n.buffer.drained(ctx, rev); err != nil {
		return fail(err)
	}
	if _, err := n.buffer.flush(ctx, false); err != nil {
		return fail(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lastDelta == before {
		return nil, nil
	}
	return n.lastDelta, nil
}
