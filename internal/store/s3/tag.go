package s3

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"druid.internal/druid/internal/store"
)

// tagHeader is the tags of a new object as the header wants them.
func tagHeader(tags map[string]string) *string {
	if len(tags) == 0 {
		return nil
	}
	q := url.Values{}
	for k, v := range tags {
		q.Set(k, v)
	}
	// Not every server takes a plus for a space here.
	return aws.String(strings.ReplaceAll(q.Encode(), "+", "%20"))
}

// tagsOf reads the tags a HEAD has counted, which named the version or not. No count means no tags only
// to those who may read tags, so it takes one answered request of the same kind to believe it. nil: not told.
func (s *Store) tagsOf(ctx context.Context, v store.Version, head *awss3.HeadObjectOutput, named bool) (map[string]string, error) {
	believed := s.tagsReadable.Load
	if !named {
		believed = s.latestTagsReadable.Load
	}
	if aws.ToInt32(head.TagCount) == 0 && believed() {
		return map[string]string{}, nil
	}
	if !named && s.latestTagsAsked.CompareAndSwap(false, true) { // whoever may not ask so goes on to ask about each by its version
		// Not every server tells of which version the answer is. That there is one proves that no count means no tags.
		tags, of, err := s.tagsOfLatest(ctx, v.Key)
		if err == nil && (v.ID == "" || of == v.ID || len(tags) == 0 && aws.ToInt32(head.TagCount) == 0) {
			return tags, nil
		}
	}
	tags, err := s.readTags(ctx, v)
	if errors.Is(err, store.ErrForbidden) || errors.Is(err, store.ErrUnsupported) {
		return nil, nil
	}
	return tags, err
}

func (s *Store) readTags(ctx context.Context, v store.Version) (map[string]string, error) {
	tags, _, err := s.askTags(ctx, v)
	return tags, err
}

// tagsOfLatest are the tags of a version that is not named, and which one that was; empty if the server does not tell.
func (s *Store) tagsOfLatest(ctx context.Context, key string) (tags map[string]string, version string, err error) {
	return s.askTags(ctx, store.Version{Key: key})
}

func (s *Store) askTags(ctx context.Context, v store.Version) (map[string]string, string, error) {
	out, err := s.client.GetObjectTagging(ctx, &awss3.GetObjectTaggingInput{Bucket: &s.opts.Bucket, Key: &v.Key, VersionId: versionID(v)})
	if err != nil {
		return nil, "", s.classifyRead(ctx, err)
	}
	if v.ID == "" {
		s.latestTagsReadable.Store(true)
	} else {
		s.tagsReadable.Store(true)
	}
	tags := make(map[string]string, len(out.TagSet))
	for _, t := range out.TagSet {
		tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return tags, s.idOf(out.VersionId), nil
}

// SetTag implements store.Tagger. S3 only knows how to replace all tags, so of two who set
// different tags of one version at once, one may be lost.
func (s *Store) SetTag(ctx context.Context, v store.Version, key, value string) error {
	if err := s.setTag(ctx, v, key, value); err != nil {
		return fmt.Errorf("tag %s in %s: %w", v, s.caps.Location, err)
	}
	return nil
}

func (s *Store) setTag(ctx context.Context, v store.Version, key, value string) error {
	tags, err := s.readTags(ctx, v)
	if err != nil {
		return s.whyMissing(ctx, err)
	}
	tags[key] = value
	return s.writeTags(ctx, v, tags)
}

// writeTags replaces all tags of a version.
func (s *Store) writeTags(ctx context.Context, v store.Version, tags map[string]string) error {
	set := make([]types.Tag, 0, len(tags))
	for k, val := range tags {
		set = append(set, types.Tag{Key: aws.String(k), Value: aws.String(val)})
	}
	slices.SortFunc(set, func(a, b types.Tag) int {
		if *a.Key < *b.Key {
			return -1
		}
		return 1
	})
	_, err := s.client.PutObjectTagging(ctx, &awss3.PutObjectTaggingInput{
		Bucket: &s.opts.Bucket, Key: &v.Key, VersionId: versionID(v), Tagging: &types.Tagging{TagSet: set},
	})
	return s.classify(ctx, err)
}
