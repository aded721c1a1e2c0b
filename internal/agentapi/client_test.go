package agentapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/agentapi/httpclient"
	"druid.internal/druid/internal/hosttest"
)

func TestAnAddressIsASchemeAndAHost(t *testing.T) {
	for in, want := range map[string]string{
		"http://127.0.0.1:8080":                       "http://127.0.0.1:8080",
		"https://etcd-main-0.etcd-main-peer.ns:8080/": "https://etcd-main-0.etcd-main-peer.ns:8080",
		"https://[::1]:8080":                          "https://[::1]:8080",
		"https://host":                                "https://host",
		"":                                            "",
		"127.0.0.1:8080":                              "",
		":8080":                                       "",
		"https://:8080":                               "",
		"ftp://host":                                  "",
		"https://host/path":                           "",
		"https://host?a=b":                            "",
		"https://host?":                               "",
		"https://host#a":                              "",
		"https://user:password@host":                  "",
		"https://host:port":                           "",
		"https://ho st":                               "",
		"https://host\n":                              "",
		"http:host":                                   "",
	} {
		got, err := ParseBase(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "password@") || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "write it like")) {
			t.Errorf("%q: %v; want one line with a remedy and no secret", in, err)
		}
	}
}

func FuzzParseBase(f *testing.F) {
	for _, seed := range []string{"http://127.0.0.1:8080", "https://[::1]/", "https://u:p@h", "://", "http://%zz"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		base, err := ParseBase(s)
		if err != nil {
			return
		}
		if again, err := ParseBase(base); err != nil || again != base {
			t.Fatalf("%q gives %q, and that %q, %v", s, base, again, err)
		}
		// What the client makes of it leads to that host.
		u, err := url.Parse(base + MemberPath)
		if err != nil || u.Path != MemberPath || u.User != nil || u.Hostname() == "" {
			t.Fatalf("%q gives %q: %v, %v", s, base, u, err)
		}
	})
}

func TestAnAnswerThatNoSidecarGivesIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		call   func(*Client) error
		want   string
	}{
		"a page instead of a state": {
			func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>\nwelcome") },
			func(c *Client) error { _, err := c.InitStatus(t.Context()); return err },
			`answered "<html>", which is no state of an initialization`,
		},
		"a page instead of a member": {
			func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
			func(c *Client) error { _, err := c.Member(t.Context()); return err },
			"the answer is not what a sidecar says",
		},
		"an endless answer": {
			func(w http.ResponseWriter, _ *http.Request) {
				var err error
				for piece := make([]byte, 1<<20); err == nil; {
					_, err = w.Write(piece)
				}
			},
			func(c *Client) error { _, err := c.Latest(t.Context()); return err },
			"larger than 8388608 bytes",
		},
		"an answer that breaks off": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100")
				io.WriteString(w, "name: etcd-main-0\n")
			},
			func(c *Client) error { _, err := c.Config(t.Context()); return err },
			"read the answer: unexpected EOF",
		},
		"a redirect": {
			func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
			func(c *Client) error { return c.InitAcknowledge(t.Context()) },
			"302 Found",
		},
		"an error of many lines": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(500)
				io.WriteString(w, "first\x1b[31m \xff\nsecond"+strings.Repeat("x", 10000))
			},
			func(c *Client) error { return c.InitAcknowledge(t.Context()) },
			`/initialization/acknowledge: 500 Internal Server Error: "first\x1b[31m ?"`,
		},
		"a failure instead of a health": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
			func(c *Client) error { _, err := c.Healthy(t.Context()); return err },
			"500 Internal Server Error",
		},
	} {
		server := httptest.NewServer(c.answer)
		err := c.call(newTestClient(t, server.URL, 0))
		server.Close()
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), server.URL) || strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 1500 {
			t.Errorf("%s: %v, want one line with the address and %q", name, err, c.want)
		}
	}
}

