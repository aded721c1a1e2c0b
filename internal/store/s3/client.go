package s3

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"druid.internal/druid/internal/store/dial"
)

// connect makes the client. Only the ambient chain looks at the environment and at ~/.aws.
func connect(ctx context.Context, o Options) (*awss3.Client, *http.Client, error) {
	httpClient, err := newHTTPClient(o)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.Provider, err)
	}
	creds, region, err := identity(ctx, o, httpClient)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.Provider, err)
	}
	opts := awss3.Options{
		Region:       region,
		UsePathStyle: o.PathStyle,
		Credentials:  creds,
		HTTPSignerV4: &signer{},
		HTTPClient:   httpClient,
		Retryer:      newRetryer(o.Attempts),
		// The values of checksums are computed here, see checksum.go; this makes the SDK
		// add one where we do not.
		RequestChecksumCalculation:                aws.RequestChecksumCalculationWhenSupported,
		ResponseChecksumValidation:                aws.ResponseChecksumValidationWhenSupported,
		DisableLogOutputChecksumValidationSkipped: true,
		// A bucket name is a name: an ARN in its place must not lead elsewhere.
		UseARNRegion: false,
	}
	opts.APIOptions = append(opts.APIOptions, signBodies)
	if o.LegacyChecksums {
		opts.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		opts.APIOptions = append(opts.APIOptions, sendContentMD5)
	}
	if o.SkipResponseChecksums {
		opts.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	}
	if o.Endpoint != "" {
		opts.BaseEndpoint = aws.String(o.Endpoint)
	} else {
		opts.EndpointOptions.UseFIPSEndpoint, opts.EndpointOptions.UseDualStackEndpoint = variants(o)
	}
	return awss3.New(opts), httpClient, nil
}

// variants are the SDK's words for the endpoints to choose among those of AWS.
func variants(o Options) (fips aws.FIPSEndpointState, dualStack aws.DualStackEndpointState) {
	if o.FIPS {
		fips = aws.FIPSEndpointStateEnabled
	}
	if o.DualStack {
		dualStack = aws.DualStackEndpointStateEnabled
	}
	return fips, dualStack
}

// signBodies has the signature cover the SHA-256 of bodies. Over TLS the SDK would leave them
// unsigned, but this is the one integrity check that every server makes; see Store.unsigned.
func signBodies(stack *middleware.Stack) error {
	sha256 := &v4.ComputePayloadSHA256{}
	_, err := stack.Finalize.Swap(sha256.ID(), sha256)
	return err
}

// sendContentMD5 sends Content-MD5 with every request that has a body, in place of the checksum
// that the SDK computes. Even with when_required the SDK would compute one for each operation that
// the API requires a checksum of, such as PutObjectRetention, and older servers refuse it.
func sendContentMD5(stack *middleware.Stack) error {
	// An operation without checksums has none of these steps: not finding one is no failure.
	_, _ = stack.Initialize.Remove("AWSChecksum:SetupInputContext")
	_, _ = stack.Finalize.Remove("AWSChecksum:ComputeInputPayloadChecksum")
	_, _ = stack.Finalize.Remove("addInputChecksumTrailer")
	return smithyhttp.AddContentChecksumMiddleware(stack)
}

// newRetryer repeats a request whose failure is of the passing kind, with exponential pauses
// and full jitter. A conflict of two conditional writes is of that kind as well.
func newRetryer(attempts int) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = attempts
		o.MaxBackoff = maxBackoff
		o.Retryables = append([]retry.IsErrorRetryable{
			// Repeating cannot help, and the caller waits for the answer.
			retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
				if dial.Final(err) {
					return aws.FalseTernary
				}
				return aws.UnknownTernary
			}),
			retry.RetryableErrorCode{Codes: map[string]struct{}{"ConditionalRequestConflict": {}}},
		}, o.Retryables...)
	})
}

