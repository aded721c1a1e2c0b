package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/auth"
	"druid.internal/druid/internal/agentapi/auth/authtest"
	"druid.internal/druid/internal/hosttest"
)

// leadership is who leads, as all sidecars of a test see it.
type leadership struct {
	mu   sync.Mutex
	base string
	err  error
}

func (l *leadership) set(base string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.base, l.err = base, err
}

// seenBy is the function for the sidecar at a base, which may become known later.
func (l *leadership) seenBy(base *string) func(context.Context) (string, bool, error) {
	return func(context.Context) (string, bool, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.base, l.err == nil && l.base == *base, l.err
	}
}

// named answers with the name in what only the leader answers.
func named(name string) Handlers {
	h := canned()
	snapshot := agentapi.Snapshot{SnapName: name}
	h.Full = func(_ context.Context, final bool) (agentapi.Snapshot, error) {
		s := snapshot
		s.IsFinal = final
		return s, nil
	}
	h.Delta = func(context.Context) (*agentapi.Snapshot, error) { return &snapshot, nil }
	h.Latest = func(context.Context) (agentapi.LatestSnapshots, error) {
		return agentapi.LatestSnapshots{FullSnapshot: &snapshot}, nil
	}
	h.Timeline = func(context.Context) (agentapi.Timeline, error) {
		return agentapi.Timeline{Lineages: []agentapi.TimelineLineage{}, Findings: []agentapi.TimelineFinding{{Text: name}}}, nil
	}
	begin := func(context.Context) (agentapi.Operation, error) { return agentapi.Operation{Kind: name}, nil }
	h.Defragment, h.Verify, h.Compact = begin, begin, begin
	return h
}

// pair are two sidecars of one cluster.
func pair(t *testing.T, p *pki, change func(name string, o *Options, h *Handlers)) (one, two *sidecar, l *leadership) {
	t.Helper()
	l = &leadership{}
	sidecars := map[string]*sidecar{}
	for _, name := range []string{"one", "two"} {
		base := new(string)
		o, h := p.options(), named(name)
		h.Leader = l.seenBy(base)
		if change != nil {
			change(name, &o, &h)
		}
		sidecars[name] = start(t, o, h)
		l.mu.Lock()
		*base = sidecars[name].url
		l.mu.Unlock()
	}
	return sidecars["one"], sidecars["two"], l
}

func TestWhatOnlyTheLeaderCanAnswerIsPassedOnToIt(t *testing.T) {
	p := newPKI(t)
	one, two, l := pair(t, p, nil)
	h := p.caller(t, "", nil, authtest.Leaf{})
	for _, leads := range []string{"one", "two", "one"} { // the leadership changes
		l.set(map[string]string{"one": one.url, "two": two.url}[leads], nil)
		for _, asked := range []*sidecar{one, two} {
			for _, route := range agentapi.Routes() {
				if !route.Leader {
					continue
				}
				for _, method := range route.Methods {
					resp, body := call(t, h, method, asked.url+route.Path, goodToken)
					if resp.StatusCode/100 != 2 || method != "HEAD" && !strings.Contains(body, `"`+leads+`"`) {
						t.Errorf("%s %s while %s leads: %s %s", method, route.Path, leads, resp.Status, body)
					}
					if method == "HEAD" && (body != "" || resp.ContentLength <= 0) {
						t.Errorf("%s %s: %d bytes in the header, body %q", method, route.Path, resp.ContentLength, body)
					}
					if got := resp.Header.Values("X-Content-Type-Options"); len(got) != 1 {
						t.Errorf("%s %s: X-Content-Type-Options: %q, want it once", method, route.Path, got)
					}
				}
			}
		}
	}
	l.set(two.url, nil)
	if resp, body := call(t, h, "POST", one.url+"/snapshot/full?final=true", goodToken); !strings.Contains(body, `"isFinal":true`) {
		t.Errorf("the parameter is lost: %s %s", resp.Status, body)
	}
	if resp, body := call(t, h, "POST", one.url+"/snapshot/full?final=perhaps", goodToken); resp.StatusCode != 400 || !strings.Contains(body, `"perhaps"`) {
		t.Errorf("the leader's answer is lost: %s %s", resp.Status, body)
	}
	if resp, body := call(t, h, "GET", one.url+"/member", goodToken); resp.StatusCode != 200 {
		t.Errorf("%s %s", resp.Status, body)
	}
}

