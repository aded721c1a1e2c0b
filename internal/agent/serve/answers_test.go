package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/auth"
	"druid.internal/druid/internal/agentapi/auth/authtest"
)

// alone is a sidecar without TLS, and who may call it.
func alone(t *testing.T, h Handlers, change func(*Options)) (*sidecar, *http.Client) {
	t.Helper()
	p := newPKI(t)
	o := Options{TokenFile: p.token}
	if change != nil {
		change(&o)
	}
	return start(t, o, h), p.caller(t, "", nil, authtest.Leaf{})
}

func TestAFailureIsOneLineWithACodeThatTellsItsKind(t *testing.T) {
	for name, c := range map[string]struct {
		err       error
		wantCode  int
		wantAllow []string
		wantText  string
	}{
		"anything":            {errBroken, 500, nil, "the disk is on fire\n"},
		"several lines":       {errors.Join(errBroken, errBroken), 500, nil, "the disk is on fire the disk is on fire\n"},
		"no store":            {fmt.Errorf("full: %w", agentapi.ErrNoStore), 405, []string{""}, "full: no backup store is configured\n"},
		"not now":             {fmt.Errorf("%w: the store is down", agentapi.ErrUnavailable), 503, nil, "not available at the moment: the store is down\n"},
		"no longer leader":    {agentapi.ErrNotLeader, 503, nil, "this sidecar is not the backup leader\n"},
		"something else runs": {fmt.Errorf("%w: compact", agentapi.ErrBusy), 409, nil, "an operation goes on: compact\n"},
		"refused":             {fmt.Errorf("%w: another lineage", agentapi.ErrRefused), 422, nil, "refused: another lineage\n"},
	} {
		h := canned()
		h.InitStart = func(agentapi.ValidationMode) error { return c.err }
		h.InitAcknowledge = func() error { return c.err }
		h.Config = func(context.Context) ([]byte, error) { return []byte("half: "), c.err }
		h.Full = func(context.Context, bool) (agentapi.Snapshot, error) { return agentapi.Snapshot{}, c.err }
		h.Delta = func(context.Context) (*agentapi.Snapshot, error) { return nil, c.err }
		h.Latest = func(context.Context) (agentapi.LatestSnapshots, error) { return agentapi.LatestSnapshots{}, c.err }
		h.Timeline = func(context.Context) (agentapi.Timeline, error) { return agentapi.Timeline{}, c.err }
		h.Verify = func(context.Context) (agentapi.Operation, error) { return agentapi.Operation{}, c.err }
		h.Compact, h.Defragment = h.Verify, h.Verify
		h.Refuse = func(context.Context, time.Duration) (agentapi.Refusal, error) { return agentapi.Refusal{}, c.err }
		s, caller := alone(t, h, nil)
		tried := 0
		for _, r := range agentapi.Routes() {
			if slices.Contains([]string{agentapi.InitStatus, agentapi.Healthz, agentapi.Metrics, agentapi.MemberPath, agentapi.Operations, agentapi.Profiles}, r.Path) {
				continue // these cannot fail
			}
			path := r.Path
			if path == agentapi.Clients {
				path += "?refuse=10m"
			}
			tried++
			resp, body := call(t, caller, r.Methods[0], s.url+path, goodToken)
			if resp.StatusCode != c.wantCode || body != c.wantText || !cmp.Equal(resp.Header["Allow"], c.wantAllow) || (resp.Header.Get("Retry-After") != "") != (c.wantCode == 503) {
				t.Errorf("%s: %s: %s %q %v; want %d %q", name, r.Path, resp.Status, body, resp.Header, c.wantCode, c.wantText)
			}
		}
		if tried != 11 {
			t.Errorf("%d paths tried, want 11", tried)
		}
	}
}

