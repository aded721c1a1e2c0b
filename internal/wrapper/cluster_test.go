package wrapper

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/raft/v3/tracker"

	"druid.internal/druid/internal/wrapper/wrappertest"
)

// threeMembers is a running cluster of three wrappers.
func threeMembers(t *testing.T) []*running {
	t.Helper()
	var rs []*running
	ms := wrappertest.Members(t, 3)
	for _, m := range ms {
		rs = append(rs, prepared(t, m, ms).start(t))
	}
	for _, r := range rs {
		r.awaitReady(t)
	}
	return rs
}

// awaitLeader is the number of the member that leads as the first one sees it.
func awaitLeader(t *testing.T, rs []*running) (n int) {
	t.Helper()
	eventually(t, "somebody leads", func() bool { n = leader(t, rs, 0); return n >= 0 })
	return n
}

// leader is the number of the member that leads as member i sees it, or -1.
func leader(t *testing.T, rs []*running, i int) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s, err := rs[i].Client(t).Status(ctx, rs[i].Endpoint())
	if err != nil || s.Leader == 0 {
		return -1
	}
	list, err := rs[i].Client(t).MemberList(ctx)
	if err != nil {
		return -1
	}
	for _, m := range list.Members {
		for n, r := range rs {
			if m.ID == s.Leader && m.Name == r.Name {
				return n
			}
		}
	}
	return -1
}

func TestAnotherMemberLeadsBeforeTheLeaderEnds(t *testing.T) {
	rs := threeMembers(t)
	var written atomic.Int64
	ctx, end := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	first := awaitLeader(t, rs)
	other := (first + 1) % 3
	c := rs[other].Client(t)
	writer.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			// While leadership changes hands a leader drops what is proposed to it.
			if _, err := c.Put(ctx, fmt.Sprintf("key-%d", n), "v"); err == nil {
				written.Add(1)
			}
		}
	})
	defer writer.Wait()
	defer end()
	eventually(t, "writes go on", func() bool { return written.Load() > 10 })
	if err := rs[first].stop(t, Terminated); err != nil {
		t.Fatal(err)
	}
	// Nothing waits here: the moment the old one has ended another one knows that it leads. The third may learn it later.
	leads := func(r *running) bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s, err := r.Client(t).Status(ctx, r.Endpoint())
		if err != nil {
			t.Fatal(err)
		}
		return s.Leader == s.Header.MemberId
	}
	if !leads(rs[other]) && !leads(rs[(first+2)%3]) {
		t.Errorf("nobody leads after the end of the leader %d", first)
	}
	after := written.Load()
	eventually(t, "writes go on without the old leader", func() bool { return written.Load() > after+10 })
	rs[first].start(t).awaitReady(t)
}

func TestALostQuorumMakesAMemberUnreadyAndKeepsItAlive(t *testing.T) {
	rs := threeMembers(t)
	for _, r := range rs[1:] {
		if err := r.stop(t, Terminated); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "/readyz is 503", func() bool { code, _ := rs[0].ask("GET", "/readyz", ""); return code == http.StatusServiceUnavailable })
	if code, text := rs[0].ask("GET", "/livez", ""); code != http.StatusOK {
		t.Errorf("/livez without a quorum: %d %s", code, text)
	}
	// A member that comes up without a quorum never serves: it is alive, and can be stopped.
	if err := rs[0].stop(t, Terminated); err != nil {
		t.Fatal(err)
	}
	rs[0].start(t)
	eventually(t, "etcd waits for a leader", func() bool {
		code, text := rs[0].ask("GET", "/readyz", "")
		return code == http.StatusServiceUnavailable && strings.Contains(text, "waits for a leader")
	})
	if code, text := rs[0].ask("GET", "/livez", ""); code != http.StatusOK {
		t.Errorf("/livez of a member that waits for others: %d %s", code, text)
	}
	rs[1].start(t).awaitReady(t)
	rs[0].awaitReady(t)
}

func TestARemovedMemberEnds(t *testing.T) {
	rs := threeMembers(t)
	first := awaitLeader(t, rs)
	victim := (first + 1) % 3
	c := rs[first].Client(t)
	list, err := c.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Members {
		if m.Name != rs[victim].Name {
			continue
		}
		eventually(t, "the member is removed", func() bool { _, err := c.MemberRemove(t.Context(), m.ID); return err == nil })
	}
	err = rs[victim].wait(t)
	if err == nil || !strings.Contains(err.Error(), "was removed from the cluster") {
		t.Errorf("%v", err)
	}
	if got := rs[victim].exitCode(t); got != "" {
		t.Errorf("exit code %q", got)
	}
}

func TestALearnerServesNoClients(t *testing.T) {
	ms := wrappertest.Members(t, 2)
	sole := prepared(t, ms[0], ms[:1]).start(t)
	sole.awaitReady(t)
	if _, err := sole.Client(t).MemberAddAsLearner(t.Context(), []string{ms[1].PeerURL()}); err != nil {
		t.Fatal(err)
	}
	l := prepared(t, ms[1], ms)
	l.sidecar.Config(strings.Replace(ms[1].Config(ms), "initial-cluster-state: new", "initial-cluster-state: existing", 1))
	l.start(t)
	eventually(t, "the learner says that it is one", func() bool {
		code, text := l.ask("GET", "/readyz", "")
		return code == http.StatusServiceUnavailable && strings.Contains(text, "learner")
	})
	if code, text := l.ask("GET", "/livez", ""); code != http.StatusOK {
		t.Errorf("/livez: %d %s", code, text)
	}
	list, err := sole.Client(t).MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Members {
		if m.IsLearner {
			eventually(t, "the learner is promoted", func() bool { _, err := sole.Client(t).MemberPromote(t.Context(), m.ID); return err == nil })
		}
	}
	l.awaitReady(t)
}

func TestTheMemberThatIsFurthestLeadsNext(t *testing.T) {
	seen := map[uint64]tracker.Progress{
		1: {Match: 100, RecentActive: true},
		2: {Match: 90, RecentActive: true},
		3: {Match: 99, RecentActive: true},
		4: {Match: 100, RecentActive: false},
		5: {Match: 99, RecentActive: true},
	}
	if diff := cmp.Diff([]uint64{3, 5, 2, 4}, successors(1, []uint64{5, 4, 3, 2, 1}, seen)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]uint64{2, 3}, successors(1, []uint64{3, 2, 1}, nil)); diff != "" {
		t.Errorf("nothing known (-want +got):\n%s", diff)
	}
	if got := successors(1, []uint64{1}, seen); len(got) > 0 {
		t.Errorf("a sole member hands over to %v", got)
	}
}
