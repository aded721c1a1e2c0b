package member

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"

	"druid.internal/druid/internal/hosttest"
)

// raise raises the alarm of corruption for a member.
func raise(t *testing.T, m *Member, id uint64) {
	t.Helper()
	if _, err := pb.NewMaintenanceClient(m.client.ActiveConnection()).Alarm(t.Context(), &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, MemberID: id, Alarm: pb.AlarmType_CORRUPT,
	}); err != nil {
		t.Fatal(err)
	}
}

// changes are all questions that need a majority.
func changes(c *Cluster) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"list": func(ctx context.Context) error { _, err := c.Members(ctx); return err },
		"add": func(ctx context.Context) error {
			_, err := c.AddLearner(ctx, []string{"http://127.0.0.1:1"})
			return err
		},
		"promote": func(ctx context.Context) error { return c.Promote(ctx, 4711) },
		"remove":  func(ctx context.Context) error { return c.Remove(ctx, 4711) },
		"update":  func(ctx context.Context) error { return c.UpdatePeerURLs(ctx, 4711, []string{"http://127.0.0.1:1"}) },
		"alarms":  func(ctx context.Context) error { _, err := c.Alarms(ctx); return err },
		"disarm":  func(ctx context.Context) error { return c.Disarm(ctx, Alarm{4711, AlarmNoSpace}) },
	}
}

func TestWithoutAMajorityEveryChangeFailsInTimeAndMembersStillTellWhatTheyKnow(t *testing.T) {
	t.Parallel()
	nodes, all := startCluster(t, 3, nil)
	var want Membership
	until(t, "the members are listed", func() (err error) { want, err = all.Members(t.Context()); return err }) // their first leader may not last
	_, followers := leaderOf(t, all, nodes...)
	last := followers[0]
	for _, n := range nodes {
		if n != last {
			n.stop()
		}
	}
	const timeout = 3 * time.Second
	c := clusterOf(t, Config{DialTimeout: timeout}, nodes...)
	// At once the follower may still believe in its leader, later it does not: both count.
	for _, state := range []string{"just lost", "known to be lost"} {
		for name, change := range changes(c) {
			start := time.Now()
			err := change(t.Context())
			if state == "just lost" && (name == "promote" && errors.Is(err, ErrMemberNotFound) || name == "add" && errors.Is(err, ErrUnhealthy)) {
				continue // the one that is left was elected in between: a leader refuses by itself what it knows better
			}
			is(t, state+": "+name, err, ErrNoLeader)
			if errors.Is(err, ErrUnreachable) {
				t.Errorf("%s: %s: %v is ErrUnreachable, though a member answers", state, name, err)
			}
			if took := time.Since(start); took > 3*timeout {
				t.Errorf("%s: %s took %s, with a timeout of %s", state, name, took, timeout)
			}
		}
		until(t, "the member knows that its leader is gone", func() error {
			if st := last.status(c); st.Leader != 0 {
				return fmt.Errorf("leader %x", st.Leader)
			}
			return nil
		})
	}
	local, err := last.member(c).Members(t.Context())
	if err != nil || len(local.Peers) != 3 || local.ClusterID != want.ClusterID || local.Leader != 0 {
		t.Fatalf("members as the last one knows them: %+v (%v)", local, err)
	}
	p, _ := local.ByID(last.id)
	if _, st, err := c.Reach(t.Context(), p); err != nil || st.Leader != 0 {
		t.Fatalf("reach the last member: %+v %v", st, err)
	}
	p.ID++
	_, _, err = c.Reach(t.Context(), p)
	is(t, "reach a member where another answers", err, ErrUnreachable)

	last.stop()
	for name, change := range changes(c) {
		is(t, "nobody runs: "+name, change(t.Context()), ErrUnreachable)
	}
	brief, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	for name, change := range changes(c) {
		is(t, "nobody runs, and there is little time: "+name, change(brief), ErrUnreachable)
	}
	last.launch() // nobody is there to elect it
	_, err = last.member(c).Status(t.Context())
	is(t, "the status of a member that was started without a majority", err, ErrUnreachable)

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, change := range changes(c) {
		is(t, "cancelled: "+name, change(cancelled), context.Canceled)
	}
}

