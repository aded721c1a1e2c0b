package swift

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/dial"
)

// statusRateLimited is Swift's own "slow down".
const statusRateLimited = 498

// failure is an error of the server or of the way to it, in the words of the port: what it
// is, what the server said, and what to do about it.
type failure struct {
	kind   error // a sentinel of package store; nil if none fits
	said   string
	remedy string
	cause  error
}

func (f *failure) Error() string {
	text := f.said
	if f.kind != nil {
		text = f.kind.Error() + ": " + text
	}
	if f.remedy != "" {
		text += "; " + f.remedy
	}
	return text
}

func (f *failure) Unwrap() []error {
	if f.kind == nil {
		return []error{f.cause}
	}
	return []error{f.kind, f.cause}
}

// rules say what an answer means. Swift tells errors apart by the status alone.
var rules = map[int]struct {
	kind   error
	remedy string
}{
	http.StatusUnauthorized:          {store.ErrCredentials, "the token was refused twice: check that the storage URL belongs to authURL"},
	http.StatusForbidden:             {store.ErrForbidden, "give this user a role in the project, or rights on the container (docs/operations/permissions.md)"},
	http.StatusNotFound:              {store.ErrNotFound, ""},
	http.StatusPreconditionFailed:    {store.ErrExists, ""},
	http.StatusRequestEntityTooLarge: {store.ErrNoSpace, "enlarge the quota of the project or container, or lower --min-chunk-size if an object may not be that large"},
	http.StatusInsufficientStorage:   {store.ErrNoSpace, "enlarge the store"},
	http.StatusTooManyRequests:       {store.ErrThrottled, "try again later, or with fewer --max-parallel-chunk-uploads"},
	statusRateLimited:                {store.ErrThrottled, "try again later, or with fewer --max-parallel-chunk-uploads"},
	http.StatusNotImplemented:        {store.ErrUnsupported, ""},
	http.StatusMethodNotAllowed:      {store.ErrUnsupported, "check that the endpoint is Swift's"},
	http.StatusConflict:              {nil, "a segment of a large object is missing or was altered, or somebody else writes the same key"},
	http.StatusUnprocessableEntity:   {nil, "what arrived is not what was sent; if it happens again, look for a proxy that alters bodies"},
}

// classify turns an error of a request into one of the port's. It is the only place that does.
func (s *Store) classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var (
		done   *failure
		answer *answerError
		creds  *credentialsError
	)
	switch {
	case errors.As(err, &done):
		return err
	case dial.OfProxy(err) != nil:
		return &failure{kind: store.ErrUnreachable, said: dial.OfProxy(err).Error(), remedy: dial.CheckProxy, cause: err}
	case errors.As(err, &creds):
		return &failure{kind: store.ErrCredentials, said: creds.Error(), cause: err}
	case errors.As(err, &answer):
		f := &failure{said: answer.Error(), cause: err}
		r, known := rules[answer.status]
		switch {
		case known:
			f.kind, f.remedy = r.kind, r.remedy
		case answer.status >= 500:
			f.kind, f.remedy = store.ErrUnreachable, s.opts.describe()+" answers but fails, try again later"
		}
		return f
	}
	return s.classifyNetwork(err)
}

// classifyNetwork is for what happened on the way.
func (s *Store) classifyNetwork(err error) error {
	where := s.opts.describe()
	var sent *url.Error // names whom it was about: the identity service or the store
	if errors.As(err, &sent) {
		if u, perr := url.Parse(sent.URL); perr == nil && u.Host != "" {
			where = u.Scheme + "://" + u.Host
		}
	}
	f := &failure{kind: store.ErrUnreachable, cause: err}
	var (
		dns     *net.DNSError
		timeout net.Error
		op      *net.OpError
		record  tls.RecordHeaderError
	)
	trust := dial.Untrusted(err)
	switch {
	case trust != nil:
		f.said = fmt.Sprintf("the certificate of %s is not trusted: %v", where, trust)
		f.remedy = "give the CA's certificate in the field trustedCaCert"
	case errors.Is(err, http.ErrSchemeMismatch):
		f.said, f.remedy = where+" speaks plain http, not https", "correct the scheme of authURL or of the endpoint"
	case errors.As(err, &dns):
		f.said, f.remedy = fmt.Sprintf("the name %q cannot be resolved: %s", dns.Name, dns.Err), "check authURL and the endpoint"
	case errors.Is(err, syscall.ECONNREFUSED):
		f.said, f.remedy = "connection refused by "+where, "check authURL and the endpoint, and that the server runs"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		f.said, f.remedy = where+" did not answer in time: "+innermost(err), "check the network and the endpoint"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		f.said, f.remedy = "the connection to "+where+" broke: "+innermost(err), "try again"
	case errors.As(err, &op), errors.As(err, &record), sent != nil:
		f.said, f.remedy = "no connection to "+where+": "+innermost(err), "check the endpoint and the network"
	default:
		return &failure{said: innermost(err), cause: err}
	}
	return f
}

// describe names the server.
func (o Options) describe() string {
	if o.StorageURL != "" {
		return o.StorageURL
	}
	return "the object store of " + o.AuthURL
}

// statusOf is the HTTP status of a refusal, or 0 if no answer arrived.
func statusOf(err error) int {
	var answer *answerError
	if errors.As(err, &answer) {
		return answer.status
	}
	return 0
}

// innermost is the last error in the chain.
func innermost(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}
