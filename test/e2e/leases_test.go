package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/test/stores"
)

// grants are the leases of an etcd with their granted seconds.
func grants(t *testing.T, c *clientv3.Client) map[int64]int64 {
	t.Helper()
	all, err := c.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	granted := map[int64]int64{}
	for _, l := range all.Leases {
		ttl, err := c.TimeToLive(t.Context(), l.ID)
		if err != nil {
			t.Fatal(err)
		}
		if granted[int64(l.ID)] = ttl.GrantedTTL; ttl.TTL > ttl.GrantedTTL {
			t.Errorf("lease %x has %d s left of %d", l.ID, ttl.TTL, ttl.GrantedTTL)
		}
	}
	return granted
}

// TestLeasesAreRestoredAsLive revokes leases and grants them again under the same ids, of servers of both
// versions and in both encodings of deltas, and compares what a restored etcd answers.
func TestLeasesAreRestoredAsLive(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"", "etcd-3.5"} {
		for _, format := range []string{"native", "v2-json"} {
			t.Run(fmt.Sprint("etcd", server, " ", format), func(t *testing.T) {
				t.Parallel()
				w := newWorldWith(t, stores.EtcdOptions{Server: server}, 7, 20)
				w.useLocal(t.TempDir())
				grant := func(id, ttl int64) {
					t.Helper()
					if _, err := pb.NewLeaseClient(w.client.ActiveConnection()).LeaseGrant(context.Background(), &pb.LeaseGrantRequest{ID: id, TTL: ttl}); err != nil {
						t.Fatal(err)
					}
				}
				revoke := func(id int64) {
					t.Helper()
					if _, err := w.client.Revoke(context.Background(), clientv3.LeaseID(id)); err != nil {
						t.Fatal(err)
					}
				}
				put := func(key string, id int64) int64 {
					t.Helper()
					r, err := w.client.Put(context.Background(), key, "x", clientv3.WithLease(clientv3.LeaseID(id)))
					if err != nil {
						t.Fatal(err)
					}
					return r.Header.Revision
				}
				grant(7, 60)
				grant(8, 3600)
				grant(9, 3600)
				first := put("a", 7)
				r := w.snapshot("--data-dir="+w.etcd.DataDir(), "--snapshot-format="+format)
				w.uploaded(r, first)
				revoke(7)
				grant(7, 86400)
				revoke(8)
				revoke(9)
				grant(9, 77777)
				grant(-5, 5000)
				last := put("b", 7)
				w.uploaded(r, last)
				r.stop()
				want := grants(t, w.client)

				for copied, p := range map[bool]place{false: w.place, true: inDirectory(t, t.TempDir())} {
					if copied {
						p.copyFrom(w.place).succeeds("copy")
						p.succeeds("compact")
					}
					dir, report := p.mustRestore()
					if len(report.LeasesMade) > 0 {
						t.Errorf("nothing tells of the leases %v", report.LeasesMade)
					}
					e := stores.RunEtcd(t, stores.EtcdOptions{Server: server, DataDir: dir})
					if diff := cmp.Diff(want, grants(t, connect(t, e))); diff != "" {
						t.Errorf("copied and compacted: %t: leases (-live +restored):\n%s", copied, diff)
					}
					e.Kill()
				}
				dir, _ := w.mustRestore(fmt.Sprint("--to-revision=", first))
				e := stores.RunEtcd(t, stores.EtcdOptions{Server: server, DataDir: dir})
				got := grants(t, connect(t, e))
				if ids := slices.Sorted(maps.Keys(got)); got[7] != 60 || got[8] != 3600 || got[9] != 3600 || len(ids) != 3 {
					t.Errorf("at the revision of the full there are the leases %v, want 7 of 60 s, 8 and 9 of 3600 s", got)
				}
			})
		}
	}
}
