package swift

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Limits of the protocol and of our own patience.
const (
	// minPartSize is larger than elsewhere, because a manifest lists few segments.
	minPartSize = 10 << 20
	// maxSegments is how many segments a manifest lists where the server does not tell.
	maxSegments       = 1000
	maxKeyBytes       = 1024
	maxContainerBytes = 256

	defaultParallelParts = 5
	defaultIdleTimeout   = 2 * time.Minute
	defaultAttempts      = 4
	firstBackoff         = 200 * time.Millisecond
	maxBackoff           = 10 * time.Second

	// cleanupTimeout bounds what is done after the caller has given up: removing segments,
	// finding out what became of a write.
	cleanupTimeout = 30 * time.Second
	// renewBefore is how long before its end a token is not used any more.
	renewBefore = time.Minute
)

// Options say which container and how to reach it.
type Options struct {
	Container string

	// AuthURL is where tokens come from: Keystone (https://keystone.example.com:5000/v3; v3
	// is assumed where the URL names no version) or the older protocols 1.0 and 2.0, which
	// are recognised by their paths.
	AuthURL string
	// Region picks the endpoint from Keystone's catalog; empty: the first.
	Region string
	// StorageURL replaces the endpoint of the catalog; empty: the catalog's.
	StorageURL string
	// Credentials are asked for before each request, so that a rotation is noticed.
	Credentials func() (Credentials, error)

	InsecureSkipVerify bool   // any certificate will do
	TrustedCAs         []byte // PEM, trusted besides the system's
	// Proxy chooses the proxy of a request; nil: none.
	Proxy func(*http.Request) (*url.URL, error)

	// ConditionalPut says whether the server honours If-None-Match: * without fail. nil means
	// that it is sent and not relied on: a key is looked up before it is written. False: it is
	// not sent at all.
	ConditionalPut *bool

	PartSize      int64         // bytes per segment and buffer; 0: 10 MiB, which is also the minimum
	ParallelParts int           // segments sent at once, also buffers in memory less one; 0: 5
	IdleTimeout   time.Duration // a connection on which nothing moves for so long is dropped; 0: 2 min
	Attempts      int           // of one request; 0: 4
}

// Credentials are a user with a password, or an application credential.
type Credentials struct {
	UserName, Password string
	DomainName         string // of the user, and of the project unless ProjectDomainName says otherwise
	ProjectName        string
	ProjectDomainName  string
	ApplicationID      string // of an application credential, or its name together with UserName and DomainName
	ApplicationName    string
	ApplicationSecret  string
}

// application says whether these are an application credential.
func (c Credentials) application() bool { return c.ApplicationSecret != "" }

// authVersion is the protocol by which tokens are had.
type authVersion int

const (
	tempAuth   authVersion = 1
	keystoneV2 authVersion = 2
	keystoneV3 authVersion = 3
)

// complete checks the options and fills in the defaults.
func (o Options) complete() (Options, authVersion, error) {
	switch {
	case o.Container == "":
		return o, 0, errors.New("Swift: no container is named (--store-container)")
	case strings.Contains(o.Container, "/") || len(o.Container) > maxContainerBytes:
		return o, 0, fmt.Errorf("Swift: %q cannot be the name of a container: at most %d bytes and no slash", o.Container, maxContainerBytes)
	case o.AuthURL == "":
		return o, 0, errors.New("Swift: the field authURL is missing")
	case o.Credentials == nil:
		return o, 0, errors.New("Swift: there are no credentials")
	}
	auth, err := parseURL("authURL", o.AuthURL)
	if err != nil {
		return o, 0, err
	}
	version := versionOf(auth)
	o.AuthURL = auth.String()
	if o.StorageURL != "" {
		storage, err := parseURL("storage URL (--store-endpoint-override)", o.StorageURL)
		if err != nil {
			return o, 0, err
		}
		o.StorageURL = storage.String()
	}
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
	return o, version, nil
}

// parseURL reads a URL without a secret in it; without a scheme it is https.
func parseURL(what, s string) (*url.URL, error) {
	if !strings.Contains(s, "://") {
		s = "https://" + s
	}
	u, err := url.Parse(strings.TrimSuffix(s, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("Swift: the %s %q is not a URL like https://swift.example.com", what, redact(s))
	}
	if u.User != nil {
		return nil, fmt.Errorf("Swift: the %s %q must not contain a user or password", what, u.Redacted())
	}
	return u, nil
}

// redact hides what stands before an @ in something that should have been a URL.
func redact(s string) string {
	if i := strings.LastIndex(s, "@"); i >= 0 {
		return "***" + s[i:]
	}
	return s
}

// versionOf recognises the protocol by the path, and completes a bare address of Keystone.
func versionOf(u *url.URL) authVersion {
	path := u.Path
	switch {
	case strings.HasSuffix(path, "/v3"):
		return keystoneV3
	case strings.HasSuffix(path, "/v2.0"):
		return keystoneV2
	case strings.HasSuffix(path, "/v1"), strings.HasSuffix(path, "/v1.0"), strings.HasSuffix(path, "/auth/1.0"):
		return tempAuth
	}
	u.Path = path + "/v3"
	return keystoneV3
}

// location is where the container is, for messages.
func (o Options) location() string {
	at := o.StorageURL
	if at == "" {
		at = o.AuthURL
	}
	if o.Region != "" {
		return "container " + o.Container + " in " + o.Region + " of " + at
	}
	return "container " + o.Container + " of " + at
}

// NeedsProject says whether users log in at authURL with a domain and a project, as in
// Keystone v3, and not by their names alone.
func NeedsProject(authURL string) bool {
	u, err := parseURL("authURL", authURL)
	return err != nil || versionOf(u) == keystoneV3
}
