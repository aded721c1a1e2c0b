package stores

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Raw is a bucket in the hands of whoever has the keys.
func (s *S3) Raw(keys Keys, bucket string) Raw { return &s3Raw{s.Client(keys), bucket} }

type s3Raw struct {
	client *s3.Client
	bucket string
}

func (r *s3Raw) Overwrite(ctx context.Context, key string, body []byte) error {
	_, err := r.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &r.bucket, Key: &key, Body: bytes.NewReader(body)})
	return err
}

// Hide leaves a marker where the bucket keeps versions.
func (r *s3Raw) Hide(ctx context.Context, key string) error {
	_, err := r.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &r.bucket, Key: &key})
	return err
}

func (r *s3Raw) Delete(ctx context.Context, v RawVersion) error {
	_, err := r.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &r.bucket, Key: &v.Key, VersionId: named(v.ID)})
	return err
}

// Shorten asks for the weaker mode besides, and to be let past it.
func (r *s3Raw) Shorten(ctx context.Context, v RawVersion) error {
	return r.relock(ctx, v, types.ObjectLockRetentionModeGovernance, time.Now().Add(time.Minute))
}

// Weaken locks for longer than any bucket of a day does.
func (r *s3Raw) Weaken(ctx context.Context, v RawVersion) error {
	return r.relock(ctx, v, types.ObjectLockRetentionModeGovernance, time.Now().Add(48*time.Hour))
}

func (r *s3Raw) Settle(ctx context.Context, v RawVersion, until time.Time) error {
	return r.relock(ctx, v, types.ObjectLockRetentionModeCompliance, until)
}

// Prolong asks for the mode first: another one may be refused for being another.
func (r *s3Raw) Prolong(ctx context.Context, v RawVersion, until time.Time) error {
	mode := types.ObjectLockRetentionModeCompliance
	if now, err := r.client.GetObjectRetention(ctx, &s3.GetObjectRetentionInput{Bucket: &r.bucket, Key: &v.Key, VersionId: named(v.ID)}); err == nil {
		mode = now.Retention.Mode
	}
	_, err := r.client.PutObjectRetention(ctx, &s3.PutObjectRetentionInput{Bucket: &r.bucket, Key: &v.Key, VersionId: named(v.ID),
		Retention: &types.ObjectLockRetention{Mode: mode, RetainUntilDate: &until}})
	return err
}

func (r *s3Raw) PutLocked(ctx context.Context, key string, body []byte, until time.Time) error {
	_, err := r.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &r.bucket, Key: &key, Body: bytes.NewReader(body),
		ObjectLockMode: types.ObjectLockModeCompliance, ObjectLockRetainUntilDate: &until})
	return err
}

// relock asks to be let past the lock that there is.
func (r *s3Raw) relock(ctx context.Context, v RawVersion, mode types.ObjectLockRetentionMode, until time.Time) error {
	_, err := r.client.PutObjectRetention(ctx, &s3.PutObjectRetentionInput{Bucket: &r.bucket, Key: &v.Key, VersionId: named(v.ID),
		BypassGovernanceRetention: aws.Bool(true), Retention: &types.ObjectLockRetention{Mode: mode, RetainUntilDate: &until}})
	return err
}

func (r *s3Raw) Read(ctx context.Context, v RawVersion) ([]byte, error) {
	out, err := r.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &r.bucket, Key: &v.Key, VersionId: named(v.ID)})
	if err != nil {
		return nil, err
	}
	defer out.Body.Close()
	return io.ReadAll(out.Body)
}

func (r *s3Raw) Versions(ctx context.Context) ([]RawVersion, error) {
	var all []RawVersion
	pages := s3.NewListObjectVersionsPaginator(r.client, &s3.ListObjectVersionsInput{Bucket: &r.bucket})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, v := range page.Versions {
			all = append(all, RawVersion{Key: *v.Key, ID: aws.ToString(v.VersionId), Size: aws.ToInt64(v.Size), Current: aws.ToBool(v.IsLatest)})
		}
		for _, v := range page.DeleteMarkers {
			all = append(all, RawVersion{Key: *v.Key, ID: aws.ToString(v.VersionId), Marker: true, Current: aws.ToBool(v.IsLatest)})
		}
	}
	slices.SortStableFunc(all, func(a, b RawVersion) int { return strings.Compare(a.Key, b.Key) })
	return all, nil
}

// named is a version's ID, or nil.
func named(id string) *string {
	if id == "" {
		return nil
	}
	return &id
}
