package httpserver

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/agentapi/auth"
	"druid.internal/druid/internal/agentapi/auth/authtest"
)

// long is a timeout that a test never waits for, short is one that it does.
const (
	long  = time.Minute
	short = 50 * time.Millisecond
)

// patience is what a test waits for a fact at most.
const patience = time.Minute

func TestAHeaderThatComesSlowlyEndsTheConnection(t *testing.T) {
	s := start(t, Options{HeaderTimeout: short}, http.NotFoundHandler())
	conn := s.dial(t)
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nA: ")
	if got, err := io.ReadAll(conn); err != nil || bytes.Contains(got, []byte("200")) {
		t.Errorf("%q, %v; want that the server closes the connection", got, err)
	}
}

func TestAHandshakeThatIsNeverMadeEndsTheConnection(t *testing.T) {
	ca := authtest.NewCA(t, "ours")
	cert, key := ca.Files(t, t.TempDir(), "server", authtest.Leaf{Hosts: []string{"127.0.0.1"}})
	pair, err := auth.NewKeyPair(cert, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, Options{HeaderTimeout: short, KeyPair: pair}, http.NotFoundHandler())
	if got, err := io.ReadAll(s.dial(t)); err != nil || len(got) != 0 {
		t.Errorf("%q, %v; want that the server closes the connection", got, err)
	}
}

func TestBodiesAreReadToTheEndWithinBounds(t *testing.T) {
	for name, c := range map[string]struct {
		header, body string
		want         int
	}{
		"none":                      {"", "", 200},
		"a small one":               {"Content-Length: 2\r\n", "{}", 200},
		"the largest":               {fmt.Sprintf("Content-Length: %d\r\n", MaxBody), strings.Repeat("x", MaxBody), 200},
		"a large one":               {fmt.Sprintf("Content-Length: %d\r\n", MaxBody+1), strings.Repeat("x", MaxBody+1), 413},
		"a large one in pieces":     {"Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", MaxBody+1, strings.Repeat("x", MaxBody+1)), 413},
		"one in pieces":             {"Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n", 200},
		"one that does not come":    {"Content-Length: 2\r\n", "", 408},
		"one that does not end":     {"Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n", 408},
		"pieces that cannot be put": {"Transfer-Encoding: chunked\r\n", "zz\r\n", 400},
	} {
		timeout := long
		if c.want == 408 {
			timeout = short
		}
		s := start(t, Options{BodyTimeout: timeout}, NoBody(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Body != http.NoBody {
				t.Errorf("%s: the handler got a body", name)
			}
		})))
		conn := s.dial(t)
		go fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\n%s\r\n%s", c.header, c.body)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if resp.StatusCode != c.want {
			t.Errorf("%s: %s, want %d", name, resp.Status, c.want)
		}
		if resp.Body.Close(); c.want != 200 && !resp.Close {
			t.Errorf("%s: the connection stays open", name)
		}
	}
}

func TestABodyThatNobodyReadsDoesNotHoldTheServer(t *testing.T) {
	s := start(t, Options{BodyTimeout: short}, http.NotFoundHandler())
	conn := s.dial(t)
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
	if got, err := io.ReadAll(conn); err != nil || !bytes.Contains(got, []byte("404")) {
		t.Errorf("%q, %v; want 404 and the end of the connection", got, err)
	}
}

func TestWorkThatOutlastsTheTimeoutsIsNotDisturbed(t *testing.T) {
	const all = 2 * time.Second // enough for a client that does its part at once, on a busy machine
	for name, call := range map[string]string{
		"without a body": "POST / HTTP/1.1\r\nHost: x\r\n\r\n",
		"with a body":    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			workOutlasts(t, call, all)
		})
	}
}

func workOutlasts(t *testing.T, call string, all time.Duration) {
	s := start(t, Options{HeaderTimeout: all, BodyTimeout: all, WriteTimeout: all}, NoBody(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The work takes three times as long as anything may take that the client does.
		select {
		case <-r.Context().Done():
			Text(w, 500, "disturbed")
		case <-time.After(3 * all):
			Text(w, 200, "done")
		}
	})))
	conn := s.dial(t)
	fmt.Fprint(conn, call)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "done\n" {
		t.Errorf("%s %q, %v; want done", resp.Status, got, err)
	}
}

func TestAReaderThatStopsReadingEndsTheAnswer(t *testing.T) {
	failed := make(chan error, 1)
	s := start(t, Options{WriteTimeout: short}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var err error
		for err == nil {
			_, err = w.Write(make([]byte, 1<<20))
		}
		failed <- err
	}))
	fmt.Fprint(s.dial(t), "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if err := wait(t, failed); err == nil {
		t.Error("want an error")
	}
}

func TestEachPieceOfAnAnswerHasItsOwnTime(t *testing.T) {
	var out deadlines
	out.header = http.Header{}
	h := &hardened{o: Options{}.complete(), running: new(sync.RWMutex), next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
		if n, err := w.Write(make([]byte, 2*chunk+1)); n != 2*chunk+1 || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
	})}
	h.ServeHTTP(&out, &http.Request{Body: http.NoBody})
	want := []string{"deadline", "header 200", "deadline", "write 65536", "deadline", "write 65536", "deadline", "write 1", "deadline"}
	if diff := cmp.Diff(want, out.seen); diff != "" {
		t.Errorf("want a deadline before whatever is sent, and one for what is left at the end:\n%s", diff)
	}
}

// deadlines notes what is done to a connection.
type deadlines struct {
	header http.Header
	seen   []string
}

func (d *deadlines) Header() http.Header { return d.header }

func (d *deadlines) SetWriteDeadline(time.Time) error {
	d.seen = append(d.seen, "deadline")
	return nil
}