func TestACallThatMayNotIsNotPassedOn(t *testing.T) {
	p := newPKI(t)
	asked := atomic.Int64{}
	one, two, l := pair(t, p, func(_ string, _ *Options, h *Handlers) {
		leader := h.Leader
		h.Leader = func(ctx context.Context) (string, bool, error) {
			asked.Add(1)
			return leader(ctx)
		}
	})
	l.set(two.url, nil)
	h := p.caller(t, "", nil, authtest.Leaf{})
	for _, token := range []string{"", wrongToken} {
		if resp, _ := call(t, h, "POST", one.url+"/snapshot/full", token); resp.StatusCode != 401 {
			t.Errorf("%s, want 401", resp.Status)
		}
	}
	if resp, _ := call(t, h, "DELETE", one.url+"/snapshot/full", goodToken); resp.StatusCode != 405 {
		t.Errorf("%s, want 405", resp.Status)
	}
	if asked.Load() != 0 {
		t.Errorf("the leader was looked for %d times", asked.Load())
	}
}

func TestWithoutALeaderTheAnswerIsOneLine(t *testing.T) {
	p := newPKI(t)
	gone := "http://" + hosttest.Nobody()
	one, two, l := pair(t, p, nil)
	h := p.caller(t, "", nil, authtest.Leaf{})
	for name, c := range map[string]struct {
		base string
		err  error
		want string
	}{
		"unknown":                {"", errors.New("etcd sees no leader"), "the backup leader is not known: etcd sees no leader\n"},
		"unreachable":            {gone, nil, "the backup leader " + gone + " does not answer: dial tcp"},
		"no address":             {"", nil, "the backup leader's address is unusable"},
		"without a TLS it needs": {strings.Replace(two.url, "https:", "http:", 1), nil, ""},
	} {
		l.set(c.base, c.err)
		resp, body := call(t, h, "POST", one.url+"/snapshot/delta", goodToken)
		if c.want == "" {
			// Whatever the leader says to it is passed on.
			if resp.StatusCode != 400 {
				t.Errorf("%s: %s %q, want 400", name, resp.Status, body)
			}
			continue
		}
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" || !strings.HasPrefix(body, c.want) || strings.Count(body, "\n") != 1 {
			t.Errorf("%s: %s %q, want 503 and %q", name, resp.Status, body, c.want)
		}
	}
}

func TestTwoWhoTakeEachOtherForTheLeaderDoNotPassCallsForEver(t *testing.T) {
	p := newPKI(t)
	var calls atomic.Int64
	var one, two *sidecar
	one, two, _ = pair(t, p, func(name string, _ *Options, h *Handlers) {
		h.Leader = func(context.Context) (string, bool, error) {
			calls.Add(1)
			if name == "one" {
				return two.url, false, nil
			}
			return one.url, false, nil
		}
	})
	resp, body := call(t, p.caller(t, "", nil, authtest.Leaf{}), "POST", one.url+"/snapshot/full", goodToken)
	if resp.StatusCode != 503 || !strings.Contains(body, "the leadership changes, try again") || calls.Load() != 2 {
		t.Errorf("%s %q after %d calls, want 503 after two", resp.Status, body, calls.Load())
	}
}

func TestTheLeaderGetsTheCredentialsOfTheSidecarAlone(t *testing.T) {
	p := newPKI(t)
	var got http.Header
	var body string
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		content, _ := io.ReadAll(r.Body)
		body = string(content)
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("X-Other", "c")
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "null")
	}))
	defer leader.Close()
	o := p.options()
	o.Leader.TokenFile = authtest.Write(t, p.dir+"/own-token", []byte(nextToken))
	h := canned()
	h.Leader = func(context.Context) (string, bool, error) { return leader.URL, false, nil }
	s := start(t, o, h)

	req, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/snapshot/delta", strings.NewReader("something"))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + goodToken, "Cookie": "secret=1", "Accept": "application/json", "X-Forwarded-For": "1.2.3.4", "X-Any": "x", "Connection": "Accept"} {
		req.Header.Set(name, value)
	}
	resp, err := p.caller(t, "", nil, authtest.Leaf{}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got.Get("Authorization") != "Bearer "+nextToken || got.Get("Etcdbrctl-Forwarded") == "" {
		t.Errorf("the leader got %v", got)
	}
	for _, name := range []string{"Cookie", "X-Forwarded-For", "X-Any"} {
		if got.Get(name) != "" {
			t.Errorf("the leader got %s: %s", name, got.Get(name))
		}
	}
	if body != "" {
		t.Errorf("the leader got the body %q", body)
	}
	if resp.Header.Get("Set-Cookie") != "" || resp.Header.Get("X-Other") != "" || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("the caller got %v", resp.Header)
	}
}

