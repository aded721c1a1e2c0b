package e2e

import (
	"slices"
	"strings"
	"testing"

	"druid.internal/druid/test/stores"
)

// A CronJob or timer runs etcdbrctl snapshot --once: exit code 0 means exactly one more verified full.
func TestSnapshotOnceTakesOneVerifiedFull(t *testing.T) {
	w := newWorld(t, 41, 20)
	w.useLocal(t.TempDir())
	endpoint := "--endpoints=" + w.etcd.Endpoint()
	names := func() (all []string) {
		for _, l := range w.list().Lineages {
			for _, s := range l.Snapshots {
				all = append(all, s.Name)
			}
		}
		return all
	}
	for want := 1; want <= 2; want++ {
		last := w.write(30)
		name := strings.TrimSpace(w.succeeds("snapshot", "--once", endpoint))
		if got := names(); len(got) != want || !slices.Contains(got, name) {
			t.Errorf("run %d printed %s, and the bucket has %q", want, name, got)
		}
		dir, result := w.mustRestore("--snapshot=" + name)
		if result.Revision < last {
			t.Errorf("restored revision %d, want at least %d", result.Revision, last)
		}
		w.check(dir, result.Revision)
	}
	says(t, w.fails(2, "snapshot", "--once", endpoint, "--delta-snapshot-period=1s"), "--once contradicts --delta-snapshot-period")
	says(t, w.fails(5, "snapshot", "--once", "--endpoints=http://127.0.0.1:1", "--backoff-attempt-limit=1"), "cannot be reached")

	other := stores.RunEtcd(t, stores.EtcdOptions{})
	says(t, w.fails(3, "snapshot", "--once", "--endpoints="+other.Endpoint()), "owned by another writer")
	if got := names(); len(got) != 2 {
		t.Errorf("runs that failed left %q", got)
	}
}
