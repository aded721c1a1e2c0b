package s3

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Limits of the protocol and of our own patience.
const (
	minPartSize = 5 << 20 // the smallest part S3 takes, except for the last one
	maxParts    = 10_000
	maxKeyBytes = 1024

	defaultParallelParts = 5
	defaultCopyPart      = 512 << 20
	defaultIdleTimeout   = 2 * time.Minute
	defaultAttempts      = 4
	maxBackoff           = 10 * time.Second

	// anyRegion is that of servers that have none.
	anyRegion = "us-east-1"

	// cleanupTimeout bounds what is done after the caller has given up: aborting an upload,
	// finding out what became of a write.
	cleanupTimeout = 30 * time.Second
)

// Options say which bucket and how to reach it.
type Options struct {
	Provider string // the name in messages: S3, ECS, OCS; empty: S3
	Bucket   string
	Region   string // required for AWS; us-east-1 if there is an Endpoint and nothing else is known

	// Endpoint is the URL of an S3-compatible server; empty for AWS. Without a scheme it is https.
	Endpoint string
	// EndpointFrom is the setting that named Endpoint, for messages.
	EndpointFrom string
	// FIPS and DualStack choose among the endpoints that AWS has for a region. Their settings are for
	// messages.
	FIPS, DualStack         bool
	FIPSFrom, DualStackFrom string
	// STSEndpoint is where WebIdentity gets credentials; empty: that of AWS.
	STSEndpoint string

	PathStyle bool // bucket in the path and not in the host name; so with an Endpoint, unless VirtualHost
	// VirtualHost has the bucket in the host name even with an Endpoint.
	VirtualHost bool

	// Exactly one kind of credentials, or none of them for the SDK's ambient chain.
	Keys        func() (Keys, error) // asked before each request, so that a rotation is noticed
	WebIdentity *WebIdentity

	// InsecureSkipVerify switches off the verification of the server's certificate.
	InsecureSkipVerify bool
	TrustedCAs         []byte // PEM, trusted besides the system's
	// Proxy chooses the proxy of a request; nil: none.
	Proxy func(*http.Request) (*url.URL, error)

	// CustomerKey is an SSE-C key of 32 bytes, as it is or base64. Empty: none.
	CustomerKey       string
	CustomerAlgorithm string // empty: AES256

	// Encryption is the server-side encryption that each upload and copy requests: AES256 (SSE-S3),
	// aws:kms or aws:kms:dsse (SSE-KMS). Empty: none is requested, and the bucket's default applies.
	Encryption string
	KMSKeyID   string // the key of SSE-KMS, by ID, ARN or alias; empty: the account's own

	// LegacyChecksums sends Content-MD5 in place of the newer checksum headers, for servers
	// that do not know these (requestChecksumCalculation: when_required).
	LegacyChecksums bool
	// SkipResponseChecksums does not verify the checksums of whole downloads
	// (responseChecksumValidation: when_required). Backups have digests of their own.
	SkipResponseChecksums bool

	// ConditionalPut says whether the server honours If-None-Match. nil: it is sent, and
	// believed of servers known to honour it. False: it is not sent at all.
	ConditionalPut *bool

	PartSize      int64         // bytes per part and buffer; 0: 5 MiB, which is also the minimum
	ParallelParts int           // parts sent at once, also buffers in memory less one; 0: 5
	CopyPartSize  int64         // bytes that one request copies inside the server; 0: 512 MiB, at least 5 MiB
	IdleTimeout   time.Duration // a connection on which nothing moves for so long is dropped; 0: 2 min
	Attempts      int           // of one request; 0: 4
}

// Keys are an access key. SessionToken is empty for long-lived ones.
type Keys struct {
	AccessKeyID, SecretAccessKey, SessionToken string
}

// WebIdentity exchanges a token from a file, read again whenever it is due, for temporary
// credentials of a role.
type WebIdentity struct {
	RoleARN   string
	TokenFile string
}