func TestARefusalByTheLeaderIsNotTakenForOneOfTheCaller(t *testing.T) {
	p := newPKI(t)
	one, two, l := pair(t, p, func(name string, o *Options, _ *Handlers) {
		if name == "one" {
			o.Leader = auth.Credentials{CAFile: p.serverCA, TokenFile: authtest.Write(t, p.dir+"/stale-token", []byte(wrongToken))}
		}
	})
	l.set(two.url, nil)
	resp, body := call(t, p.caller(t, "", nil, authtest.Leaf{}), "POST", one.url+"/snapshot/full", goodToken)
	want := "the backup leader " + two.url + ": it does not accept this sidecar's credentials: \"the bearer token is not accepted\"\n"
	if resp.StatusCode != 502 || body != want || resp.Header.Get("WWW-Authenticate") != "" {
		t.Errorf("%s %q %v, want 502 and %q", resp.Status, body, resp.Header, want)
	}
}

func TestAnAnswerIsPassedOnAsItComes(t *testing.T) {
	for name, length := range map[string]int{"of known length": 11, "of unknown length": 0} {
		t.Run(name, func(t *testing.T) { passedOnAsItComes(t, length) })
	}
}

func passedOnAsItComes(t *testing.T, length int) {
	p := newPKI(t)
	more := make(chan struct{})
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if length > 0 {
			w.Header().Set("Content-Length", fmt.Sprint(length))
		}
		io.WriteString(w, "first")
		http.NewResponseController(w).Flush()
		<-more
		io.WriteString(w, "second")
	}))
	defer leader.Close()
	h := canned()
	h.Leader = func(context.Context) (string, bool, error) { return leader.URL, false, nil }
	s := start(t, p.options(), h)
	resp := begin(t, t.Context(), p, s.url+"/snapshot/latest")
	defer resp.Body.Close()
	got := make([]byte, len("first"))
	if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != "first" {
		t.Fatalf("%q, %v", got, err)
	}
	close(more)
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "second" {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestAnAnswerThatBreaksOffIsNotTakenForAWholeOne(t *testing.T) {
	p := newPKI(t)
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "half")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer leader.Close()
	h := canned()
	h.Leader = func(context.Context) (string, bool, error) { return leader.URL, false, nil }
	s := start(t, p.options(), h)
	resp := begin(t, t.Context(), p, s.url+"/snapshot/latest")
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("%q and no error", got)
	}
}

func TestWorkEndsWhenTheCallerIsGone(t *testing.T) {
	for _, passed := range []bool{false, true} {
		t.Run(fmt.Sprintf("passed on %t", passed), func(t *testing.T) {
			p := newPKI(t)
			begun, ended := make(chan struct{}), make(chan struct{})
			var logged log
			one, two, l := pair(t, p, func(_ string, o *Options, h *Handlers) {
				o.Log = slog.New(slog.NewTextHandler(&logged, nil))
				h.Full = func(ctx context.Context, _ bool) (agentapi.Snapshot, error) {
					close(begun)
					<-ctx.Done()
					close(ended)
					return agentapi.Snapshot{}, ctx.Err()
				}
			})
			l.set(map[bool]string{false: one.url, true: two.url}[passed], nil)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			client, err := agentapi.NewClient(one.url, agentapi.ClientOptions{Credentials: auth.Credentials{CAFile: p.serverCA, TokenFile: p.token}})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			failed := make(chan error, 1)
			go func() {
				_, err := client.Full(ctx, false)
				failed <- err
			}()
			wait(t, begun)
			leave()
			wait(t, ended)
			if err := wait(t, failed); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want that it was cancelled", err)
			}
			eventually(t, "the log tells that nobody waited", func() bool { return strings.Contains(logged.String(), "caller did not wait") })
		})
	}
}

// begin calls and returns the answer as soon as its header is there.
func begin(t *testing.T, ctx context.Context, p *pki, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+goodToken)
	resp, err := p.caller(t, "", nil, authtest.Leaf{}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}
