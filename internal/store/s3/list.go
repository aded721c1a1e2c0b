package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"druid.internal/druid/internal/store"
)

// List implements store.Reader. Neither locks nor tags are in S3's listing.
func (s *Store) List(ctx context.Context, prefix string, fn func(store.Object) error) error {
	if prefix = strings.TrimSuffix(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	return s.list(ctx, prefix, fn)
}

// list calls fn for everything whose key begins with the very characters of prefix, but for the
// leading slash where the server drops it.
func (s *Store) list(ctx context.Context, prefix string, fn func(store.Object) error) error {
	bare, rooted := strings.CutPrefix(prefix, "/")
	if !rooted {
		return s.listKeys(ctx, prefix, fn)
	}
	switch drops, err := s.dropsSlash(ctx); {
	case err != nil:
		return fmt.Errorf("list %s in %s: %w", prefix, s.caps.Location, err)
	case !drops:
		return s.listKeys(ctx, prefix, fn)
	}
	return s.listKeys(ctx, bare, func(o store.Object) error {
		o.Key = "/" + o.Key
		return fn(o)
	})
}

// dropsSlash reports whether the server stores a key that begins with a slash under the name without
// it, as MinIO does, which lists nothing below such a prefix. The key "/" is then an empty one, and
// the request is refused, or answered with a listing, which has no ETag.
func (s *Store) dropsSlash(ctx context.Context) (bool, error) {
	if known := s.slash.Load(); known != nil {
		return *known, nil
	}
	out, err := s.client.GetObject(ctx, &awss3.GetObjectInput{Bucket: &s.opts.Bucket, Key: aws.String("/")})
	var drops bool
	switch classified := s.classify(ctx, err); {
	case err == nil:
		out.Body.Close()
		drops = out.ETag == nil
	case statusOf(err) == http.StatusBadRequest && !errors.Is(classified, store.ErrCredentials):
		drops = true
	case errors.Is(classified, store.ErrForbidden):
		drops = isMinIO(serverOf(err)) // it judges rights before names
	case !errors.Is(classified, store.ErrNotFound):
		return false, classified
	}
	s.slash.Store(&drops)
	return drops, nil
}

// listKeys calls fn for everything whose key begins with the very characters of prefix.
func (s *Store) listKeys(ctx context.Context, prefix string, fn func(store.Object) error) error {
	in := &awss3.ListObjectVersionsInput{
		Bucket: &s.opts.Bucket,
		Prefix: &prefix,
		// Keys may contain what XML cannot.
		EncodingType: types.EncodingTypeUrl,
	}
	last := ""
	for {
		out, err := s.client.ListObjectVersions(ctx, in)
		if err != nil {
			return fmt.Errorf("list %s in %s: %w", quoted(prefix), s.caps.Location, s.classifyList(ctx, err))
		}
		page, err := s.page(out)
		if err != nil {
			return fmt.Errorf("list %s in %s: %w", quoted(prefix), s.caps.Location, err)
		}
		for _, o := range page {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("list %s in %s: %w", quoted(prefix), s.caps.Location, err)
			}
			if o.Key < last || !strings.HasPrefix(o.Key, prefix) {
				return fmt.Errorf("list %s in %s: the server lists %q after %q, such a listing cannot be trusted to be complete", quoted(prefix), s.caps.Location, o.Key, last)
			}
			last = o.Key
			if err := fn(o); err != nil {
				return err
			}
		}
		if !aws.ToBool(out.IsTruncated) {
			return nil
		}
		key, id := out.NextKeyMarker, out.NextVersionIdMarker
		if aws.ToString(key) == "" || aws.ToString(key) == aws.ToString(in.KeyMarker) && aws.ToString(id) == aws.ToString(in.VersionIdMarker) {
			return fmt.Errorf("list %s in %s: the server says there is more but not where it goes on", quoted(prefix), s.caps.Location)
		}
		if in.KeyMarker, err = decode(out, key); err != nil {
			return fmt.Errorf("list %s in %s: %w", quoted(prefix), s.caps.Location, err)
		}
		in.VersionIdMarker = id
	}
}

// classifyList is classify for listings. There is no other way to list: a listing of the
// latest objects alone is what hides backups.
func (s *Store) classifyList(ctx context.Context, err error) error {
	classified := s.classify(ctx, err)
	var f *store.Failure
	if errors.As(classified, &f) && errors.Is(f.Kind, store.ErrUnsupported) {
		f.Remedy = "this server cannot list versions (ListObjectVersions), so backups cannot be kept there"
	}
	return classified
}

// page merges the versions and markers of one answer, which the SDK tells apart, into one
// order again: keys ascending, newest first. Where times do not decide (S3 tells seconds),
// the latest goes first and a marker before content, since a marker is what hides something.
func (s *Store) page(out *awss3.ListObjectVersionsOutput) ([]store.Object, error) {
	page := make([]store.Object, 0, len(out.Versions)+len(out.DeleteMarkers))
	for _, v := range out.Versions {
		key, err := decode(out, v.Key)
		if err != nil {
			return nil, err
		}
		page = append(page, store.Object{
			Version:  store.Version{Key: *key, ID: s.idOf(v.VersionId)},
			Size:     aws.ToInt64(v.Size),
			Modified: aws.ToTime(v.LastModified),
			Latest:   aws.ToBool(v.IsLatest),
		})
	}
	for _, m := range out.DeleteMarkers {
		key, err := decode(out, m.Key)
		if err != nil {
			return nil, err
		}
		page = append(page, store.Object{
			Version:  store.Version{Key: *key, ID: s.idOf(m.VersionId)},
			Modified: aws.ToTime(m.LastModified),
			Marker:   true,
			Latest:   aws.ToBool(m.IsLatest),
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

// decode undoes the encoding we asked for, if the server did what we asked.
func decode(out *awss3.ListObjectVersionsOutput, key *string) (*string, error) {
	if key == nil {
		return nil, errors.New("the server lists something without a key")
	}
	if out.EncodingType != types.EncodingTypeUrl {
		return key, nil
	}
	plain, err := url.QueryUnescape(*key)
	if err != nil {
		return nil, fmt.Errorf("the server lists a key that cannot be decoded: %w", err)
	}
	return &plain, nil
}

// quoted is a prefix for messages.
func quoted(prefix string) string {
	if prefix == "" {
		return "everything"
	}
	return prefix
}
