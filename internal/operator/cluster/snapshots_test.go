package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/operator/metrics"
)

func TestAProofOfLessIsNone(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
		switch r.URL.Path {
		case agentapi.Full:
			answer(agentapi.Snapshot{SnapName: "Full-1", LastRevision: 9, ContentRevision: 11, ImmutableUntil: testNow})
		case agentapi.Verify:
			answer(agentapi.Operation{Kind: "verify", Status: agentapi.Success, Start: testNow, Proved: &agentapi.Proved{Base: "Full-1", EndRevision: 9}})
		}
	}))
	t.Cleanup(server.Close)
	c, err := agentapi.NewClientOver(server.Client().Transport, server.URL, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := snapshotBy(t.Context(), c, Snapshot{For: "test", Final: true, Purpose: "u/5"}, time.Minute); err == nil {
		t.Errorf("revision %d counts as proven, and the proof went up to 9", got.Revision)
	}
}

// The time for a full must not bound the question for its lock, which comes after the proof.
func TestALongProofDoesNotSpoilTheSnapshot(t *testing.T) {
	began, looks := time.Now(), 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
		op := agentapi.Operation{Kind: "verify", Status: agentapi.InProgress, Start: began}
		switch r.URL.Path {
		case agentapi.Full:
			answer(agentapi.Snapshot{SnapName: "Full-1", LastRevision: 9})
		case agentapi.Latest:
			answer(agentapi.LatestSnapshots{FullSnapshot: &agentapi.Snapshot{SnapName: "Full-1", ImmutableUntil: testNow.Add(time.Hour), Mode: "governance"}})
		case agentapi.Verify:
			answer(op)
		case agentapi.Operations:
			if looks++; looks > 3 {
				op.Status, op.Proved = agentapi.Success, &agentapi.Proved{Base: "Full-1", EndRevision: 9}
			}
			answer([]agentapi.Operation{op})
		}
	}))
	t.Cleanup(server.Close)
	c, err := agentapi.NewClientOver(server.Client().Transport, server.URL, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The proof takes as many seconds as looks, which is longer than a full may take here.
	got, err := snapshotBy(t.Context(), c, Snapshot{For: "test", Final: true, Purpose: "u/5"}, 3*time.Second)
	if err != nil || got.ProtectedUntil == nil || got.mode != immutability.ModeGovernance {
		t.Errorf("%+v, %v; want the proven snapshot with its lock", got, err)
	}
}

// Stores that tell no dates of objects give none with the upload either, so the answer to either question may be reckoned.
func TestALockThatIsReckonedIsSoFromTheBeginning(t *testing.T) {
	for phrase, c := range map[string]struct{ full, latest agentapi.Snapshot }{
		"told with the full":       {full: agentapi.Snapshot{SnapName: "Full-1", LastRevision: 9, CreatedOn: testNow.Add(-96 * time.Hour), ImmutableUntil: testNow, Inferred: true, Digest: "9f86"}},
		"told when all were asked": {agentapi.Snapshot{SnapName: "Full-1", LastRevision: 9, Digest: "9f86"}, agentapi.Snapshot{SnapName: "Full-1", CreatedOn: testNow.Add(-96 * time.Hour), ImmutableUntil: testNow, Inferred: true}},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
			switch r.URL.Path {
			case agentapi.Full:
				answer(c.full)
			case agentapi.Latest:
				answer(agentapi.LatestSnapshots{FullSnapshot: &c.latest})
			case agentapi.Verify:
				answer(agentapi.Operation{Kind: "verify", Status: agentapi.Success, Start: testNow, Proved: &agentapi.Proved{Base: "Full-1", EndRevision: 9}})
			}
		}))
		t.Cleanup(server.Close)
		client, err := agentapi.NewClientOver(server.Client().Transport, server.URL, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := snapshotBy(t.Context(), client, Snapshot{For: "test", Final: true, Purpose: "u/5"}, time.Minute)
		if err != nil || got.ProtectedUntil == nil || !got.Inferred || got.Digest != "9f86" {
			t.Errorf("%s: %+v, %v; want a lock that is inferred, and the digest", phrase, got, err)
		}
		if p := got.RetentionPeriod; p == nil || p.Duration != 96*time.Hour {
			t.Errorf("%s: it is locked for %v, want 96h", phrase, p)
		}
	}
}

