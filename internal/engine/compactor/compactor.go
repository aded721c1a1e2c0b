// Package compactor replays a backup into one new full in the bucket, so that a later restore
// reads one object instead of a full and thousands of deltas.
//
// It deletes nothing: what the new full supersedes goes when retention lets it go.
package compactor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/engine/upload"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/etcd/scratchdir"
	"druid.internal/druid/internal/store"
)

// Request says what to compact and where to put the result.
type Request struct {
	// From says where the backup is; the newest state is compacted.
	From   replay.Options
	Into   store.Store
	Prefix snapshot.Prefix

	Keep        History
	Compression snapshot.Compression
	ScratchDir  string // an existing directory with room for one database; empty: the system's
	KeepFree    int64  // bytes that stay free on the volume of ScratchDir
	MemoryLimit int64  // bytes, 0: the replay's default
	Parallel    int    // deltas decoded at the same time, 0: one per processor
	Writer      string // program and version, for the manifest
	Now         func() time.Time
}

// Result is what a compaction did.
type Result struct {
	Plan     restoreplan.Plan
	Name     snapshot.Name // of the new full; its Kind is empty if there was nothing to do
	Manifest snapshot.Manifest
	Replayed datadir.Report
	Damaged  []replay.Damage
	Took     time.Duration
}

// Nothing reports that no delta follows the newest full, so that no new one was written.
func (r *Result) Nothing() bool { return r.Name.Kind == "" }

// Compact replays the newest chain and stores the result as a full with a manifest. Both are
// write-once; whatever it is interrupted by, the bucket stays as restorable as it was.
func Compact(ctx context.Context, q Request) (*Result, error) {
	began := time.Now()
	plan, err := replay.Plan(q.From)
	if err != nil {
		return nil, err
	}
	res := &Result{Plan: plan}
	if len(plan.Deltas) == 0 {
		return res, nil
	}
	dir, remove, err := scratchdir.Make(q.ScratchDir, "compact")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the new full: %w", err)
	}
	defer func() { _ = remove() }()
	out := filepath.Join(dir, "db")
	res.Plan, res.Damaged, err = replay.Run(ctx, q.From, plan, func(p restoreplan.Plan, src datadir.Source) error {
		r, err := datadir.Rebuild(ctx, src, datadir.Options{
			TargetRevision: p.StopRevision, CompactAt: q.Keep.compactAt(p),
			MemoryLimit: q.MemoryLimit, Parallel: q.Parallel, ScratchDir: dir, KeepFree: q.KeepFree,
		}, out)
		if err == nil {
			res.Replayed = *r
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(res.Plan.Deltas) == 0 { // those that there were are damaged, and it is accepted to go without
		return res, nil
	}
	if err := q.store(ctx, res, out); err != nil {
		return nil, err
	}
	res.Took = time.Since(began)
	return res, nil
}

// store writes the database at path as a full, and its manifest.
func (q Request) store(ctx context.Context, res *Result, path string) error {
	created := q.Now().Unix()
	for _, d := range res.Plan.Deltas {
		created = max(created, d.Name().Created) // so that it sorts behind the deltas it contains
	}
	name := snapshot.Name{Kind: snapshot.Full, Last: res.Replayed.Revision, Created: created, Compression: q.Compression}
	key := snapshot.SnapshotKey(q.Prefix, name)
	content, size, err := datadir.NewSnapshotReader(path)
	if err != nil {
		return err
	}
	defer content.Close()
	var source io.Reader = content
	if q.From.Progress != nil {
		source = &counted{Reader: content, total: size, report: q.From.Progress}
	}
	packed, err := codec.Compress(source, q.Compression)
	if err != nil {
		return err
	}
	defer packed.Close()
	written, err := upload.Put(ctx, q.Into, key.String(), packed)
	if err != nil {
		return fmt.Errorf("store the compacted full: %w", err)
	}
	base, last := res.Plan.Base, res.Plan.Deltas[len(res.Plan.Deltas)-1]
	latest := last.NotAfter()
	if res.Replayed.Reached > last.Last { // the rest is the base's: when it was received is known from its manifest or not at all
		latest = base.Latest()
	}
	m := snapshot.Manifest{
		Version: snapshot.ManifestVersion, Snapshot: name.String(), Lineage: res.Plan.Lineage,
		Digest: written.Digest, Size: written.Size, ContentSize: size,
		LastRevision: res.Replayed.Revision, HashKV: &res.Replayed.HashKV,
		Latest: latest, CompactedFrom: base.Name().String(), Writer: q.Writer,
	}
	if b := base.Manifest; b != nil {
		m.ClusterID, m.MemberID, m.EtcdVersion, m.StorageVersion = b.ClusterID, b.MemberID, b.EtcdVersion, b.StorageVersion
		m.Suspect, m.AuthRevision = b.Suspect, b.AuthRevision
	}
	if _, err := upload.Put(ctx, q.Into, key.Manifest().String(), bytes.NewReader(m.Encode())); err != nil {
		return fmt.Errorf("store the manifest of the compacted full: %w", err)
	}
	res.Name, res.Manifest = name, m
	return nil
}
