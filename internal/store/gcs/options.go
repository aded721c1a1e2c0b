package gcs

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Limits of the service and of our own patience.
const (
	maxKeyBytes   = 1024
	chunkQuantum  = 256 << 10 // chunks of a resumable upload are multiples of this
	minChunkSize  = chunkQuantum
	maxChunkSize  = 1 << 30
	maxLookups    = 20 // generations of one key that are searched for ours
	changeRetries = 5  // how often a change is decided anew because somebody else changed the metadata

	defaultIdleTimeout = 2 * time.Minute
	defaultAttempts    = 4
	firstBackoff       = 200 * time.Millisecond
	maxBackoff         = 10 * time.Second

	// cleanupTimeout bounds what is done after the caller has given up: canceling an upload,
	// finding out what became of a write.
	cleanupTimeout = 30 * time.Second
)

// DefaultChunkSize is what one request of a large upload carries: few round trips, little memory.
const DefaultChunkSize = 16 << 20

// googleEndpoint is where the service of a universe is; nearly always that of googleapis.com.
const googleEndpoint = "https://storage.%s/storage/v1/"

// Options say which bucket and how to reach it.
type Options struct {
	Bucket string

	// Endpoint is the URL of the service; empty: Google's. The path /storage/v1/ is added if
	// there is none. Plain http is for emulators, and nobody authenticates there.
	Endpoint string

	// Credentials returns what requests are authorized with. It is asked before each request,
	// so that a rotation is noticed, and should be quick. nil: the ambient identity (application
	// default credentials).
	Credentials func() (Credentials, error)
	// Anonymous asks without any identity.
	Anonymous bool

	// TrustedCAs are trusted besides the system's, PEM.
	TrustedCAs []byte
	// Proxy chooses the proxy of a request; nil: none.
	Proxy func(*http.Request) (*url.URL, error)

	// EndpointFrom is the setting that named Endpoint, for messages.
	EndpointFrom string

	ChunkSize   int64         // bytes per request of a large upload, held in memory; 0: 16 MiB
	IdleTimeout time.Duration // a connection on which nothing moves for so long is dropped; 0: 2 min
	Attempts    int           // of one request; 0: 4
}

// complete checks the options and fills in the defaults.
func (o Options) complete() (Options, error) {
	if o.Bucket == "" {
		return o, fmt.Errorf("%s: no bucket is named (--store-container)", provider)
	}
	if strings.ContainsAny(o.Bucket, "/?#% ") {
		return o, fmt.Errorf("%s: %q cannot be the name of a bucket, check --store-container", provider, o.Bucket)
	}
	if o.Endpoint != "" {
		if err := o.completeEndpoint(); err != nil {
			return o, err
		}
	}
	if o.ChunkSize <= 0 {
		o.ChunkSize = DefaultChunkSize
	}
	o.ChunkSize = min(max(o.ChunkSize, minChunkSize), maxChunkSize)
	o.ChunkSize = (o.ChunkSize + chunkQuantum - 1) / chunkQuantum * chunkQuantum
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = defaultIdleTimeout
	}
	if o.Attempts <= 0 {
		o.Attempts = defaultAttempts
	}
	return o, nil
}

func (o *Options) completeEndpoint() error {
	if !strings.Contains(o.Endpoint, "://") {
		o.Endpoint = "https://" + o.Endpoint
	}
	u, err := url.Parse(o.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%s: the endpoint %q is not a URL like https://storage.example.com", provider, redact(o.Endpoint))
	case u.User != nil:
		return fmt.Errorf("%s: the endpoint %q must not contain a user or password", provider, u.Redacted())
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/storage/v1/"
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/"
	o.Endpoint = u.String()
	o.Anonymous = o.Anonymous || u.Scheme == "http"
	return nil
}

// redact hides what stands before an @ in something that should have been a URL.
func redact(s string) string {
	if i := strings.LastIndex(s, "@"); i >= 0 {
		return "***" + s[i:]
	}
	return s
}

// server names the service, for messages.
func (o Options) server() string {
	u, err := url.Parse(o.Endpoint)
	if o.Endpoint == "" || err != nil {
		return "Google Cloud Storage"
	}
	return u.Scheme + "://" + u.Host
}

// endpoint is where requests go, and the setting that named it, for messages.
func (o Options) endpoint() string {
	if o.EndpointFrom == "" {
		return o.server()
	}
	return o.server() + " (" + o.EndpointFrom + ")"
}

// location is where the bucket is, for messages.
func (o Options) location() string {
	if o.Endpoint == "" {
		return "bucket " + o.Bucket + " of Google Cloud Storage"
	}
	return "bucket " + o.Bucket + " at " + o.server()
}
