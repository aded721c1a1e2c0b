// Package metered counts what a store is asked and what it answers: operations by result,
// their duration, bytes, and what is in flight, as Prometheus metrics with bounded labels and
// as plain numbers for a progress display.
//
// Behind package retry it counts every attempt, in front of it what the caller sees. It
// decides nothing, and keys are never labels.
package metered

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// Store is a store that counts. It offers every optional capability, and answers
// store.ErrUnsupported for those the store behind it lacks.
type Store struct {
	inner    store.Store
	name     string
	provider string
	m        *Metrics // may be nil
	inFlight prometheus.Gauge

	operations, failures, sent, received atomic.Int64
}

var _ interface {
	store.Store
	store.Deleter
	store.Extender
	store.Holder
	store.Tagger
	store.Copier
	store.Inspector
} = (*Store)(nil)

// New wraps s. The name tells the stores of a process apart, for example "primary" and
// "source", and becomes a label. With nil metrics only the plain numbers are kept.
func New(s store.Store, name string, m *Metrics) *Store {
	c := &Store{inner: s, name: name, provider: s.Capabilities().Provider, m: m}
	if m != nil {
		c.inFlight = m.inFlight.WithLabelValues(name, c.provider)
	}
	return c
}

// Counts are the plain numbers since New.
type Counts struct {
	Operations int64 // that ended
	Failures   int64 // of them, with an error
	Sent       int64 // bytes of bodies read for uploads
	Received   int64 // bytes of downloads
}

// Counts are the numbers of this moment.
func (s *Store) Counts() Counts {
	return Counts{s.operations.Load(), s.failures.Load(), s.sent.Load(), s.received.Load()}
}

// Unwrap is the store that is counted.
func (s *Store) Unwrap() store.Reader { return s.inner }

// Capabilities implements store.Reader and is not counted.
func (s *Store) Capabilities() store.Capabilities { return s.inner.Capabilities() }

// begin starts an operation; its result is to be told to what is returned.
func (s *Store) begin(op string) func(error) {
	if s.m == nil {
		return s.count
	}
	s.inFlight.Inc()
	start := time.Now()
	return func(err error) {
		s.inFlight.Dec()
		s.count(err)
		s.m.duration.WithLabelValues(s.name, s.provider, op).Observe(time.Since(start).Seconds())
		s.m.operations.WithLabelValues(s.name, s.provider, op, result(err)).Inc()
	}
}

func (s *Store) count(err error) {
	s.operations.Add(1)
	if err != nil {
		s.failures.Add(1)
	}
}

// flow returns where bytes of a direction are counted.
func (s *Store) flow(direction string, total *atomic.Int64) func(n int) {
	if s.m == nil {
		return func(n int) { total.Add(int64(n)) }
	}
	c := s.m.bytes.WithLabelValues(s.name, s.provider, direction)
	return func(n int) {
		total.Add(int64(n))
		c.Add(float64(n))
	}
}

// List implements store.Reader. An error of fn is no failure of the store.
func (s *Store) List(ctx context.Context, prefix string, fn func(store.Object) error) error {
	end, stopped := s.begin("list"), false
	err := s.inner.List(ctx, prefix, func(o store.Object) error {
		err := fn(o)
		stopped = err != nil
		return err
	})
	if stopped {
		end(nil)
		return err
	}
	end(err)
	return err
}

// Stat implements store.Reader.
func (s *Store) Stat(ctx context.Context, v store.Version) (store.Object, error) {
	end := s.begin("stat")
	o, err := s.inner.Stat(ctx, v)
	end(err)
	return o, err
}

// Open implements store.Reader. The download itself is counted as "read" when it ends.
func (s *Store) Open(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	end := s.begin("open")
	r, err := s.inner.Open(ctx, v, off, n)
	end(err)
	if err != nil {
		return nil, err
	}
	return &download{ReadCloser: r, add: s.flow("received", &s.received), end: s.begin("read")}, nil
}

// download counts a stream. Closing it before its end is a success.
type download struct {
	io.ReadCloser
	add   func(int)
	end   func(error)
	ended atomic.Bool // Close may come from another goroutine than Read
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	d.add(n)
	switch err {
	case nil:
	case io.EOF:
		d.finish(nil)
	default:
		d.finish(err)
	}
	return n, err
}

func (d *download) Close() error {
	err := d.ReadCloser.Close()
	d.finish(err)
	return err
}

func (d *download) finish(err error) {
	if d.ended.CompareAndSwap(false, true) {
		d.end(err)
	}
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
	end := s.begin("put")
	o, err := s.inner.Put(ctx, key, counted(body, s.flow("sent", &s.sent)), opts)
	end(err)
	return o, err
}

// counted counts what is read of r, which can be read again afterwards if r can.
func counted(r io.Reader, add func(int)) io.Reader {
	c := upload{r, add}
	if seeker, ok := r.(io.Seeker); ok {
		return struct {
			io.Reader
			io.Seeker
		}{c, seeker}
	}
	return c
}

type upload struct {
	r   io.Reader
	add func(int)
}

func (u upload) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	u.add(n)
	return n, err
}

// Delete implements store.Deleter.
func (s *Store) Delete(ctx context.Context, v store.Version) error {
	return forward(s, "delete", func(d store.Deleter) error { return d.Delete(ctx, v) })
}

// Extend implements store.Extender.
func (s *Store) Extend(ctx context.Context, v store.Version, until time.Time) (r immutability.Retention, err error) {
	err = forward(s, "extend", func(e store.Extender) (err error) {
		r, err = e.Extend(ctx, v, until)
		return err
	})
	return r, err
}

// SetHold implements store.Holder.
func (s *Store) SetHold(ctx context.Context, v store.Version, on bool) error {
	return forward(s, "hold", func(h store.Holder) error { return h.SetHold(ctx, v, on) })
}

// SetTag implements store.Tagger.
func (s *Store) SetTag(ctx context.Context, v store.Version, key, value string) error {
	return forward(s, "tag", func(t store.Tagger) error { return t.SetTag(ctx, v, key, value) })
}

// Copy implements store.Copier. The bytes do not pass here and are not counted.
func (s *Store) Copy(ctx context.Context, from store.Reader, src store.Version, key string, opts store.PutOptions) (o store.Object, err error) {
	err = forward(s, "copy", func(c store.Copier) (err error) {
		o, err = c.Copy(ctx, from, src, key, opts)
		return err
	})
	return o, err
}

// Inspect implements store.Inspector.
func (s *Store) Inspect(ctx context.Context) (b store.Bucket, err error) {
	err = forward(s, "inspect", func(i store.Inspector) (err error) {
		b, err = i.Inspect(ctx)
		return err
	})
	return b, err
}

// forward counts an operation of the capability C of the store behind s.
func forward[C any](s *Store, op string, fn func(C) error) error {
	end := s.begin(op)
	c, ok := store.As[C](s.inner)
	if !ok {
		err := fmt.Errorf("%s: %w", op, store.ErrUnsupported)
		end(err)
		return err
	}
	err := fn(c)
	end(err)
	return err
}
