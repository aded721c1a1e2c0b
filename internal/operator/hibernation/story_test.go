package hibernation

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// town is a cluster whose clients write all the time over connections that they have, until they are refused.
type town struct {
	t        *testing.T
	now      time.Time
	revision int64
	members  []*townsman
	lag      time.Duration // how old what sidecars tell of revisions is
	history  map[time.Time]int64

	taking *druidv1alpha1.FinalSnapshot // until
	ready  time.Time
	f      Facts
	fulls  int
}

// townsman is a member. Its clients write as long as it serves them.
type townsman struct {
	since, until time.Time
	cannot       string
	writes       bool
}

func (m *townsman) serves(now time.Time) bool { return !now.Before(m.until) }

func newTown(t *testing.T) *town {
	w := &town{t: t, now: now, revision: 9, lag: 8 * time.Second, history: map[time.Time]int64{}}
	for range 3 {
		w.members = append(w.members, &townsman{writes: true})
	}
	w.f = falling(unlocked)
	return w
}

// second passes, in which each client that is served writes once.
func (w *town) second() {
	w.now = w.now.Add(time.Second)
	for _, m := range w.members {
		if m.writes && m.serves(w.now) {
			w.revision++
		}
	}
	w.history[w.now] = w.revision
	if w.taking != nil && !w.now.Before(w.ready) {
		w.taking.VerifiedAt = metav1.NewTime(w.now)
		w.f.Attempt = Attempt{Taken: w.taking, Ended: w.now}
		w.taking = nil
	}
}

// look is what the operator does.
func (w *town) look() Step {
	f := w.f
	f.Now, f.Members, f.Refusing = w.now, nil, nil
	told := w.revision
	if then, known := w.history[w.now.Add(-w.lag)]; known {
		told = then
	}
	for i, m := range w.members {
		seen := Member{Name: fmt.Sprintf("main-%d", i), Known: true, Revision: told, Cannot: m.cannot}
		if !m.serves(w.now) {
			seen.Refuses, seen.Left = w.now.Sub(m.since), m.until.Sub(w.now)
			f.Refusing = append(f.Refusing, seen.Name)
		}
		f.Members = append(f.Members, seen)
	}
	s := Decide(f)
	for _, m := range w.members {
		switch {
		case s.Admit:
			m.until = w.now
		case s.Refuse && m.cannot == "":
			if m.serves(w.now) {
				m.since = w.now
			}
			m.until = w.now.Add(RefuseFor)
		}
	}
	if s.Take != "" {
		w.fulls++
		w.taking, w.ready = &druidv1alpha1.FinalSnapshot{Name: fmt.Sprintf("Full-%d", w.revision), Store: w.f.Store, Revision: w.revision}, w.now.Add(20*time.Second)
		w.f.Attempt = Attempt{Running: true}
	}
	return s
}

// sleeps lets time pass until the members may stop; false: they did not within the time.
func (w *town) sleeps(within time.Duration, each func()) bool {
	w.t.Helper()
	for end := w.now.Add(within); w.now.Before(end); {
		w.second()
		each()
		if s := w.look(); s.Hold == "" {
			if got := s.Record.FinalSnapshot; got == nil || got.Revision != w.revision {
				w.t.Errorf("the members stop with %+v, and have revision %d", got, w.revision)
			}
			return true
		}
	}
	return false
}

// Clients that keep their connections and write all the time neither keep a cluster awake nor lose anything.
func TestClientsThatKeepWritingAreOvercome(t *testing.T) {
	w := newTown(t)
	if !w.sleeps(5*time.Minute, func() {}) {
		t.Errorf("after five minutes the cluster is awake, with %d fulls", w.fulls)
	}
	if w.fulls != 1 {
		t.Errorf("%d fulls were taken, want 1", w.fulls)
	}
}

// A member that is started anew admits its clients until it is asked again.
func TestAMemberThatIsStartedAnewDelaysTheSleep(t *testing.T) {
	for _, when := range []int{5, 20, 24, 25, 26, 30} {
		w := newTown(t)
		seconds := 0
		slept := w.sleeps(5*time.Minute, func() {
			if seconds++; seconds == when {
				w.members[1].until = w.now
				for range 2 { // until the next look
					w.second()
				}
			}
		})
		if !slept {
			t.Errorf("started anew after %ds: after five minutes the cluster is awake, with %d fulls", when, w.fulls)
		}
	}
}

// Of a member that cannot refuse clients the revisions alone tell: it sleeps when they have stopped to write.
func TestAMemberThatCannotRefuseIsWaitedForAsBefore(t *testing.T) {
	w := newTown(t)
	w.members[2].cannot = "it is of a former version"
	if w.sleeps(20*time.Minute, func() {}) {
		t.Error("the cluster sleeps although somebody writes")
	}
	w.members[2].writes = false
	if !w.sleeps(5*time.Minute, func() {}) {
		t.Error("nobody writes, and the cluster is awake")
	}
}

// An operator that died leaves no cluster closed.
func TestClientsAreServedAgainWithoutAnOperator(t *testing.T) {
	w := newTown(t)
	for range 10 {
		w.second()
		w.look()
	}
	if w.members[0].serves(w.now) {
		t.Fatal("clients are served although the cluster is to sleep")
	}
	for range int(RefuseFor / time.Second) {
		w.second()
	}
	for i, m := range w.members {
		if !m.serves(w.now) {
			t.Errorf("member %d still refuses clients", i)
		}
	}
	// The next one begins where that one was.
	w.f.Attempt = Attempt{}
	if w.taking = nil; !w.sleeps(5*time.Minute, func() {}) {
		t.Error("the cluster does not sleep under another operator")
	}
}

// Whoever gives the hibernation up gets his cluster back with the next look.
func TestClientsAreServedAgainWhenMembersAreWanted(t *testing.T) {
	w := newTown(t)
	for range 10 {
		w.second()
		w.look()
	}
	w.f.Wanted = true
	w.second()
	if s := w.look(); !s.Admit || s.Closed {
		t.Errorf("%+v", s)
	}
	w.second()
	if s := w.look(); s != (Step{}) {
		t.Errorf("with the look after it %+v, want nothing", s)
	}
}
