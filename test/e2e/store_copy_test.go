package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/sites"
)

// copyWays are all ordered pairs of the four kinds of store that matter most, one inside each
// of them, and the others to and from a directory.
func copyWays() (ways [][2]string) {
	most := []string{"MinIO", "GCS", "Azure", "Local"}
	for _, from := range most {
		for _, to := range most {
			ways = append(ways, [2]string{from, to})
		}
	}
	for _, other := range sites.Names() {
		if !strings.Contains(strings.Join(most, " "), other) {
			ways = append(ways, [2]string{other, "Local"}, [2]string{"Local", other}, [2]string{other, other})
		}
	}
	return ways
}

// TestWhatIsCopiedBetweenAnyTwoStoresRestoresToTheSameHashKV copies with the rights of a reader
// at the source and of a writer at the destination, into a bucket that locks if there is one.
// Inside a store it copies with one identity, so that the store may copy by itself.
func TestWhatIsCopiedBetweenAnyTwoStoresRestoresToTheSameHashKV(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 111, 80)
	w.useLocal(t.TempDir())
	last := w.backup(150)
	w.succeeds("compact")
	origin := w.place
	_, want := w.mustRestore("--keep-history")

	sources := map[string]string{} // bucket by site
	for _, name := range sites.Names() {
		s := fleet.Get(t, name)
		k, _ := locked(s)
		sources[name] = fleet.Bucket(t, s, k)
		at := inSite(t, s, "", sources[name], sites.Owner)
		at.copyFrom(origin).succeeds("copy")
	}
	for _, pair := range everyOther(t, copyWays()) {
		t.Run(pair[0]+" to "+pair[1], func(t *testing.T) {
			t.Parallel()
			from, to := fleet.Get(t, pair[0]), fleet.Get(t, pair[1])
			k, _ := locked(to)
			reader, writer, how := sites.Reader, sites.Writer, "streamed"
			if pair[0] == pair[1] {
				reader, writer, how = sites.Owner, sites.Owner, "server-side"
				if pair[0] == "Local" || pair[0] == "Swift" {
					how = "streamed"
				}
			}
			at := inSite(t, to, "", fleet.Bucket(t, to, k), writer)
			both := at.copyFrom(inSite(t, from, "", sources[pair[0]], reader))
			says(t, both.succeeds("copy", "-o=json"), `"how": "`+how+`"`)
			says(t, both.succeeds("copy", "--verify", "-o=json"), `"how": "existing"`)
			dir, got := at.mustRestore("--keep-history")
			if got.HashKV != want.HashKV || got.Revision != last {
				t.Errorf("HashKV %d at revision %d, want %d at %d", got.HashKV.Hash, got.Revision, want.HashKV.Hash, last)
			}
			on := *w
			on.t, on.place = t, at
			on.check(dir, last)
			if l, o := at.list(), origin.list(); len(l.all("Incr")) != len(o.all("Incr")) || len(l.all("Full")) != len(o.all("Full")) {
				t.Errorf("%d fulls and %d deltas came of %d and %d", len(l.all("Full")), len(l.all("Incr")), len(o.all("Full")), len(o.all("Incr")))
			}
		})
	}
}

// TestACopyThatIsInterruptedIsCompletedByTheNext kills copies to each store before and after
// requests that write, and then lets one go through.
func TestACopyThatIsInterruptedIsCompletedByTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 112, 80)
	w.useLocal(t.TempDir())
	last := w.backup(150)
	origin := w.place
	_, want := w.mustRestore("--keep-history")
	for _, name := range everyOther(t, sites.Names()) {
		if name == "Local" {
			continue // no requests
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fleet.Get(t, name)
			k, _ := locked(s)
			bucket := fleet.Bucket(t, s, k)
			a := &assassin{Gate: gateTo(t, s), site: s}
			behind := inSite(t, s, a.Endpoint, bucket, sites.Writer).copyFrom(origin) // fulls and their manifests go first
			for _, m := range []moment{{"put Full", 1, true}, {"put Manifest", 1, false}, {"put Manifest", 1, true}, {"put Incr", 1, false}, {"put Incr", 1, true}} {
				cmd := behind.command("copy", "--max-parallel-copy-operations=2")
				a.arm(m, func() { cmd.Process.Kill() })
				if o := finish(t, cmd); o.code != -1 {
					t.Fatalf("%s was not reached, it ended with %d\n%s", m, o.code, o.stderr)
				}
				a.Heal()
			}
			at := inSite(t, s, "", bucket, sites.Writer)
			at.copyFrom(origin).succeeds("copy")
			_, got := at.mustRestore("--keep-history")
			if got.HashKV != want.HashKV || got.Revision != last {
				t.Errorf("HashKV %d at revision %d, want %d at %d", got.HashKV.Hash, got.Revision, want.HashKV.Hash, last)
			}
			for _, f := range at.list().Findings {
				if f.Severity != "info" {
					t.Errorf("of interrupted copies a finding is left: %+v", f)
				}
			}
		})
	}
}

// TestACopyFromAStoreThatFailsInTheMiddleFailsAndIsCompletedLater breaks off the source.
func TestACopyFromAStoreThatFailsInTheMiddleFailsAndIsCompletedLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 113, 80)
	w.useLocal(t.TempDir())
	last := w.backup(100)
	origin := w.place
	for _, name := range everyOther(t, sites.Names()) {
		if name == "Local" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fleet.Get(t, name)
			bucket := fleet.Bucket(t, s, sites.Plain)
			inSite(t, s, "", bucket, sites.Owner).copyFrom(origin).succeeds("copy")
			gate := gateTo(t, s)
			seen := 0
			gate.Inject(faults.Fault{Match: func(r *http.Request) bool {
				if q := s.Request(r); q.Does == sites.Read && strings.Contains(q.Key, "/Incr-") {
					seen++
				}
				return seen > 2
			}, Status: http.StatusServiceUnavailable})
			at := inDirectory(t, t.TempDir())
			both := at.copyFrom(inSite(t, s, gate.Endpoint, bucket, sites.Owner))
			both.fails(5, "copy", "--max-parallel-copy-operations=1")
			gate.Heal()
			both.succeeds("copy")
			dir, err := at.restore()
			if err != nil {
				t.Fatal(err)
			}
			on := *w
			on.t, on.place = t, at
			on.check(dir, last)
			if got := fmt.Sprint(at.list().Findings); strings.Contains(got, "warning") || strings.Contains(got, "danger") {
				t.Errorf("findings %s", got)
			}
		})
	}
}
