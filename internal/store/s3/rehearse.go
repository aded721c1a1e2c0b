package s3

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"druid.internal/druid/internal/store"
)

// Rehearse implements store.Rehearser. An upload in parts is begun, with the encryption of all
// others, and aborted. Everything else is about the version "null" of a key that does not exist,
// which makes no delete marker.
func (s *Store) Rehearse(ctx context.Context, key string) []store.Trial {
	w := &write{s: s, key: key, nonce: "rehearsal"}
	trials := make([]store.Trial, 0, 5)
	try := func(c store.Change, err error) {
		trials = append(trials, store.Trial{Change: c, Err: s.permitted(err)})
	}

	id, err := w.begin(ctx, !s.opts.LegacyChecksums)
	try(store.ChangeWrite, err)
	if err == nil {
		_, err := s.client.AbortMultipartUpload(ctx, &awss3.AbortMultipartUploadInput{Bucket: &s.opts.Bucket, Key: &key, UploadId: &id})
		try(store.ChangeAbort, s.classify(ctx, err))
	}
	version := aws.String(nullVersion)
	_, err = s.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &s.opts.Bucket, Key: &key, VersionId: version})
	try(store.ChangeDelete, s.classify(ctx, err))
	_, err = s.client.PutObjectTagging(ctx, &awss3.PutObjectTaggingInput{Bucket: &s.opts.Bucket, Key: &key, VersionId: version,
		Tagging: &types.Tagging{TagSet: []types.Tag{}}})
	try(store.ChangeTag, s.classify(ctx, err))
	if s.caps.ObjectLock || s.lockUnknown {
		until := time.Now().Add(time.Hour)
		_, err = s.client.PutObjectRetention(ctx, &awss3.PutObjectRetentionInput{Bucket: &s.opts.Bucket, Key: &key, VersionId: version,
			Retention: &types.ObjectLockRetention{Mode: types.ObjectLockRetentionModeGovernance, RetainUntilDate: &until}})
		try(store.ChangeExtend, s.classify(ctx, err))
	}
	return trials
}

// permitted is nil if the server refused a trial because the version does not exist, or did not
// refuse it: then this identity has the right.
func (s *Store) permitted(err error) error {
	status := statusOf(err)
	switch {
	case err == nil, errors.Is(err, store.ErrNotFound):
		return nil
	case errors.Is(err, store.ErrForbidden), errors.Is(err, store.ErrCredentials), status == 0, status >= 500:
		return err
	case codeOf(err) == "InvalidArgument" || codeOf(err) == "NoSuchVersion" || codeOf(err) == "InvalidRequest" && !aboutChecksums(err.Error()):
		return nil // about a version that is none
	}
	return err
}
