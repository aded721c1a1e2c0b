package member

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"
)

// Config says how to reach an etcd cluster. The zero value reaches nothing: Endpoints is
// required. Validate before use.
type Config struct {
	// Endpoints are client URLs, tried in order: http://, https://, unix:// or host:port. All
	// of them must agree on TLS.
	Endpoints []string

	// CertFile and KeyFile are the client's identity, CAFile the authorities that may sign
	// the server's certificate (the system's when empty). PEM files, read anew for every
	// connection, so that a renewed certificate needs no restart.
	CertFile, KeyFile, CAFile string

	// TLS is for those who have certificates in memory: it is used as it is, in place of the
	// files, ServerName and InsecureSkipVerify.
	TLS *tls.Config

	// ServerName replaces the host of the endpoint when the server's certificate is verified.
	ServerName string

	// InsecureTransport allows endpoints without a scheme to be spoken to in plain text. An
	// endpoint's scheme always decides.
	InsecureTransport bool

	// InsecureSkipVerify accepts any server certificate. Off unless asked for.
	InsecureSkipVerify bool

	Username, Password string
	// UsernameFile and PasswordFile hold them, in place of Username and Password. They are read whenever
	// somebody logs in, so that a changed password is used.
	UsernameFile, PasswordFile string

	// Pass is metadata that is shown with every call, for an etcd that serves those alone who have a pass. It is
	// asked for each call, so that it may change; nil: there is none.
	Pass func() map[string]string

	// DialTimeout bounds establishing a connection, and each short question (everything but
	// the stream and the watch). 0 means DefaultTimeout.
	DialTimeout time.Duration

	// MaxReceive bounds one message from etcd, in bytes; 0 means 2 GiB - 1. A watch answer
	// holds up to 1000 revisions, so a bound below that times the server's --max-request-bytes
	// can make a watch impossible on servers that do not fragment.
	MaxReceive int
	// MaxSend bounds one message to etcd, in bytes; 0 means 2 MiB, as etcd's clients use, or
	// MaxReceive if that is less: etcd's client refuses to send more than it may receive.
	MaxSend int
}

// DefaultTimeout bounds a question to etcd when the configuration does not.
const DefaultTimeout = 30 * time.Second

// ErrConfig is wrapped by every error of Validate, and by those of certificate files that cannot be used.
var ErrConfig = errors.New("etcd connection is configured wrongly")

// Validate reports the first thing that cannot work, with its remedy.
func (c Config) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
	}
	if len(c.Endpoints) == 0 {
		return bad("no endpoint; name at least one with --endpoints")
	}
	secure := 0
	for _, ep := range c.Endpoints {
		s, err := c.secure(ep)
		if err != nil {
			return bad("%v", err)
		}
		if s {
			secure++
		}
	}
	if secure != 0 && secure != len(c.Endpoints) {
		return bad("some endpoints use TLS and some do not; give all of them the same scheme")
	}
	switch {
	case (c.CertFile == "") != (c.KeyFile == ""):
		return bad("a client certificate and its key belong together; give both --cert and --key")
	case c.TLS != nil && (c.CertFile != "" || c.CAFile != "" || c.ServerName != "" || c.InsecureSkipVerify):
		return bad("certificates are given in memory and as files; give one of the two")
	case secure == 0 && (c.CertFile != "" || c.CAFile != "" || c.TLS != nil):
		return bad("certificates are given but the endpoints are plain http; use https:// endpoints")
	case (c.Username == "") != (c.Password == ""):
		return bad("user name and password belong together; give both --etcd-username and --etcd-password")
	case (c.UsernameFile == "") != (c.PasswordFile == ""):
		return bad("the files of the user name and of the password belong together; give both")
	case c.UsernameFile != "" && c.Username != "":
		return bad("a user is given by name and by files; give one of the two")
	case c.MaxReceive < 0 || c.MaxSend < 0 || c.DialTimeout < 0:
		return bad("negative limit or timeout")
	case c.maxSend() > c.maxReceive():
		return bad("the limit for sent messages (%d bytes) is above that for received ones (%d bytes)", c.maxSend(), c.maxReceive())
	}
	return nil
}

// secure says whether ep is reached by TLS.
func (c Config) secure(ep string) (bool, error) {
	scheme, rest, found := strings.Cut(ep, "://")
	if !found {
		if ep == "" || strings.ContainsAny(ep, "/ ") {
			return false, fmt.Errorf("endpoint %q is not a URL; write it like https://etcd-main:2379", ep)
		}
		return !c.InsecureTransport || c.CertFile != "" || c.CAFile != "" || c.TLS != nil, nil
	}
	if u, err := url.Parse(ep); err != nil || rest == "" || (u.Host == "" && u.Path == "") {
		return false, fmt.Errorf("endpoint %q is not a URL; write it like https://etcd-main:2379", ep)
	}
	if u, err := url.Parse(ep); err == nil && u.User != nil {
		return false, fmt.Errorf("endpoint %s://...@%s holds a user name; give --etcd-username and --etcd-password instead", scheme, u.Host)
	}
	switch scheme {
	case "https", "unixs":
		return true, nil
	case "http", "unix":
		if !c.InsecureTransport {
			return false, fmt.Errorf("endpoint %s is plain text, which --insecure-transport=false forbids; use https://", ep)
		}
		return false, nil
	}
	return false, fmt.Errorf("endpoint %s: scheme %q is none of http, https, unix, unixs", ep, scheme)
}

// agrees says why endpoint, which need not be a configured one, must not be used: users and
// passwords for TLS endpoints are for none in plain text.
func (c Config) agrees(endpoint string) error {
	want, err := c.secure(c.Endpoints[0])
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	got, err := c.secure(endpoint)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrConfig, err)
	case got != want:
		return fmt.Errorf("%w: endpoint %s and the configured %s do not agree on TLS; give them the same scheme", ErrConfig, endpoint, c.Endpoints[0])
	}
	return nil
}

func (c Config) timeout() time.Duration {
	if c.DialTimeout > 0 {
		return c.DialTimeout
	}
	return DefaultTimeout
}

func (c Config) maxReceive() int {
	if c.MaxReceive > 0 {
		return c.MaxReceive
	}
	return math.MaxInt32
}

func (c Config) maxSend() int {
	if c.MaxSend > 0 {
		return c.MaxSend
	}
	return min(2<<20, c.maxReceive())
}
