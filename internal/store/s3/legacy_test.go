package s3

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// operations are the requests with a body that this package, or a program beside it, may send.
var operations = map[string]func(context.Context, *awss3.Client) error{
	"PutObject": func(ctx context.Context, c *awss3.Client) error {
		_, err := c.PutObject(ctx, &awss3.PutObjectInput{Bucket: aws.String("b"), Key: aws.String("k"), Body: strings.NewReader("body")})
		return err
	},
	"UploadPart": func(ctx context.Context, c *awss3.Client) error {
		_, err := c.UploadPart(ctx, &awss3.UploadPartInput{Bucket: aws.String("b"), Key: aws.String("k"), UploadId: aws.String("u"), PartNumber: aws.Int32(1), Body: strings.NewReader("body")})
		return err
	},
	"CompleteMultipartUpload": func(ctx context.Context, c *awss3.Client) error {
		_, err := c.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{Bucket: aws.String("b"), Key: aws.String("k"), UploadId: aws.String("u"),
			MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{ETag: aws.String("e"), PartNumber: aws.Int32(1)}}}})
		return err
	},
	"PutObjectRetention": func(ctx context.Context, c *awss3.Client) error {
		_, err := c.PutObjectRetention(ctx, &awss3.PutObjectRetentionInput{Bucket: aws.String("b"), Key: aws.String("k"), Retention: &types.ObjectLockRetention{Mode: types.ObjectLockRetentionModeCompliance}})
		return err
	},
	"PutObjectLegalHold": func(ctx context.Context, c *awss3.Client) error {
		_, err := c.PutObjectLegalHold(ctx, &awss3.PutObjectLegalHoldInput{Bucket: aws.String("b"), Key: aws.String("k"), LegalHold: &types.ObjectLockLegalHold{Status: types.ObjectLockLegalHoldStatusOn}})
		return err
	},
	"PutObjectTagging": func(ctx context.Context, c *awss3.Client) error {
		_, err := c.PutObjectTagging(ctx, &awss3.PutObjectTaggingInput{Bucket: aws.String("b"), Key: aws.String("k"), Tagging: &types.Tagging{TagSet: []types.Tag{}}})
		return err
	},
	"DeleteObjects": func(ctx context.Context, c *awss3.Client) error {
		_, err := c.DeleteObjects(ctx, &awss3.DeleteObjectsInput{Bucket: aws.String("b"), Delete: &types.Delete{Objects: []types.ObjectIdentifier{{Key: aws.String("k")}}}})
		return err
	},
	"PutBucketPolicy": func(ctx context.Context, c *awss3.Client) error {
		_, err := c.PutBucketPolicy(ctx, &awss3.PutBucketPolicyInput{Bucket: aws.String("b"), Policy: aws.String("{}")})
		return err
	},
	"PutBucketLifecycleConfiguration": func(ctx context.Context, c *awss3.Client) error {
		_, err := c.PutBucketLifecycleConfiguration(ctx, &awss3.PutBucketLifecycleConfigurationInput{Bucket: aws.String("b"), LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: []types.LifecycleRule{}}})
		return err
	},
	"PutObjectLockConfiguration": func(ctx context.Context, c *awss3.Client) error {
		_, err := c.PutObjectLockConfiguration(ctx, &awss3.PutObjectLockConfigurationInput{Bucket: aws.String("b"), ObjectLockConfiguration: &types.ObjectLockConfiguration{}})
		return err
	},
	"PutBucketVersioning": func(ctx context.Context, c *awss3.Client) error {
		_, err := c.PutBucketVersioning(ctx, &awss3.PutBucketVersioningInput{Bucket: aws.String("b"), VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
		return err
	},
	"PutBucketEncryption": func(ctx context.Context, c *awss3.Client) error {
		_, err := c.PutBucketEncryption(ctx, &awss3.PutBucketEncryptionInput{Bucket: aws.String("b"), ServerSideEncryptionConfiguration: &types.ServerSideEncryptionConfiguration{Rules: []types.ServerSideEncryptionRule{}}})
		return err
	},
	"PutBucketTagging": func(ctx context.Context, c *awss3.Client) error {
		_, err := c.PutBucketTagging(ctx, &awss3.PutBucketTaggingInput{Bucket: aws.String("b"), Tagging: &types.Tagging{TagSet: []types.Tag{}}})
		return err
	},
	"CreateBucket": func(ctx context.Context, c *awss3.Client) error {
		_, err := c.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: aws.String("b"), CreateBucketConfiguration: &types.CreateBucketConfiguration{LocationConstraint: "eu-central-1"}})
		return err
	},
}

// Servers without the newer checksums refuse their headers, and refuse changes without Content-MD5.
func TestLegacyChecksumsSendContentMD5WithEveryOperation(t *testing.T) {
	for name, do := range operations {
		t.Run(name, func(t *testing.T) {
			var header http.Header
			var body []byte
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				header = r.Header.Clone()
				body, _ = io.ReadAll(r.Body)
				w.WriteHeader(http.StatusBadRequest)
			}))
			defer server.Close()
			o, err := Options{Bucket: "b", Endpoint: server.URL, Attempts: 1, LegacyChecksums: true,
				Keys: func() (Keys, error) { return Keys{AccessKeyID: "k", SecretAccessKey: "s"}, nil }}.complete()
			if err != nil {
				t.Fatal(err)
			}
			client, _, err := connect(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if err := do(t.Context(), client); statusOf(err) != http.StatusBadRequest {
				t.Fatalf("the request was not sent: %v", err)
			}
			sum := md5.Sum(body)
			if want := base64.StdEncoding.EncodeToString(sum[:]); len(body) == 0 || header.Get("Content-Md5") != want {
				t.Errorf("Content-MD5 is %q of %d bytes, want %q", header.Get("Content-Md5"), len(body), want)
			}
			for h := range header {
				if h := strings.ToLower(h); strings.HasPrefix(h, "x-amz-checksum") || strings.HasPrefix(h, "x-amz-sdk-checksum") || h == "x-amz-trailer" {
					t.Errorf("%s is sent", h)
				}
			}
		})
	}
}
