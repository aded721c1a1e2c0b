package azure

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"druid.internal/druid/internal/store"
)

// List implements store.Reader. Azure tells the versions of a key oldest first, so those of one
// key are held until all of them are known.
func (s *Store) List(ctx context.Context, prefix string, fn func(store.Object) error) error {
	if prefix = strings.TrimSuffix(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	failed := func(err error) error {
		what := prefix
		if what == "" {
			what = "everything"
		}
		return fmt.Errorf("list %s in %s: %w", what, s.caps.Location, err)
	}
	p, err := s.protection(ctx)
	if err != nil {
		return failed(err)
	}
	opts := &container.ListBlobsFlatOptions{Prefix: &prefix, Include: s.include}
	if s.opts.PageSize > 0 {
		opts.MaxResults = &s.opts.PageSize
	}
	var held []store.Object // of one key
	for pager := s.client.NewListBlobsFlatPager(opts); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return failed(s.classify(ctx, err))
		}
		if page.Segment == nil {
			continue
		}
		for _, b := range page.Segment.BlobItems {
			if skipped(b) {
				continue
			}
			o := s.listed(b, p)
			if len(held) > 0 && held[0].Key != o.Key {
				if o.Key < held[0].Key {
					return failed(fmt.Errorf("the service lists %q after %q; accounts with a hierarchical namespace do so, use one without", o.Key, held[0].Key))
				}
				if err := tell(ctx, held, fn, failed); err != nil {
					return err
				}
				held = held[:0]
			}
			if !strings.HasPrefix(o.Key, prefix) {
				return failed(fmt.Errorf("the service lists %q, such a listing cannot be trusted to be complete", o.Key))
			}
			held = append(held, o)
		}
	}
	return tell(ctx, held, fn, failed)
}

// tell hands the versions of one key to fn, the current one first and then the newest. An ID is
// the time the version was made, in digits of fixed width.
func tell(ctx context.Context, held []store.Object, fn func(store.Object) error, failed func(error) error) error {
	slices.SortStableFunc(held, func(a, b store.Object) int {
		if a.Latest != b.Latest {
			if a.Latest {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.ID, a.ID)
	})
	for _, o := range held {
		if err := ctx.Err(); err != nil {
			return failed(err)
		}
		if err := fn(o); err != nil {
			return err
		}
	}
	return nil
}

// skipped are entries that are no versions of ours: directories of a hierarchical namespace,
// snapshots, and what was deleted and is kept for a while.
func skipped(b *container.BlobItem) bool {
	return b.Properties == nil || value(b.Snapshot) != "" || value(b.Deleted) || value(b.Properties.ResourceType) == "directory"
}

// listed is an entry of the listing.
func (s *Store) listed(b *container.BlobItem, p protection) store.Object {
	props := b.Properties
	o := store.Object{
		Version:  store.Version{Key: value(b.Name), ID: value(b.VersionID)},
		Size:     value(props.ContentLength),
		Modified: value(props.LastModified),
		Latest:   b.VersionID == nil || value(b.IsCurrentVersion),
		Retention: p.retention(blobLock{
			created: props.CreationTime, until: props.ImmutabilityPolicyExpiresOn,
			mode: value(props.ImmutabilityPolicyMode), hold: value(props.LegalHold),
		}),
	}
	if s.include.Tags {
		o.Tags = map[string]string{}
		if b.BlobTags != nil {
			for _, t := range b.BlobTags.BlobTagSet {
				o.Tags[value(t.Key)] = value(t.Value)
			}
		}
	}
	return o
}
