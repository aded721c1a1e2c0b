package extender

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/fetch"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/dbstream"
	"druid.internal/druid/internal/store"
)

// measure is what reading a snapshot whole told about it.
type measure struct {
	digest  snapshot.Digest
	size    int64
	content int64
	last    snapshot.Revision // 0: it cannot be told
	unknown error             // of a full: why it cannot
}

// good reads a chain if it is to be read whole, and records what is damaged.
func (x *run) good(ctx context.Context, p restoreplan.Plan, whole bool, why string) (verified string, is bool, err error) {
	switch {
	case x.q.DryRun && whole:
		return "no: a dry run reads nothing, and the run would", true, nil
	case !whole:
		return why, true, nil
	case x.policy.Period <= 0 && !x.q.Release:
		return "no: nothing can be prolonged, as for how long is not known", true, nil
	}
	err = x.verify(ctx, p)
	var bad *replay.ObjectError
	if err == nil {
		return x.asRead(p.Base), true, nil
	}
	if !errors.As(err, &bad) || x.unusable[bad.Ref] != "" {
		return "", false, err
	}
	x.ruleOut(bad.Ref, bad.Err.Error())
	if x.tags != catalog.TagsOfAll { // any snapshot may be needed now, so it must be known of each whether it is excluded
		return "", false, x.list(ctx, catalog.TagsOfAll)
	}
	return "", false, nil
}

// wholly is what is told of a chain that was read, and can be restored.
const wholly = "whole"

// asRead is what is told of a chain that was read whole.
func (x *run) asRead(base timeline.Snapshot) string {
	if why := x.unproven(base); why != "" {
		return "every byte, but of the full snapshot " + why
	}
	return wholly
}

// unproven is why a full whose bytes are right may be no database; empty: it is one, or was not read.
func (x *run) unproven(full timeline.Snapshot) string {
	if m, read := x.measured[full.Ref]; read && m.unknown != nil {
		return m.unknown.Error()
	}
	return ""
}

// verify reads every snapshot of the plan whole. A *replay.ObjectError condemns one of them; every
// other error says nothing about the backup.
func (x *run) verify(ctx context.Context, p restoreplan.Plan) error {
	all := []timeline.Snapshot{p.Base}
	for _, d := range p.Deltas {
		all = append(all, d.Snapshot)
	}
	for _, s := range all {
		if _, done := x.measured[s.Ref]; done {
			continue
		}
		m, err := x.read(ctx, s)
		if err != nil {
			if replay.Condemns(err) || errors.Is(err, dbstream.ErrTrailer) || errors.Is(err, dbstream.ErrBehind) || errors.Is(err, dbstream.ErrNoDatabase) {
				return &replay.ObjectError{Ref: s.Ref, Err: err}
			}
			return fmt.Errorf("verify %s: %w", s.Ref, err)
		}
		x.measured[s.Ref] = m
	}
	return nil
}

// read reads a snapshot whole. What has a manifest must have its digest. Besides, it proves itself: a full by the
// SHA-256 that etcd appends to it and by its last revision, which a database alone has, a delta by the one in its header or
// at its end. For whoever may write makes a manifest for whatever he likes, and in its favour the locks of what is good would end.
func (x *run) read(ctx context.Context, s timeline.Snapshot) (measure, error) {
	opts := fetch.Options{Size: s.Size, Parallel: x.q.Ranges, OnRead: func(n int) {
		x.q.Progress("reading the backup", x.bytesRead.Add(int64(n)), 0)
	}}
	told := s.Manifest
	if s.Header != nil {
		told = nil // its digest does not cover the header
	}
	if told != nil {
		if told.Size != s.Size {
			return measure{}, fmt.Errorf("%w: %d bytes are stored, %d were written", fetch.ErrDamaged, s.Size, told.Size)
		}
		opts.Digest = told.Digest
	}
	packed, err := fetch.Open(ctx, x.q.Store, store.Version{Key: s.Key.String(), ID: s.Version}, opts)
	if err != nil {
		return measure{}, err
	}
	defer packed.Close()
	sum := sha256.New()
	m := measure{size: s.Size}
	src := io.TeeReader(packed, sum)
	if s.Full() {
		reaches := s.Name().Last
		if told != nil {
			reaches = max(reaches, told.LastRevision)
		}
		err = m.readFull(src, s.Name(), reaches)
	} else {
		err = m.readDelta(src, s.Name())
	}
	if err == nil {
		_, err = io.Copy(io.Discard, src) // to the end of what is stored, where the digest is compared
	}
	if err == nil && told != nil {
		m.content, m.last = told.ContentSize, told.LastRevision
	}
	sum.Sum(m.digest[:0])
	return m, err
}

func (m *measure) readFull(packed io.Reader, name snapshot.Name, reaches snapshot.Revision) error {
	content, err := codec.Decompress(packed, name.Compression)
	if err != nil {
		return err
	}
	defer content.Close()
	db := dbstream.NewReader(content, reaches)
	if m.content, err = io.Copy(io.Discard, db); err != nil {
		return err
	}
	switch m.last, m.unknown = db.LastRevision(); {
	case errors.Is(m.unknown, dbstream.ErrNoDatabase):
		return m.unknown
	case m.unknown != nil: // it is whole, and a database of its kind was not seen before
		m.last = 0
	}
	return nil
}

func (m *measure) readDelta(packed io.Reader, name snapshot.Name) error {
	r, err := codec.NewDeltaReader(packed, name.Compression, codec.ReaderOptions{})
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		b.Release()
	}
	if r.First() != name.Start || r.Last() != name.Last {
		return fmt.Errorf("%w: it holds revisions %d to %d, its name says %d to %d", fetch.ErrDamaged, r.First(), r.Last(), name.Start, name.Last)
	}
	m.content, m.last = r.ContentSize(), name.Last
	return nil
}
