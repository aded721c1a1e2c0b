package e2e

import (
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/test/stores"
)

// TestRestoredUsersAreThoseOfEtcd changes users after a full, with authentication and without.
func TestRestoredUsersAreThoseOfEtcd(t *testing.T) {
	t.Parallel()
	for name, enabled := range map[string]bool{"authentication off": false, "authentication on": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, 20)
			w.useLocal(t.TempDir())
			must := func(_ any, err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(w.client.UserAdd(t.Context(), "bk", "old"))
			rev := w.write(20)
			args := []string{"--data-dir=" + w.etcd.DataDir()}
			admin := w.client
			if enabled {
				must(w.client.UserAdd(t.Context(), "root", "secret"))
				must(w.client.UserGrantRole(t.Context(), "root", "root"))
				must(w.client.AuthEnable(t.Context()))
				args = append(args, "--etcd-username=root", "--etcd-password=secret")
				admin = connectAs(t, w.etcd, "root", "secret")
			}
			r := w.snapshot(args...)
			w.uploaded(r, rev)
			must(admin.UserAdd(t.Context(), "late", "new"))
			must(admin.UserDelete(t.Context(), "bk"))
			done, err := admin.Put(t.Context(), "after", "1")
			must(done, err)
			w.uploaded(r, done.Header.Revision)
			r.stop()

			dir, _ := w.mustRestore()
			e := stores.RunEtcd(t, stores.EtcdOptions{DataDir: dir})
			restored := connect(t, e)
			want := []string{"late"}
			if enabled {
				restored, want = connectAs(t, e, "root", "secret"), []string{"late", "root"}
			}
			list, err := restored.UserList(t.Context())
			must(list, err)
			if slices.Sort(list.Users); !slices.Equal(list.Users, want) {
				t.Errorf("users %v are restored, want %v", list.Users, want)
			}
		})
	}
}

// connectAs is connect with a user's name and password.
func connectAs(t *testing.T, e *stores.Etcd, user, password string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), Username: user, Password: password, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
