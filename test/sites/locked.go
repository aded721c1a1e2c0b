package sites

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"druid.internal/druid/test/stores"
)

// LockedUntil is when the lock of a key's only version ends, as the server tells its owner.
func LockedUntil(ctx context.Context, s Site, bucket, key string) (time.Time, error) {
	l, is := s.(interface {
		lockedUntil(ctx context.Context, bucket, key string) (time.Time, error)
	})
	if !is {
		return time.Time{}, fmt.Errorf("%s has no locks", s.Name())
	}
	return l.lockedUntil(ctx, bucket, key)
}

func (s ofS3) lockedUntil(ctx context.Context, bucket, key string) (time.Time, error) {
	out, err := s.Client(s.Root).GetObjectRetention(ctx, &s3.GetObjectRetentionInput{Bucket: &bucket, Key: &key})
	if err != nil {
		return time.Time{}, err
	}
	return *out.Retention.RetainUntilDate, nil
}

func (g *gcs) lockedUntil(ctx context.Context, bucket, key string) (time.Time, error) {
	owner, err := g.identity(Owner)
	if err != nil {
		return time.Time{}, err
	}
	answer, err := owner.Do(ctx, http.MethodGet, "/storage/v1/b/"+bucket+"/o/"+url.PathEscape(key), nil)
	if err != nil {
		return time.Time{}, err
	}
	var object struct{ RetentionExpirationTime time.Time }
	return object.RetentionExpirationTime, json.Unmarshal(answer, &object)
}

func (a *azure) lockedUntil(ctx context.Context, bucket, key string) (time.Time, error) {
	client, err := stores.AzureContainer{Endpoint: a.server.Endpoint, CA: a.server.CA, Key: a.server.Key, Name: bucket}.Client()
	if err != nil {
		return time.Time{}, err
	}
	p, err := client.NewBlobClient(key).GetProperties(ctx, nil)
	if err != nil || p.ImmutabilityPolicyExpiresOn == nil {
		return time.Time{}, err
	}
	return *p.ImmutabilityPolicyExpiresOn, nil
}

// OSS tells nobody: what is written is locked for the period of the bucket's policy.
func (o *oss) lockedUntil(_ context.Context, bucket, key string) (time.Time, error) {
	return o.server.LockedUntil(bucket, key)
}

// MakeForeign makes a bucket in Google's that belongs to another project than the owner's.
func MakeForeign(ctx context.Context, s Site, bucket string) error {
	owner, err := s.(*gcs).identity(Owner)
	if err != nil {
		return err
	}
	_, err = owner.Do(ctx, http.MethodPost, "/storage/v1/b?project=somebody-elses", map[string]any{"name": bucket})
	return err
}
