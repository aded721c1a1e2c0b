package azure

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"druid.internal/druid/internal/store/dial"
)

// client is the container as the SDK sees it, and what requests to it need.
type client struct {
	*container.Client
	http     *http.Client
	options  policy.ClientOptions
	clock    *clock
	key      *blob.SharedKeyCredential // nil: no account key
	sas      func() (string, error)    // nil: no SAS
	identity azcore.TokenCredential    // of the blob service; nil with a key
	manager  azcore.TokenCredential    // of the management API; nil: none is needed
}

// connect makes the client. Only the ambient identity looks at the environment.
func connect(o Options) (*client, error) {
	httpClient, err := newHTTPClient(o)
	if err != nil {
		return nil, fmt.Errorf("ABS: %w", err)
	}
	c := &client{http: httpClient, clock: &clock{}, identity: o.Identity}
	c.options = policy.ClientOptions{
		Transport:       transport{httpClient},
		Retry:           policy.RetryOptions{MaxRetries: int32(o.Attempts - 1), RetryDelay: 500 * time.Millisecond, MaxRetryDelay: maxBackoff},
		Telemetry:       policy.TelemetryOptions{ApplicationID: "druid"},
		PerCallPolicies: []policy.Policy{c.clock},
	}
	if o.Attempts == 1 {
		c.options.Retry.MaxRetries = -1 // 0 would be the SDK's own choice
	}
	c.manager = cmp.Or(o.ManagementIdentity, o.Identity)
	if c.identity == nil && o.Keys == nil || c.manager == nil && o.Management != nil {
		found, err := ambient(o, c.options)
		if err != nil {
			return nil, fmt.Errorf("ABS: %w", err)
		}
		c.identity, c.manager = cmp.Or(c.identity, found), cmp.Or(c.manager, found)
	}
	if err := c.open(o); err != nil {
		return nil, fmt.Errorf("ABS: %w", err)
	}
	return c, nil
}

// open makes the SDK's client for whichever credentials there are.
func (c *client) open(o Options) (err error) {
	location := o.Endpoint + "/" + o.Container
	opts := &container.ClientOptions{ClientOptions: c.options}
	if o.Keys == nil {
		c.Client, err = container.NewClient(location, c.identity, opts)
		return err
	}
	k, err := o.Keys()
	if err != nil {
		return &credentialsError{err}
	}
	switch {
	case k.AccountKey != "" && k.SAS != "":
		return errors.New("both an account key and a SAS are given, which one counts is unclear: leave one (fields storageKey, sasToken)")
	case k.AccountKey != "":
		if c.key, err = blob.NewSharedKeyCredential(o.Account, k.AccountKey); err != nil {
			return &credentialsError{errors.New("the account key is not base64, copy it as Azure shows it (field storageKey)")}
		}
		opts.PerCallPolicies = append(opts.PerCallPolicies, &rotatingKey{keys: o.Keys, cred: c.key})
		c.Client, err = container.NewClientWithSharedKeyCredential(location, c.key, opts)
	case k.SAS != "":
		c.sas = func() (string, error) {
			k, err := o.Keys()
			return strings.TrimPrefix(k.SAS, "?"), err
		}
		opts.PerCallPolicies = append(opts.PerCallPolicies, signature{c.sas})
		c.Client, err = container.NewClientWithNoCredential(location, opts)
	default:
		return errors.New("neither an account key nor a SAS is given (fields storageKey, sasToken)")
	}
	return err
}

// rotatingKey gives the SDK the newest account key before each request.
type rotatingKey struct {
	keys func() (Keys, error)
	cred *blob.SharedKeyCredential
	last atomic.Value // string
}

func (r *rotatingKey) Do(req *policy.Request) (*http.Response, error) {
	k, err := r.keys()
	if err != nil {
		return nil, &credentialsError{err}
	}
	if last, _ := r.last.Load().(string); last != k.AccountKey {
		if err := r.cred.SetAccountKey(k.AccountKey); err != nil {
			return nil, &credentialsError{errors.New("the account key is not base64 any more (field storageKey)")}
		}
		r.last.Store(k.AccountKey)
	}
	return req.Next()
}

// signature adds the SAS to each request.
type signature struct{ sas func() (string, error) }

func (s signature) Do(req *policy.Request) (*http.Response, error) {
	sas, err := s.sas()
	if err != nil {
		return nil, &credentialsError{err}
	}
	u := req.Raw().URL
	if u.RawQuery != "" {
		sas = u.RawQuery + "&" + sas
	}
	u.RawQuery = sas
	return req.Next()
}

// clock learns from each answer how far the service's clock is ahead of ours.
type clock struct{ ahead atomic.Int64 } // nanoseconds

func (c *clock) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	if resp != nil {
		if at, dateErr := http.ParseTime(resp.Header.Get("Date")); dateErr == nil {
			c.ahead.Store(int64(time.Until(at)))
		}
	}
	return resp, err
}

// skew is how far the service's clock is ahead of ours, as far as is known.
func (c *clock) skew() time.Duration { return time.Duration(c.ahead.Load()) }

func (c *clock) now() time.Time { return time.Now().Add(c.skew()) }

// transport is the HTTP client, whose complaints about certificates are not worth repeating.
type transport struct{ *http.Client }

func (t transport) Do(req *http.Request) (*http.Response, error) {
	resp, err := t.Client.Do(req)
	if err != nil && dial.Final(err) {
		return resp, final{err}
	}
	return resp, err
}

// final is an error that the SDK does not answer by repeating the request.
type final struct{ error }

func (f final) NonRetriable() {}
func (f final) Unwrap() error { return f.error }

// credentialsError marks what went wrong while credentials were fetched, not while they were used.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }
func (e *credentialsError) NonRetriable() {}

// newHTTPClient is of this store alone.
func newHTTPClient(o Options) (*http.Client, error) {
	return dial.Client(dial.Options{TrustedCAs: o.TrustedCAs, InsecureSkipVerify: o.InsecureSkipVerify, Proxy: o.Proxy, IdleTimeout: o.IdleTimeout})
}

// ambient is the identity of the pod, the machine or whoever has logged in.
func ambient(o Options, opts policy.ClientOptions) (azcore.TokenCredential, error) {
	opts.PerCallPolicies = nil
	if o.Authority == "" {
		opts.Cloud = o.cloud()
	}
	cred, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{
		ClientOptions: opts,
		// Microsoft does not know authorities that are not its own.
		DisableInstanceDiscovery: o.Authority != "",
	})
	if err != nil {
		return nil, &credentialsError{fmt.Errorf("no ambient identity of Azure: %s", oneLine(err.Error()))}
	}
	return cred, nil
}

// cloud is the one that the account's domain belongs to.
func (o Options) cloud() cloud.Configuration {
	switch {
	case strings.HasSuffix(o.Domain, "chinacloudapi.cn"):
		return cloud.AzureChina
	case strings.HasSuffix(o.Domain, "usgovcloudapi.net"):
		return cloud.AzureGovernment
	}
	return cloud.AzurePublic
}

// oneLine joins what others say in several lines.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
