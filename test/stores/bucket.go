package stores

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"druid.internal/druid/examples/policies"
)

// Protection is how a bucket treats what is written into it.
type Protection string

// The buckets tests need.
const (
	Unversioned Protection = "unversioned"
	Versioned   Protection = "versioned"  // keeps versions, locks nothing
	Lockable    Protection = "lockable"   // object lock without a default
	Governance  Protection = "governance" // object lock, default GOVERNANCE
	Compliance  Protection = "compliance" // object lock, default COMPLIANCE
)

// Protections lists them, weakest first.
func Protections() []Protection {
	return []Protection{Unversioned, Versioned, Lockable, Governance, Compliance}
}

// S3 is how a running server that speaks S3 is reached.
type S3 struct {
	Endpoint string // https://ADDRESS:PORT
	Address  string // ADDRESS:PORT
	Region   string
	CA       *CA
	CAFile   string // the CA's certificate, for programs
	Root     Keys   // may do everything, as far as the server lets anybody
}

// Keys are S3 credentials. SessionToken is empty for long-lived ones.
type Keys struct {
	AccessKeyID, SecretAccessKey, SessionToken string
}

// Reach is where the server answers and who vouches for it.
func (s *S3) Reach() (endpoint string, ca *CA) { return s.Endpoint, s.CA }

// Client is an S3 client of the server, for arranging and attacking. It never retries.
func (s *S3) Client(keys Keys) *s3.Client {
	if s.CA == nil { // a real account's, or what is given for one
		o := s3.Options{Region: s.Region, RetryMaxAttempts: 1, DisableLogOutputChecksumValidationSkipped: true,
			Credentials: credentials.NewStaticCredentialsProvider(keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken)}
		if s.Endpoint != "" {
			o.BaseEndpoint, o.UsePathStyle = &s.Endpoint, true
		}
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenSupported // what is to be locked takes one
		return s3.New(o)
	}
	return s3.New(s3.Options{
		Region:                     s.Region,
		BaseEndpoint:               aws.String(s.Endpoint),
		UsePathStyle:               true,
		Credentials:                credentials.NewStaticCredentialsProvider(keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken),
		RetryMaxAttempts:           1,
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired, // what every server understands
		HTTPClient:                 &http.Client{Transport: &http.Transport{TLSClientConfig: s.CA.ClientTLS(), DisableKeepAlives: true}},
		DisableLogOutputChecksumValidationSkipped: true,
	})
}

// CreateBucket makes a bucket. days is the default retention; a day is the least S3 knows.
func (s *S3) CreateBucket(ctx context.Context, name string, protection Protection, days int) error {
	client := s.Client(s.Root)
	in := &s3.CreateBucketInput{Bucket: &name}
	if protection != Unversioned && protection != Versioned {
		in.ObjectLockEnabledForBucket = aws.Bool(true)
	}
	if _, err := client.CreateBucket(ctx, in); err != nil {
		return fmt.Errorf("create bucket %s: %w", name, err)
	}
	switch protection {
	case Versioned:
		_, err := client.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{Bucket: &name,
			VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
		if err != nil {
			return fmt.Errorf("switch on versions of bucket %s: %w", name, err)
		}
	case Governance, Compliance:
		return s.LockFor(ctx, s.Root, name, protection, days)
	}
	return nil
}

// LockFor sets how long new objects of a bucket are locked by default.
func (s *S3) LockFor(ctx context.Context, keys Keys, name string, protection Protection, days int) error {
	_, err := s.Client(keys).PutObjectLockConfiguration(ctx, &s3.PutObjectLockConfigurationInput{Bucket: &name,
		ObjectLockConfiguration: &types.ObjectLockConfiguration{
			ObjectLockEnabled: types.ObjectLockEnabledEnabled,
			Rule: &types.ObjectLockRule{DefaultRetention: &types.DefaultRetention{
				Mode: types.ObjectLockRetentionMode(strings.ToUpper(string(protection))),
				Days: aws.Int32(int32(max(days, 1))),
			}},
		}})
	if err != nil {
		return fmt.Errorf("set the default retention of bucket %s: %w", name, err)
	}
	return nil
}

// Unlock takes the rule away that locks new objects of a bucket by default.
func (s *S3) Unlock(ctx context.Context, keys Keys, name string) error {
	_, err := s.Client(keys).PutObjectLockConfiguration(ctx, &s3.PutObjectLockConfigurationInput{Bucket: &name,
		ObjectLockConfiguration: &types.ObjectLockConfiguration{ObjectLockEnabled: types.ObjectLockEnabledEnabled}})
	return err
}

// Assume returns temporary credentials that may do what the policy (JSON) allows and nothing else.
func (m *MinIO) Assume(ctx context.Context, policy string) (Keys, error) {
	client := sts.New(sts.Options{
		Region:       m.Region,
		BaseEndpoint: aws.String(m.Endpoint),
		Credentials:  credentials.NewStaticCredentialsProvider(m.Root.AccessKeyID, m.Root.SecretAccessKey, ""),
		HTTPClient:   &http.Client{Transport: &http.Transport{TLSClientConfig: m.CA.ClientTLS(), DisableKeepAlives: true}},
	})
	var out *sts.AssumeRoleOutput
	// A server that is ready for objects may not know its users yet.
	for begun := time.Now(); ; {
		var err error
		if out, err = client.AssumeRole(ctx, &sts.AssumeRoleInput{
			RoleArn: aws.String("arn:aws:iam::000000000000:role/test"), RoleSessionName: aws.String("test"),
			Policy: &policy, DurationSeconds: aws.Int32(3600),
		}); err == nil {
			break
		}
		if !strings.Contains(err.Error(), "Server not initialized") || time.Since(begun) > startTimeout {
			return Keys{}, fmt.Errorf("assume a role with a policy of its own: %w", err)
		}
		select {
		case <-ctx.Done():
			return Keys{}, context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
	return Keys{*out.Credentials.AccessKeyId, *out.Credentials.SecretAccessKey, *out.Credentials.SessionToken}, nil
}

// BlindWriterPolicy is that of a writer without the right to see locks: what an operator forgets.
func BlindWriterPolicy(bucket, prefix string) string {
	return strings.Replace(policies.S3(policies.Writer, bucket, prefix), `"s3:GetObjectRetention",`, "", 1)
}
