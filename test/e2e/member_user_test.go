package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/test/members"
)

// TestSidecarsWorkAsTheUserThatEtcdWants switches etcd's authentication on, with the user in files as a Secret is
// mounted. The sidecars go on: deltas are uploaded, and a member that lost its data joins again.
func TestSidecarsWorkAsTheUserThatEtcdWants(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"username": "root", "password": "secret"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := enlist(t, members.Options{Members: 3, Sidecar: func(_ string, config map[string]any) {
		etcd := config["etcdConnectionConfig"].(map[string]any)
		etcd["usernameFile"], etcd["passwordFile"] = filepath.Join(dir, "username"), filepath.Join(dir, "password")
	}}, "")
	c.start()
	c.work(200).wait()
	lost := c.follower()
	for what, step := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := c.client.UserAdd(ctx, "root", "secret"); return err },
		func(ctx context.Context) error { _, err := c.client.UserGrantRole(ctx, "root", "root"); return err },
		func(ctx context.Context) error { _, err := c.client.AuthEnable(ctx); return err },
	} {
		c.await(fmt.Sprintf("step %d to users is taken", what), func(ctx context.Context) error {
			err := step(ctx)
			if errors.Is(err, rpctypes.ErrUserAlreadyExist) || errors.Is(err, rpctypes.ErrUserEmpty) { // it was, and nobody was told
				return nil
			}
			return err
		})
	}
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{c.Others(lost)[0].ClientURL()}, Username: "root", Password: "secret", DialTimeout: 10 * time.Second})
	c.must(err)
	defer root.Close()
	if _, err := c.client.Put(t.Context(), "/load/nobody", "x"); err == nil {
		t.Fatal("etcd wants no user")
	}
	c.upload(c.put(root, "/load/user", "wrote this"))

	c.must(lost.LoseVolume())
	lost.Start()
	c.await(lost.Name+" votes again", func(ctx context.Context) error {
		s, err := lost.State(ctx)
		if err != nil {
			return err
		}
		if s.Etcd == nil || s.Etcd.Learner || !came(s, agentapi.PromotedAsVotingMember) {
			return fmt.Errorf("%+v, waiting: %q", s.Transitions, s.Waiting)
		}
		return lost.Ready(ctx)
	})
	c.upload(c.put(root, "/load/user", "and this"))

	// With another password everybody stops at the door, and goes on when the files have it.
	_, err = root.Auth.UserChangePassword(t.Context(), "root", "changed")
	c.must(err)
	renewed, err := clientv3.New(clientv3.Config{Endpoints: root.Endpoints(), Username: "root", Password: "changed", DialTimeout: 10 * time.Second})
	c.must(err)
	defer renewed.Close()
	last := c.put(renewed, "/load/user", "and that")
	c.await("a sidecar tells that it is refused", func(ctx context.Context) error {
		for _, m := range c.Members() {
			if s, err := m.State(ctx); err == nil && s.Etcd == nil {
				return nil
			}
		}
		return errors.New("all reach their etcds")
	})
	c.must(os.WriteFile(filepath.Join(dir, "password"), []byte("changed"), 0o600))
	c.upload(last)
}