// newHTTPClient is of this store alone.
func newHTTPClient(o Options) (*http.Client, error) {
	return dial.Client(dial.Options{TrustedCAs: o.TrustedCAs, InsecureSkipVerify: o.InsecureSkipVerify, Proxy: o.Proxy, IdleTimeout: o.IdleTimeout})
}

// identity is whose name requests are signed with, and in which region.
func identity(ctx context.Context, o Options, httpClient *http.Client) (aws.CredentialsProvider, string, error) {
	switch {
	case o.Keys != nil:
		if o.Region == "" {
			return nil, "", errors.New("the region is missing (field region of the credentials)")
		}
		return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			k, err := o.Keys()
			if err != nil {
				return aws.Credentials{}, &credentialsError{err}
			}
			return aws.Credentials{AccessKeyID: k.AccessKeyID, SecretAccessKey: k.SecretAccessKey, SessionToken: k.SessionToken, Source: "druid"}, nil
		}), o.Region, nil

	case o.WebIdentity != nil:
		if o.Region == "" {
			return nil, "", errors.New("the region is missing (field region of the credentials)")
		}
		of := sts.Options{Region: o.Region, HTTPClient: httpClient, Retryer: newRetryer(o.Attempts)}
		if o.STSEndpoint != "" {
			of.BaseEndpoint = aws.String(o.STSEndpoint)
		} else {
			of.EndpointOptions.UseFIPSEndpoint, of.EndpointOptions.UseDualStackEndpoint = variants(o)
		}
		client := sts.New(of)
		provider := stscreds.NewWebIdentityRoleProvider(client, o.WebIdentity.RoleARN, stscreds.IdentityTokenFile(o.WebIdentity.TokenFile),
			func(w *stscreds.WebIdentityRoleOptions) { w.RoleSessionName = "druid" })
		return aws.NewCredentialsCache(provider), o.Region, nil
	}
	loaded, err := config.LoadDefaultConfig(ctx, config.WithRegion(o.Region), config.WithHTTPClient(buildable(httpClient)),
		config.WithLogger(logging.Nop{}), // what matters is in the error
	)
	if err != nil {
		return nil, "", &credentialsError{fmt.Errorf("the ambient configuration of AWS cannot be loaded: %w", err)}
	}
	if loaded.Region == "" && o.Endpoint != "" {
		loaded.Region = anyRegion
	}
	if loaded.Region == "" {
		return nil, "", errors.New("the region is missing (AWS_REGION, or the field region of the credentials)")
	}
	return loaded.Credentials, loaded.Region, nil
}

// buildable is c in the form that the SDK can teach the authorities of AWS_CA_BUNDLE; it gives up
// on any other.
func buildable(c *http.Client) *awshttp.BuildableClient {
	b := awshttp.NewBuildableClient()
	ours, ok := c.Transport.(dial.Reporting)
	if !ok {
		return b
	}
	return b.WithTransportOptions(func(t *http.Transport) {
		t.Proxy, t.OnProxyConnectResponse = ours.Proxy, ours.OnProxyConnectResponse
		t.DialContext, t.TLSClientConfig = ours.DialContext, ours.TLSClientConfig.Clone()
		if t.TLSClientConfig != nil && t.TLSClientConfig.RootCAs != nil {
			t.TLSClientConfig.RootCAs = t.TLSClientConfig.RootCAs.Clone()
		}
	})
}

// credentialsError marks what went wrong while credentials were fetched, not while they were used.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }

// sse are the three headers of a customer key; nil pointers are not sent.
type sse struct{ algorithm, key, digest *string }

func newSSE(o Options) sse {
	if o.CustomerKey == "" {
		return sse{}
	}
	key, err := customerKey(o.CustomerKey)
	if err != nil { // complete has checked it
		return sse{}
	}
	sum := md5.Sum(key)
	return sse{
		algorithm: aws.String(o.CustomerAlgorithm),
		key:       aws.String(base64.StdEncoding.EncodeToString(key)),
		digest:    aws.String(base64.StdEncoding.EncodeToString(sum[:])),
	}
}