// complete checks the options and fills in the defaults.
func (o Options) complete() (Options, error) {
	if o.Provider == "" {
		o.Provider = "S3"
	}
	if o.Bucket == "" {
		return o, fmt.Errorf("%s: no bucket is named (--store-container)", o.Provider)
	}
	if o.Keys != nil && o.WebIdentity != nil {
		return o, fmt.Errorf("%s: both an access key and a role are given, which is one too many", o.Provider)
	}
	if o.Endpoint != "" {
		if err := o.completeEndpoint(); err != nil {
			return o, err
		}
	}
	if err := o.checkVariants(); err != nil {
		return o, fmt.Errorf("%s: %w", o.Provider, err)
	}
	if o.CustomerKey != "" {
		if o.CustomerAlgorithm == "" {
			o.CustomerAlgorithm = "AES256"
		}
		if strings.HasPrefix(o.Endpoint, "http://") {
			return o, fmt.Errorf("%s: a customer key (sseCustomerKey) must not be sent over plain http, use an https endpoint", o.Provider)
		}
		if _, err := customerKey(o.CustomerKey); err != nil {
			return o, fmt.Errorf("%s: %w", o.Provider, err)
		}
	}
	if err := o.checkEncryption(); err != nil {
		return o, fmt.Errorf("%s: %w", o.Provider, err)
	}
	o.PartSize = max(o.PartSize, minPartSize)
	if o.ParallelParts <= 0 {
		o.ParallelParts = defaultParallelParts
	}
	if o.CopyPartSize == 0 {
		o.CopyPartSize = defaultCopyPart
	}
	o.CopyPartSize = max(o.CopyPartSize, minPartSize)
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = defaultIdleTimeout
	}
	if o.Attempts <= 0 {
		o.Attempts = defaultAttempts
	}
	return o, nil
}

// checkEncryption checks the server-side encryption that uploads request.
func (o Options) checkEncryption() error {
	kms := o.Encryption == string(types.ServerSideEncryptionAwsKms) || o.Encryption == string(types.ServerSideEncryptionAwsKmsDsse)
	switch {
	case o.Encryption == "" && o.KMSKeyID != "":
		return errors.New("kmsKeyID is given without serverSideEncryption: set serverSideEncryption to aws:kms")
	case o.Encryption == "":
		return nil
	case !kms && o.Encryption != string(types.ServerSideEncryptionAes256):
		return fmt.Errorf("serverSideEncryption %q is unknown: use AES256, aws:kms or aws:kms:dsse", o.Encryption)
	case !kms && o.KMSKeyID != "":
		return errors.New("kmsKeyID is given with serverSideEncryption AES256, which takes no key: use aws:kms, or remove kmsKeyID")
	case o.CustomerKey != "":
		return errors.New("both sseCustomerKey and serverSideEncryption are given, and S3 takes one of them: remove one")
	}
	return nil
}

// kmsKey is the key of SSE-KMS as a header; nil is not sent.
func (o Options) kmsKey() *string {
	if o.KMSKeyID == "" {
		return nil
	}
	return &o.KMSKeyID
}

func (o *Options) completeEndpoint() error {
	if !strings.Contains(o.Endpoint, "://") {
		o.Endpoint = "https://" + o.Endpoint
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%s: the endpoint %q is not a URL like https://s3.example.com", o.Provider, redact(o.Endpoint))
	}
	if u.User != nil {
		return fmt.Errorf("%s: the endpoint %q must not contain a user or password", o.Provider, u.Redacted())
	}
	o.Endpoint = strings.TrimSuffix(o.Endpoint, "/")
	o.PathStyle = !o.VirtualHost
	if o.Region == "" && (o.Keys != nil || o.WebIdentity != nil) { // the ambient configuration may name one
		o.Region = anyRegion
	}
	return nil
}

// trusted says whether the connection is TLS with a verified certificate.
func (o Options) trusted() bool {
	return !o.InsecureSkipVerify && (o.Endpoint == "" || strings.HasPrefix(o.Endpoint, "https://"))
}

// ofAWS says whether the endpoint is one of AWS itself, private ones included.
func (o Options) ofAWS() bool {
	if o.Endpoint == "" {
		return true
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Scheme != "https" || o.InsecureSkipVerify {
		return false
	}
	host := u.Hostname()
	return strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".amazonaws.com.cn")
}

// redact hides what stands before an @ in something that should have been a URL.
func redact(s string) string {
	if i := strings.LastIndex(s, "@"); i >= 0 {
		return "***" + s[i:]
	}
	return s
}

// customerKey is an SSE-C key as bytes.
func customerKey(s string) ([]byte, error) {
	if len(s) == 32 {
		return []byte(s), nil
	}
	if b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s)); err == nil && len(b) == 32 {
		return b, nil
	}
	return nil, errors.New("sseCustomerKey must be 32 bytes, as they are or base64")
}

// location is where the bucket is, for messages.
func (o Options) location() string {
	switch {
	case o.Endpoint != "":
		return "bucket " + o.Bucket + " at " + o.Endpoint
	case o.Region != "":
		return "bucket " + o.Bucket + " in " + o.Region
	}
	return "bucket " + o.Bucket
}
