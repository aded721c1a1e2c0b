package datadir

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"

	"golang.org/x/sync/errgroup"
)

// etcd's snapshot is the database file, a multiple of sector bytes, and its SHA-256.
const sector = 512

// intakeBuffer is one of intakeBuffers pieces that are read, hashed and written at the same time.
const (
	intakeBuffer  = 256 << 10
	intakeBuffers = 4
)

// intake writes the database contained in the snapshot r to f and verifies the trailer on the
// way. An error of r is returned wrapped: the snapshot itself may be whole.
func intake(ctx context.Context, r io.Reader, f io.Writer, progress func(total int64)) error {
	full := make(chan []byte, intakeBuffers)
	empty := make(chan []byte, intakeBuffers)
	for range intakeBuffers {
		empty <- make([]byte, intakeBuffer)
	}
	group, ctx := errgroup.WithContext(ctx)
	var total int64
	group.Go(func() error {
		defer close(full)
		for {
			var b []byte
			select {
			case b = <-empty:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			n, err := io.ReadFull(r, b[:intakeBuffer])
			total += int64(n)
			if n > 0 {
				full <- b[:n] // never blocks: there are no more buffers than places
				progress(total)
			}
			switch err {
			case nil:
			case io.EOF, io.ErrUnexpectedEOF:
				return nil
			default:
				return fmt.Errorf("read full snapshot: %w", err)
			}
		}
	})
	hash := sha256.New()
	var trailer []byte // the last bytes so far: held back, for they may be the trailer
	group.Go(func() error {
		for b := range full {
			body := b[:max(0, len(b)-sha256.Size)]
			rest := b[len(body):]
			var out [][]byte
			if len(body) > 0 {
				out = [][]byte{trailer, body}
				trailer = append([]byte(nil), rest...)
			} else {
				all := append(trailer, rest...)
				cut := max(0, len(all)-sha256.Size)
				out, trailer = [][]byte{all[:cut]}, append([]byte(nil), all[cut:]...)
			}
			for _, p := range out {
				hash.Write(p)
				if _, err := f.Write(p); err != nil {
					return err
				}
			}
			empty <- b[:intakeBuffer]
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	switch {
	case total%sector == 0 && total > 0:
		return fmt.Errorf("%w: it has %d bytes", ErrBaseNoTrailer, total)
	case total%sector != sha256.Size || total < 2*sector:
		return fmt.Errorf("%w: it has %d bytes, which is no multiple of %d and a digest of %d",
			ErrBaseTruncated, total, sector, sha256.Size)
	case !bytes.Equal(hash.Sum(nil), trailer):
		return ErrBaseDigest
	}
	return nil
}

// NewSnapshotReader reads the database file at path followed by its SHA-256, as etcd streams a
// snapshot. Size is that of the whole stream.
func NewSnapshotReader(path string) (r io.ReadCloser, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return &snapshotReader{file: f, body: io.LimitReader(f, st.Size()), left: st.Size(), hash: sha256.New()}, st.Size() + sha256.Size, nil
}

type snapshotReader struct {
	file *os.File
	body io.Reader
	left int64
	hash interface {
		io.Writer
		Sum([]byte) []byte
	}
	trailer []byte
	ended   bool
}

func (s *snapshotReader) Read(p []byte) (int, error) {
	if !s.ended {
		n, err := s.body.Read(p)
		_, _ = s.hash.Write(p[:n]) // never fails
		s.left -= int64(n)
		if err != io.EOF {
			return n, err
		}
		if s.left != 0 {
			return n, fmt.Errorf("%s: became %d bytes shorter while it was read", s.file.Name(), s.left)
		}
		s.ended, s.trailer = true, s.hash.Sum(nil)
		if n > 0 {
			return n, nil
		}
	}
	if len(s.trailer) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.trailer)
	s.trailer = s.trailer[n:]
	return n, nil
}

func (s *snapshotReader) Close() error { return s.file.Close() }
