package copier

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/fetch"
	"druid.internal/druid/internal/etcd/codec"
)

// headed passes a native delta through and ends with [fetch.ErrDamaged] instead of io.EOF if
// what is behind its header has not the digest that the header tells. A delta has no manifest,
// so nothing else tells a digest of it.
type headed struct {
	r    io.Reader
	what string          // for the error
	want snapshot.Digest // of everything behind the header

	begin []byte    // the object's beginning, until the header is complete
	sum   hash.Hash // of what is behind it; nil until then
}

func (h *headed) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if perr := h.pass(p[:n]); perr != nil {
		return 0, perr
	}
	if err == io.EOF && (h.sum == nil || snapshot.Digest(h.sum.Sum(nil)) != h.want) {
		return 0, fmt.Errorf("%w: %s does not match the SHA-256 in its header", fetch.ErrDamaged, h.what)
	}
	return n, err
}

// pass takes account of the next bytes.
func (h *headed) pass(b []byte) error {
	if h.sum != nil {
		h.sum.Write(b)
		return nil
	}
	h.begin = append(h.begin, b...)
	m, length, _, err := codec.ParseHeader(h.begin)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s: %w", fetch.ErrDamaged, h.what, err)
	case m == nil:
		return nil // more is needed
	}
	h.sum = sha256.New()
	h.sum.Write(h.begin[length:])
	h.begin = nil
	return nil
}
