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
)

// DefaultTimeout bounds a call that should be answered at once.
const DefaultTimeout = 10 * time.Second

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 32 << 20

// ClientOptions say how a sidecar is called. The zero value shows no credential and trusts the
// system's authorities.
type ClientOptions struct {
	auth.Credentials
	// Timeout bounds the calls that are answered at once; 0: DefaultTimeout. Full, Delta, Latest and
	// Timeline end with their context only.
	Timeout time.Duration
	Log     *slog.Logger // told when changed files are used; nil: none
}

// Client calls one sidecar. It may be used by many goroutines at the same time. An answer that is
// not a success is a *[StatusError].
type Client struct {
	base    string
	timeout time.Duration
	http    *http.Client
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
	return newClient(base, h, o.Timeout), nil
}

// NewClientOver is NewClient for who makes calls by himself: h shows the credentials, and follows no
// redirects, which would show them to others. Timeout 0 is DefaultTimeout.
func NewClientOver(h *http.Client, base string, timeout time.Duration) (*Client, error) {
	base, err := ParseBase(base)
	if err != nil {
		return nil, err
	}
	return newClient(base, h, timeout), nil
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

func newClient(base string, h *http.Client, timeout time.Duration) *Client {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	return &Client{base: base, timeout: timeout, http: h}
}

// At is a client with the same options for another sidecar, as for the next member of a cluster.
// They share connections.
func (c *Client) At(base string) (*Client, error) {
	base, err := ParseBase(base)
	if err != nil {
		return nil, err
	}
	return newClient(base, c.http, c.timeout), nil
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
	return "", fmt.Errorf("GET %s%s: answered %q, which is no state of an initialization; does a sidecar listen there?", c.base, InitStatus, firstLine(text))
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
	return get[Member](ctx, c.soon, http.MethodGet, MemberPath)
}

// Operations are the long operations of the sidecar.
func (c *Client) Operations(ctx context.Context) ([]Operation, error) {
	return get[[]Operation](ctx, c.soon, http.MethodGet, Operations)
}

// Refuse has the member's etcd refuse clients for so long, or admit them with 0.
func (c *Client) Refuse(ctx context.Context, d time.Duration) (Refusal, error) {
	return get[Refusal](ctx, c.soon, http.MethodPost, Clients+"?refuse="+d.String())
}

// Full takes a full snapshot. It lasts as long as the upload.
func (c *Client) Full(ctx context.Context, final bool) (Snapshot, error) {
	path := Full
	if final {
		path += "?final=true"
	}
	return get[Snapshot](ctx, c.call, http.MethodPost, path)
}

// Final takes a final full snapshot for a purpose, such as one hibernation of one Etcd. It gives the newest full again
// if that was taken for the same purpose and nothing has changed since.
func (c *Client) Final(ctx context.Context, purpose string) (Snapshot, error) {
	return get[Snapshot](ctx, c.call, http.MethodPost, Full+"?final=true&for="+url.QueryEscape(purpose))
}

// Delta uploads what is not in the bucket yet; nil: there is nothing.
func (c *Client) Delta(ctx context.Context) (*Snapshot, error) {
	return get[*Snapshot](ctx, c.call, http.MethodPost, Delta)
}

// Latest are the newest full and the deltas after it.
func (c *Client) Latest(ctx context.Context) (LatestSnapshots, error) {
	return get[LatestSnapshots](ctx, c.call, http.MethodGet, Latest)
}

// Timeline is what the bucket holds.
func (c *Client) Timeline(ctx context.Context) (Timeline, error) {
	return get[Timeline](ctx, c.call, http.MethodGet, TimelinePath)
}

// Defragment begins the defragmentation of all members.
func (c *Client) Defragment(ctx context.Context) (Operation, error) {
	return get[Operation](ctx, c.soon, http.MethodPost, Defragment)
}

// Verify begins the proof that the newest chain can be restored.
func (c *Client) Verify(ctx context.Context) (Operation, error) {
	return get[Operation](ctx, c.soon, http.MethodPost, Verify)
}

// Compact begins to replay the newest chain into one new full.
func (c *Client) Compact(ctx context.Context) (Operation, error) {
	return get[Operation](ctx, c.soon, http.MethodPost, Compact)
}

func get[T any](ctx context.Context, call func(context.Context, string, string, any) error, method, path string) (T, error) {
	var v, none T
	if err := call(ctx, method, path, &v); err != nil {
		return none, err
	}
	return v, nil
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
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case resp.StatusCode/100 != 2:
		return newStatusError(resp, method, c.base+path, content)
	case err != nil:
		return fmt.Errorf("%s: read the answer: %w", where, cause(ctx, err))
	case len(content) > maxAnswer:
		return fmt.Errorf("%s: the answer is larger than %d bytes", where, maxAnswer)
	}
	switch into := into.(type) {
	case nil:
	case *[]byte:
		*into = content
	default:
		if err := json.Unmarshal(content, into); err != nil {
			return fmt.Errorf("%s: the answer is not what a sidecar says: %w", where, err)
		}
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
	e := &StatusError{Method: method, Code: resp.StatusCode, Text: firstLine(content)}
	e.URL, _, _ = strings.Cut(address, "?")
	// An empty Allow says: switched off by configuration, whatever the method.
	allow := resp.Header.Values("Allow")
	e.NoStore = e.Code == http.StatusMethodNotAllowed && len(allow) == 1 && allow[0] == ""
	return e
}

// firstLine is the first line of an answer, made fit for a log.
func firstLine(content []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(content[:min(len(content), 1<<10)]), []byte("\n"))
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(strings.TrimSpace(string(line)), "?"))
}
