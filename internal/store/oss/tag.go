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

// tagsOf reads the tags of a version. nil: not told to this identity.
func (s *Store) tagsOf(ctx context.Context, v store.Version) (map[string]string, error) {
	tags, err := s.readTags(ctx, v)
	if errors.Is(err, store.ErrForbidden) || errors.Is(err, store.ErrUnsupported) {
		return nil, nil
	}
	return tags, err
}

func (s *Store) readTags(ctx context.Context, v store.Version) (map[string]string, error) {
	out, err := s.client.GetObjectTagging(ctx, &osssdk.GetObjectTaggingRequest{Bucket: &s.opts.Bucket, Key: &v.Key, VersionId: versionID(v)})
	if err != nil {
		return nil, s.classifyRead(ctx, err)
	}
	tags := make(map[string]string, len(out.Tags))
	for _, t := range out.Tags {
		tags[osssdk.ToString(t.Key)] = osssdk.ToString(t.Value)
	}
	return tags, nil
}

// SetTag implements store.Tagger. OSS only knows how to replace all tags, so of two who set
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
	set := &osssdk.TagSet{}
	for k, val := range tags {
		set.Tags = append(set.Tags, osssdk.Tag{Key: &k, Value: &val})
	}
	slices.SortFunc(set.Tags, func(a, b osssdk.Tag) int { return strings.Compare(*a.Key, *b.Key) })
	_, err = s.client.PutObjectTagging(ctx, &osssdk.PutObjectTaggingRequest{
		Bucket: &s.opts.Bucket, Key: &v.Key, VersionId: versionID(v), Tagging: &osssdk.Tagging{TagSet: set},
	})
	if codeOf(err) == codeImmutable {
		return &store.ImmutableError{Version: v, Err: errors.New(words(err))}
	}
	return s.classify(ctx, err)
}