func (d *deadlines) WriteHeader(code int) { d.seen = append(d.seen, fmt.Sprint("header ", code)) }

func (d *deadlines) Write(p []byte) (int, error) {
	d.seen = append(d.seen, fmt.Sprint("write ", len(p)))
	return len(p), nil
}

func TestAPanicCostsOnlyItsCall(t *testing.T) {
	var log lockedBuffer
	s := start(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/before":
			w.Header().Set("Content-Length", "1000")
			panic("a secret detail")
		case "/after":
			w.Write([]byte("half"))
			http.NewResponseController(w).Flush()
			panic("a secret detail")
		case "/abort":
			panic(http.ErrAbortHandler)
		}
		Text(w, 200, "fine")
	}))
	for _, c := range []struct{ path, want string }{
		{"/before", "500 internal error; the log of the server has the details\n"},
		{"/after", "200 half, then broken off"},
		{"/abort", "no answer"},
		{"/", "200 fine\n"},
	} {
		got := "no answer"
		resp, err := http.Get("http://" + s.address + c.path)
		if err == nil {
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			got = fmt.Sprintf("%d %s", resp.StatusCode, body)
			if err != nil {
				got += ", then broken off"
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.path, got, c.want)
		}
	}
	if got := log.String(); strings.Count(got, "call panicked") != 2 || !strings.Contains(got, "hardened") {
		t.Errorf("want two panics with their stacks in the log: %s", got)
	}
}

func TestAHeaderThatIsTooLargeIsRefused(t *testing.T) {
	s := start(t, Options{}, http.NotFoundHandler())
	conn := s.dial(t)
	go fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nA: %s\r\n\r\n", strings.Repeat("x", MaxHeader+8<<10))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%s, want 431", resp.Status)
	}
}

func TestEveryAnswerSaysHowItMayBeUsed(t *testing.T) {
	ca := authtest.NewCA(t, "ours")
	dir := t.TempDir()
	cert, key := ca.Files(t, dir, "server", authtest.Leaf{Hosts: []string{"127.0.0.1"}})
	pair, err := auth.NewKeyPair(cert, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := auth.NewClient(auth.Credentials{CAFile: authtest.Write(t, dir+"/ca.crt", ca.PEM)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	for scheme, c := range map[string]struct {
		o    Options
		want string
	}{
		"http":  {Options{}, ""},
		"https": {Options{KeyPair: pair}, "max-age=31536000; includeSubDomains"},
	} {
		s := start(t, c.o, http.NotFoundHandler())
		resp, err := client.Get(scheme + "://" + s.address)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Strict-Transport-Security"); got != c.want {
			t.Errorf("%s: Strict-Transport-Security is %q, want %q", scheme, got, c.want)
		}
		if got := resp.Header.Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("%s: X-Content-Type-Options is %q, want nosniff", scheme, got)
		}
		if resp.ProtoMajor != 1 {
			t.Errorf("%s: %s, want HTTP/1.1", scheme, resp.Proto)
		}
	}
}

func TestTheEndWaitsForCallsAndThenEndsThem(t *testing.T) {
	for name, c := range map[string]struct {
		grace time.Duration
		ends  bool // the call ends by itself
		want  string
	}{
		"a call that ends in time": {long, true, "200 done"},
		"a call that does not":     {short, false, "ended"},
	} {
		entered, leave, left, got := make(chan struct{}), make(chan struct{}), make(chan string, 1), make(chan string, 1)
		s := start(t, Options{Grace: c.grace}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			select {
			case <-leave:
				w.Write([]byte("done"))
				left <- "200 done"
			case <-r.Context().Done():
				left <- "ended"
			}
		}))
		go func() {
			resp, err := http.Get("http://" + s.address)
			if err != nil {
				got <- "nothing"
				return
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			got <- fmt.Sprintf("%d %s", resp.StatusCode, body)
		}()
		wait(t, entered)
		s.end()
		if c.ends {
			// Only now, when the server is about to end.
			for conn, err := net.Dial("tcp", s.address); err == nil; conn, err = net.Dial("tcp", s.address) {
				conn.Close()
			}
			close(leave)
		}
		if err := wait(t, s.ended); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// The server returned: the call must be over already.
		select {
		case got := <-left:
			if got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		default:
			t.Errorf("%s: the server ended before the call", name)
		}
		if answered := wait(t, got); c.ends && answered != c.want {
			t.Errorf("%s: the client got %s, want %s", name, answered, c.want)
		}
		if conn, err := net.Dial("tcp", s.address); err == nil {
			conn.Close()
			t.Errorf("%s: somebody listens still", name)
		}
	}
}

func TestAnAddressInUseIsNamed(t *testing.T) {
	s := start(t, Options{}, http.NotFoundHandler())
	err := Run(t.Context(), s.address, Options{}, http.NotFoundHandler())
	if err == nil || !strings.Contains(err.Error(), s.address) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, want one line with %s", err, s.address)
	}
}

func TestAListenerThatFailsEndsTheServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := Serve(t.Context(), l, Options{}, http.NotFoundHandler()); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("%v, want an error with the address", err)
	}
}

// running is a server in a test.
type running struct {
	address string
	end     context.CancelFunc
	ended   chan error
}

func start(t *testing.T, o Options, h http.Handler) *running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &running{address: l.Addr().String(), end: cancel, ended: make(chan error, 1)}
	var group sync.WaitGroup
	group.Go(func() { s.ended <- Serve(ctx, l, o, h) })
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	return s
}

func (s *running) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { conn.Close() })
	return conn
}

func wait[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing happened")
		panic("unreachable")
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
