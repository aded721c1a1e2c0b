package member

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/internal/backup/snapshot"
)

// enableAuth makes etcd want the user root with the password secret.
func enableAuth(t *testing.T, client *clientv3.Client) {
	t.Helper()
	for _, step := range []func() error{
		func() error { _, err := client.UserAdd(t.Context(), "root", "secret"); return err },
		func() error { _, err := client.UserGrantRole(t.Context(), "root", "root"); return err },
		func() error { _, err := client.AuthEnable(t.Context()); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAUserAdministersAClusterWithAuthentication(t *testing.T) {
	t.Parallel()
	nodes, plain := startCluster(t, 2, calm)
	leaderOf(t, plain, nodes...)
	root := Config{Username: "root", Password: "secret"}
	c := clusterOf(t, root, nodes...)
	if _, err := c.Members(t.Context()); err != nil {
		t.Fatalf("a user where etcd wants none yet: %v", err)
	}
	enableAuth(t, nodes[0].member(plain).client)
	for _, n := range nodes {
		until(t, n.cfg.Name+" wants a user", func() error {
			if _, err := n.member(plain).Status(t.Context()); !errors.Is(err, ErrForbidden) {
				return errors.Join(errors.New("it does not yet"), err)
			}
			return nil
		})
	}
	for name, change := range changes(plain) {
		is(t, "without a user: "+name, change(t.Context()), ErrForbidden)
	}
	for name, change := range changes(clusterOf(t, Config{Username: "root", Password: "wrong"}, nodes...)) {
		is(t, "with a wrong password: "+name, change(t.Context()), ErrForbidden)
	}

	var p Peer
	learner := join(t, "etcd-2", calm, func(n *node) { p = addLearner(t, c, n) }, nodes...)
	var st Status
	until(t, "the learner knows that etcd wants a user", func() (err error) {
		st, err = learner.member(clusterOf(t, Config{}, learner)).Status(t.Context())
		if errors.Is(err, ErrForbidden) {
			return nil
		}
		return errors.Join(errors.New("it does not yet"), err)
	})
	// It logs nobody in, but takes what the others give to a cluster that knows one of them.
	for name, cluster := range map[string]*Cluster{"with a token": c, "without a token": clusterOf(t, root, learner, nodes[0])} {
		if st = learner.status(cluster); !st.Learner || st.MemberID != p.ID {
			t.Fatalf("status of the learner, %s: %+v", name, st)
		}
	}
	_, err := learner.member(clusterOf(t, root, learner)).Status(t.Context())
	is(t, "the status of a learner when nobody can log in", err, ErrLearner)
	_, err = learner.member(clusterOf(t, Config{Username: "root", Password: "wrong"}, learner, nodes[0])).Status(t.Context())
	is(t, "the status of a learner with a wrong password", err, ErrForbidden)

	until(t, "the learner is promoted", func() error {
		err := c.Promote(t.Context(), p.ID)
		if err != nil && !errors.Is(err, ErrLearnerNotReady) {
			t.Fatal(err)
		}
		return err
	})
	if _, err := c.Alarms(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.UpdatePeerURLs(t.Context(), p.ID, learner.peerURLs()); err != nil {
		t.Error(err)
	}
	if err := learner.member(c).Defragment(t.Context()); err != nil {
		t.Error(err)
	}
	leader, followers := leaderOf(t, c, append(nodes, learner)...)
	if err := leader.member(c).MoveLeader(t.Context(), followers[0].id); err != nil {
		t.Error(err)
	}
	until(t, "the member is removed", func() error {
		err := c.Remove(t.Context(), p.ID)
		if err != nil && !errors.Is(err, ErrUnhealthy) {
			t.Fatal(err)
		}
		return err
	})
}

func TestATokenThatEtcdForgotIsRenewed(t *testing.T) {
	t.Parallel()
	nodes, plain := startCluster(t, 1, nil)
	n := nodes[0]
	last := put(t, n.member(plain).client, "a", "1")
	enableAuth(t, n.member(plain).client)
	c := clusterOf(t, Config{Username: "root", Password: "secret"}, n)
	m := n.member(c)
	if _, err := m.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.login.current() == "" {
		t.Fatal("nobody logged in")
	}
	n.stop() // its tokens are in memory
	n.launch()
	n.ready()
	until(t, "the member is connected again", func() error {
		_, err := m.Revision(t.Context())
		if err != nil && !errors.Is(err, ErrUnreachable) {
			t.Fatal(err)
		}
		return err
	})

	for name, token := range map[string]string{"none": "", "a forgotten one": "forgotten.1"} {
		c.login.token = token
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := m.WatchAll(ctx, last, WatchPace{}, func(b Batch) error {
			if len(b.Events) > 0 && snapshot.Revision(b.Events[0].Kv.ModRevision) == last {
				return enough
			}
			return nil
		})
		cancel()
		is(t, "watch with "+name, err, enough)
		c.login.token = token
		body, _, err := m.Snapshot(t.Context())
		if err != nil {
			t.Fatalf("snapshot with %s: %v", name, err)
		}
		body.Close()
	}
}

// With the token it has, a member can be asked when the majority that logs in is gone.
func TestATokenOutlivesTheMajority(t *testing.T) {
	t.Parallel()
	nodes, plain := startCluster(t, 2, calm)
	leaderOf(t, plain, nodes...)
	enableAuth(t, nodes[0].member(plain).client)
	c := clusterOf(t, Config{Username: "root", Password: "secret", DialTimeout: 15 * time.Second}, nodes...)
	until(t, "both members know the user", func() error {
		for _, n := range nodes {
			if _, err := n.member(c).Status(t.Context()); err != nil {
				return err
			}
		}
		return nil
	})
	nodes[1].stop()
	until(t, "the member has no leader", func() error {
		if st := nodes[0].status(c); st.Leader != 0 {
			return errors.New("it has")
		}
		return nil
	})
	_, err := c.Members(t.Context())
	is(t, "list the members without a majority", err, ErrNoLeader)
	late := clusterOf(t, Config{Username: "root", Password: "secret", DialTimeout: 20 * time.Second}, nodes[0])
	_, err = nodes[0].member(late).Status(t.Context())
	is(t, "log in without a majority", err, ErrNoLeader)
}

func TestManyQuestionsLogInOnce(t *testing.T) {
	t.Parallel()
	nodes, plain := startCluster(t, 1, nil)
	enableAuth(t, nodes[0].member(plain).client)
	c := clusterOf(t, Config{Username: "root", Password: "secret"}, nodes...)
	m := nodes[0].member(c)
	before := nodes[0].etcd.Server.CommittedIndex()
	const questions = 20
	answers := make(chan error, questions)
	for range questions {
		go func() {
			_, err := pb.NewMaintenanceClient(m.client.ActiveConnection()).Status(t.Context(), &pb.StatusRequest{})
			answers <- err
		}()
	}
	for range questions {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	// A login is one entry in the log of all members, a status none.
	if entries := nodes[0].etcd.Server.CommittedIndex() - before; entries > 2 {
		t.Fatalf("%d entries for %d questions, want those of one login", entries, questions)
	}
}

// TestAUserInFilesIsReadAtEachLogin as files of a Secret are replaced: the name stays, the password changes.
func TestAUserInFilesIsReadAtEachLogin(t *testing.T) {
	t.Parallel()
	nodes, plain := startCluster(t, 1, nil)
	n := nodes[0]
	dir := t.TempDir()
	user, password := filepath.Join(dir, "username"), filepath.Join(dir, "password")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{UsernameFile: user, PasswordFile: password}
	root := clusterOf(t, Config{Username: "root", Password: "secret"}, n)
	c := clusterOf(t, cfg, n)
	if _, err := c.Members(t.Context()); err != nil {
		t.Fatalf("without files where etcd wants no user: %v", err)
	}
	enableAuth(t, n.member(plain).client)
	_, err := c.Members(t.Context())
	is(t, "without files", err, ErrForbidden)
	write(user, "root\n")
	write(password, "")
	_, err = c.Members(t.Context())
	is(t, "with an empty password", err, ErrForbidden)
	write(password, "secret\n")
	if _, err := c.Members(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.member(root).client.Auth.UserChangePassword(t.Context(), "root", "changed"); err != nil {
		t.Fatal(err)
	}
	_, err = c.Members(t.Context())
	is(t, "with the former password", err, ErrForbidden)
	write(password, "changed")
	if _, err := c.Members(t.Context()); err != nil {
		t.Error(err)
	}
	if err := (Config{Endpoints: []string{"http://a:1"}, InsecureTransport: true, UsernameFile: user}).Validate(); err == nil || !strings.Contains(err.Error(), "belong together") {
		t.Errorf("a name without a password: %v", err)
	}
	cfg.Endpoints, cfg.InsecureTransport, cfg.Username, cfg.Password = []string{"http://a:1"}, true, "root", "secret"
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "one of the two") {
		t.Errorf("two users: %v", err)
	}
}
