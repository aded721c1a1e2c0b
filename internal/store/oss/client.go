package oss

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	osssdk "github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss"
	"github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss/credentials"
	"github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss/retry"

	"druid.internal/druid/internal/store/dial"
)

// connect makes the client. Nothing is looked at but the options.
func connect(o Options) (*osssdk.Client, *http.Client, error) {
	httpClient, err := newHTTPClient(o)
	if err != nil {
		return nil, nil, err
	}
	config := &osssdk.Config{
		Endpoint:         &o.Endpoint,
		Region:           &o.Region,
		HttpClient:       httpClient,
		RetryMaxAttempts: &o.Attempts,
		Retryer:          retryer{retry.NewStandard(func(r *retry.RetryOptions) { r.BaseDelay, r.MaxBackoff = firstBackoff, maxBackoff })},
		UsePathStyle:     osssdk.Ptr(o.pathStyle()),
		CredentialsProvider: credentials.CredentialsProviderFunc(func(context.Context) (credentials.Credentials, error) {
			k, err := o.Keys()
			if err != nil {
				return credentials.Credentials{}, &credentialsError{err}
			}
			return credentials.Credentials{AccessKeyID: k.AccessKeyID, AccessKeySecret: k.AccessKeySecret, SecurityToken: k.SecurityToken}, nil
		}),
	}
	if o.Region == "" {
		config.SignatureVersion = osssdk.Ptr(osssdk.SignatureVersionV1)
	}
	return osssdk.NewClient(config, func(c *osssdk.Options) {
		// It writes the offset without a lock, and a wrong clock should be set right.
		c.FeatureFlags &^= osssdk.FeatureCorrectClockSkew
	}), httpClient, nil
}

// newHTTPClient is of this store alone.
func newHTTPClient(o Options) (*http.Client, error) {
	return dial.Client(dial.Options{TrustedCAs: o.TrustedCAs, InsecureSkipVerify: o.InsecureSkipVerify, Proxy: o.Proxy, IdleTimeout: o.IdleTimeout})
}

// retryer repeats what the SDK would, except where repeating cannot help.
type retryer struct{ *retry.Standard }

func (r retryer) IsErrorRetryable(err error) bool {
	var creds *credentialsError
	if errors.As(err, &creds) || dial.Final(err) {
		return false
	}
	switch code := codeOf(err); {
	case statusOf(err) == http.StatusUnauthorized, statusOf(err) == http.StatusNotImplemented, code == "RequestTimeTooSkewed", code == "NotImplemented":
		return false
	}
	return r.Standard.IsErrorRetryable(err)
}

// once is for requests that must not be repeated by the SDK.
func once(o *osssdk.Options) { o.RetryMaxAttempts = osssdk.Ptr(1) }

// pause waits before the next attempt, with full jitter.
func pause(ctx context.Context, attempt int) error {
	d, err := retry.NewFullJitterBackoff(firstBackoff, maxBackoff).BackoffDelay(attempt, nil)
	if err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// credentialsError marks what went wrong while credentials were fetched, not while they were used.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }
