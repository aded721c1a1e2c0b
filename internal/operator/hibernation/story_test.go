package hibernation

import (
	"testing"
	"time"
)

// sleeps lets time pass until the members may stop; false: they did not within the time.
func (w *town) sleeps(within time.Duration, each func()) bool {
	w.t.Helper()
	for end := w.now.Add(within); w.now.Before(end); {
		w.second()
		each()
		if w.look(); w.f.Replicas == 0 {
			break
		}
	}
	for _, text := range w.wrong {
		w.t.Error(text)
	}
	return w.f.Replicas == 0
}

// Clients that keep their connections and write all the time neither keep a cluster awake nor lose anything.
func TestClientsThatKeepWritingAreOvercome(t *testing.T) {
	w := newTown(t)
	if !w.sleeps(5*time.Minute, func() {}) {
		t.Errorf("after five minutes the cluster is awake, with %d fulls", len(w.bucket))
	}
	if len(w.bucket) != 1 {
		t.Errorf("%d fulls were taken, want 1", len(w.bucket))
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
			t.Errorf("started anew after %ds: after five minutes the cluster is awake, with %d fulls", when, len(w.bucket))
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
	if w.dead = true; !w.sleeps(5*time.Minute, func() {}) {
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
