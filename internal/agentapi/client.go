package agentapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"druid.internal/druid/internal/agentapi/auth"
	"druid.internal/druid/internal/agentapi/httpclient"
)

// DefaultTimeout bounds a call that should be answered at once.
const DefaultTimeout = 10 * time.Second

// ClientOptions say how a sidecar is called. The zero value shows no credential and trusts the
// system's authorities.
type ClientOptions struct {
	auth.Credentials
	// Timeout bounds the calls that are answered at once; 0: DefaultTimeout. Full, Delta, Latest and
	// Timeline end with their context only.
	Timeout time.Duration
	Log     *slog.Logger // told when changed files are used; nil: none
}

// Budget limits the memory for answers that are read at the same time. Acquire waits for so many
// bytes.
type Budget interface {
	Acquire(ctx context.Context, bytes int64) error
	Release(bytes int64)
}

// Client calls one sidecar. It may be used by many goroutines at the same time. An answer that is
// not a success is a *[StatusError].
type Client struct {
	base    string
	timeout time.Duration
	http    *http.Client
	budget  Budget // nil: no limit over all calls
}

// NewClient is for the sidecar at base, as in "https://etcd-main-0.etcd-main-peer:8080". It connects
// with the first call.
func NewClient(base string, o ClientOptions) (*Client, error) {
	base, err := ParseBase(base)
	if err != nil {
		return nil, err
	}
	h, err := auth.NewClient(o.Credentials, o.Log)
	if err != nil {
		return nil, err
	}
	return newClient(base, h, o.Timeout, nil), nil
}

// NewClientOver returns a client whose calls t sends, with the credentials that t adds. Timeout 0 is
// DefaultTimeout. Answers take their memory from budget, which may be nil.
func NewClientOver(t http.RoundTripper, base string, timeout time.Duration, budget Budget) (*Client, error) {
	base, err := ParseBase(base)
	if err != nil {
		return nil, err
	}
	return newClient(base, httpclient.New(t), timeout, budget), nil
}

// ParseBase checks the address of a sidecar and returns it without a slash at the end.
func ParseBase(base string) (string, error) {
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("the sidecar's address %s; write it like https://etcd-main-0.etcd-main-peer:8080", why)
	}
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return bad("is not a URL")
	case u.User != nil:
		return bad("holds a user name or password")
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Path != "" && u.Path != "/",
		u.RawQuery != "", u.ForceQuery, u.Fragment != "", u.Opaque != "":
		return bad(fmt.Sprintf("%q is not a scheme and a host", base))
	}
	return u.Scheme + "://" + u.Host, nil
}

func newClient(base string, h *http.Client, timeout time.Duration, budget Budget) *Client {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	return &Client{base: base, timeout: timeout, http: h, budget: budget}
}

// At is a client with the same options for another sidecar, as for the next member of a cluster.
// They share connections.
func (c *Client) At(base string) (*Client, error) {
	base, err := ParseBase(base)
	if err != nil {
		return nil, err
	}
	return newClient(base, c.http, c.timeout, c.budget), nil
}

// Base is the sidecar's address.
func (c *Client) Base() string { return c.base }

// Close gives up the connections that no call uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// InitStart begins the initialization. It does nothing if one has begun already.
func (c *Client) InitStart(ctx context.Context, mode ValidationMode) error {
	return c.soon(ctx, http.MethodPost, InitStart+"?mode="+url.QueryEscape(string(mode)), nil)
}

// InitStatus is the progress of the initialization.
func (c *Client) InitStatus(ctx context.Context) (InitState, error) {
	var text []byte
	if err := c.soon(ctx, http.MethodGet, InitStatus, &text); err != nil {
		return "", err
	}
	switch s := InitState(bytes.TrimSpace(text)); s {
	case InitNew, InitProgress, InitSuccessful, InitFailed:
		return s, nil
	}
	return "", fmt.Errorf("GET %s%s: answered %s, which is no state of an initialization; does a sidecar listen there?", c.base, InitStatus, httpclient.Excerpt(text))
}

// InitAcknowledge says that the outcome was seen: the status is InitNew again.
func (c *Client) InitAcknowledge(ctx context.Context) error {
	return c.soon(ctx, http.MethodPost, InitAcknowledge, nil)
}

