package gcs

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/storage"

	"druid.internal/druid/internal/store"
)

// Delete implements store.Deleter. It names the generation, so that no bucket only hides it,
// and the state of its metadata that was read just before: whoever placed a hold or a tag
// meanwhile is not passed over.
func (s *Store) Delete(ctx context.Context, v store.Version) error {
	if v.ID == "" && s.caps.Versions {
		return fmt.Errorf("delete %s in %s: no version is named, which would only hide it: %w", v.Key, s.caps.Location, store.ErrUnsupported)
	}
	if err := s.delete(ctx, v); err != nil {
		return fmt.Errorf("delete in %s: %w", s.caps.Location, err)
	}
	return nil
}

func (s *Store) delete(ctx context.Context, v store.Version) error {
	for attempt := 1; ; attempt++ {
		attrs, _, err := s.attrs(ctx, v)
		if err != nil {
			return gone(err)
		}
		h := s.client.Bucket(s.opts.Bucket).Object(v.Key).Generation(attrs.Generation).
			If(storage.Conditions{MetagenerationMatch: attrs.Metageneration})
		if err = h.Delete(ctx); err == nil {
			return nil
		}
		failed := gone(s.classifyChange(ctx, v, attrs, err))
		if !errors.Is(failed, store.ErrExists) {
			return failed
		}
		if attempt == changeRetries {
			return errors.New("somebody else changes its metadata again and again")
		}
	}
}

// gone: what is not there is deleted already.
func gone(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