func TestClientsAreRefusedForATimeThatHasAnEnd(t *testing.T) {
	s, caller := alone(t, canned(), nil)
	for query, want := range map[string]string{
		"?refuse=10m": `200 {"forSeconds":0,"leftSeconds":600}`, "?refuse=30m": `200 {"forSeconds":0,"leftSeconds":1800}`, "?refuse=0s": `200 {"forSeconds":0,"leftSeconds":0}`,
		"?refuse=30m1s": "400", "?refuse=-1s": "400", "?refuse=ever": "400", "?refuse=": "400", "": "400",
	} {
		resp, body := call(t, caller, http.MethodPost, s.url+agentapi.Clients+query, goodToken)
		if got := fmt.Sprintf("%d %s", resp.StatusCode, body); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s; want %s", query, got, want)
		}
	}
}

func TestWithoutAStoreSnapshotsAreNotAllowed(t *testing.T) {
	h := canned()
	h.Full, h.Delta, h.Latest, h.Timeline, h.Verify, h.Compact = nil, nil, nil, nil, nil, nil
	h.Leader = func(context.Context) (string, bool, error) {
		t.Error("the leader is looked for")
		return "", true, nil
	}
	s, caller := alone(t, h, nil)
	for path, method := range map[string]string{"/snapshot/full": "GET", "/snapshot/delta": "POST", "/snapshot/latest": "GET", "/timeline": "GET", "/verify": "POST", "/compact": "POST"} {
		resp, body := call(t, caller, method, s.url+path, goodToken)
		if resp.StatusCode != 405 || body != "no backup store is configured\n" || !cmp.Equal(resp.Header["Allow"], []string{""}) {
			t.Errorf("%s: %s %q %v", path, resp.Status, body, resp.Header)
		}
		if resp, _ := call(t, caller, method, s.url+path, ""); resp.StatusCode != 401 {
			t.Errorf("%s without a token: %s, want 401", path, resp.Status)
		}
	}
}

func TestHealthIsSaidInTheOriginalsWords(t *testing.T) {
	h := canned()
	healthy := true
	h.Healthy = func() bool { return healthy }
	s, caller := alone(t, h, nil)
	for _, healthy = range []bool{true, false} {
		want, code := `{"health":true}`, 200
		if !healthy {
			want, code = `{"health":false}`, 503
		}
		if resp, body := call(t, caller, "GET", s.url+"/healthz", ""); resp.StatusCode != code || body != want {
			t.Errorf("%s %s, want %d %s", resp.Status, body, code, want)
		}
	}
}

func TestParametersAreReadAsTheOriginalDoes(t *testing.T) {
	var mode agentapi.ValidationMode
	var final bool
	h := canned()
	h.InitStart = func(m agentapi.ValidationMode) error {
		mode = m
		return nil
	}
	h.Full = func(_ context.Context, f bool) (agentapi.Snapshot, error) {
		final = f
		return agentapi.Snapshot{}, nil
	}
	purpose := ""
	h.Final = func(_ context.Context, p string) (agentapi.Snapshot, error) {
		purpose = p
		return agentapi.Snapshot{}, nil
	}
	s, caller := alone(t, h, nil)
	for query, want := range map[string]agentapi.ValidationMode{"": "full", "?mode=full": "full", "?mode=sanity": "sanity", "?mode=Sanity": "full", "?mode=": "full", "?mode=no%0Asense": "full"} {
		if resp, body := call(t, caller, "GET", s.url+"/initialization/start"+query, goodToken); resp.StatusCode != 200 || body != "" || mode != want {
			t.Errorf("%q: %s %q, mode %s; want %s", query, resp.Status, body, mode, want)
		}
	}
	for query, want := range map[string]int{"?final=true&for=uid/5": 200, "?for=uid/5": 400, "?final=true&for=a%0Ab": 400, "?final=true&for=" + strings.Repeat("x", 257): 400} {
		purpose = ""
		resp, body := call(t, caller, "POST", s.url+"/snapshot/full"+query, goodToken)
		if resp.StatusCode != want || (purpose == "uid/5") != (want == 200) || want == 400 && len(body) > 150 {
			t.Errorf("%.40q: %s %q, for %q; want %d", query, resp.Status, body, purpose, want)
		}
	}
	for query, want := range map[string]int{"": 200, "?final=true": 200, "?final=false": 200, "?final=1": 200, "?final=yes": 400, "?final=": 200, "?final=no%0Asense": 400, "?final=" + strings.Repeat("x", 1000): 400} {
		final = !strings.Contains(query, "true") && !strings.Contains(query, "1")
		resp, body := call(t, caller, "POST", s.url+"/snapshot/full"+query, goodToken)
		if resp.StatusCode != want || want == 200 && final != (strings.Contains(query, "true") || strings.Contains(query, "1")) {
			t.Errorf("%.30q: %s, final %t; want %d", query, resp.Status, final, want)
		}
		if want == 400 && (strings.Count(body, "\n") != 1 || len(body) > 150) {
			t.Errorf("%.30q: %q, want one short line", query, body)
		}
	}
}

