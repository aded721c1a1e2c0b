// Package upload writes objects once and settles what a store left open: whether an upload
// happened whose response was lost, and whether an object that exists already is the very one
// that was to be written.
//
// It makes no names and decides nothing about what is written.
package upload

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/store"
)

// ErrConflict says that another object is where ours was to be written.
var ErrConflict = errors.New("another object has this name")

// Written is what is stored now.
type Written struct {
	Version store.Version
	Size    int64
	Digest  snapshot.Digest
}

// Put stores body under key. That the object exists already, or that the store did not confirm,
// is settled by comparing what is stored with body, which is read to its end for that. So a
// repetition after a lost response succeeds, and nothing of others is taken for ours
// (ErrConflict).
func Put(ctx context.Context, s store.Store, key string, body io.Reader) (Written, error) {
	m := &meter{src: body, sum: sha256.New()}
	o, err := s.Put(ctx, key, m, store.PutOptions{})
	if err == nil {
		return Written{o.Version, m.size, m.digest()}, nil
	}
	if !open(err) {
		return Written{}, err
	}
	if _, rerr := io.Copy(io.Discard, m); rerr != nil {
		return Written{}, errors.Join(err, rerr)
	}
	return settle(ctx, s, key, m.size, m.digest(), err)
}

// PutSection is Put of a body that can be read once more. Its digest is made only if something is to
// be settled.
func PutSection(ctx context.Context, s store.Store, key string, body *io.SectionReader) error {
	again := func() io.Reader { return io.NewSectionReader(body, 0, body.Size()) }
	// Not the section itself: what a store may do with it beyond reading is not agreed.
	_, err := s.Put(ctx, key, struct{ io.Reader }{again()}, store.PutOptions{})
	if err == nil || !open(err) {
		return err
	}
	m := &meter{src: again(), sum: sha256.New()}
	if _, rerr := io.Copy(io.Discard, m); rerr != nil {
		return errors.Join(err, rerr)
	}
	_, err = settle(ctx, s, key, m.size, m.digest(), err)
	return err
}

// open reports whether err leaves open what is stored.
func open(err error) bool {
	return errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrUnknownOutcome)
}

// settle decides about an upload whose outcome is told by err.
func settle(ctx context.Context, s store.Reader, key string, size int64, digest snapshot.Digest, err error) (Written, error) {
	o, serr := s.Stat(ctx, store.Version{Key: key})
	switch {
	case errors.Is(serr, store.ErrNotFound):
		return Written{}, err // it did not happen
	case serr != nil:
		return Written{}, fmt.Errorf("%w; whether it happened cannot be told: %w", err, serr)
	case o.Size != size:
		return Written{}, fmt.Errorf("%w: %s has %d bytes, ours has %d", ErrConflict, o.Version, o.Size, size)
	}
	body, serr := s.Open(ctx, o.Version, 0, -1)
	if serr != nil {
		return Written{}, fmt.Errorf("%w; whether it happened cannot be told: %w", err, serr)
	}
	defer body.Close()
	stored := &meter{src: body, sum: sha256.New()}
	if _, serr := io.Copy(io.Discard, stored); serr != nil {
		return Written{}, fmt.Errorf("%w; whether it happened cannot be told: %w", err, serr)
	}
	if stored.digest() != digest {
		return Written{}, fmt.Errorf("%w: %s has our size and other content", ErrConflict, o.Version)
	}
	return Written{o.Version, size, digest}, nil
}

// meter counts and hashes what is read through it.
type meter struct {
	src  io.Reader
	sum  hash.Hash
	size int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.src.Read(p)
	m.sum.Write(p[:n])
	m.size += int64(n)
	return n, err
}

func (m *meter) digest() (d snapshot.Digest) {
	m.sum.Sum(d[:0])
	return d
}
