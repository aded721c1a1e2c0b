package snapshotter

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/store"
)

// ErrConflict says that another object is where ours was to be written.
var ErrConflict = errors.New("another object has this name")

// put writes an object that can be read repeatedly, and settles what is unclear: when the store
// did not confirm, or says that the object exists, the object is compared with ours. So a
// repetition after a lost response succeeds, and nothing of others is taken for ours.
func (s *session) put(ctx context.Context, key string, body io.ReadSeeker) error {
	_, err := s.cfg.Store.Put(ctx, key, body, store.PutOptions{})
	if err == nil {
		return nil
	}
	if !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrUnknownOutcome) {
		return err
	}
	if _, serr := body.Seek(0, io.SeekStart); serr != nil {
		return errors.Join(err, serr)
	}
	sum := sha256.New()
	size, serr := io.Copy(sum, body)
	if serr != nil {
		return errors.Join(err, serr)
	}
	var digest snapshot.Digest
	sum.Sum(digest[:0])
	return s.settle(ctx, key, size, digest, err)
}

// settle decides about an upload whose outcome is told by err.
func (s *session) settle(ctx context.Context, key string, size int64, digest snapshot.Digest, err error) error {
	o, serr := s.cfg.Store.Stat(ctx, store.Version{Key: key})
	if errors.Is(serr, store.ErrNotFound) {
		return err // it did not happen
	}
	if serr != nil {
		return fmt.Errorf("%w; whether it happened cannot be told: %w", err, serr)
	}
	if o.Size != size {
		return fmt.Errorf("%w: %s has %d bytes, ours has %d", ErrConflict, o.Version, o.Size, size)
	}
	body, serr := s.cfg.Store.Open(ctx, o.Version, 0, -1)
	if serr != nil {
		return fmt.Errorf("%w; whether it happened cannot be told: %w", err, serr)
	}
	defer body.Close()
	sum := sha256.New()
	if _, serr := io.Copy(sum, body); serr != nil {
		return fmt.Errorf("%w; whether it happened cannot be told: %w", err, serr)
	}
	if !bytes.Equal(sum.Sum(nil), digest[:]) {
		return fmt.Errorf("%w: %s has our size and other content", ErrConflict, o.Version)
	}
	s.log.Info("the upload had succeeded although the store did not say so", "key", key)
	return nil
}

// putManifest writes the manifest of a snapshot, a few times if need be: a snapshot without
// one belongs to no lineage.
func (s *session) putManifest(ctx context.Context, n snapshot.Name, m snapshot.Manifest) error {
	const attempts = 5
	key := snapshot.SnapshotKey(s.cfg.Prefix, n).Manifest().String()
	content := m.Encode()
	for attempt := 1; ; attempt++ {
		err := s.put(ctx, key, bytes.NewReader(content))
		if err == nil {
			return nil
		}
		err = fmt.Errorf("write the manifest of %s: %w", n, err)
		if attempt == attempts || errors.Is(err, ErrConflict) {
			return err
		}
		s.log.Warn("the manifest was not written, trying again", "error", err)
		if werr := s.cfg.Retry.wait(ctx, attempt); werr != nil {
			return err
		}
	}
}

// meter counts and hashes what is read through it.
type meter struct {
	src  io.Reader
	sum  interface{ Write([]byte) (int, error) }
	size int64
	// complete: it was read to the end
	complete bool
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.src.Read(p)
	m.sum.Write(p[:n])
	m.size += int64(n)
	m.complete = m.complete || err == io.EOF
	return n, err
}