func TestA405OfAWrongMethodIsNotOneOfAMissingStore(t *testing.T) {
	for allow, want := range map[string]bool{"": true, "GET, HEAD": false, "none": false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if allow != "none" {
				w.Header().Set("Allow", allow)
			}
			w.WriteHeader(http.StatusMethodNotAllowed)
		}))
		_, err := newTestClient(t, server.URL, 0).Full(t.Context(), false)
		server.Close()
		if errors.Is(err, ErrNoStore) != want {
			t.Errorf("Allow %q: %v is ErrNoStore: %t, want %t", allow, err, !want, want)
		}
	}
}

func TestOnlyCallsThatAreAnsweredAtOnceEndByThemselves(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
			io.WriteString(w, "null")
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	c := newTestClient(t, server.URL, 50*time.Millisecond)
	full := make(chan error, 1)
	go func() {
		_, err := c.Full(t.Context(), false)
		full <- err
	}()
	// It outlasts two others that began later and end by their timeout.
	for range 2 {
		if _, err := c.Member(t.Context()); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 50ms") {
			t.Errorf("%v, want that there was no answer in time", err)
		}
	}
	close(release)
	if err := <-full; err != nil {
		t.Error(err)
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	entered := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	if _, err := newTestClient(t, server.URL, time.Minute).Member(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was cancelled", err)
	}
}

// TestACallSurvivesARestartOfTheSidecar: the idle connection that the client would use was closed by
// the other side, and the call has changed nothing yet.
func TestACallSurvivesARestartOfTheSidecar(t *testing.T) {
	l, err := net.Listen("tcp", hosttest.Own()+":8080") // it listens there again
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, sent := r.Header["Idempotency-Key"]; sent {
			t.Error("a header is sent that is for net/http alone")
		}
		calls++
	})
	first := &http.Server{Handler: answer}
	go first.Serve(l)
	c := newTestClient(t, "http://"+l.Addr().String(), time.Minute)
	for i := range 20 {
		if err := c.InitAcknowledge(t.Context()); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		// The next call is made at the very time at which the connection ends.
		first.Close()
		again, err := net.Listen("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		first = &http.Server{Handler: answer}
		go first.Serve(again)
	}
	first.Close()
	if calls < 20 {
		t.Errorf("%d calls, want 20 at least", calls)
	}
}

func TestASidecarThatDoesNotListenIsNamed(t *testing.T) {
	url := "http://" + hosttest.Nobody()
	_, err := newTestClient(t, url, 0).InitStatus(t.Context())
	if err == nil || strings.Count(err.Error(), url) != 1 || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v, want the address once and why", err)
	}
}

func TestAnotherSidecarIsCalledWithTheSameOptions(t *testing.T) {
	c := newTestClient(t, "http://127.0.0.1:1", 3*time.Second)
	other, err := c.At("https://127.0.0.2:1/")
	if err != nil || other.Base() != "https://127.0.0.2:1" || other.http != c.http || other.timeout != c.timeout {
		t.Errorf("%+v, %v", other, err)
	}
	if _, err := c.At("nowhere"); err == nil {
		t.Error("an address without a scheme is accepted")
	}
}

func FuzzTheClientReadsWhateverIsAnswered(f *testing.F) {
	f.Add(200, []byte(`{"health":true}`))
	f.Add(503, []byte("one\ntwo"))
	f.Add(204, []byte(nil))
	f.Fuzz(func(t *testing.T, code int, content []byte) {
		c := newClient("http://sidecar", httpclient.New(canned{code, content}), 0, nil)
		for _, call := range []func() error{
			func() error { _, err := c.Healthy(t.Context()); return err },
			func() error { _, err := c.InitStatus(t.Context()); return err },
			func() error { _, err := c.Member(t.Context()); return err },
			func() error { _, err := c.Delta(t.Context()); return err },
			func() error { _, err := c.Operations(t.Context()); return err },
			func() error { _, err := c.Timeline(t.Context()); return err },
		} {
			if err := call(); err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		}
	})
}

// canned is a server that always answers the same.
type canned struct {
	code    int
	content []byte
}

func (a canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.code, Status: fmt.Sprint(a.code), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(a.content))), Request: r}, nil
}

func newTestClient(t *testing.T, base string, timeout time.Duration) *Client {
	t.Helper()
	c, err := NewClient(base, ClientOptions{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
