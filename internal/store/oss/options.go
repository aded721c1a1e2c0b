package oss

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Limits of the protocol and of our own patience.
const (
	minPartSize = 5 << 20 // OSS takes 100 KiB, but an object has at most maxParts
	maxParts    = 10_000
	maxKeyBytes = 1023

	defaultParallelParts = 5
	defaultIdleTimeout   = 2 * time.Minute
	defaultAttempts      = 4
	firstBackoff         = 200 * time.Millisecond
	maxBackoff           = 10 * time.Second

	// cleanupTimeout bounds what is done after the caller has given up: aborting an upload,
	// finding out what became of a write.
	cleanupTimeout = 30 * time.Second
)

// Options say which bucket and how to reach it.
type Options struct {
	Bucket string

	// Endpoint is the URL of the service, as https://oss-eu-central-1.aliyuncs.com. Without a
	// scheme it is https. The bucket goes in front of the host, except of an IP address.
	Endpoint string
	// Region is what version 4 of the signatures needs, as eu-central-1; empty: taken from an
	// Endpoint that names it. Where neither does, requests are signed by version 1.
	Region string
	// Keys are asked for before each request, so that a rotation is noticed.
	Keys func() (Keys, error)

	InsecureSkipVerify bool   // any certificate will do
	TrustedCAs         []byte // PEM, trusted besides the system's
	// Proxy chooses the proxy of a request; nil: none.
	Proxy func(*http.Request) (*url.URL, error)

	PartSize      int64         // bytes per part and buffer; 0: 5 MiB, which is also the minimum
	ParallelParts int           // parts sent at once, also buffers in memory less one; 0: 5
	IdleTimeout   time.Duration // a connection on which nothing moves for so long is dropped; 0: 2 min
	Attempts      int           // of one request; 0: 4
}

// Keys are an access key. SecurityToken is empty for long-lived ones.
type Keys struct {
	AccessKeyID, AccessKeySecret, SecurityToken string
}

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$`)

// complete checks the options and fills in the defaults.
func (o Options) complete() (Options, error) {
	switch {
	case o.Bucket == "":
		return o, errors.New("OSS: no bucket is named (--store-container)")
	case !bucketName.MatchString(o.Bucket):
		return o, fmt.Errorf("OSS: %q cannot be the name of a bucket: 3 to 63 lower-case letters, digits and hyphens (--store-container)", o.Bucket)
	case o.Endpoint == "":
		return o, errors.New("OSS: the field storageEndpoint is missing")
	case o.Keys == nil:
		return o, errors.New("OSS: there are no credentials")
	}
	if !strings.Contains(o.Endpoint, "://") {
		o.Endpoint = "https://" + o.Endpoint
	}
	u, err := url.Parse(strings.TrimSuffix(o.Endpoint, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" {
		return o, fmt.Errorf("OSS: the endpoint %q is not a URL like https://oss-eu-central-1.aliyuncs.com", redact(o.Endpoint))
	}
	if u.User != nil {
		return o, fmt.Errorf("OSS: the endpoint %q must not contain a user or password", u.Redacted())
	}
	o.Endpoint = u.String()
	if o.Region == "" {
		o.Region = regionOf(u.Hostname())
	}
	o.Region = strings.TrimPrefix(o.Region, "oss-") // the name of the location, as the console shows it
	o.PartSize = max(o.PartSize, minPartSize)
	if o.ParallelParts <= 0 {
		o.ParallelParts = defaultParallelParts
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = defaultIdleTimeout
	}
	if o.Attempts <= 0 {
		o.Attempts = defaultAttempts
	}
	return o, nil
}

// The names of endpoints: oss-REGION.aliyuncs.com, oss-REGION-internal.aliyuncs.com and, for
// both IP versions, REGION.oss.aliyuncs.com.
var (
	hostOfRegion = regexp.MustCompile(`^oss-([a-z]+-[a-z0-9-]+?)(?:-internal)?\.aliyuncs\.com$`)
	dualStack    = regexp.MustCompile(`^([a-z]+-[a-z0-9-]+?)(?:-internal)?\.oss\.aliyuncs\.com$`)
)

// regionOf is the region that the name of an endpoint tells, or "".
func regionOf(host string) string {
	host = strings.ToLower(host)
	if strings.HasPrefix(host, "oss-accelerate") {
		return "" // it leads to buckets of all regions
	}
	for _, form := range []*regexp.Regexp{hostOfRegion, dualStack} {
		if m := form.FindStringSubmatch(host); m != nil {
			return m[1]
		}
	}
	return ""
}

// pathStyle says whether the bucket goes into the path: an IP address has no names in front.
func (o Options) pathStyle() bool {
	u, err := url.Parse(o.Endpoint)
	return err == nil && net.ParseIP(u.Hostname()) != nil
}

// redact hides what stands before an @ in something that should have been a URL.
func redact(s string) string {
	if i := strings.LastIndex(s, "@"); i >= 0 {
		return "***" + s[i:]
	}
	return s
}

// location is where the bucket is, for messages.
func (o Options) location() string { return "bucket " + o.Bucket + " at " + o.Endpoint }
