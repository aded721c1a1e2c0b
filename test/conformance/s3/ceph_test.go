package s3_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/s3"
	"druid.internal/druid/test/stores"
)

// Ceph answers the deletion of what is locked and one that is not permitted by the same code,
// 403 AccessDenied; only its words tell them apart.
func TestALocksRefusalOnCephIsNotTakenForAMissingPermission(t *testing.T) {
	ceph := onCeph(t)
	bucket := ceph.newBucket(t, stores.Compliance)
	owner := open(t, ceph.options(bucket))
	o, err := owner.Put(t.Context(), "a/key", strings.NewReader("x"), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var refused *store.ImmutableError
	if err := owner.Delete(t.Context(), o.Version); !errors.As(err, &refused) || errors.Is(err, store.ErrForbidden) || refused.Until.IsZero() {
		t.Errorf("the owner's Delete = %v, want the lock's refusal and its end", err)
	}
	keys, err := startedCeph(t).NewUser(t.Context(), "stranger")
	if err != nil {
		t.Fatal(err)
	}
	policy := fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":["arn:aws:iam:::user/stranger"]},`+
		`"Action":["s3:ListBucket","s3:ListBucketVersions","s3:GetBucketVersioning","s3:GetBucketObjectLockConfiguration","s3:GetObject","s3:GetObjectVersion","s3:GetObjectRetention"],`+
		`"Resource":["arn:aws:s3:::%[1]s","arn:aws:s3:::%[1]s/*"]}]}`, bucket)
	if _, err := ceph.Client(ceph.Root).PutBucketPolicy(t.Context(), &awss3.PutBucketPolicyInput{Bucket: &bucket, Policy: &policy}); err != nil {
		t.Fatal(err)
	}
	theirs := ceph.options(bucket)
	theirs.Keys = func() (s3.Keys, error) { return s3.Keys(keys), nil }
	stranger := open(t, theirs)
	if got := listed(t, stranger); len(got) != 1 {
		t.Errorf("a reader lists %+v", got)
	}
	if err := stranger.Delete(t.Context(), o.Version); !errors.Is(err, store.ErrForbidden) {
		t.Errorf("a stranger's Delete = %v, want %v", err, store.ErrForbidden)
	}
	if _, err := stranger.Put(t.Context(), "a/other", strings.NewReader("x"), store.PutOptions{}); !errors.Is(err, store.ErrForbidden) {
		t.Errorf("a stranger's Put = %v, want %v", err, store.ErrForbidden)
	}
}

// A policy keeps markers away from everybody, the owner included, and lets a collector work:
// what docs/operations/permissions.md recommends.
func TestAPolicyKeepsMarkersAwayOnCeph(t *testing.T) {
	ceph := onCeph(t)
	bucket := ceph.newBucket(t, stores.Lockable)
	s := open(t, ceph.options(bucket))
	o, err := s.Put(t.Context(), "a/key", strings.NewReader("x"), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	policy := fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":["s3:DeleteObject"],"Resource":["arn:aws:s3:::%s/*"]}]}`, bucket)
	client := ceph.Client(ceph.Root)
	if _, err := client.PutBucketPolicy(t.Context(), &awss3.PutBucketPolicyInput{Bucket: &bucket, Policy: &policy}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.DeleteObject(t.Context(), &awss3.DeleteObjectInput{Bucket: &bucket, Key: aws.String("a/key")}); err == nil {
		t.Error("a marker was made")
	}
	if got := listed(t, s); len(got) != 1 || got[0].Version != o.Version {
		t.Errorf("the listing is %+v", got)
	}
	if err := s.Delete(t.Context(), o.Version); err != nil {
		t.Errorf("deleting a version that is not locked = %v", err)
	}
}
