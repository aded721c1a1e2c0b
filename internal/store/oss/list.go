package oss

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	osssdk "github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss"

	"druid.internal/druid/internal/store"
)

// pageSize is how many versions are asked for at a time, the most OSS gives.
const pageSize = 1000

// List implements store.Reader. Locks are the bucket's, so they are told; tags are not.
func (s *Store) List(ctx context.Context, prefix string, fn func(store.Object) error) error {
	if strings.HasPrefix(prefix, "/") {
		return fmt.Errorf("list %s in %s: %w", prefix, s.caps.Location, errRooted)
	}
	if prefix = strings.TrimSuffix(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	// Begun only now: an empty listing of a missing bucket would be a lie.
	p, err := s.policy(ctx)
	if err != nil {
		return fmt.Errorf("list %s in %s: %w", quoted(prefix), s.caps.Location, err)
	}
	return s.list(ctx, prefix, func(o store.Object) error {
		if !o.Marker {
			o.Retention = p.of(o.Modified)
		}
		return fn(o)
	})
}

// list calls fn for everything whose key begins with the very characters of prefix.
func (s *Store) list(ctx context.Context, prefix string, fn func(store.Object) error) error {
	failed := func(err error) error {
		return fmt.Errorf("list %s in %s: %w", quoted(prefix), s.caps.Location, err)
	}
	in := &osssdk.ListObjectVersionsRequest{Bucket: &s.opts.Bucket, Prefix: &prefix, MaxKeys: pageSize,
		EncodingType: osssdk.Ptr("url")} // keys may contain what XML cannot; the SDK decodes them
	last := ""
	for {
		out, err := s.client.ListObjectVersions(ctx, in)
		if err != nil {
			return failed(s.classify(ctx, err))
		}
		page, err := s.page(out)
		if err != nil {
			return failed(err)
		}
		for _, o := range page {
			if err := ctx.Err(); err != nil {
				return failed(err)
			}
			if o.Key < last || !strings.HasPrefix(o.Key, prefix) {
				return failed(fmt.Errorf("the server lists %q after %q, such a listing cannot be trusted to be complete", o.Key, last))
			}
			last = o.Key
			if err := fn(o); err != nil {
				return err
			}
		}
		if !out.IsTruncated {
			return nil
		}
		key, id := osssdk.ToString(out.NextKeyMarker), osssdk.ToString(out.NextVersionIdMarker)
		if key == "" || key == osssdk.ToString(in.KeyMarker) && id == osssdk.ToString(in.VersionIdMarker) {
			return failed(errors.New("the server says there is more but not where it goes on"))
		}
		in.KeyMarker, in.VersionIdMarker = &key, &id
	}
}

// page merges the versions and markers of one answer, which the SDK tells apart, into one
// order again: keys ascending, newest first. Where times do not decide (OSS tells seconds),
// the latest goes first and a marker before content, since a marker is what hides something.
func (s *Store) page(out *osssdk.ListObjectVersionsResult) ([]store.Object, error) {
	page := make([]store.Object, 0, len(out.ObjectVersions)+len(out.ObjectDeleteMarkers))
	for _, v := range out.ObjectVersions {
		if v.Key == nil || v.LastModified == nil {
			return nil, errors.New("the server lists something without a key or a time")
		}
		page = append(page, store.Object{
			Version: store.Version{Key: *v.Key, ID: s.idOf(v.VersionId)},
			Size:    v.Size, Modified: *v.LastModified, Latest: v.IsLatest,
		})
	}
	for _, m := range out.ObjectDeleteMarkers {
		if m.Key == nil || m.LastModified == nil {
			return nil, errors.New("the server lists something without a key or a time")
		}
		page = append(page, store.Object{
			Version:  store.Version{Key: *m.Key, ID: s.idOf(m.VersionId)},
			Modified: *m.LastModified, Marker: true, Latest: m.IsLatest,
		})
	}
	slices.SortStableFunc(page, func(a, b store.Object) int {
		if c := strings.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		if a.Latest != b.Latest {
			return first(a.Latest)
		}
		if c := b.Modified.Compare(a.Modified); c != 0 {
			return c
		}
		if a.Marker != b.Marker {
			return first(a.Marker)
		}
		return 0
	})
	return page, nil
}

func first(a bool) int {
	if a {
		return -1
	}
	return 1
}

// quoted is a prefix for messages.
func quoted(prefix string) string {
	if prefix == "" {
		return "everything"
	}
	return prefix
}
