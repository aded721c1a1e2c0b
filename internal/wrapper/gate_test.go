package wrapper

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/auth"
	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/wrapper/wrappertest"
)

// passOf is what sidecars with this token file show.
func passOf(t *testing.T, file string) func() map[string]string {
	t.Helper()
	tokens, err := auth.NewTokenFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return func() map[string]string { return map[string]string{auth.PassKey: tokens.Pass()} }
}

// caller is a context of a call that shows something as a pass.
func caller(t *testing.T, shown string) context.Context {
	return metadata.NewIncomingContext(t.Context(), metadata.Pairs(auth.PassKey, shown))
}

func TestAGateThatIsClosedOpensByItself(t *testing.T) {
	file := tokenFile(t)
	now := time.Now()
	g, err := newGate(file, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	pass := passOf(t, file)()[auth.PassKey]
	for _, c := range []struct {
		phrase string
		after  time.Duration
		refuse time.Duration // -1: nobody asks
		want   agentapi.Refusal
	}{
		{"at the beginning", 0, -1, agentapi.Refusal{}},
		{"it is closed", 0, 10 * time.Minute, agentapi.Refusal{LeftSeconds: 600}},
		{"later", 4 * time.Minute, -1, agentapi.Refusal{ForSeconds: 240, LeftSeconds: 360}},
		{"it is closed for longer", time.Minute, 10 * time.Minute, agentapi.Refusal{ForSeconds: 300, LeftSeconds: 600}},
		{"a moment before its end", 10*time.Minute - time.Millisecond, -1, agentapi.Refusal{ForSeconds: 899}},
		{"its time is over", time.Millisecond, -1, agentapi.Refusal{}},
		{"it is closed anew", time.Hour, time.Minute, agentapi.Refusal{LeftSeconds: 60}},
		{"it is closed for less", time.Second, 2 * time.Second, agentapi.Refusal{ForSeconds: 1, LeftSeconds: 2}},
		{"it is opened", 0, 0, agentapi.Refusal{}},
		{"it is opened twice", 0, 0, agentapi.Refusal{}},
	} {
		now = now.Add(c.after)
		got, err := g.tells()
		if c.refuse >= 0 {
			got, err = g.refuse(c.refuse, "the test")
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.phrase, got, err, c.want)
		}
		closed := c.want != agentapi.Refusal{}
		for who, ctx := range map[string]context.Context{
			"a client": t.Context(), "a wrong pass": caller(t, strings.Repeat("0", 64)), "the token itself": caller(t, token),
			"two passes": metadata.NewIncomingContext(t.Context(), metadata.Pairs(auth.PassKey, pass, auth.PassKey, pass)),
		} {
			_, leave, err := g.enter(ctx)
			if closed != (status.Code(err) == codes.Unavailable) || !closed && err != nil {
				t.Errorf("%s: %s is told %v", c.phrase, who, err)
			}
			if err == nil {
				leave()
			}
		}
		if _, leave, err := g.enter(caller(t, pass)); err != nil {
			t.Errorf("%s: a sidecar is told %v", c.phrase, err)
		} else {
			leave()
		}
	}
	if len(g.inside) != 0 {
		t.Errorf("%d calls are inside that have left", len(g.inside))
	}
}

// The next token is in all files before it is shown first, and the former one stays until all show the next.
func TestAGateFollowsTheTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(token)
	g, err := newGate(file, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.refuse(time.Minute, "the test"); err != nil {
		t.Fatal(err)
	}
	before := passOf(t, file)()[auth.PassKey]
	for _, c := range []struct {
		content string
		want    bool
	}{{token + "\nanother-0123456789", true}, {"another-0123456789\n" + token, true}, {"another-0123456789", false}} {
		write(c.content)
		if _, _, err := g.enter(caller(t, before)); (err == nil) != c.want {
			t.Errorf("with %q: %v", c.content, err)
		}
	}
}

