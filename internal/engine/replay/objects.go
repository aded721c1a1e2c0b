package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/fetch"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/etcd/datadir/boltfile"
	"druid.internal/druid/internal/store"
)

// ObjectError says that one object is unusable, as opposed to the store or this machine.
type ObjectError struct {
	Ref timeline.Ref
	Err error
}

func (e *ObjectError) Error() string { return fmt.Sprintf("%s: %v", e.Ref, e.Err) }
func (e *ObjectError) Unwrap() error { return e.Err }

// damage are the errors that condemn the object they were found in. Everything else (a lost
// connection, a full disk) says nothing about it.
var damage = []error{
	fetch.ErrDamaged, store.ErrNotFound,
	codec.ErrDigest, codec.ErrTruncated, codec.ErrMalformed, codec.ErrCompression, codec.ErrEncoding,
	datadir.ErrBaseTruncated, datadir.ErrBaseSize, datadir.ErrBaseNoTrailer, datadir.ErrBaseDigest, datadir.ErrBaseBehind, datadir.ErrNotEtcd, datadir.ErrHashKV,
}

// Condemns reports whether err, met while an object was read, says that the object is damaged.
func Condemns(err error) bool {
	for _, d := range damage {
		if errors.Is(err, d) {
			return true
		}
	}
	// A broken database of ours (ErrVerification) says nothing about the one it was made from.
	if errors.Is(err, boltfile.ErrCorrupt) && !errors.Is(err, datadir.ErrVerification) {
		return true
	}
	var gap *codec.GapError
	var order *codec.OrderError
	return errors.As(err, &gap) || errors.As(err, &order)
}

// blame attributes err to the object it condemns, if it condemns any.
func blame(ref timeline.Ref, err error) error {
	var known *ObjectError
	if err == nil || err == io.EOF || errors.As(err, &known) || !Condemns(err) {
		return err
	}
	return &ObjectError{ref, err}
}

// objects opens the snapshots of one plan.
type objects struct {
	ctx   context.Context
	o     Options
	total int64
	read  atomic.Int64
	ahead ahead
}

func newObjects(ctx context.Context, o Options, total int64) *objects {
	s := &objects{ctx: ctx, o: o, total: total}
	if s.ahead.left = o.ReadAhead; s.ahead.left <= 0 {
		s.ahead.left = DefaultReadAhead
	}
	return s
}

// source makes a plan into what datadir rebuilds from. The closer ends the base; deltas are
// closed by whoever opens them.
func (s *objects) source(p restoreplan.Plan) (datadir.Source, io.Closer, error) {
	base, err := s.base(p.Base)
	if err != nil {
		return datadir.Source{}, nil, err
	}
	src := datadir.Source{Base: base, BaseName: p.Base.Name().String(), BaseLast: p.Base.Last, BaseInTime: p.Base.Certain}
	if m := p.Base.Manifest; m != nil {
		src.BaseHashKV, src.BaseSize = m.HashKV, m.ContentSize
	}
	for _, step := range p.Deltas {
		src.Deltas = append(src.Deltas, datadir.Delta{
			Name:  step.Name().String(),
			First: step.Name().Start,
			Last:  step.Name().Last,
			Open:  func(o codec.ReaderOptions) (datadir.Records, error) { return s.delta(step.Snapshot, o) },
		})
	}
	return src, base, nil
}

func (s *objects) open(o timeline.Snapshot) (io.ReadCloser, error) {
	opts := fetch.Options{Size: o.Size, Parallel: s.o.Ranges, OnRead: func(n int) {
		done := s.read.Add(int64(n))
		if s.o.Progress != nil {
			s.o.Progress("reading the backup", done, s.total)
		}
	}}
	// The digest in the header of a native delta does not cover the header; its content proves itself.
	if m := o.Manifest; m != nil && o.Header == nil {
		opts.Digest = m.Digest
		if m.Size != o.Size {
			return nil, &ObjectError{o.Ref, fmt.Errorf("%w: %d bytes are stored, %d were written", fetch.ErrDamaged, o.Size, m.Size)}
		}
	}
	share, size := s.ahead.take(opts.Parallel, opts.Size)
	if opts.RangeBytes = size; share == 0 {
		opts.Parallel = 1
	}
	r, err := fetch.Open(s.ctx, s.o.Store, store.Version{Key: o.Key.String(), ID: o.Version}, opts)
	if err != nil {
		s.ahead.give(share)
		return nil, blame(o.Ref, err)
	}
	return &borrower{ReadCloser: r, giveBack: sync.OnceFunc(func() { s.ahead.give(share) })}, nil
}

// base is the unpacked full.
func (s *objects) base(o timeline.Snapshot) (io.ReadCloser, error) {
	packed, err := s.open(o)
	if err != nil {
		return nil, err
	}
	unpacked, err := codec.Decompress(packed, o.Name().Compression)
	if err != nil {
		return nil, errors.Join(blame(o.Ref, err), packed.Close())
	}
	return &full{unpacked, packed, o.Ref}, nil
}

// full attributes the errors of a stream to its object.
type full struct {
	io.ReadCloser
	packed io.Closer
	ref    timeline.Ref
}

func (f *full) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	return n, blame(f.ref, err)
}

func (f *full) Close() error { return errors.Join(f.ReadCloser.Close(), f.packed.Close()) }

// delta opens the records of a delta and holds them against its name.
func (s *objects) delta(o timeline.Snapshot, how codec.ReaderOptions) (datadir.Records, error) {
	packed, err := s.open(o)
	if err != nil {
		return nil, err
	}
	r, err := codec.NewDeltaReader(packed, o.Name().Compression, how)
	if err != nil {
		return nil, errors.Join(blame(o.Ref, err), packed.Close())
	}
	return &records{DeltaReader: r, packed: packed, snapshot: o}, nil
}

type records struct {
	*codec.DeltaReader
	packed   io.Closer
	snapshot timeline.Snapshot
}

func (r *records) Next() (*codec.Batch, error) {
	b, err := r.DeltaReader.Next()
	if err == io.EOF {
		name := r.snapshot.Name()
		if r.First() != name.Start || r.Last() != name.Last {
			return nil, &ObjectError{r.snapshot.Ref, fmt.Errorf("%w: it holds revisions %d to %d, its name says %d to %d",
				fetch.ErrDamaged, r.First(), r.Last(), name.Start, name.Last)}
		}
	}
	return b, blame(r.snapshot.Ref, err)
}

// Leases are the records of the manifest: of the one in the delta's own header, or of the one beside it.
func (r *records) Leases() []snapshot.LeaseRecord {
	if m := r.snapshot.Manifest; r.Header() == nil && m != nil {
		return m.Leases
	}
	return r.DeltaReader.Leases()
}

func (r *records) Close() error { return errors.Join(r.DeltaReader.Close(), r.packed.Close()) }
