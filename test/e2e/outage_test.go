package e2e

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/stores"
)

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// TestAStoreThatCannotBeReadIsNeverTakenForEmpty tries every verb on a store that is away,
// refuses us or is another one. Each ends with the exit code for that, one line, and nothing
// changed.
func TestAStoreThatCannotBeReadIsNeverTakenForEmpty(t *testing.T) {
	t.Parallel()
	m := sharedMinIO(t)
	bucket := newBucket(t, m, stores.Versioned)
	w := newWorld(t, 31, 40)
	w.useS3(m, m.Endpoint, bucket)
	last := w.backup(40)
	before := versions(t, m, bucket)

	gate, link := faults.NewGate(t, m), faults.NewLink(t, m.Address)
	gate.Inject(faults.Fault{Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable"})
	link.Cut()
	listing := faults.NewGate(t, m) // everything but listing works
	listing.Inject(faults.Fault{Match: faults.Request(http.MethodGet, "versions"), Status: http.StatusInternalServerError, Code: "InternalError"})
	empty := faults.NewGate(t, m) // lists break off after a few bytes
	empty.Inject(faults.Fault{Match: faults.Request(http.MethodGet, "versions"), Truncate: 200})
	stranger, err := stores.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	other := *m
	other.CA = stranger
	wrong := m.Root
	wrong.SecretAccessKey = "not-the-secret-of-this-key"
	unknown := stores.Keys{AccessKeyID: "NOBODYKNOWSTHISKEY", SecretAccessKey: "whatever-it-may-be"}
	expired := assume(t, m, stores.WriterPolicy(bucket, prefix))
	expired.SessionToken = expired.SessionToken[:len(expired.SessionToken)-8] + "expired0"

	var attempts []*attempt
	for name, c := range map[string]struct {
		place place
		says  string
	}{
		"the store answers 503":          {inS3(t, m, gate.Endpoint, bucket, m.Root), ""},
		"listing fails":                  {inS3(t, m, listing.Endpoint, bucket, m.Root), ""},
		"listing breaks off":             {inS3(t, m, empty.Endpoint, bucket, m.Root), ""},
		"the connection is cut":          {inS3(t, m, "https://"+link.Address, bucket, m.Root), ""},
		"nobody listens":                 {inS3(t, m, "https://127.0.0.1:1", bucket, m.Root), "refused"},
		"the secret is wrong":            {inS3(t, m, m.Endpoint, bucket, wrong), ""},
		"the access key is unknown":      {inS3(t, m, m.Endpoint, bucket, unknown), ""},
		"the session token is not valid": {inS3(t, m, m.Endpoint, bucket, expired), ""},
		"another CA is trusted":          {inS3(t, &other, m.Endpoint, bucket, m.Root), "certificate"},
		"the bucket does not exist":      {inS3(t, m, m.Endpoint, "no-such-bucket", m.Root), "no-such-bucket"},
		"reading is not allowed":         {inS3(t, m, m.Endpoint, bucket, assume(t, m, stores.ReaderPolicy("another", prefix))), ""},
	} {
		for _, verb := range []string{"list", "verify --all", "restore", "compact", "collect --yes --keep-last=1", "copy", "snapshot", "store probe"} {
			if verb == "store probe" && strings.HasPrefix(name, "listing") {
				continue // it does not list
			}
			try := attempt{name: name + ", " + verb, place: c.place, says: c.says, dir: t.TempDir()}
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
				try.args = append(try.args, "--endpoints="+w.etcd.Endpoint(), "--backoff-attempt-limit=1")
			}
			attempts = append(attempts, &try)
		}
	}
	// Most of the time each of them waits before it tries again.
	var all sync.WaitGroup
	slots := make(chan struct{}, 80)
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
			says(t, a.got.line(t), a.says)
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
	if after := versions(t, m, bucket); len(after) != len(before) {
		t.Errorf("%d versions are in the bucket, there were %d", len(after), len(before))
	}
	if got := w.list().end(); got != last {
		t.Errorf("restorable up to %d, want %d", got, last)
	}
}

// attempt is one verb tried on a store that does not work.
type attempt struct {
	name, verb, says, dir string
	args                  []string
	place                 place
	got                   outcome
	err                   error
}
