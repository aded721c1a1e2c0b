package azure

import (
	"context"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"druid.internal/druid/internal/store"
)

// checkTags refuses what Azure would, before the body is sent.
func (s *Store) checkTags(tags map[string]string) error {
	switch {
	case len(tags) > 0 && !s.caps.Tags:
		return fmt.Errorf("the account has a hierarchical namespace, which knows no tags: %w", store.ErrUnsupported)
	case len(tags) > maxTags:
		return fmt.Errorf("%d tags are too many, Azure takes %d", len(tags), maxTags)
	}
	return nil
}

// tagsOf reads the tags of a version, of which the service has counted some or none. No count
// means no tags only to those who may read tags, so it takes one answered request to believe
// it. nil: not told.
func (s *Store) tagsOf(ctx context.Context, v store.Version, count *int64) (map[string]string, error) {
	if !s.caps.Tags || value(count) == 0 && s.tagsReadable.Load() {
		return map[string]string{}, nil
	}
	tags, err := s.readTags(ctx, v)
	if errors.Is(err, store.ErrForbidden) || errors.Is(err, store.ErrUnsupported) {
		return nil, nil
	}
	return tags, err
}

func (s *Store) readTags(ctx context.Context, v store.Version) (map[string]string, error) {
	c, err := s.blob(v)
	if err != nil {
		return nil, err
	}
	resp, err := c.GetTags(ctx, &blob.GetTagsOptions{VersionID: idOf(v)})
	if err != nil {
		return nil, s.classifyVersion(ctx, v, err)
	}
	s.tagsReadable.Store(true)
	tags := make(map[string]string, len(resp.BlobTagSet))
	for _, t := range resp.BlobTagSet {
		tags[value(t.Key)] = value(t.Value)
	}
	return tags, nil
}

// idOf is the version's ID for requests that have a parameter for it.
func idOf(v store.Version) *string {
	if v.ID == "" {
		return nil
	}
	return &v.ID
}

// SetTag implements store.Tagger. Tags can be set on what is immutable. Azure only knows how to
// replace all tags, so of two who set different tags of one version at once, one may be lost.
func (s *Store) SetTag(ctx context.Context, v store.Version, key, value string) error {
	if err := s.setTag(ctx, v, key, value); err != nil {
		return fmt.Errorf("tag %s in %s: %w", v, s.caps.Location, err)
	}
	return nil
}

func (s *Store) setTag(ctx context.Context, v store.Version, key, value string) error {
	if err := s.checkTags(map[string]string{key: value}); err != nil {
		return err
	}
	tags, err := s.readTags(ctx, v)
	if err != nil {
		return err
	}
	tags[key] = value
	if err := s.checkTags(tags); err != nil {
		return err
	}
	c, err := s.blob(v)
	if err != nil {
		return err
	}
	if _, err := c.SetTags(ctx, tags, &blob.SetTagsOptions{VersionID: idOf(v)}); err != nil {
		return s.classifyVersion(ctx, v, err)
	}
	return nil
}