// Config is the configuration file of the member's etcd, as YAML.
func (c *Client) Config(ctx context.Context) ([]byte, error) {
	var text []byte
	err := c.soon(ctx, http.MethodGet, Config, &text)
	return text, err
}

// Healthy reports whether the member is healthy. The error is nil if the sidecar said either.
func (c *Client) Healthy(ctx context.Context) (bool, error) {
	var h Health
	err := c.soon(ctx, http.MethodGet, Healthz, &h)
	var status *StatusError
	if errors.As(err, &status) && status.Code == http.StatusServiceUnavailable {
		return false, nil
	}
	return err == nil && h.Health, err
}

// Member is what the sidecar knows about its member.
func (c *Client) Member(ctx context.Context) (Member, error) {
	m, err := get[Member](ctx, c.soon, http.MethodGet, MemberPath)
	return m.Bounded(), err
}

// Operations are the long operations of the sidecar.
func (c *Client) Operations(ctx context.Context) ([]Operation, error) {
	all, err := get[[]Operation](ctx, c.soon, http.MethodGet, Operations)
	for i := range all {
		all[i] = all[i].bounded()
	}
	return all, err
}

// Refuse has the member's etcd refuse clients for so long, or admit them with 0.
func (c *Client) Refuse(ctx context.Context, d time.Duration) (Refusal, error) {
	r, err := get[Refusal](ctx, c.soon, http.MethodPost, Clients+"?refuse="+d.String())
	r.Impossible = Clip(r.Impossible, MaxText)
	return r, err
}

// Full takes a full snapshot. It lasts as long as the upload.
func (c *Client) Full(ctx context.Context, final bool) (Snapshot, error) {
	path := Full
	if final {
		path += "?final=true"
	}
	return bounded(get[Snapshot](ctx, c.call, http.MethodPost, path))
}

// Final takes a final full snapshot for a purpose, such as one hibernation of one Etcd. It gives the newest full again
// if that was taken for the same purpose and nothing has changed since.
func (c *Client) Final(ctx context.Context, purpose string) (Snapshot, error) {
	return bounded(get[Snapshot](ctx, c.call, http.MethodPost, Full+"?final=true&for="+url.QueryEscape(purpose)))
}

// Delta uploads what is not in the bucket yet; nil: there is nothing.
func (c *Client) Delta(ctx context.Context) (*Snapshot, error) {
	s, err := get[*Snapshot](ctx, c.call, http.MethodPost, Delta)
	if s != nil {
		*s = s.bounded()
	}
	return s, err
}

// Latest returns the newest full and the newest delta after it. The sidecar lists all deltas; the
// client keeps the last.
func (c *Client) Latest(ctx context.Context) (LatestSnapshots, error) {
	var l newest
	if err := c.call(ctx, http.MethodGet, Latest, &l); err != nil {
		return LatestSnapshots{}, err
	}
	return LatestSnapshots(l), nil
}

// newest is [LatestSnapshots] of which the last delta is kept: a long chain has thousands.
type newest LatestSnapshots

func (l *newest) decode(content []byte) error {
	var answer struct {
		FullSnapshot   json.RawMessage `json:"fullSnapshot"`
		DeltaSnapshots json.RawMessage `json:"deltaSnapshots"`
	}
	if err := json.Unmarshal(content, &answer); err != nil {
		return err
	}
	full, err := decodeSnapshot(answer.FullSnapshot)
	if err != nil {
		return err
	}
	l.FullSnapshot = full
	if len(answer.DeltaSnapshots) == 0 || string(answer.DeltaSnapshots) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(answer.DeltaSnapshots))
	if open, err := d.Token(); err != nil || open != json.Delim('[') {
		return errors.Join(errors.New("deltaSnapshots is not a list"), err)
	}
	var last json.RawMessage
	for d.More() {
		if err := d.Decode(&last); err != nil {
			return err
		}
	}
	delta, err := decodeSnapshot(last)
	if delta != nil {
		l.DeltaSnapshots = []*Snapshot{delta}
	}
	return err
}

