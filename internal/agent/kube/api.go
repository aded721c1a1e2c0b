package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/httpclient"
)

// api is the API server, for the two objects of one member.
type api struct {
	client  *http.Client
	server  string
	lease   string // path
	member  string // path
	metrics Metrics
	now     func() time.Time
	log     *slog.Logger

	mu     sync.Mutex
	skewed bool // as it was logged
}

func newAPI(o Options) *api {
	namespace, name := url.PathEscape(o.Namespace), url.PathEscape(o.Member)
	return &api{
		client: o.Client, server: strings.TrimSuffix(o.Server, "/"), metrics: o.Metrics, now: o.Now, log: o.Log,
		lease:  "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases/" + name,
		member: "/apis/druid.gardener.cloud/v1alpha1/namespaces/" + namespace + "/etcdmembers/" + name,
	}
}

// The kinds of patches.
const (
	mergePatch = "application/merge-patch+json"
	applyPatch = "application/apply-patch+yaml" // JSON is YAML
)

// fieldManager is who we are to the API server where it keeps who wrote what.
const fieldManager = "etcdbrctl"

const (
	// callTimeout bounds a request: a heartbeat must not wait longer for a server that does not
	// answer than until the next one.
	callTimeout = 10 * time.Second
	maxAnswer   = 2 << 20 // bytes; more than an object can have
)

// patch sends a change of the object at path and reads the object into into, unless that is nil.
func (a *api) patch(ctx context.Context, path, kind string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	query := "?fieldManager=" + fieldManager
	if kind == applyPatch {
		query += "&force=true"
	}
	return a.do(ctx, http.MethodPatch, path+query, kind, text, into)
}

// get reads the object at path.
func (a *api) get(ctx context.Context, path string, into any) error {
	return a.do(ctx, http.MethodGet, path, "", nil, into)
}

// do makes one request. All errors but that of a cancelled ctx are *callError.
func (a *api) do(ctx context.Context, method, path, kind string, body []byte, into any) error {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(bounded, method, a.server+path, bytes.NewReader(body))
	if err != nil {
		return &callError{situation: Unreachable, message: err.Error()}
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", fieldManager)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	began := a.now()
	resp, err := a.client.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &callError{situation: Unreachable, message: reason(err)}
	}
	defer resp.Body.Close()
	a.compare(resp.Header.Get("Date"), began, a.now())
	text, err := httpclient.Read(resp.Body, maxAnswer)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &callError{situation: Unreachable, message: reason(err)}
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return refusal(resp, text)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return &callError{situation: Failing, code: resp.StatusCode, message: "the answer cannot be read: " + err.Error()}
	}
	return nil
}

// reason is an error without the address, which is logged once, and with a word for a timeout.
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %v", callTimeout)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return agentapi.Clip(err.Error(), agentapi.MaxText)
}

// Situation is what the API server does with our requests.
type Situation string

// The situations.
const (
	Fine        Situation = "ok"
	Missing     Situation = "missing"     // there is no such object, or not yet
	Forbidden   Situation = "forbidden"   // the Role, or an admission policy
	Denied      Situation = "denied"      // the token
	Conflict    Situation = "conflict"    // the object was replaced
	Invalid     Situation = "invalid"     // the server does not take what is written
	Throttled   Situation = "throttled"   // later
	Failing     Situation = "failing"     // the server has trouble itself
	Unreachable Situation = "unreachable" // no answer
)

// callError is why a request was not granted.
type callError struct {
	situation Situation
	code      int    // of HTTP; 0: there was no answer
	message   string // the server's
	after     time.Duration
}

func (e *callError) Error() string {
	if e.code == 0 {
		return e.message
	}
	return fmt.Sprintf("%d %s: %s", e.code, http.StatusText(e.code), e.message)
}

// refusal reads an answer that is not a success.
func refusal(resp *http.Response, text []byte) *callError {
	e := &callError{code: resp.StatusCode, situation: situationOf(resp.StatusCode)}
	var s metav1.Status
	if json.Unmarshal(text, &s) == nil {
		e.message = agentapi.Clip(s.Message, agentapi.MaxText)
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.after = min(time.Duration(s)*time.Second, longestWait)
	}
	return e
}

func situationOf(code int) Situation {
	switch {
	case code == http.StatusUnauthorized:
		return Denied
	case code == http.StatusForbidden:
		return Forbidden
	case code == http.StatusNotFound:
		return Missing
	case code == http.StatusConflict:
		return Conflict
	case code == http.StatusTooManyRequests:
		return Throttled
	case code >= 500:
		return Failing
	}
	return Invalid
}

// tolerated is by how much clocks may differ before that is told: the operator takes a member for
// silent after a minute by its own clock.
const tolerated = 10 * time.Second

// compare looks at the server's clock, which tells seconds, against ours.
func (a *api) compare(date string, began, ended time.Time) {
	server, err := http.ParseTime(date)
	if err != nil {
		return
	}
	ahead := began.Add(ended.Sub(began) / 2).Sub(server.Add(500 * time.Millisecond))
	a.metrics.Ahead(ahead)
	skewed := ahead.Abs() > tolerated+ended.Sub(began)/2
	a.mu.Lock()
	defer a.mu.Unlock()
	if skewed == a.skewed {
		return
	}
	a.skewed = skewed
	if skewed {
		a.log.Warn("the clock here differs from the API server's: the operator may take this member for silent; synchronise the node's clock", "ahead", ahead.Round(time.Second))
		return
	}
	a.log.Info("the clock here agrees with the API server's again")
}
