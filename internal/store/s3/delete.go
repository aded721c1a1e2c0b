package s3

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/dial"
)

// Delete implements store.Deleter. It never asks to bypass a governance lock.
func (s *Store) Delete(ctx context.Context, v store.Version) error {
	in := &awss3.DeleteObjectInput{Bucket: &s.opts.Bucket, Key: &v.Key, VersionId: versionID(v)}
	if v.ID == "" {
		if s.caps.Versions {
			return fmt.Errorf("delete %s in %s: no version is named, which would only make a marker: %w", v.Key, s.caps.Location, store.ErrUnsupported)
		}
		// Should versioning have been switched on in the meantime, this still makes no marker.
		in.VersionId = aws.String(nullVersion)
	}
	_, err := s.client.DeleteObject(ctx, in)
	if err == nil || codeOf(err) == "NoSuchKey" || codeOf(err) == "NoSuchVersion" {
		return nil
	}
	return fmt.Errorf("delete in %s: %w", s.caps.Location, s.refusal(ctx, v, err))
}

// refusal finds out whether a deletion was refused because of a lock. Where the server says
// so, that is what it is. AWS and others may say only "access denied", both for a lock and
// for a missing permission; then a lock that is read back explains it, and the error stays
// store.ErrForbidden as well, since it is no proof.
func (s *Store) refusal(ctx context.Context, v store.Version, err error) error {
	classified := s.classify(ctx, err)
	blamed := blamesLock(err)
	if !blamed && !errors.Is(classified, store.ErrForbidden) {
		return classified
	}
	refused := &store.ImmutableError{Version: v, Err: classified}
	if blamed {
		refused.Err = errors.New(serverWords(err))
	}
	o, statErr := s.lockOf(ctx, v)
	locked := false
	if statErr == nil && o.Retention != nil {
		now := o.ServerTime
		if now.IsZero() {
			now = time.Now()
		}
		refused.Hold = o.Retention.Hold
		locked = o.Retention.Hold || o.Retention.Until.After(now)
		if !refused.Hold {
			refused.Until = o.Retention.Until
		}
	}
	if !blamed && !locked {
		return classified
	}
	return refused
}

// lockOf is Stat without what does not matter for a refusal.
func (s *Store) lockOf(ctx context.Context, v store.Version) (store.Object, error) {
	head, err := s.head(ctx, v)
	if err != nil {
		return store.Object{}, err
	}
	o := store.Object{Version: v, ServerTime: serverTime(head.ResultMetadata)}
	o.Retention, err = s.retention(ctx, v, head)
	return o, err
}

// blamesLock recognises the servers' words: "Object is WORM protected and cannot be
// overwritten" (MinIO, InvalidRequest), "forbidden by object lock" (Ceph), "Access Denied
// because object protected by object lock" (AWS).
func blamesLock(err error) bool {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode() {
	case "ObjectLocked", "AccessDenied", "InvalidRequest", "MethodNotAllowed":
		said := strings.ToLower(api.ErrorMessage())
		for _, words := range []string{"worm protected", "object lock", "legal hold", "retention period"} {
			if strings.Contains(said, words) {
				return true
			}
		}
		return api.ErrorCode() == "ObjectLocked"
	}
	return false
}

// serverWords is what the server said, on one line.
func serverWords(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return strings.Join(strings.Fields(api.ErrorCode()+": "+api.ErrorMessage()), " ")
	}
	return dial.Innermost(err)
}