// decodeSnapshot returns nil for null or nothing.
func decodeSnapshot(content []byte) (*Snapshot, error) {
	var s *Snapshot
	if len(content) == 0 {
		return nil, nil
	}
	if err := httpclient.Decode(content, limitOf(Full), &s); err != nil || s == nil {
		return nil, err
	}
	one := s.bounded()
	return &one, nil
}

// Timeline is what the bucket holds.
func (c *Client) Timeline(ctx context.Context) (Timeline, error) {
	return get[Timeline](ctx, c.call, http.MethodGet, TimelinePath)
}

// Defragment begins the defragmentation of all members.
func (c *Client) Defragment(ctx context.Context) (Operation, error) {
	return bounded(get[Operation](ctx, c.soon, http.MethodPost, Defragment))
}

// Verify begins the proof that the newest chain can be restored.
func (c *Client) Verify(ctx context.Context) (Operation, error) {
	return bounded(get[Operation](ctx, c.soon, http.MethodPost, Verify))
}

// Compact begins to replay the newest chain into one new full.
func (c *Client) Compact(ctx context.Context) (Operation, error) {
	return bounded(get[Operation](ctx, c.soon, http.MethodPost, Compact))
}

func get[T any](ctx context.Context, call func(context.Context, string, string, any) error, method, path string) (T, error) {
	var v, none T
	if err := call(ctx, method, path, &v); err != nil {
		return none, err
	}
	return v, nil
}

// bounded returns an answer with its texts within the limits.
func bounded[T interface{ bounded() T }](answer T, err error) (T, error) {
	return answer.bounded(), err
}

// soon is call for what is answered at once.
func (c *Client) soon(ctx context.Context, method, path string, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer within %s: %w", c.timeout, context.DeadlineExceeded))
	defer cancel()
	return c.call(ctx, method, path, into)
}

// call makes a call and reads a success into a *[]byte as it is, into anything else as JSON, into
// nil not at all.
func (c *Client) call(ctx context.Context, method, path string, into any) error {
	where, _, _ := strings.Cut(method+" "+c.base+path, "?")
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	// Not sent: it tells net/http that the call may be repeated when it found an idle connection
	// closed, as after a restart of the sidecar. Everything here may be done twice.
	req.Header["Idempotency-Key"] = []string{}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", where, cause(ctx, err))
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		content, _ := httpclient.Read(resp.Body, maxExcuse)
		return newStatusError(resp, method, c.base+path, content)
	}
	if err := c.read(ctx, resp.Body, limitOf(path), into); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}

// maxExcuse limits the answer that is not a success, in bytes: its first line becomes an error.
const maxExcuse = 1 << 10

// read reads a success within the limit.
func (c *Client) read(ctx context.Context, body io.Reader, limit httpclient.Limit, into any) error {
	if into == nil {
		return nil
	}
	if c.budget != nil {
		if err := c.budget.Acquire(ctx, limit.Cost()); err != nil {
			return fmt.Errorf("wait for memory to read the answer: %w", cause(ctx, err))
		}
		defer c.budget.Release(limit.Cost())
	}
	content, err := httpclient.Read(body, limit.Bytes)
	if err != nil {
		return fmt.Errorf("read the answer: %w", cause(ctx, err))
	}
	switch v := into.(type) {
	case *[]byte:
		*v = content
		return nil
	case interface{ decode([]byte) error }:
		err = v.decode(content)
	default:
		err = httpclient.Decode(content, limit, into)
	}
	if err != nil {
		return fmt.Errorf("the answer is not what a sidecar says: %w", err)
	}
	return nil
}

// cause is the error of a call without what the caller of this package says itself.
func cause(ctx context.Context, err error) error {
	var asked *url.Error
	if errors.As(err, &asked) {
		err = asked.Err
	}
	if why := context.Cause(ctx); why != nil && ctx.Err() != nil {
		return why
	}
	return err
}

func newStatusError(resp *http.Response, method, address string, content []byte) *StatusError {
	e := &StatusError{Method: method, Code: resp.StatusCode, Text: httpclient.Excerpt(content)}
	e.URL, _, _ = strings.Cut(address, "?")
	// An empty Allow says: switched off by configuration, whatever the method.
	allow := resp.Header.Values("Allow")
	e.NoStore = e.Code == http.StatusMethodNotAllowed && len(allow) == 1 && allow[0] == ""
	return e
}
