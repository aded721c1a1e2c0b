package e2e

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// trouble is a way in which a store cannot be used, and what must be said about it.
type trouble struct {
	place place
	says  []string
}

// troubles are all of them for a bucket of a site.
func troubles(t *testing.T, s sites.Site, bucket string) map[string]trouble {
	endpoint, ca := s.Reach()
	if endpoint == "" {
		return map[string]trouble{"the directory does not exist": {inDirectory(t, "/no/such/directory"), []string{"/no/such/directory", "create it"}}}
	}
	gated := func(f faults.Fault) place {
		gate := gateTo(t, s)
		gate.Inject(f)
		return inSite(t, s, gate.Endpoint, bucket, sites.Owner)
	}
	does := func(what sites.Does) func(*http.Request) bool {
		return func(r *http.Request) bool { return s.Request(r).Does == what }
	}
	link := faults.NewLink(t, strings.TrimPrefix(endpoint, "https://"))
	link.Cut()
	stranger, err := stores.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	untrusted, err := s.Way(t.Context(), bucket, endpoint, sites.Owner)
	if err != nil {
		t.Fatal(err)
	}
	untrusted.Files[sites.CAFile] = string(stranger.PEM)
	if slices.Equal(stranger.PEM, ca.PEM) {
		t.Fatal("it is the same CA")
	}
	all := map[string]trouble{
		"the store answers 503":     {gated(faults.Fault{Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable"}), []string{"503"}},
		"the store is throttling":   {gated(faults.Fault{Status: http.StatusTooManyRequests, Code: "SlowDown"}), []string{"slow down"}},
		"listing fails":             {gated(faults.Fault{Match: does(sites.List), Status: http.StatusInternalServerError, Code: "InternalError"}), []string{"500", "try again"}},
		"listing breaks off":        {gated(faults.Fault{Match: does(sites.List), Truncate: 100}), []string{"broke", "try again"}},
		"the connection is cut":     {inSite(t, s, "https://"+link.Address, bucket, sites.Owner), nil},
		"nobody listens":            {inSite(t, s, "https://127.0.0.1:1", bucket, sites.Owner), []string{"refused"}},
		"the secret is wrong":       {inSite(t, s, "", bucket, sites.Impostor), []string{"credentials"}},
		"who asks is unknown":       {inSite(t, s, "", bucket, sites.Nobody), []string{"credentials"}},
		"another CA is trusted":     {told(t, untrusted), []string{"certificate", sites.CAFile}},
		"the bucket does not exist": {inSite(t, s, "", "no-such-bucket", sites.Owner), []string{"no-such-bucket", "create it"}},
	}
	if s.Name() == "Swift" || s.Name() == "OSS" { // where all are owners
		all["reading is not allowed"] = trouble{gated(faults.Fault{Match: does(sites.List), Status: http.StatusForbidden}), []string{"permission denied"}}
	} else {
		all["reading is not allowed"] = trouble{inSite(t, s, "", bucket, sites.Stranger), []string{"permission denied", "docs/operations/permissions.md"}}
	}
	return all
}

// TestAStoreThatCannotBeReadIsNeverTakenForEmpty tries every verb on stores that are away,
// refuse us or are others. Each ends with the exit code for that, one line that says what to
// do, and nothing changed.
func TestAStoreThatCannotBeReadIsNeverTakenForEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 31, 40)
	w.useLocal(t.TempDir())
	last := w.backup(40)
	origin := w.place
	for _, name := range sites.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fleet.Get(t, name)
			on := *w
			on.t = t
			bucket := on.useBucket(s, s.Kinds()[0], sites.Owner)
			on.copyFrom(origin).succeeds("copy")
			h := handsOn(t, s, bucket, sites.Owner)
			before := h.keys()
			var attempts []*attempt
			for what, c := range troubles(t, s, bucket) {
				attempts = append(attempts, tries(t, what, c, w.etcd.Endpoint())...)
			}
			// There are hundreds on all stores together. Mixed, for every other one in their order would be of half of the verbs.
			rand.Shuffle(len(attempts), func(i, j int) { attempts[i], attempts[j] = attempts[j], attempts[i] })
			attempts = everyOther(t, everyOther(t, attempts))
			tryAll(t, attempts)
			if after := h.keys(); !slices.Equal(after, before) {
				t.Errorf("%q are in the bucket, there were %q", after, before)
			}
			if got := on.list().end(); got != last {
				t.Errorf("restorable up to %d, want %d", got, last)
			}
		})
	}
}

// attempt is one verb tried on a store that does not work.
type attempt struct {
	name, verb, dir string
	says            []string
	args            []string
	place           place
	got             outcome
	err             error
}

// tries are all verbs, tried in one trouble.
func tries(t *testing.T, what string, c trouble, etcd string) (attempts []*attempt) {
	for _, verb := range []string{"list", "verify --all", "restore", "compact", "collect --yes --keep-last=1", "copy", "snapshot", "store probe"} {
		if verb == "store probe" && (strings.HasPrefix(what, "listing") || strings.HasPrefix(what, "reading") && (slices.Contains(c.place.store, "--storage-provider=Swift") || slices.Contains(c.place.store, "--storage-provider=OSS"))) {
			continue // it does not list
		}
		try := attempt{name: what + ", " + verb, place: c.place, says: c.says, dir: t.TempDir()}
		fields := strings.Fields(verb)
		if fields[0] == "store" {
			fields = []string{verb}
		}
		try.verb, try.args = fields[0], fields[1:]
		switch try.verb {
		case "restore":
			try.args = append(try.args, "--data-dir="+try.dir+"/restored")
		case "copy":
			try.place = inDirectory(t, try.dir).copyFrom(c.place)
		case "snapshot":
			try.args = append(try.args, "--endpoints="+etcd, "--backoff-attempt-limit=1")
		}
		attempts = append(attempts, &try)
	}
	return attempts
}

// tryAll runs them, many at the same time: most of it each of them waits before it tries again.
func tryAll(t *testing.T, attempts []*attempt) {
	var all sync.WaitGroup
	slots := make(chan struct{}, 40)
	for _, a := range attempts {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			a.got, a.err = ending(a.place.command(a.verb, a.args...))
		})
	}
	all.Wait()
	for _, a := range attempts {
		t.Run(a.name, func(t *testing.T) {
			if a.err != nil {
				t.Fatal(a.err)
			}
			if a.got.code != 5 {
				t.Fatalf("exit code %d, want 5\n%s%s", a.got.code, a.got.stdout, a.got.stderr)
			}
			line := a.got.line(t)
			t.Log(line)
			says(t, line, a.says...)
			for _, secret := range []string{"not-the-", "whatever-it-may-be", "bm90LXRoZS"} {
				if strings.Contains(line, secret) {
					t.Errorf("a secret is told: %s", line)
				}
			}
			if a.got.stdout != "" && a.verb != "copy" {
				t.Errorf("it printed a result:\n%s", a.got.stdout)
			}
			if err := filepath.WalkDir(a.dir, func(path string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					t.Errorf("it left %s", path)
				}
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
}
