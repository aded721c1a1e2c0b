package store

import (
	"context"
	"fmt"
	"io"
)

// ReadOnly hides everything of s that writes or deletes: the result has no Unwrap method, so
// As finds no more of s than the four methods of Reader and Inspector. Tests use it.
//
// A Copier cannot recognise its own bucket behind this wrapper and will have the bytes
// streamed; hand it the plain store, which as a Reader is no more than that either.
func ReadOnly(s Reader) Reader {
	if r, ok := s.(readOnly); ok {
		return r
	}
	return readOnly{s}
}

// readOnly keeps its store in a named field, because an embedded one could be asserted out of
// it by method promotion.
type readOnly struct{ inner Reader }

func (r readOnly) List(ctx context.Context, prefix string, fn func(Object) error) error {
	return r.inner.List(ctx, prefix, fn)
}

func (r readOnly) Open(ctx context.Context, v Version, off, n int64) (io.ReadCloser, error) {
	return r.inner.Open(ctx, v, off, n)
}

func (r readOnly) Stat(ctx context.Context, v Version) (Object, error) {
	return r.inner.Stat(ctx, v)
}

func (r readOnly) Capabilities() Capabilities { return r.inner.Capabilities() }

// Inspect asks the store behind the wrapper; reading the configuration writes nothing.
func (r readOnly) Inspect(ctx context.Context) (Bucket, error) {
	i, ok := As[Inspector](r.inner)
	if !ok {
		return Bucket{}, fmt.Errorf("inspect %s: %w", r.inner.Capabilities().Location, ErrUnsupported)
	}
	return i.Inspect(ctx)
}