func TestAnotherPanicIsNoReasonToEnd(t *testing.T) {
	h := canned()
	h.Member = func(context.Context) agentapi.Member { panic("a programming error") }
	var logged log
	s, caller := alone(t, h, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&logged, nil)) })
	if resp, body := call(t, caller, "GET", s.url+"/member", goodToken); resp.StatusCode != 500 || strings.Contains(body, "programming") {
		t.Errorf("%s %q, want 500 without details", resp.Status, body)
	}
	if resp, _ := call(t, caller, "GET", s.url+"/config", goodToken); resp.StatusCode != 200 {
		t.Errorf("%s after a panic, want 200", resp.Status)
	}
	if got := logged.String(); strings.Count(got, "call panicked") != 1 || !strings.Contains(got, "a programming error") {
		t.Errorf("the panic is not in the log: %s", got)
	}
}

func TestBodiesOfCallsAreBounded(t *testing.T) {
	s, caller := alone(t, canned(), nil)
	for size, want := range map[int]int{10: 200, 64 << 10: 200, 64<<10 + 1: 413, 10 << 20: 413} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/snapshot/full", io.LimitReader(zeros{}, int64(size)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+goodToken)
		resp, err := caller.Do(req)
		if err != nil {
			// The server closes the connection while the body is sent.
			if want == 200 {
				t.Errorf("%d bytes: %v", size, err)
			}
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%d bytes: %s, want %d", size, resp.Status, want)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestTheClientUnderstandsTheServer(t *testing.T) {
	snapshot := agentapi.Snapshot{CreatedOn: moment, Kind: "Full", SnapName: "a", VersionID: new(string), LastRevision: 7}
	operation := agentapi.Operation{Kind: "verify", Status: agentapi.InProgress, Start: moment, Phase: "read", Done: 1, Total: 2}
	member := agentapi.Member{Name: "etcd-main-0", ID: "8e9e05c52164694d", Transitions: []agentapi.Transition{{State: agentapi.Started, SubState: agentapi.Leader, Reason: agentapi.GainedClusterLeadership, Time: moment}}, Data: agentapi.Data{State: agentapi.DataValid}, BackupLeader: true}
	timeline := agentapi.Timeline{Lineages: []agentapi.TimelineLineage{{Newest: 7, Restorable: []agentapi.TimelineWindow{}, Chain: &agentapi.TimelineChain{Base: "a", Created: moment, End: 7}}}, Findings: []agentapi.TimelineFinding{{Severity: "info", Text: "b"}}}
	latest := agentapi.LatestSnapshots{FullSnapshot: &snapshot, DeltaSnapshots: []*agentapi.Snapshot{&snapshot}}

	var did []string
	status, healthy := agentapi.InitProgress, false
	delta := &snapshot
	h := canned()
	h.InitStart = func(m agentapi.ValidationMode) error {
		did = append(did, "start "+string(m))
		return nil
	}
	h.InitAcknowledge = func() error {
		did = append(did, "acknowledge")
		return nil
	}
	h.InitStatus = func() agentapi.InitState { return status }
	h.Healthy = func() bool { return healthy }
	h.Member = func(context.Context) agentapi.Member { return member }
	h.Full = func(_ context.Context, final bool) (agentapi.Snapshot, error) {
		s := snapshot
		s.IsFinal = final
		return s, nil
	}
	h.Delta = func(context.Context) (*agentapi.Snapshot, error) { return delta, nil }
	h.Latest = func(context.Context) (agentapi.LatestSnapshots, error) { return latest, nil }
	h.Timeline = func(context.Context) (agentapi.Timeline, error) { return timeline, nil }
	h.Operations = func() []agentapi.Operation { return []agentapi.Operation{operation} }
	begun := func(kind string) func(context.Context) (agentapi.Operation, error) {
		return func(context.Context) (agentapi.Operation, error) { return agentapi.Operation{Kind: kind}, nil }
	}
	h.Defragment, h.Verify, h.Compact = begun("defragment"), begun("verify"), begun("compact")

	p := newPKI(t)
	s := start(t, p.options(), h)
	c, err := agentapi.NewClient(s.url+"/", agentapi.ClientOptions{Credentials: auth.Credentials{CAFile: p.serverCA, TokenFile: p.token}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	same := func(what string, got any, err error, want any) {
		t.Helper()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", what, err, diff)
		}
	}
	if err := errors.Join(c.InitStart(ctx, agentapi.ValidateSanity), c.InitStart(ctx, agentapi.ValidateFull), c.InitAcknowledge(ctx)); err != nil {
		t.Error(err)
	}
	same("initialization", did, nil, []string{"start sanity", "start full", "acknowledge"})
	for _, status = range []agentapi.InitState{agentapi.InitNew, agentapi.InitProgress, agentapi.InitSuccessful, agentapi.InitFailed} {
		got, err := c.InitStatus(ctx)
		same("status", got, err, status)
	}
	for _, healthy = range []bool{true, false} {
		got, err := c.Healthy(ctx)
		same("health", got, err, healthy)
	}
	config, err := c.Config(ctx)
	same("config", string(config), err, "name: etcd-main-0\n")
	gotMember, err := c.Member(ctx)
	same("member", gotMember, err, member)
	for _, final := range []bool{true, false} {
		want := snapshot
		want.IsFinal = final
		got, err := c.Full(ctx, final)
		same("full", got, err, want)
	}
	gotDelta, err := c.Delta(ctx)
	same("delta", gotDelta, err, &snapshot)
	delta = nil
	gotDelta, err = c.Delta(ctx)
	same("no delta", gotDelta, err, (*agentapi.Snapshot)(nil))
	gotLatest, err := c.Latest(ctx)
	same("latest", gotLatest, err, latest)
	gotTimeline, err := c.Timeline(ctx)
	same("timeline", gotTimeline, err, timeline)
	operations, err := c.Operations(ctx)
	same("operations", operations, err, []agentapi.Operation{operation})
	for kind, begin := range map[string]func(context.Context) (agentapi.Operation, error){"defragment": c.Defragment, "verify": c.Verify, "compact": c.Compact} {
		got, err := begin(ctx)
		same(kind, got, err, agentapi.Operation{Kind: kind})
	}
}

func TestTheClientGetsTheErrorsOfTheServerBack(t *testing.T) {
	var failure error
	h := canned()
	h.Full = func(context.Context, bool) (agentapi.Snapshot, error) { return agentapi.Snapshot{}, failure }
	p := newPKI(t)
	s := start(t, Options{TokenFile: p.token}, h)
	client := func(token string) *agentapi.Client {
		c, err := agentapi.NewClient(s.url, agentapi.ClientOptions{Credentials: auth.Credentials{TokenFile: authtest.Write(t, filepath.Join(p.dir, "shown"), []byte(token))}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	sentinels := []error{agentapi.ErrNoStore, agentapi.ErrUnavailable, agentapi.ErrBusy, agentapi.ErrRefused, agentapi.ErrDenied}
	good := client(goodToken)
	for _, failure = range []error{agentapi.ErrNoStore, agentapi.ErrUnavailable, agentapi.ErrBusy, agentapi.ErrRefused, errBroken} {
		_, err := good.Full(t.Context(), true)
		for _, sentinel := range sentinels {
			if errors.Is(err, sentinel) != (failure == sentinel) {
				t.Errorf("%v: is %v: %t", err, sentinel, errors.Is(err, sentinel))
			}
		}
		var status *agentapi.StatusError
		if !errors.As(err, &status) || status.Text != strconv.Quote(failure.Error()) || err.Error() != fmt.Sprintf("POST %s/snapshot/full: %d %s: %q", s.url, status.Code, http.StatusText(status.Code), failure) {
			t.Errorf("%v, want the text %q", err, failure)
		}
	}
	if _, err := client(wrongToken).Full(t.Context(), false); !errors.Is(err, agentapi.ErrDenied) || strings.Contains(err.Error(), wrongToken) {
		t.Errorf("%v, want that the credentials are not accepted", err)
	}
}

func TestAConfigurationThatCannotWorkStopsTheStart(t *testing.T) {
	p := newPKI(t)
	missing := filepath.Join(p.dir, "missing")
	for name, c := range map[string]struct {
		change func(*Options, *Handlers)
		want   string
	}{
		"nobody could call":             {func(o *Options, _ *Handlers) { o.ClientCAFile, o.TokenFile = "", "" }, "nobody could call"},
		"client certificates, no TLS":   {func(o *Options, _ *Handlers) { o.CertFile, o.KeyFile = "", "" }, "a server with TLS only"},
		"a certificate without a key":   {func(o *Options, _ *Handlers) { o.KeyFile = "" }, "belong together"},
		"a missing certificate":         {func(o *Options, _ *Handlers) { o.CertFile = missing }, missing},
		"missing client authorities":    {func(o *Options, _ *Handlers) { o.ClientCAFile = missing }, missing},
		"a missing token":               {func(o *Options, _ *Handlers) { o.TokenFile = missing }, missing},
		"missing authorities of others": {func(o *Options, _ *Handlers) { o.Leader.CAFile = missing }, missing},
		"a handler that was forgotten":  {func(_ *Options, h *Handlers) { h.Member = nil }, "no handler Member"},
	} {
		o, h := p.options(), canned()
		c.change(&o, &h)
		if _, err := New(o, h); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", name, err, c.want)
		}
	}
}

func TestAnOpenInterfaceIsLogged(t *testing.T) {
	var logged log
	s, caller := alone(t, canned(), func(o *Options) {
		*o = Options{OpenToAll: true, Log: slog.New(slog.NewTextHandler(&logged, nil))}
	})
	if resp, _ := call(t, caller, "GET", s.url+"/config", ""); resp.StatusCode != 200 {
		t.Errorf("%s, want 200", resp.Status)
	}
	if !strings.Contains(logged.String(), "open to everybody") {
		t.Errorf("not logged: %s", logged.String())
	}
}

func FuzzParseFinal(f *testing.F) {
	for _, seed := range []string{"", "true", "FALSE", "yes", "\n", strings.Repeat("é", 100)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		final, err := parseFinal(s)
		if err != nil && (final || strings.Contains(err.Error(), "\n") || len(err.Error()) > 400) {
			t.Errorf("%q: %t, %q", s, final, err)
		}
	})
}

func FuzzNothingIsAnsweredWithoutACredential(f *testing.F) {
	for _, row := range api {
		f.Add("GET", row.path, "")
		f.Add("POST", row.path, "Bearer "+wrongToken)
	}
	f.Add("POST", "/debug/pprof/../../config", "Basic x")
	s, err := New(Options{TokenFile: authtest.Write(f, filepath.Join(f.TempDir(), "token"), []byte(goodToken)), Profiling: true}, canned())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, path, authorization string) {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, &http.Request{Method: method, Body: http.NoBody, URL: &url.URL{Path: path}, Header: http.Header{"Authorization": {authorization}}})
		if w.Code/100 != 2 || strings.Contains(authorization, goodToken) {
			return
		}
		if route, known := agentapi.Find(path); !known || route.Access != agentapi.Open || !route.Allows(method) {
			t.Errorf("%q %q with %q: %d", method, path, authorization, w.Code)
		}
	})
}
