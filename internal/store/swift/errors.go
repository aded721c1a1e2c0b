package swift

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/dial"
)

// statusRateLimited is Swift's own "slow down".
const statusRateLimited = 498

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
		done   *store.Failure
		answer *answerError
		creds  *credentialsError
	)
	switch {
	case errors.As(err, &done):
		return err
	case dial.OfProxy(err) != nil:
		return s.way(err).Broken(err)
	case errors.As(err, &creds):
		return &store.Failure{Kind: store.ErrCredentials, Said: creds.Error(), Cause: err}
	case errors.As(err, &answer):
		f := &store.Failure{Said: answer.Error(), Cause: err}
		r, known := rules[answer.status]
		switch {
		case known:
			f.Kind, f.Remedy = r.kind, r.remedy
		case answer.status >= 500:
			f.Kind, f.Remedy = store.ErrUnreachable, s.opts.describe()+" answers but fails, try again later"
		}
		return f
	}
	if f := s.way(err).Broken(err); f != nil {
		return f
	}
	if sent := (*url.Error)(nil); errors.As(err, &sent) {
		return s.way(err).Missing(err)
	}
	return &store.Failure{Said: dial.Innermost(err), Cause: err}
}

// way is the way to the server that err is about: the identity service's, or the store's.
func (s *Store) way(err error) dial.Way {
	w := dial.Way{To: s.opts.describe(), Endpoint: "authURL and the endpoint", Name: "authURL and the endpoint", CA: "the field trustedCaCert"}
	var sent *url.Error
	if errors.As(err, &sent) {
		if u, perr := url.Parse(sent.URL); perr == nil && u.Host != "" {
			w.To = u.Scheme + "://" + u.Host
		}
	}
	return w
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