// It is asked for again for the same purpose, so that the sidecar gives the same one.
func TestAProvenSnapshotWhoseLockIsNotToldIsNotSpoilt(t *testing.T) {
	proven := agentapi.Operation{Kind: "verify", Status: agentapi.Success, Start: testNow, Proved: &agentapi.Proved{Base: "Full-1", EndRevision: 11}}
	s := &sidecar{member: agentapi.Member{BackupLeader: true}, verified: []agentapi.Operation{proven}, fails: agentapi.Latest}
	a, o := listen(t, s, false)
	all := newSnapshots(a, time.Now, a.log, metrics.New())
	what := Snapshot{For: "the test", Final: true, Purpose: "u/5"}
	for _, spoilt := range []string{"", "Full-0"} {
		all.states[o.Etcd.UID] = map[string]SnapshotState{what.For: {Failed: "a hole", Spoilt: spoilt}}
		all.begin(o, what)
		<-all.told
		if got := all.of(o.Etcd)[what.For]; got.Done || got.Spoilt != spoilt || !strings.Contains(got.Failed, "until when it is locked is not known") {
			t.Errorf("%+v, want a failure that leaves %q spoilt", got, spoilt)
		}
	}
	all.stop()
	all.running.Wait()
}

// A snapshot that was to take the place of another one failed without a name: the other one is not taken for good again.
func TestWhatIsReplacedStaysNoGood(t *testing.T) {
	s := &sidecar{member: agentapi.Member{BackupLeader: true}, fails: agentapi.Full}
	a, o := listen(t, s, false)
	all := newSnapshots(a, time.Now, a.log, metrics.New())
	const what = "the test"
	all.states[o.Etcd.UID] = map[string]SnapshotState{what: {Done: true, Final: &druidv1alpha1.FinalSnapshot{Name: "Full-1"}, Purpose: "u/5"}}
	for range 2 {
		all.begin(o, Snapshot{For: what, Final: true, Purpose: "u/5/after-Full-1"})
		<-all.told
		if got := all.of(o.Etcd)[what]; got.Done || got.Spoilt != "Full-1" {
			t.Errorf("%+v, want a failure, and Full-1 spoilt", got)
		}
	}
	all.stop()
	all.running.Wait()
}

// The moment in the name is by another clock than the end of the lock.
func TestPeriodsThatWereGivenAreWholeHours(t *testing.T) {
	for off, want := range map[time.Duration]time.Duration{0: 96 * time.Hour, 29 * time.Minute: 96 * time.Hour, -29 * time.Minute: 97 * time.Hour} {
		got := given(agentapi.Snapshot{CreatedOn: testNow.Add(off), ImmutableUntil: testNow.Add(96 * time.Hour)})
		if got == nil || got.Duration != want {
			t.Errorf("by a clock that is %s ahead: %v, want %s", off, got, want)
		}
	}
	for _, s := range []agentapi.Snapshot{{ImmutableUntil: testNow}, {CreatedOn: testNow, ImmutableUntil: testNow}} {
		if got := given(s); got != nil {
			t.Errorf("of %+v: %v", s, got)
		}
	}
}

// The sidecar gives what it took for a purpose again: whoever served clients since that was asked for first may have let something in.
func TestASnapshotThatIsGivenAgainBeganWhenItWasTaken(t *testing.T) {
	s := &sidecar{member: agentapi.Member{BackupLeader: true}, age: 900, verified: []agentapi.Operation{{Kind: "verify", Status: agentapi.Success, Start: testNow, Proved: &agentapi.Proved{Base: "Full-1", EndRevision: 11}}}}
	a, o := listen(t, s, false)
	all := newSnapshots(a, time.Now, a.log, metrics.New())
	before := time.Now()
	all.begin(o, Snapshot{For: "the test", Final: true, Purpose: "u/5"})
	<-all.told
	if ago := before.Sub(all.of(o.Etcd)["the test"].Began); ago < 14*time.Minute || ago > 16*time.Minute {
		t.Errorf("it began %s before this operator asked, want 15m", ago)
	}
}

func TestAttemptsForTheSamePurposeBeganWithTheFirst(t *testing.T) {
	s := &sidecar{member: agentapi.Member{BackupLeader: true}, fails: agentapi.Latest}
	a, o := listen(t, s, false)
	now := testNow
	all := newSnapshots(a, func() time.Time { return now }, a.log, metrics.New())
	for i, c := range []struct {
		purpose string
		want    time.Time
	}{{"u/5", testNow}, {"u/5", testNow}, {"u/5/after-Full-1", testNow.Add(2 * time.Hour)}, {"u/5", testNow.Add(3 * time.Hour)}} {
		now = testNow.Add(time.Duration(i) * time.Hour)
		all.begin(o, Snapshot{For: "the test", Final: true, Purpose: c.purpose})
		<-all.told
		if got := all.of(o.Etcd)["the test"].Began; !got.Equal(c.want) {
			t.Errorf("attempt %d for %s: it began at %s, want %s", i, c.purpose, got, c.want)
		}
	}
}

