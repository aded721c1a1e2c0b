package e2e

import (
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/test/stores"
)

// TestDeletionAtCompactedRevisionStaysDeleted deletes a key while the snapshotter does not watch, and
// compacts at the revision of the deletion. etcd 3.5.12 then leaves the deletion out of the watch
// that resumes there.
func TestDeletionAtCompactedRevisionStaysDeleted(t *testing.T) {
	t.Parallel()
	shapes := map[string][]clientv3.Op{
		"a put and a deletion": {clientv3.OpPut("a", "1"), clientv3.OpDelete("b")},
		"a deletion":           {clientv3.OpDelete("b")},
	}
	for shape, ops := range shapes {
		for _, way := range []string{"restarted", "reconnected"} {
			t.Run(shape+", "+way, func(t *testing.T) {
				t.Parallel()
				w := newWorldWith(t, stores.EtcdOptions{Server: "etcd-3.5.12"}, 1, 20)
				w.useLocal(t.TempDir())
				if _, err := w.client.Put(t.Context(), "b", "1"); err != nil {
					t.Fatal(err)
				}
				rev := w.write(20)
				snapshot := func() *running { return w.snapshot("--data-dir=" + w.etcd.DataDir()) }
				r := snapshot()
				w.uploaded(r, rev)

				if way == "restarted" {
					r.stop()
				} else { // the connection breaks while the process is suspended
					r.cmd.Process.Signal(syscall.SIGSTOP)
					w.etcd.Members[0].Kill()
					if err := w.etcd.Members[0].Start(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				done, err := w.client.Txn(t.Context()).Then(ops...).Commit()
				if err != nil {
					t.Fatal(err)
				}
				if err := w.history.Reach(done.Header.Revision); err != nil {
					t.Fatal(err)
				}
				if _, err := w.client.Compact(t.Context(), done.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
					t.Fatal(err)
				}
				if way == "restarted" {
					r = snapshot()
				} else {
					r.cmd.Process.Signal(syscall.SIGCONT)
				}
				rev = w.write(20)
				w.uploaded(r, rev)
				r.stop()
				dir, _ := w.mustRestore()
				w.check(dir, rev)
			})
		}
	}
}
