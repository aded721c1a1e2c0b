package wrapper

import (
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/server/v3/embed"

	"druid.internal/druid/internal/wrapper/wrappertest"
)

func TestAnIntroductionThatCameWithTheDataIsMissed(t *testing.T) {
	started := time.Unix(1000, 0)
	at := func(ms int) time.Time { return started.Add(time.Duration(ms) * time.Millisecond) }
	unknown, known := introduced{}, introduced{known: true, dbSize: 32 << 20}
	for phrase, c := range map[string]struct {
		i     introduction
		first introduced
		now   time.Time
		then  introduced
		want  bool
	}{
		"it came with the data":                     {introduction{fresh: true}, known, at(200), known, true},
		"it is just being found in the log":         {introduction{fresh: true}, unknown, at(200), known, false},
		"the data have not arrived":                 {introduction{fresh: true}, unknown, at(200), unknown, false},
		"the member was introduced before":          {introduction{}, known, at(200), known, false},
		"the next introduction comes sooner":        {introduction{fresh: true}, known, at(6500), known, false},
		"the next introduction was made":            {introduction{fresh: true}, known, at(7100), known, true},
		"much would have to be read at the start":   {introduction{fresh: true}, known, at(200), introduced{known: true, dbSize: 4 << 30}, false},
		"the same when there is time enough for it": {introduction{fresh: true, timeout: time.Hour}, known, at(200), introduced{known: true, dbSize: 4 << 30}, true},
	} {
		t.Run(phrase, func(t *testing.T) {
			i := c.i
			i.started = started
			if i.timeout == 0 {
				i.timeout = 7 * time.Second
			}
			if i.missed(c.now.Add(-introductionEvery), c.first) {
				t.Error("missed at the first look")
			}
			if got := i.missed(c.now, c.then); got != c.want {
				t.Errorf("missed: %t, want %t", got, c.want)
			}
		})
	}
}

func TestAnIntroductionIsRepeatedWhenTheRequestForItTimesOut(t *testing.T) {
	c := embed.NewConfig()
	c.Dir = t.TempDir()
	i := newIntroduction(c, time.Unix(1000, 0))
	if want := 7 * time.Second; i.timeout != want || !i.fresh {
		t.Errorf("got %+v, want a timeout of %s, of a fresh member", i, want)
	}
}

// lateSnapshot stands before a learner's peer URL and lets no snapshot pass until the cluster knows the
// learner: the one that passes has its introduction in it.
func lateSnapshot(t *testing.T, at, learner wrappertest.Member, known func() bool) {
	t.Helper()
	to, err := url.Parse(learner.PeerURL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	proxy.ErrorLog = log.New(io.Discard, "", 0) // the learner is not there at first
	var before atomic.Bool                      // known when a snapshot was refused: the next one is made after that
	front := &http.Server{Addr: strings.TrimPrefix(at.PeerURL(), "http://"), ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/raft/snapshot" && !before.Load() {
				before.Store(known())
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			proxy.ServeHTTP(w, r)
		})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = front.ListenAndServe() // the test sees if nobody listens
	}()
	t.Cleanup(func() { front.Close(); <-ended })
}

// lines are what a wrapper logged.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(b))
	return len(b), nil
}

func (l *lines) count(what string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, what) {
			n++
		}
	}
	return n
}

func TestAMemberWhoseIntroductionCameWithItsDataStartsOnceMore(t *testing.T) {
	ms := wrappertest.Members(t, 3)
	sole := prepared(t, ms[0], ms[:1]).start(t)
	sole.awaitReady(t)
	client := sole.Client(t)
	for range 150 { // after a hundred entries etcd gives up its first one: a new member needs a snapshot then
		sole.put(t, client, "key")
	}
	front := ms[2]
	added, err := sole.Client(t).MemberAddAsLearner(t.Context(), []string{front.PeerURL()})
	if err != nil {
		t.Fatal(err)
	}
	lateSnapshot(t, front, ms[1], func() bool {
		list, err := sole.Client(t).MemberList(t.Context())
		if err != nil {
			return false
		}
		for _, m := range list.Members {
			if m.ID == added.Member.ID {
				return len(m.ClientURLs) > 0
			}
		}
		return false
	})
	l := prepared(t, ms[1], ms[:2])
	l.sidecar.Config(strings.NewReplacer("initial-cluster-state: new", "initial-cluster-state: existing",
		ms[1].Name+"="+ms[1].PeerURL(), ms[1].Name+"="+front.PeerURL(),
		"initial-advertise-peer-urls: "+ms[1].PeerURL(), "initial-advertise-peer-urls: "+front.PeerURL()).Replace(ms[1].Config(ms[:2])))
	var said lines
	l.options.Log = slog.New(slog.NewTextHandler(io.MultiWriter(&said, testLog{t}), nil))
	l.start(t)
	eventually(t, "the learner says that it is one", func() bool {
		code, text := l.ask("GET", "/readyz", "")
		return code == http.StatusServiceUnavailable && strings.Contains(text, "learner")
	})
	if got, want := said.count(`msg="etcd is started"`), 2; got != want {
		t.Fatalf("etcd was started %d times, want %d", got, want)
	}
	want := []string{"initialization/start?mode=full", "config"}
	if diff := cmp.Diff(want, withoutStatus(l.sidecar.Calls())); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	eventually(t, "the learner is promoted", func() bool {
		_, err := sole.Client(t).MemberPromote(t.Context(), added.Member.ID)
		return err == nil
	})
	l.awaitReady(t)
}
