package gcs

import (
	"context"
	"fmt"
	"maps"

	"cloud.google.com/go/storage"

	"druid.internal/druid/internal/store"
)

// SetTag implements store.Tagger. Tags are custom metadata, which stay editable under every
// lock. All of them are sent, with the condition that nobody changed them meanwhile.
func (s *Store) SetTag(ctx context.Context, v store.Version, key, value string) error {
	if err := checkTag(key); err != nil {
		return fmt.Errorf("tag %s in %s: %w", v, s.caps.Location, err)
	}
	_, err := s.change(ctx, v, func(attrs *storage.ObjectAttrs) (*storage.ObjectAttrsToUpdate, error) {
		if now, ok := attrs.Metadata[key]; ok && now == value {
			return nil, nil
		}
		all := maps.Clone(attrs.Metadata)
		if all == nil {
			all = map[string]string{}
		}
		all[key] = value
		return &storage.ObjectAttrsToUpdate{Metadata: all}, nil
	})
	if err != nil {
		return fmt.Errorf("tag %s in %s: %w", v, s.caps.Location, err)
	}
	return nil
}

// checkTag refuses what this package uses itself.
func checkTag(key string) error {
	switch key {
	case "":
		return fmt.Errorf("a tag without a name: %w", store.ErrUnsupported)
	case nonceKey:
		return fmt.Errorf("the tag %s is this program's own: %w", nonceKey, store.ErrUnsupported)
	}
	return nil
}

// metadataFor is the custom metadata of a new object: its tags and the nonce.
func metadataFor(tags map[string]string, nonce string) (map[string]string, error) {
	all := make(map[string]string, len(tags)+1)
	for key, value := range tags {
		if err := checkTag(key); err != nil {
			return nil, err
		}
		all[key] = value
	}
	all[nonceKey] = nonce
	return all, nil
}