// Nobody could be told from a client, so even the sidecar would be kept out.
func TestWithoutATokenClientsAreNeverRefused(t *testing.T) {
	g, err := newGate("", time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.refuse(time.Minute, "the test"); !errors.Is(err, errGateUnknown) {
		t.Errorf("%v", err)
	}
	if _, _, err := g.enter(caller(t, "")); err != nil {
		t.Errorf("a client is refused: %v", err)
	}
}

// What a handler answers is told if it is a success, and ends otherwise.
func TestWhatIsUnderWayEndsWithTheGate(t *testing.T) {
	g, err := newGate(tokenFile(t), time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	shut := func() {
		if _, err := g.refuse(time.Minute, "the test"); err != nil {
			t.Error(err)
		}
	}
	for phrase, c := range map[string]struct {
		handle grpc.UnaryHandler
		want   string // in the error; empty: none
	}{
		"it waits for its context": {func(ctx context.Context, _ any) (any, error) { shut(); <-ctx.Done(); return nil, ctx.Err() }, "whether the call was carried out is not known"},
		"it is carried out":        {func(context.Context, any) (any, error) { shut(); return "done", nil }, ""},
		"it fails before":          {func(context.Context, any) (any, error) { return nil, errors.New("no such key") }, "no such key"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		got, err := g.unary(ctx, nil, nil, c.handle)
		cancel()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || err == nil && got != "done" {
			t.Errorf("%s: %v, %v; want %q", phrase, got, err, c.want)
		}
		if _, err := g.refuse(0, "the test"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // of a stream that nobody ends
	defer cancel()
	for phrase, handle := range map[string]grpc.StreamHandler{
		"a stream that waits for its context": func(_ any, s grpc.ServerStream) error { shut(); <-s.Context().Done(); return nil },
		"one that only sends":                 func(_ any, s grpc.ServerStream) error { shut(); return s.SendMsg(nil) },
		"one that receives one more":          func(_ any, s grpc.ServerStream) error { shut(); return s.RecvMsg(nil) },
	} {
		if err := g.stream(nil, endless{ctx: ctx}, nil, handle); !errors.Is(err, errFallsAsleep) {
			t.Errorf("%s: %v", phrase, err)
		}
		if _, err := g.refuse(0, "the test"); err != nil {
			t.Fatal(err)
		}
	}
}

// endless is a stream in which everything succeeds.
type endless struct {
	grpc.ServerStream
	ctx context.Context
}

func (s endless) Context() context.Context { return s.ctx }
func (endless) SendMsg(any) error          { return nil }
func (endless) RecvMsg(any) error          { return nil }

// A real etcd, over connections that are there when its clients are refused.
func TestAnEtcdThatRefusesClientsServesItsSidecarAlone(t *testing.T) {
	ms := wrappertest.Members(t, 1)
	r := prepared(t, ms[0], ms, "enable-grpc-gateway: true").start(t)
	r.awaitReady(t)
	c := r.Client(t)
	r.put(t, c, "before")
	lease, err := c.Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := member.New(member.Config{Endpoints: []string{r.Endpoint()}, InsecureTransport: true, Pass: passOf(t, r.options.TokenFile)})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	sidecar, err := cluster.At(r.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan int64, 10)
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	watching.Go(func() {
		_ = sidecar.WatchAll(ctx, 1, member.WatchPace{}, func(b member.Batch) error {
			for _, e := range b.Events {
				seen <- e.Kv.ModRevision
			}
			return nil
		})
	})
	<-seen
	bare := bareWatch(t, r)

	if code, text := r.ask("POST", "/clients?refuse=31m", token); code != http.StatusBadRequest {
		t.Errorf("for too long: %d %s", code, text)
	}
	if code, text := r.ask("POST", "/clients?refuse=10m", ""); code != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s", code, text)
	}
	code, text := r.ask("POST", "/clients?refuse=10m", token)
	var told agentapi.Refusal
	if err := json.Unmarshal([]byte(text), &told); code != http.StatusOK || err != nil || told.LeftSeconds < 590 {
		t.Fatalf("%d %s", code, text)
	}

	select {
	case err := <-bare:
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "falling asleep") {
			t.Errorf("the client's watch ends with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the client's watch goes on")
	}
	for what, do := range map[string]func(context.Context) error{
		"put":    func(ctx context.Context) error { _, err := c.Put(ctx, "during", "v"); return err },
		"revoke": func(ctx context.Context) error { _, err := c.Revoke(ctx, lease.ID); return err },
		"log in": func(ctx context.Context) error { _, err := c.Authenticate(ctx, "root", "secret"); return err },
		"move":   func(ctx context.Context) error { _, err := c.MoveLeader(ctx, 1); return err },
		"the gateway": func(context.Context) error {
			resp, err := http.Post(r.Endpoint()+"/v3/kv/put", "application/json", strings.NewReader(`{"key":"ZHVyaW5n","value":"dg=="}`))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusServiceUnavailable {
				return errors.New(resp.Status)
			}
			return errFallsAsleep
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if err := do(ctx); err == nil || !strings.Contains(err.Error(), "falling asleep") {
			t.Errorf("%s: %v", what, err)
		}
		cancel()
	}
	before, err := sidecar.Status(t.Context())
	if err != nil || before.Revision != 2 {
		t.Errorf("the sidecar is told %+v, %v; want revision 2", before, err)
	}
	body, _, err := sidecar.Snapshot(t.Context())
	if err != nil {
		t.Errorf("the sidecar's snapshot: %v", err)
	} else {
		body.Close()
	}
	if code, text := r.ask("GET", "/readyz", ""); code != http.StatusOK {
		t.Errorf("the probe: %d %s", code, text)
	}

	if code, text := r.ask("POST", "/clients?refuse=0s", token); code != http.StatusOK {
		t.Errorf("to admit them: %d %s", code, text)
	}
	r.put(t, c, "after")
	select {
	case rev := <-seen:
		if rev != 3 {
			t.Errorf("the sidecar's watch, which was never broken off, saw revision %d, want 3", rev)
		}
	case <-time.After(20 * time.Second):
		t.Error("the sidecar's watch ended")
	}
}

// bareWatch is a watch that is not begun anew when it ends, and how it ends.
func bareWatch(t *testing.T, r *running) <-chan error {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + net.JoinHostPort(r.Host, "2379")}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s, err := watchStream(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := s.Recv(); err != nil {
				ended <- err
				return
			}
		}
	}()
	return ended
}

// watchStream is a watch of everything, created.
func watchStream(ctx context.Context, c *clientv3.Client) (etcdserverpb.Watch_WatchClient, error) {
	s, err := etcdserverpb.NewWatchClient(c.ActiveConnection()).Watch(ctx)
	if err != nil {
		return nil, err
	}
	all := &etcdserverpb.WatchCreateRequest{Key: []byte{0}, RangeEnd: []byte{0}}
	if err := s.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: all}}); err != nil {
		return nil, err
	}
	_, err = s.Recv() // that it was created
	return s, err
}