// A status that several writers of the same Etcd race for must not give a snapshot of an earlier generation the place of the
// one that is being taken.
func TestASnapshotThatEndsLateDoesNotForgetTheNewOne(t *testing.T) {
	s := newSnapshots(nil, time.Now, slog.New(slog.DiscardHandler), metrics.New())
	first, second := make(chan struct{}), make(chan struct{})
	calls := make(chan struct{}, 10)
	s.dial = slowDial(func(e *druidv1alpha1.Etcd) {
		calls <- struct{}{}
		if e.Generation == 5 {
			<-first
		} else {
			<-second
		}
	})
	o := running(t, 1)
	old, young := *o, *o
	old.Etcd, young.Etcd = o.Etcd.DeepCopy(), o.Etcd.DeepCopy()
	old.Etcd.Generation, young.Etcd.Generation = 5, 6
	s.begin(&old, Snapshot{For: finalFor(old.Etcd), Final: true})
	<-calls
	s.begin(&young, Snapshot{For: finalFor(young.Etcd), Final: true})
	<-calls
	close(first)
	<-s.told
	if !s.of(young.Etcd)[finalFor(young.Etcd)].Running {
		t.Error("the snapshot of generation 6 is being taken, and is forgotten: another one is begun beside it")
	}
	close(second)
	<-s.told
	s.stop()
	s.running.Wait()
}

type slowDial func(*druidv1alpha1.Etcd)

func (d slowDial) dialer(_ context.Context, e *druidv1alpha1.Etcd) (dialer, error) {
	d(e)
	return nil, errors.New("no")
}

func (slowDial) full(context.Context, *druidv1alpha1.Etcd, []*corev1.Pod, Snapshot, time.Duration) error {
	return nil
}

// Members that are wanted again begin another life: what was under way for the former one is nobody's.
func TestASnapshotThatWasDroppedLeavesNothing(t *testing.T) {
	for phrase, gone := range map[string]func(*snapshots, *druidv1alpha1.Etcd){
		"members are wanted": func(s *snapshots, e *druidv1alpha1.Etcd) { s.drop(e.UID, finalFor(e)) },
		"the Etcd is gone":   func(s *snapshots, e *druidv1alpha1.Etcd) { s.forget(e.UID) },
	} {
		began, end := make(chan struct{}), make(chan struct{})
		s := newSnapshots(slowDial(func(*druidv1alpha1.Etcd) { close(began); <-end }), time.Now, slog.New(slog.DiscardHandler), metrics.New())
		o := running(t, 1)
		s.begin(o, Snapshot{For: finalFor(o.Etcd), Final: true})
		<-began
		gone(s, o.Etcd)
		close(end)
		<-s.told
		if got := s.of(o.Etcd); len(got) != 0 {
			t.Errorf("%s: %+v is known, want nothing", phrase, got)
		}
		s.stop()
		s.running.Wait()
	}
}

// An image that was taken back and is wanted again later is another upgrade.
func TestAProofForAnUpgradeEndsWithIt(t *testing.T) {
	s := newSnapshots(slowDial(nil), func() time.Time { return testNow }, slog.New(slog.DiscardHandler), metrics.New())
	e := newEtcd(3)
	states := map[string]SnapshotState{"the change of etcd's image to x": {Done: true}, "the change of etcd's image to y": {Running: true}, finalFor(e): {Done: true}}
	s.states[e.UID] = maps.Clone(states)
	s.dropUpgrades(e)
	delete(states, "the change of etcd's image to x")
	if got := s.of(e); !reflect.DeepEqual(got, states) {
		t.Errorf("left are %+v, want %+v", got, states)
	}
	upgrading := running(t, 3, former(0), func(o *Observed) {
		o.Pods[0].Spec.Containers = slices.Clone(o.Pods[0].Spec.Containers) // the template has the same ones
		for i := range o.Pods[0].Spec.Containers {
			o.Pods[0].Spec.Containers[i].Image = "former"
		}
	})
	if mustDecide(t, upgrading, testSettings).NoUpgrade || !mustDecide(t, running(t, 3), testSettings).NoUpgrade {
		t.Error("whether a pod is to get another image is told wrong")
	}
}
