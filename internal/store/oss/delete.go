package oss

import (
	"context"
	"errors"
	"fmt"
	"strings"

	osssdk "github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss"

	"druid.internal/druid/internal/store"
)

// Delete implements store.Deleter.
func (s *Store) Delete(ctx context.Context, v store.Version) error {
	in := &osssdk.DeleteObjectRequest{Bucket: &s.opts.Bucket, Key: &v.Key, VersionId: versionID(v)}
	if v.ID == "" {
		if s.caps.Versions {
			return fmt.Errorf("delete %s in %s: no version is named, which would only make a marker: %w", v.Key, s.caps.Location, store.ErrUnsupported)
		}
		// Should versioning have been switched on in the meantime, this still makes no marker.
		in.VersionId = osssdk.Ptr(nullVersion)
	}
	_, err := s.client.DeleteObject(ctx, in)
	if err == nil || codeOf(err) == "NoSuchKey" || codeOf(err) == "NoSuchVersion" {
		return nil
	}
	return fmt.Errorf("delete in %s: %w", s.caps.Location, s.refusal(ctx, v, err))
}

// refusal says until when the retention policy protects what was not deleted. OSS itself only
// says that it does.
func (s *Store) refusal(ctx context.Context, v store.Version, err error) error {
	if codeOf(err) != codeImmutable {
		return s.classify(ctx, err)
	}
	refused := &store.ImmutableError{Version: v, Err: errors.New(words(err))}
	head, headErr := s.head(ctx, v)
	p, policyErr := s.policy(ctx)
	if headErr == nil && policyErr == nil && head.LastModified != nil {
		if r := p.of(*head.LastModified); r != nil {
			refused.Until = r.Until
		}
	}
	return refused
}

// words is what the server said.
func words(err error) string {
	var answer *osssdk.ServiceError
	if errors.As(err, &answer) {
		return serverWords(answer)
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}
