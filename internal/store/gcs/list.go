package gcs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

	"druid.internal/druid/internal/store"
)

// listed are the fields of objects that a listing asks for.
var listed = []string{
	"Name", "Size", "Created", "Deleted", "Generation", "Metadata",
	"Retention", "RetentionExpirationTime", "EventBasedHold", "TemporaryHold",
}

// List implements store.Reader. Locks and tags are in the listing. All generations are listed
// in every bucket, also where no new noncurrent ones can come to be.
func (s *Store) List(ctx context.Context, prefix string, fn func(store.Object) error) error {
	if prefix = strings.TrimSuffix(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	return s.list(ctx, &storage.Query{Prefix: prefix}, func(attrs *storage.ObjectAttrs) error { return fn(s.object(attrs)) })
}

// list calls fn for every generation, of one key the newest first. The service tells them the
// other way round, so those of one key are held back until the next key begins.
func (s *Store) list(ctx context.Context, q *storage.Query, fn func(*storage.ObjectAttrs) error) error {
	q.Versions = true
	q.Projection = storage.ProjectionNoACL
	failed := func(err error) error {
		return fmt.Errorf("list %s in %s: %w", quoted(q.Prefix), s.caps.Location, err)
	}
	if err := q.SetAttrSelection(listed); err != nil {
		return failed(err)
	}
	var key []*storage.ObjectAttrs // the generations of one key
	tell := func() error {
		for _, attrs := range slices.Backward(sorted(key)) {
			if err := ctx.Err(); err != nil {
				return failed(err)
			}
			if err := fn(attrs); err != nil {
				return err
			}
		}
		key = key[:0]
		return nil
	}
	it := s.client.Bucket(s.opts.Bucket).Objects(ctx, q)
	for {
		attrs, err := it.Next()
		if errors.Is(err, iterator.Done) {
			return tell()
		}
		if err != nil {
			return failed(s.missingBucket(s.classify(ctx, err)))
		}
		last := ""
		if len(key) > 0 {
			last = key[0].Name
		}
		if attrs.Name < last || !strings.HasPrefix(attrs.Name, q.Prefix) {
			return failed(fmt.Errorf("the server lists %q after %q, such a listing cannot be trusted to be complete", attrs.Name, last))
		}
		if attrs.Name != last {
			if err := tell(); err != nil {
				return err
			}
		}
		key = append(key, attrs)
	}
}

// sorted are generations in the order they were made.
func sorted(key []*storage.ObjectAttrs) []*storage.ObjectAttrs {
	slices.SortStableFunc(key, func(a, b *storage.ObjectAttrs) int {
		switch {
		case a.Generation < b.Generation:
			return -1
		case a.Generation > b.Generation:
			return 1
		}
		return 0
	})
	return key
}

// missingBucket: nothing but the bucket can be missing when it is listed.
func (s *Store) missingBucket(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return &store.Failure{Kind: store.ErrNoBucket, Said: s.notThere(), Remedy: checkWhere, Cause: err}
	}
	return err
}

// quoted is a prefix for messages.
func quoted(prefix string) string {
	if prefix == "" {
		return "everything"
	}
	return prefix
}
