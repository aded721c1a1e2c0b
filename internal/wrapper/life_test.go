package wrapper

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/wrapper/wrappertest"
)

func sole(t *testing.T, further ...string) *running {
	t.Helper()
	ms := wrappertest.Members(t, 1)
	return prepared(t, ms[0], ms, further...)
}

// withoutStatus are the calls that a sidecar got but for the questions for its status.
func withoutStatus(calls []string) []string {
	return slices.DeleteFunc(slices.Clone(calls), func(c string) bool { return c == "initialization/status" })
}

func TestAMemberGoesThroughInitializationBeforeEveryStart(t *testing.T) {
	r := sole(t).start(t)
	r.awaitReady(t)
	if got := r.exitCode(t); got != "" {
		t.Errorf("the exit code is %q while etcd runs", got)
	}
	c := r.Client(t)
	r.put(t, c, "before")

	if code, text := r.ask("POST", "/restart", token); code != http.StatusOK {
		t.Fatalf("restart: %d %s", code, text)
	}
	configured := func(times int) func([]string) bool {
		return func(calls []string) bool {
			n := 0
			for _, call := range calls {
				if call == "config" {
					n++
				}
			}
			return n >= times
		}
	}
	r.sidecar.Await(t, configured(2))
	r.awaitReady(t)
	r.has(t, c, "before")
	r.put(t, c, "between")

	if err := r.stop(t, Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := r.exitCode(t); got != "interrupt" {
		t.Errorf("exit code %q", got)
	}
	if code, _ := r.ask("GET", "/livez", ""); code != 0 {
		t.Errorf("probes are answered with %d after the end", code)
	}
	r.start(t).awaitReady(t)
	if got := r.exitCode(t); got != "" {
		t.Errorf("the exit code is still %q while etcd runs", got)
	}
	r.has(t, c, "between")
	if code, text := r.ask("POST", "/stop", token); code != http.StatusOK {
		t.Fatalf("stop: %d %s", code, text)
	}
	if err := r.wait(t); err != nil {
		t.Fatal(err)
	}
	if got := r.exitCode(t); got != "terminated" {
		t.Errorf("exit code %q", got)
	}
	want := []string{
		"initialization/start?mode=full", "config",
		"initialization/acknowledge", "initialization/start?mode=sanity", "config",
		"initialization/acknowledge", "initialization/start?mode=sanity", "config",
	}
	if diff := cmp.Diff(want, withoutStatus(r.sidecar.Calls())); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestFilesAreForTheirOwnerAlone(t *testing.T) {
	r := sole(t).start(t)
	r.awaitReady(t)
	if err := r.stop(t, Terminated); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(r.DataDir(), "member", "snap", "db")
	dir := filepath.Dir(db)
	if err := os.Chmod(db, 0o644); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	r.start(t).awaitReady(t)
	if err := r.stop(t, Terminated); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(dir)
	if err != nil || after.Mode() != before.Mode() {
		t.Errorf("the directory had mode %s and has %s, %v", before.Mode(), after.Mode(), err)
	}
	for _, path := range []string{db, r.ConfigFile(), r.ExitCodeFile()} {
		if i, err := os.Stat(path); err != nil || i.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, i.Mode(), err)
		}
	}
}

func TestAnEtcdThatFailsToStartEndsTheProcessWithOneLine(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(*testing.T, *running)
		want    string
	}{
		"the port of clients is taken": {func(t *testing.T, r *running) {
			l, err := net.Listen("tcp", r.Host+":2379")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, "address already in use"},
		"the port of probes is taken": {func(t *testing.T, r *running) {
			l, err := net.Listen("tcp", r.Host+":9095")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, "9095: bind: address already in use"},
		"a value that etcd does not take": {func(t *testing.T, r *running) {
			r.sidecar.Config(r.Config([]wrappertest.Member{r.Member}, "auto-compaction-mode: sometimes"))
		}, "auto-compaction-mode"},
		"a value of the wrong kind": {func(t *testing.T, r *running) {
			r.sidecar.Config(r.Config([]wrappertest.Member{r.Member}, "experimental-compact-hash-check-enabled:"))
		}, "etcd.conf.yaml: a value is of the wrong kind"},
		"a cluster that is not there to be joined": {func(t *testing.T, r *running) {
			ms := wrappertest.Members(t, 2)
			r.sidecar.Config(strings.Replace(r.Config([]wrappertest.Member{r.Member, ms[0]}), "initial-cluster-state: new", "initial-cluster-state: existing", 1))
		}, "cannot fetch cluster info"},
		"a place for the configuration that is none": {func(t *testing.T, r *running) {
			r.options.ConfigFile = filepath.Join(r.Dir, "none", "etcd.conf.yaml")
		}, "write etcd's configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			r := sole(t)
			c.arrange(t, r)
			err := r.start(t).wait(t)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(strings.TrimSpace(err.Error()), "\n") {
				t.Errorf("error %v, want one line with %q", err, c.want)
			}
			if got := r.exitCode(t); got != "" {
				t.Errorf("exit code %q", got)
			}
		})
	}
}

func TestAStopWhileTheSidecarWorksChangesNothing(t *testing.T) {
	r := sole(t)
	r.sidecar.Outcome(func(int) agentapi.InitState { return agentapi.InitProgress })
	if err := os.WriteFile(r.ExitCodeFile(), []byte("terminated"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.start(t)
	r.sidecar.Await(t, func(calls []string) bool { return slices.Contains(calls, "initialization/start?mode=sanity") })
	if err := r.stop(t, Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := r.exitCode(t); got != "terminated" {
		t.Errorf("exit code %q: the one of the last run of etcd is gone", got)
	}
}

func TestAMemberThatIsNotReadyInTimeEnds(t *testing.T) {
	ms := wrappertest.Members(t, 3)
	r := prepared(t, ms[0], ms)
	r.options.ReadyTimeout = 300 * time.Millisecond
	err := r.start(t).wait(t)
	if err == nil || !strings.Contains(err.Error(), "not ready within 300ms") {
		t.Errorf("%v", err)
	}
	if got := r.exitCode(t); got != "" {
		t.Errorf("exit code %q", got)
	}
}

func TestAMemberWithUsersIsReady(t *testing.T) {
	r := sole(t).start(t)
	r.awaitReady(t)
	c := r.Client(t)
	if _, err := c.UserAdd(t.Context(), "root", "secret"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.UserGrantRole(t.Context(), "root", "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AuthEnable(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.stop(t, Terminated); err != nil {
		t.Fatal(err)
	}
	r.start(t).awaitReady(t) // by reads of a life that knew users from the start
	if code, text := r.ask("GET", "/livez", ""); code != http.StatusOK {
		t.Errorf("/livez: %d %s", code, text)
	}
}

func TestDataThatEtcdMustNotBeStartedOnAreLeftAlone(t *testing.T) {
	r := sole(t).start(t)
	r.awaitReady(t)
	if err := r.stop(t, Terminated); err != nil {
		t.Fatal(err)
	}
	// As etcd 3.4 leaves it: without a term.
	path := filepath.Join(r.DataDir(), "member", "snap", "db")
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		meta := tx.Bucket([]byte("meta"))
		return errors.Join(meta.Delete([]byte("storageVersion")), meta.Delete([]byte("term")))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.start(t).wait(t); !errors.Is(err, datadir.ErrTooOld) {
		t.Errorf("%v, want ErrTooOld", err)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the database was changed, %v", err)
	}
	if got := r.exitCode(t); got != "terminated" {
		t.Errorf("exit code %q: etcd did not run", got)
	}
}
