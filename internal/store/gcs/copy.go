package gcs

import (
	"context"
	"errors"
	"fmt"

	"druid.internal/druid/internal/store"
)

// Copy implements store.Copier by rewriting, which needs no bytes of ours. The lock is
// opts.Retention or what the bucket gives by default, never the source's.
func (s *Store) Copy(ctx context.Context, from store.Reader, src store.Version, key string, opts store.PutOptions) (store.Object, error) {
	o, err := s.copy(ctx, from, src, key, opts)
	if err != nil {
		return store.Object{}, fmt.Errorf("copy %s to %s in %s: %w", src, key, s.caps.Location, err)
	}
	return o, nil
}

func (s *Store) copy(ctx context.Context, from store.Reader, src store.Version, key string, opts store.PutOptions) (store.Object, error) {
	source, ok := store.As[*Store](from)
	if !ok || s.opts.Endpoint != source.opts.Endpoint {
		return store.Object{}, fmt.Errorf("the source is not in the same service: %w", store.ErrUnsupported)
	}
	w, err := s.newWrite(key, opts)
	if err != nil {
		return store.Object{}, err
	}
	attrs, _, err := source.attrs(ctx, src)
	if err != nil {
		return store.Object{}, fmt.Errorf("source: %w", err)
	}
	h := s.client.Bucket(source.opts.Bucket).Object(src.Key).Generation(attrs.Generation)
	c := w.handle().CopierFrom(h)
	c.ObjectAttrs = w.attrs()
	c.ProgressFunc = func(uint64, uint64) { w.failed.Store(0) }
	made, err := c.Run(ctx)
	if err != nil {
		o, err := w.settle(ctx, attrs.Size, err)
		return o, copyRefused(s, source, err)
	}
	return w.verified(made, attrs.Size, attrs.CRC32C)
}

// copyRefused: who may read the source by its own credentials and write here by ours can
// still stream what the service will not copy for ours.
func copyRefused(s, source *Store, err error) error {
	if source != s && errors.Is(err, store.ErrForbidden) || errors.Is(err, store.ErrUnsupported) {
		return fmt.Errorf("%w: %w", store.ErrUnsupported, err)
	}
	return err
}
