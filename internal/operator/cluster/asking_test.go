package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"druid.internal/druid/internal/agentapi"
)

// scripted answers for Etcds by their name. An Etcd whose name is in blocks waits for that channel.
type scripted struct {
	blocks map[string]chan struct{}

	entered chan struct{}      // gets one for each question; nil: nobody waits for them
	done    chan time.Duration // gets each order that was carried out

	mu    sync.Mutex
	asked []string
}

func (s *scripted) wait(ctx context.Context, name string) {
	if block := s.blocks[name]; block != nil {
		select {
		case <-block:
		case <-ctx.Done():
		}
	}
}

func (s *scripted) ask(ctx context.Context, o *Observed) map[int]agentapi.Member {
	s.mu.Lock()
	s.asked = append(s.asked, fmt.Sprintf("%s %d", o.Etcd.Name, len(o.Pods)))
	s.mu.Unlock()
	if s.entered != nil {
		s.entered <- struct{}{}
	}
	s.wait(ctx, o.Etcd.Name)
	return map[int]agentapi.Member{0: {Name: "main-0"}}
}

func (s *scripted) refuse(ctx context.Context, o *Observed, d time.Duration) {
	s.wait(ctx, o.Etcd.Name)
	s.done <- d
}

// clock is a time that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func startAsking(t *testing.T, s asker) (*asking, *clock) {
	t.Helper()
	c := &clock{now: testNow}
	a := newAsking(s, c.read, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return a, c
}

// etcdNamed is a cluster of another name, whose members run.
func etcdNamed(t *testing.T, name string, members int32) *Observed {
	o := running(t, members)
	o.Etcd.Name, o.Etcd.UID, o.Sidecars = name, types.UID(name), nil
	return o
}

func TestAnswersAreTakenOnceAndWhileTheyAreFresh(t *testing.T) {
	s := &scripted{}
	a, c := startAsking(t, s)
	o := etcdNamed(t, "main", 1)
	ask := func() {
		t.Helper()
		if a.take(o) {
			t.Fatal("there are answers before anybody was asked")
		}
		if e := <-a.told; e.Object.GetName() != "main" || e.Object.GetNamespace() != "shop" {
			t.Fatalf("the event is about %v", e.Object)
		}
	}
	ask()
	if !a.take(o) || o.Sidecars[0].Name != "main-0" {
		t.Errorf("answers %+v, want that of main-0", o.Sidecars)
	}
	ask() // the answers were used
	c.pass(answersFor + time.Second)
	ask() // they are too old
	o.Pods[0].UID = "another"
	ask() // they are of another pod
	if !a.take(o) {
		t.Error("there are no answers")
	}
}

func TestNobodyIsAskedWithoutPods(t *testing.T) {
	s := &scripted{}
	a, _ := startAsking(t, s)
	if !a.take(empty(newEtcd(3))) || len(s.asked) != 0 {
		t.Errorf("asked %q, want an answer at once", s.asked)
	}
}

// TestSilentMembersDoNotHoldUpOthers has as many Etcds be silent as there were workers ten times over.
func TestSilentMembersDoNotHoldUpOthers(t *testing.T) {
	never := make(chan struct{})
	s := &scripted{blocks: map[string]chan struct{}{}}
	for i := range 50 {
		s.blocks[fmt.Sprintf("silent-%d", i)] = never
	}
	a, _ := startAsking(t, s)
	for name := range s.blocks {
		if a.take(etcdNamed(t, name, 3)) {
			t.Errorf("%s answered", name)
		}
	}
	o := etcdNamed(t, "main", 3)
	a.take(o)
	if e := <-a.told; e.Object.GetName() != "main" || !a.take(o) {
		t.Errorf("the answers of %s came first", e.Object.GetName())
	}
}

// TestSilentPodIsAskedMoreAndMoreSeldom keeps pods that accept connections and never answer from taking a turn each time.
func TestSilentPodIsAskedMoreAndMoreSeldom(t *testing.T) {
	block := make(chan struct{})
	s := &scripted{blocks: map[string]chan struct{}{"main": block}, entered: make(chan struct{})}
	a, c := startAsking(t, s)
	o := etcdNamed(t, "main", 3) // of which main-0 answers
	times := []time.Duration{}
	last := c.read()
	for range 60 {
		before := len(s.asked)
		if !a.take(o) {
			times = append(times, c.read().Sub(last))
			last = c.read()
			<-s.entered
			c.pass(askTimeout)
			block <- struct{}{}
			<-a.told
			a.take(o) // uses the answers
			if len(s.asked) != before+1 {
				t.Fatalf("asked %q", s.asked)
			}
		}
		c.pass(2 * time.Second)
	}
	asked := func(pods int) (n int) {
		for _, q := range s.asked {
			if q == fmt.Sprintf("main %d", pods) {
				n++
			}
		}
		return n
	}
	if whole := asked(3); whole < 5 || whole > 25 || asked(1) < 20 {
		t.Errorf("all pods were asked %d times and main-0 alone %d times in 60 passes", whole, asked(1))
	}
	// A pod of the same name that takes its place was never silent.
	for _, p := range o.Pods {
		p.UID += "-next"
	}
	if a.take(o) || len(times) == 0 {
		t.Error("new pods are not asked")
	}
	<-s.entered
	block <- struct{}{}
	<-a.told
	if last := s.asked[len(s.asked)-1]; last != "main 3" {
		t.Errorf("asked %q, want all new pods", last)
	}
}

func TestNewestOrderAboutClientsIsTheLast(t *testing.T) {
	block := make(chan struct{})
	s := &scripted{blocks: map[string]chan struct{}{"main": block}, done: make(chan time.Duration)}
	a, _ := startAsking(t, s)
	o := etcdNamed(t, "main", 1)
	for d := range 5 {
		a.refuse(o, time.Duration(d))
	}
	close(block)
	first := <-s.done
	if first != 4 { // it was under way before the last one came
		if last := <-s.done; last != 4 {
			t.Errorf("told %d, then %d, want 4 at last", first, last)
		}
	}
}