func TestALeaderThatIsBelievedInButDeadIsNoLeader(t *testing.T) {
	t.Parallel()
	nodes, all := startCluster(t, 2, func(cfg *embed.Config) { cfg.TickMs, cfg.ElectionMs = 400, 4000 })
	leader, followers := leaderOf(t, all, nodes...)
	c := clusterOf(t, Config{DialTimeout: 1500 * time.Millisecond}, followers...)
	until(t, "the members are listed", func() error { _, err := c.Members(t.Context()); return err })
	leader.etcd.Server.HardStop() // without a word to the other one, which votes after 4 s at the earliest
	believed := followers[0].status(c).Leader
	for name, timeout := range map[string]time.Duration{"the configured time": time.Hour, "the caller's time": time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		_, err := c.Members(ctx)
		cancel()
		is(t, "list the members within "+name, err, ErrNoLeader)
		if errors.Is(err, ErrUnreachable) {
			t.Errorf("%v is ErrUnreachable, though a member answers", err)
		}
	}
	if believed != leader.id {
		t.Fatalf("the follower follows %x already, want that it still believes in %x", believed, leader.id)
	}
}

func TestADeadOrSilentEndpointDoesNotDelayTheOthers(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	nodes, all := startCluster(t, 1, nil)
	c, err := New(Config{
		Endpoints:         []string{"http://" + silent.Addr().String(), "http://" + hosttest.Nobody(), nodes[0].client()},
		InsecureTransport: true, DialTimeout: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if ms, err := c.Members(ctx); err != nil || ms.Leader != nodes[0].id {
		t.Fatalf("%+v %v", ms, err)
	}
	m, err := all.At(nodes[0].client())
	if again, _ := all.At(nodes[0].client()); err != nil || m != again {
		t.Fatalf("one endpoint has two members: %v", err)
	}
}

func TestAnEndpointThatDisagreesOnTLSIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		configured, asked string
		want              error
	}{
		"plain text among TLS": {"https://a:1", "http://b:1", ErrConfig},
		"TLS among plain text": {"http://a:1", "https://b:1", ErrConfig},
		"no URL":               {"http://a:1", "", ErrConfig},
		"a password":           {"https://a:1", "https://root:secret@b:1", ErrConfig},
		"both in plain text":   {"http://a:1", "http://b:1", nil},
		"both with TLS":        {"https://a:1", "https://b:1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, err := New(Config{Endpoints: []string{c.configured}, InsecureTransport: true})
			if err != nil {
				t.Fatal(err)
			}
			defer cluster.Close()
			m, err := cluster.At(c.asked)
			if !errors.Is(err, c.want) || (m == nil) != (c.want != nil) {
				t.Fatalf("%v %v, want %v", m, err, c.want)
			}
		})
	}
}

func TestSeveralFailuresAreUnreachableOnlyIfAllAre(t *testing.T) {
	t.Parallel()
	gone, lost := fmt.Errorf("a: %w", ErrUnreachable), fmt.Errorf("b: %w", ErrNoLeader)
	for name, c := range map[string]struct {
		err               error
		unreachable, lost bool
	}{
		"all gone":           {several{gone, gone}, true, false},
		"one without leader": {several{gone, lost}, false, true},
		"none gone":          {several{lost, lost}, false, true},
	} {
		if errors.Is(c.err, ErrUnreachable) != c.unreachable || errors.Is(c.err, ErrNoLeader) != c.lost {
			t.Errorf("%s: unreachable %v, no leader %v", name, errors.Is(c.err, ErrUnreachable), errors.Is(c.err, ErrNoLeader))
		}
	}
	if text := (several{gone, lost}).Error(); text != gone.Error()+"; "+lost.Error() {
		t.Errorf("text %q", text)
	}
}
