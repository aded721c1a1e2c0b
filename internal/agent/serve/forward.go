package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/httpclient"
	"druid.internal/druid/internal/agentapi/httpserver"
)

// forwarded marks a call that a sidecar passed on, so that none is passed on twice: while the
// leadership changes, two sidecars can each take the other for the leader.
const forwarded = "Etcdbrctl-Forwarded"

// leaderTimeout bounds the search for the leader.
const leaderTimeout = 5 * time.Second

// forwarder passes calls on to the backup leader, with the credentials of this sidecar.
type forwarder struct {
	leader func(context.Context) (string, bool, error)
	proxy  *httputil.ReverseProxy
	log    *slog.Logger
}

type target struct{}

func newForwarder(leader func(context.Context) (string, bool, error), transport http.RoundTripper, log *slog.Logger) *forwarder {
	f := &forwarder{leader: leader, log: log}
	f.proxy = &httputil.ReverseProxy{
		Transport:      transport,
		FlushInterval:  -1, // an answer is passed on as it comes
		Rewrite:        rewrite,
		ModifyResponse: modify,
		ErrorHandler:   f.failed,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return f
}

// unlessLeader calls here if this is the leader's sidecar, and passes the call on if not.
func (f *forwarder) unlessLeader(here http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), leaderTimeout)
		base, self, err := f.leader(ctx)
		cancel()
		switch {
		case r.Context().Err() != nil:
			// Nobody is there to read an answer.
		case err != nil:
			f.unavailable(w, r, fmt.Errorf("the backup leader is not known: %w", err))
		case self:
			here.ServeHTTP(w, r)
		case r.Header.Get(forwarded) != "":
			f.unavailable(w, r, fmt.Errorf("the call was passed on to here, but %w; the leadership changes, try again", agentapi.ErrNotLeader))
		default:
			f.pass(w, r, base)
		}
	})
}

func (f *forwarder) pass(w http.ResponseWriter, r *http.Request, base string) {
	base, err := agentapi.ParseBase(base)
	if err != nil {
		f.unavailable(w, r, fmt.Errorf("the backup leader's address is unusable: %w", err))
		return
	}
	u, err := url.Parse(base)
	if err != nil {
		f.unavailable(w, r, fmt.Errorf("the backup leader's address is unusable: %w", err))
		return
	}
	f.log.Debug("call passed on to the backup leader", "method", r.Method, "path", r.URL.Path, "leader", base)
	f.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), target{}, u)))
}

// rewrite makes the call to the leader: the same path and parameters, and of the caller's headers
// what the answer may depend on. The caller's credentials are for this sidecar alone.
func rewrite(p *httputil.ProxyRequest) {
	p.SetURL(p.In.Context().Value(target{}).(*url.URL))
	p.Out.Header = http.Header{forwarded: {"1"}, "User-Agent": {"etcdbrctl"}}
	if accept := p.In.Header.Values("Accept"); len(accept) > 0 {
		p.Out.Header["Accept"] = accept
	}
}

// refusedError says that the leader does not accept this sidecar's credentials. The caller must not take
// that for an answer about his own.
type refusedError struct{ text string }

func (e *refusedError) Error() string {
	return "it does not accept this sidecar's credentials: " + e.text
}

// maxExcuse limits what is read of a refusal, in bytes.
const maxExcuse = 1 << 10

// modify keeps of the leader's headers those that belong to the answer.
func modify(resp *http.Response) error {
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxExcuse))
		return &refusedError{httpclient.Excerpt(text)}
	}
	keep := http.Header{}
	for _, name := range []string{"Content-Type", "Content-Length", "Allow", "Retry-After"} {
		if values := resp.Header.Values(name); len(values) > 0 {
			keep[name] = values
		}
	}
	resp.Header = keep
	return nil
}

// failed answers for a leader that does not.
func (f *forwarder) failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return
	}
	base, _ := r.Context().Value(target{}).(*url.URL)
	var refused *refusedError
	if errors.As(err, &refused) {
		f.log.Warn("call not answered by the backup leader", "method", r.Method, "path", r.URL.Path, "leader", base.String(), "error", err)
		httpserver.Text(w, http.StatusBadGateway, fmt.Sprintf("the backup leader %s: %v", base, err))
		return
	}
	f.unavailable(w, r, fmt.Errorf("the backup leader %s does not answer: %w", base, err))
}

func (f *forwarder) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	f.log.Warn("call not answered by the backup leader", "method", r.Method, "path", r.URL.Path, "error", err)
	w.Header().Set("Retry-After", "1")
	httpserver.Text(w, http.StatusServiceUnavailable, err.Error())
}
