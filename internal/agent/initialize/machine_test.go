package initialize

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/etcd/member"
)

func TestAnOutcomeStaysUntilItIsAcknowledged(t *testing.T) {
	r := newRig(t, 1, has(datadir.Valid, 5))
	if _, err := r.Config(t.Context()); !errors.Is(err, ErrNotInitialized) || r.Status() != agentapi.InitNew {
		t.Errorf("at first: %s, %v", r.Status(), err)
	}
	if got := r.initialize(agentapi.ValidateSanity); got != agentapi.InitSuccessful {
		t.Fatalf("the state is %s", got)
	}
	r.Start(agentapi.ValidateFull) // nobody acknowledged
	for range 2 {
		if got := r.Status(); got != agentapi.InitSuccessful {
			t.Errorf("by being looked at the state became %s", got)
		}
	}
	config := r.config()
	for _, want := range []string{"name: etcd-0\n", "initial-cluster-state: existing\n", "initial-cluster: etcd-0=http://etcd-0:2380\n"} {
		if !strings.Contains(config, want) {
			t.Errorf("no %q in\n%s", want, config)
		}
	}
	if r.Entered() != agentapi.DBValidationSucceeded {
		t.Errorf("it got to its data by %q", r.Entered())
	}
	r.Acknowledge()
	if again := r.config(); again != config || r.Status() != agentapi.InitNew {
		t.Errorf("after the acknowledgement it is %s, with the configuration\n%s", r.Status(), again)
	}
	r.inspects = func(datadir.Mode) error {
		if _, err := r.Config(t.Context()); !errors.Is(err, ErrNotInitialized) {
			t.Errorf("while the next one goes on there is a configuration (%v)", err)
		}
		return nil
	}
	if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful || !slices.Equal(r.modes, []datadir.Mode{datadir.Sanity, datadir.Full}) {
		t.Errorf("the second time it is %s after the inspections %v", got, r.modes)
	}
	want := []string{"Initializing DBValidationSanity DetectedPreviousCleanExit", "Initializing DBValidationFull DetectedPreviousUncleanExit"}
	if diff := cmp.Diff(want, r.reasons()); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
}

func TestAFailureIsAnOutcomeToo(t *testing.T) {
	r := newRig(t, 1, has(datadir.Valid, 5))
	r.inspects = func(datadir.Mode) error { return errors.New("input/output error") }
	if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitFailed {
		t.Fatalf("the state is %s", got)
	}
	if got := r.o.Board.Get().Waiting; !strings.Contains(got, "input/output error") {
		t.Errorf("the member says %q", got)
	}
	r.Acknowledge()
	r.inspects = nil
	if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful || r.o.Board.Get().Waiting != "" {
		t.Errorf("the second time it is %s, and says %q", got, r.o.Board.Get().Waiting)
	}
}

func TestWhoAsksForMoreWhileItGoesOnGetsIt(t *testing.T) {
	r := newRig(t, 1, has(datadir.Valid, 5))
	r.inspects = func(m datadir.Mode) error {
		if m == datadir.Sanity && len(r.modes) == 1 {
			r.Start(agentapi.ValidateFull) // a second wrapper, after a crash
			r.Acknowledge()                // changes nothing
			return fmt.Errorf("an etcd still stops: %w", datadir.ErrBusy)
		}
		return nil
	}
	if got := r.initialize(agentapi.ValidateSanity); got != agentapi.InitSuccessful || !slices.Equal(r.modes, []datadir.Mode{datadir.Sanity, datadir.Full}) {
		t.Errorf("it is %s after the inspections %v", got, r.modes)
	}
}

func TestWaitingIsProgressAndSaysForWhat(t *testing.T) {
	r := newRig(t, 1, has(datadir.Valid, 5))
	r.backup = func() (Backup, error) { return Backup{}, errors.New("no route to the bucket") }
	var waiting []string
	r.paused = func(n int) {
		r.mu.Unlock()
		if r.Status() != agentapi.InitProgress {
			t.Errorf("while it waits it is %s", r.Status())
		}
		waiting = append(waiting, r.o.Board.Get().Waiting)
		r.mu.Lock()
		if n == 5 {
			r.backup = nil
		}
	}
	if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful {
		t.Fatalf("the state is %s", got)
	}
	if len(waiting) != 5 || !strings.Contains(waiting[4], "no route to the bucket") || r.o.Board.Get().Waiting != "" {
		t.Errorf("it waited for %q, and in the end for %q", waiting, r.o.Board.Get().Waiting)
	}
	want := []string{"Initializing DBValidationFull DetectedPreviousUncleanExit", "Initializing DBValidationFull WaitingForStore"}
	if diff := cmp.Diff(want, r.reasons()); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
}

func TestWhyTheBucketCannotBeReadIsTold(t *testing.T) {
	r := newRig(t, 1)
	refused := errors.New("HTTP 403")
	r.backup = func() (Backup, error) { return Backup{}, refused }
	var told []string
	r.paused = func(n int) {
		r.mu.Unlock()
		f := r.o.Board.Get().BackupFailure
		told = append(told, fmt.Sprintf("%s %s, the first: %t", f.Reason, f.Message, n == 1 || f.Since.Before(r.now())))
		r.mu.Lock()
		switch n {
		case 1: // as the sidecar knows the errors of stores
			r.backup = func() (Backup, error) {
				return Backup{State: BackupUnreachable, Why: refused.Error(), Reason: agentapi.StoreAccessDenied}, nil
			}
		case 3:
			r.backup = nil
		}
	}
	if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful {
		t.Fatalf("the state is %s", got)
	}
	want := []string{"StoreNotReachable HTTP 403, the first: true", "StoreAccessDenied HTTP 403, the first: true", "StoreAccessDenied HTTP 403, the first: true"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("while it waits (-want +got):\n%s", diff)
	}
	if f := r.o.Board.Get().BackupFailure; f != nil {
		t.Errorf("in the end it says %+v", f)
	}
}

func TestDataThatArePutBackEndARefusal(t *testing.T) {
	r := newRig(t, 1, has(datadir.Invalid, 5))
	r.paused = func(n int) {
		if n == 3 {
			has(datadir.Valid, 5)(&r.facts)
			r.stamp++
		}
	}
	if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful || r.pauses != 3 || len(r.modes) != 2 {
		t.Errorf("it is %s after %d pauses and the inspections %v", got, r.pauses, r.modes)
	}
}

func TestALostQuorumIsPublishedWhenItLasts(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want time.Duration
	}{
		"elections are quick": {"", quorumLostAfter},
		"elections are slow":  {"election-timeout: 20000\n", 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 3, other(1, agentapi.DataValid))
			r.configure(c.file)
			var seen []agentapi.Reason
			r.paused = func(int) {
				r.mu.Unlock()
				seen = append(seen, r.o.Board.State().Reason)
				r.mu.Lock()
				if seen[len(seen)-1] == agentapi.QuorumLost {
					r.lives() // a person brought one back
				}
			}
			start := r.now()
			if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful {
				t.Fatalf("the state is %s", got)
			}
			if took := r.now().Sub(start); seen[0] != agentapi.WaitingForCluster || seen[len(seen)-1] != agentapi.QuorumLost || took < c.want || took > c.want+2*personPause {
				t.Errorf("reasons %v within %s, want the last after %s", seen, took, c.want)
			}
		})
	}
}

// A cluster of which one member was being killed was told to have lost its quorum, for a moment.
func TestAQuorumThatIsOutOfSightForAMomentIsNotLost(t *testing.T) {
	r := newRig(t, 3, other(1, agentapi.DataValid))
	var log strings.Builder
	r.o.Log = slog.New(slog.NewTextHandler(&log, nil))
	var waiting []string
	r.paused = func(n int) {
		r.mu.Unlock()
		waiting = append(waiting, r.o.Board.Get().Waiting)
		r.mu.Lock()
		switch n {
		case 3, 6: // its etcd starts, and is killed again: all that was seen before counts no more
			other(1, agentapi.DataValid, examining)(&r.facts)
		case 4, 7:
			other(1, agentapi.DataValid)(&r.facts)
		case 9:
			r.lives()
		}
	}
	if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful {
		t.Fatalf("the state is %s", got)
	}
	for what, told := range map[string]string{"the log": log.String(), "waiting": strings.Join(waiting, "\n"), "the reasons": strings.Join(r.reasons(), "\n")} {
		if strings.Contains(told, "QuorumLost") || strings.Contains(told, "a majority of the members lost its data") {
			t.Errorf("%s told of a lost quorum:\n%s", what, told)
		}
	}
	if !strings.Contains(waiting[0], "too few members seem to have data") {
		t.Errorf("it did not say what it waits for: %q", waiting[0])
	}
}

func TestExaminationsAndAdditionsAreMeasured(t *testing.T) {
	var validated, added []bool
	r := newRig(t, 3, has(datadir.Invalid, 5), cluster(testCluster, 1, peer(1), peer(2)))
	r.listed = member.Membership{ClusterID: testCluster, Peers: []member.Peer{peer(1), peer(2)}}
	r.o.Validated = func(_ time.Duration, ok bool) { validated = append(validated, ok) }
	r.o.LearnerAdded = func(_ time.Duration, ok bool) { added = append(added, ok) }
	r.added = member.ErrTooManyLearners
	r.paused = func(int) { r.added = nil }
	if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful {
		t.Fatalf("the state is %s", got)
	}
	if !slices.Equal(validated, []bool{false}) || !slices.Equal(added, []bool{false, true}) {
		t.Errorf("examinations %v, additions %v; want one of damaged data, and a refused and a good one", validated, added)
	}
}

func TestTheClusterIsToldWhereEtcdIsAboutToListen(t *testing.T) {
	const elsewhere = "update a0 http://etcd-0:2380"
	secure := func(p *member.Peer) { p.PeerURLs = []string{"https://etcd-0:2380"} }
	for name, c := range map[string]struct {
		change []func(*member.Peer)
		answer []error
		want   []string
	}{
		"listed there":                 {},
		"listed elsewhere":             {[]func(*member.Peer){secure}, nil, []string{elsewhere}},
		"a learner":                    {[]func(*member.Peer){secure, asLearner}, nil, nil},
		"no leader for a moment":       {[]func(*member.Peer){secure}, []error{member.ErrNoLeader}, []string{elsewhere, elsewhere}},
		"not as long as another is so": {[]func(*member.Peer){secure}, []error{member.ErrPeerURLExists}, []string{elsewhere}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 3, has(datadir.Valid, 5), cluster(testCluster, 1, peer(0, c.change...), peer(1), peer(2)))
			r.relisted = c.answer
			if got := r.initialize(agentapi.ValidateSanity); got != agentapi.InitSuccessful {
				t.Fatalf("the state is %s: %s", got, r.o.Board.Get().Waiting)
			}
			if diff := cmp.Diff(c.want, r.did); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEtcdListensWhereTheOthersLookForItWhileNoClusterAnswers(t *testing.T) {
	const wanted, recorded = "http://etcd-0:2380", "http://etcd-0:2390"
	for name, c := range map[string]struct {
		url   string
		facts []func(*Facts)
		want  string
	}{
		"nobody answers":             {recorded, nil, recorded},
		"the cluster answers":        {recorded, []func(*Facts){cluster(testCluster, 1, peer(0), peer(1), peer(2))}, wanted},
		"of another host":            {"http://other-0:2390", nil, wanted},
		"https without certificates": {"https://etcd-0:2380", nil, wanted},
		"where it is wanted":         {wanted, nil, wanted},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 3, append(c.facts, has(datadir.Valid, 5, ofMember(nameOf(0), c.url)), away(1), away(2))...)
			if got := r.initialize(agentapi.ValidateSanity); got != agentapi.InitSuccessful {
				t.Fatalf("the state is %s: %s", got, r.o.Board.Get().Waiting)
			}
			config, err := r.Config(t.Context())
			if err != nil || !strings.Contains(string(config), "\ninitial-advertise-peer-urls: "+c.want+"\n") {
				t.Errorf("%v, want %s:\n%s", err, c.want, config)
			}
			if port := c.want[strings.LastIndex(c.want, ":"):]; !strings.Contains(string(config), port+"\n") {
				t.Errorf("it does not listen at %s:\n%s", port, config)
			}
		})
	}
}

func TestAnEmptyMemberJoinsStepByStep(t *testing.T) {
	r := newRig(t, 3, has(datadir.Invalid, 5), cluster(testCluster, 1, peer(0), peer(1), peer(2)))
	r.listed = member.Membership{ClusterID: testCluster, Peers: []member.Peer{peer(0), peer(1), peer(2, nameless)}}
	r.journal = Journal{Cluster: "c", Saw: sawMap("a", "b", "c")}
	r.added = member.ErrTooManyLearners
	if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful {
		t.Fatalf("the state is %s: %s", got, r.o.Board.Get().Waiting)
	}
	want := []string{"save nothing", "remove a0", "set aside", "remove a0", "add learner e0", "save learner e0", "save learner e0, handed out"}
	if diff := cmp.Diff(want, r.did); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	config := r.config()
	for _, want := range []string{"initial-cluster-state: existing\n", "initial-cluster: etcd-1=http://etcd-1:2380,member-00000000000000a2=http://etcd-2:2380,etcd-0=http://etcd-0:2380\n"} {
		if !strings.Contains(config, want) {
			t.Errorf("no %q in\n%s", want, config)
		}
	}
	wantReasons := []string{"Initializing DBValidationFull DetectedPreviousUncleanExit", "New  DBCorruptionDetected",
		"Starting PendingLearner WaitingToJoinAsLearner", "Starting Learner JoinedAsLearner"}
	if diff := cmp.Diff(wantReasons, r.reasons()); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
	m := r.o.Board.Get()
	if m.Data.State != agentapi.DataUnknown || m.LastRestoration == nil || m.LastRestoration.Type != agentapi.FromLeader {
		t.Errorf("the board has %+v, %+v", m.Data, m.LastRestoration)
	}
}

// Whoever may write to the bucket can claim more than the member has: good data are not given up for a claim.
func TestASoleMemberKeepsGoodDataUntilARestoreIsComplete(t *testing.T) {
	r := newRig(t, 1, has(datadir.Valid, 5))
	r.backup = func() (Backup, error) { return Backup{State: BackupExists, Latest: 9, Relation: RelationSame}, nil }
	var orders []RestoreOrder
	r.restore = func(o RestoreOrder) error {
		orders = append(orders, o)
		if got := r.o.Board.Get().LastRestoration; got.Phase != "replaying" || got.Done != 3 || got.Total != 9 || got.Status != agentapi.InProgress {
			t.Errorf("progress %+v", got)
		}
		if len(orders) == 1 {
			return fmt.Errorf("%w: reset by peer", ErrUnavailable)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		has(datadir.Valid, 1_000_009)(&r.facts)
		return nil
	}
	if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful {
		t.Fatalf("the state is %s: %s", got, r.o.Board.Get().Waiting)
	}
	want := []string{"save restoring", "replace etcd-0 in /d/new.etcd with quota 77",
		"save restoring", "replace etcd-0 in /d/new.etcd with quota 77", "save nothing"}
	if diff := cmp.Diff(want, r.did); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	m := orders[0].Member
	if m.InitialCluster != "etcd-0=http://etcd-0:2380" || m.Token == "etcd-cluster" || m.Token == orders[1].Member.Token || m.Check() != nil {
		t.Errorf("membership %+v, then %+v: each restored cluster has ids of its own", m, orders[1].Member)
	}
	wantReasons := []string{"Initializing DBValidationFull DetectedPreviousUncleanExit", "Initializing Restoration DBValidationFailed",
		"Initializing Restoration RestorationFailed", "Initializing DBValidationFull DetectedPreviousUncleanExit", "Initializing Restoration DBValidationFailed",
		"Initializing DBValidationFull DetectedPreviousUncleanExit"}
	got := r.reasons()
	got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "New") })
	if diff := cmp.Diff(wantReasons, got); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
	if r.Entered() != agentapi.RestorationSucceeded || r.o.Board.Get().LastRestoration.Status != agentapi.Success {
		t.Errorf("it got to its data by %q: %+v", r.Entered(), r.o.Board.Get().LastRestoration)
	}
}

// What claims more than there is cannot be restored; when it is excluded the member starts with what it has.
func TestDataStartWhenWhatClaimedMoreIsExcluded(t *testing.T) {
	for _, c := range []struct {
		err             error
		passes, exclude bool
	}{
		{fmt.Errorf("%w: not what its manifest says", ErrBackup), false, true}, {datadir.ErrNoRoom, false, false},
		{fmt.Errorf("%w: by another", datadir.ErrBusy), true, false}, {fmt.Errorf("%w: it ends before", ErrChanged), true, false},
	} {
		r := newRig(t, 1, has(datadir.Valid, 5))
		excluded := false
		r.backup = func() (Backup, error) {
			if excluded {
				return Backup{State: BackupExists, Latest: 5, Relation: RelationSame}, nil
			}
			return Backup{State: BackupExists, Latest: 9, Relation: RelationSame}, nil
		}
		r.restore = func(o RestoreOrder) error {
			if excluded = true; o.AtLeast != 9 {
				t.Errorf("it is restored from %d on, and the bucket reached 9", o.AtLeast)
			}
			return c.err
		}
		if !c.passes {
			if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitFailed {
				t.Fatalf("%v: the state is %s: %s", c.err, got, r.o.Board.Get().Waiting)
			}
			r.Acknowledge()
		}
		if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful {
			t.Fatalf("%v: the state is %s: %s", c.err, got, r.o.Board.Get().Waiting)
		}
		if n := len(r.did); n < 3 || r.did[1] != "replace etcd-0 in /d/new.etcd with quota 77" || r.did[n-1] != "save nothing" || slices.Contains(r.did, "set aside") {
			t.Errorf("%v: it did %q", c.err, r.did)
		}
		m := r.o.Board.Get().LastRestoration
		if m == nil || m.Status != agentapi.Failed || strings.Contains(m.Message, "the data (revision 5) stay as they are") == c.passes || strings.Contains(m.Message, "etcdbrctl exclude") != c.exclude {
			t.Errorf("%v: it tells of the restore %+v", c.err, m)
		}
	}
}

func TestBackupsOfAnotherAreWaitedForAndToldUntilThatIsSettled(t *testing.T) {
	for _, n := range []int{1, 3} {
		r := newRig(t, n)
		settled, lasted := false, 0
		r.backup = func() (Backup, error) {
			b := Backup{State: BackupExists, Latest: 9, Relation: RelationUnknown}
			if !settled {
				b.Owned = "the prefix is owned by b, start once with --take-over"
			}
			return b, nil
		}
		r.paused = func(n int) {
			settled = n > 20
			m := r.o.Board.Get()
			if f := m.BackupFailure; f != nil && f.Reason == agentapi.StoreOwnedByAnother && strings.Contains(f.Message, "owned by b") && strings.Contains(m.Waiting, "owned by b") {
				lasted++
			}
		}
		r.restore = func(RestoreOrder) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if !settled {
				t.Error("what is another's is restored")
			}
			has(datadir.Valid, 1_000_009)(&r.facts)
			return nil
		}
		if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful || r.Entered() != agentapi.RestorationSucceeded {
			t.Errorf("of %d: the state is %s, and it got to its data by %q: %s", n, got, r.Entered(), r.o.Board.Get().Waiting)
		}
		if m := r.o.Board.Get(); lasted < 20 || m.BackupFailure != nil || m.Waiting != "" {
			t.Errorf("of %d: it told %d times that the backups are another's, and in the end %+v, waiting for %q", n, lasted, m.BackupFailure, m.Waiting)
		}
	}
}

func TestARestoreThatGainsNothingIsNotRepeated(t *testing.T) {
	r := newRig(t, 1)
	r.backup = func() (Backup, error) { return Backup{State: BackupExists, Latest: 9, Relation: RelationSame}, nil }
	restored := 0
	r.restore = func(RestoreOrder) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		restored++
		has(datadir.Valid, 8)(&r.facts)
		return nil
	}
	if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitFailed || restored != 1 {
		t.Errorf("it is %s after %d restores", got, restored)
	}
}

func TestTheLogIsAppliedBeforeDataAreCalledBehind(t *testing.T) {
	r := newRig(t, 1, has(datadir.Valid, 5, atMost(9)))
	r.backup = func() (Backup, error) { return Backup{State: BackupExists, Latest: 9, Relation: RelationSame}, nil }
	if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful || !slices.Equal(r.did, []string{"settle"}) {
		t.Errorf("it is %s after %q", got, r.did)
	}
}

func TestTheLogIsAppliedOnceEvenIfItMayHoldMore(t *testing.T) {
	r := newRig(t, 1, has(datadir.Valid, 5, atMost(9)))
	r.backup = func() (Backup, error) { return Backup{State: BackupExists, Latest: 9, Relation: RelationSame}, nil }
	r.settles = func(context.Context) error {
		r.note("settle")
		r.stamp++
		if len(r.did) > 3 {
			return errors.New("again and again")
		}
		return nil
	}
	r.restore = func(RestoreOrder) error { has(datadir.Valid, 9)(&r.facts); return nil }
	if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful || len(r.did) == 0 || r.did[0] != "settle" || slices.Contains(r.did[1:], "settle") {
		t.Errorf("it is %s after %q", got, r.did)
	}
}

func TestALogThatIsNeverAppliedIsToldInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, has(datadir.Valid, 5, atMost(9)))
		r.backup = func() (Backup, error) { return Backup{State: BackupExists, Latest: 9, Relation: RelationSame}, nil }
		r.settles = func(ctx context.Context) error {
			select {
			case <-ctx.Done():
			case <-time.After(24 * time.Hour):
				return errors.New("it waits for ever")
			}
			return fmt.Errorf("settle: %w", context.Cause(ctx))
		}
		if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitFailed {
			t.Errorf("the state is %s", got)
		}
		want := "the log was not applied to the database within 30m0s; check the disk"
		if got := r.o.Board.Get().Waiting; !strings.Contains(got, want) || !strings.Contains(got, "revision 9") {
			t.Errorf("it says %q, want %q and where the backup reaches", got, want)
		}
	})
}

func TestMembersPublishTheirNonceOnlyWhenItIsOnTheDisk(t *testing.T) {
	r := newRig(t, 3)
	r.paused = func(n int) {
		r.mu.Unlock()
		defer r.mu.Lock()
		if got := r.o.Board.Get(); got.Bootstrap.Nonce == "" || got.Bootstrap.Nonce != r.journal.Nonce || got.Data.State != agentapi.DataMissing {
			t.Errorf("published %+v, on the disk is %+v", got.Bootstrap, r.journal)
		}
		for i := 1; i < 3; i++ {
			s := r.facts.View.Sidecars[nameOf(i)]
			s.Member.Bootstrap.Nonce = fmt.Sprint("n", i)
		}
	}
	if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful || r.pauses != 1 {
		t.Fatalf("it is %s after %d pauses: %s", got, r.pauses, r.o.Board.Get().Waiting)
	}
	b := r.o.Board.Get().Bootstrap
	if b.Nonce != "" || len(b.Saw) != 3 || b.Saw[nameOf(2)] != "n2" || !cmp.Equal(b.Saw, r.journal.Saw) {
		t.Errorf("published %+v, on the disk is %+v", b, r.journal)
	}
	for _, want := range []string{"initial-cluster-state: new\n", "initial-cluster-token: " + tokenOf("etcd-cluster", b.Saw) + "\n"} {
		if config := r.config(); !strings.Contains(config, want) {
			t.Errorf("no %q in\n%s", want, config)
		}
	}
	// A sidecar that begins anew tells at once what its volume remembers.
	again := New(r.o)
	r.o.Board.Update(func(m *agentapi.Member) { m.Bootstrap = nil })
	again.introduce()
	if got := r.o.Board.Get().Bootstrap; !cmp.Equal(got, b) {
		t.Errorf("after a restart it publishes %+v, want %+v", got, b)
	}
}

func TestWrongVolumesAreRemembered(t *testing.T) {
	r := newRig(t, 1, has(datadir.Valid, 5))
	r.facts.Volume = Volume{Reason: agentapi.VolumeMismatch, Why: "it is another's", Owner: "other"}
	r.paused = func(n int) {
		switch n {
		case 2:
			r.facts.Volume.Owner = "third"
		case 4:
			r.facts.Volume = Volume{}
		}
	}
	if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful {
		t.Fatalf("the state is %s", got)
	}
	got := r.o.Board.Get().VolumeMismatches
	if len(got) != 2 || got[0].VolumeID != "other" || got[0].FixedAt == nil || got[1].VolumeID != "third" || got[1].FixedAt == nil || got[0].Restarts != 1 {
		t.Errorf("mismatches %+v", got)
	}
	if got := r.reasons(); got[0] != "New  VolumeMismatch" {
		t.Errorf("transitions %q", got)
	}
}

func TestAnEtcdThatIsOfNoUseIsFoundOut(t *testing.T) {
	blank := has(datadir.Blank, 1)
	for name, c := range map[string]struct {
		start  []func(*Facts) // with which it was started
		since  []func(*Facts) // what became of that
		want   bool
		action Action
	}{
		"it belongs to the cluster":       {[]func(*Facts){has(datadir.Valid, 5)}, []func(*Facts){cluster(testCluster, 1, peer(0), peer(1))}, false, Start},
		"its own etcd answers":            {[]func(*Facts){has(datadir.Valid, 5)}, []func(*Facts){leaderless(0, 5)}, false, Start},
		"nobody answers":                  {[]func(*Facts){has(datadir.Valid, 5)}, []func(*Facts){away(1), away(2)}, false, Start},
		"the cluster removed it":          {[]func(*Facts){has(datadir.Valid, 5)}, []func(*Facts){cluster(testCluster, 1, peer(1), peer(2))}, true, JoinAsLearner},
		"the others begin without it":     {[]func(*Facts){blank, other(1, agentapi.DataBlank)}, []func(*Facts){other(1, agentapi.DataMissing)}, true, GiveUp},
		"the others still have something": {[]func(*Facts){blank, other(1, agentapi.DataBlank)}, []func(*Facts){other(2, agentapi.DataBlank)}, false, Start},
	} {
		r := newRig(t, 3, c.start...)
		if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful {
			t.Fatalf("%s: the state is %s: %s", name, got, r.o.Board.Get().Waiting)
		}
		for _, change := range c.since {
			change(&r.facts)
		}
		if d, got := r.Reconsider(t.Context()); got != c.want || d.Action != c.action {
			t.Errorf("%s: %t, %s (%s); want %t, %s", name, got, d.Action, d.Message, c.want, c.action)
		}
	}
}

// Whoever reads that its data are of no use wipes them, and they may be the last there are.
func TestOfDataThatARunningEtcdMadeNothingIsSaid(t *testing.T) {
	r := newRig(t, 3, has(datadir.Valid, 5), away(1), away(2))
	const want = "the data here are not looked at while etcd runs with them, and what others have cannot be told: etcd-0 (this one) has the data of the etcd that runs; "
	if d, again := r.Reconsider(t.Context()); again || !strings.HasPrefix(d.Message, want) {
		t.Errorf("%t, %q, want %q", again, d.Message, want)
	}
}

func TestASidecarYoungerThanItsEtcdFindsOutToo(t *testing.T) {
	r := newRig(t, 3, has(datadir.Blank, 1), leaderless(0, 1), other(1, agentapi.DataBlank))
	if d, again := r.Reconsider(t.Context()); again {
		t.Errorf("another one has something as well, but: %s (%s)", d.Action, d.Message)
	}
	other(1, agentapi.DataMissing)(&r.facts)
	if d, again := r.Reconsider(t.Context()); !again || d.Action != GiveUp {
		t.Errorf("nobody else has anything, but: %t, %s (%s)", again, d.Action, d.Message)
	}
	r.Start(agentapi.ValidateFull)
	if _, again := r.Reconsider(t.Context()); again {
		t.Error("etcd does not run, because it is being initialized")
	}
}

// The store had not taken anything for hours when the data were damaged: what is beyond the backup is there alone. Where they are is told
// by the restore that succeeds, also if it is not the first one, as of a store that does not answer for long.
func TestDamagedDataBeyondTheBackupAreKept(t *testing.T) {
	for phrase, c := range map[string]struct {
		data func(*Facts)
		why  string // empty: they go
	}{
		"they have nothing":                 {has(datadir.Invalid, 1), "do not tell which revision"},
		"they have less":                    {has(datadir.Invalid, 8), ""},
		"they have as much":                 {has(datadir.Invalid, 9), ""},
		"they have more":                    {has(datadir.Invalid, 10), "the data reached revision 10"},
		"with their log they have more":     {has(datadir.Invalid, 8, atMost(10)), "the data reached revision 10"},
		"their log was not read to its end": {has(datadir.Invalid, 8, atMost(0)), "how far its log went beyond cannot be told"},
	} {
		for failures := range 2 {
			r := newRig(t, 1, c.data)
			r.backup = func() (Backup, error) {
				return Backup{State: BackupExists, Latest: 9, Uploaded: 9, Relation: RelationSame}, nil
			}
			left := failures
			r.restore = func(RestoreOrder) error {
				if left--; left >= 0 {
					return ErrUnavailable
				}
				has(datadir.Valid, 1_000_000_009)(&r.facts)
				return nil
			}
			if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful {
				t.Fatalf("the state is %s", got)
			}
			if kept := slices.Contains(r.did, "keep that"); kept != (c.why != "") {
				t.Errorf("%s: kept is %t", phrase, kept)
			}
			told := r.o.Board.Get().LastRestoration
			if strings.Contains(told.Message, "/data/new.etcd.kept-TIME") != (c.why != "") || failures == 0 && !strings.Contains(told.Message, c.why) || told.Status != agentapi.Success {
				t.Errorf("%s, after %d failures: it is told that %s: %s", phrase, failures, told.Status, told.Message)
			}
		}
	}
}

// Of a new cluster whose etcds cannot be started, as their image is not there, nothing is said about an etcd.
func TestWithoutDataNoEtcdIsReconsidered(t *testing.T) {
	for phrase, since := range map[string]func(*Facts){"the others do not know either": other(1, agentapi.DataUnknown), "another one cannot be asked": away(1)} {
		r := newRig(t, 3, since)
		if d, again := r.Reconsider(t.Context()); again || d.Message != "" {
			t.Errorf("%s: %t, %s", phrase, again, d.Message)
		}
	}
}

// Both files change at once, between two looks: a single member that others may still be beside, and one that is to join them.
func TestOthersThatLeaveCountAsTheyDidBeforeTheMembersWereRead(t *testing.T) {
	r := newRig(t, 1)
	leave := true
	r.o.OthersLeave = func() bool { return leave }
	read := r.o.Template
	r.o.Template = func() (*memberconf.Template, error) {
		t, err := read()
		leave = false
		return t, err
	}
	a := newAttempt(r.Machine)
	f, err := a.gather(t.Context())
	if err != nil || !f.OthersLeave {
		t.Errorf("others leave: %t (%v), want what was so before the members were read", f.OthersLeave, err)
	}
}

// An etcd that waits for a leader answers nobody, and a sidecar that did not start it has not examined the data: the others, which lost
// theirs, would wait for it for ever.
func TestASidecarYoungerThanASilentEtcdExaminesTheData(t *testing.T) {
	for name, c := range map[string]struct {
		since []func(*Facts)
		want  bool
	}{
		"one of the others has data, the other lost them": {[]func(*Facts){other(1, agentapi.DataValid, ofCluster(testCluster))}, true},
		"its etcd answers":               {[]func(*Facts){other(1, agentapi.DataValid, ofCluster(testCluster)), leaderless(0, 5)}, false},
		"another one is in the same way": {[]func(*Facts){other(1, agentapi.DataUnknown)}, true},
		"another one cannot be asked":    {[]func(*Facts){other(1, agentapi.DataUnknown), away(2)}, false},
	} {
		r := newRig(t, 3, append(c.since, has(datadir.Valid, 5))...)
		if d, again := r.Reconsider(t.Context()); again != c.want {
			t.Errorf("%s: %t, %s by rule %s (%s)", name, again, d.Action, d.Rule, d.Message)
		}
		r.initialize(agentapi.ValidateFull)
		if d, again := r.Reconsider(t.Context()); again {
			t.Errorf("%s: once more, although the data are known by now: %s (%s)", name, d.Action, d.Message)
		}
	}
}

// until waits for a fact.
func until(t *testing.T, fact string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-timeout.C:
			t.Fatalf("after a minute it is still not so that %s", fact)
		}
	}
}

func TestRunInitializesWheneverItIsTold(t *testing.T) {
	r := newRig(t, 1, has(datadir.Valid, 5))
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	for range 3 {
		r.Start(agentapi.ValidateFull)
		until(t, "it is initialized", func() bool { return r.Status() == agentapi.InitSuccessful })
		r.Acknowledge()
	}
	why := errors.New("enough")
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("it ended with %v", err)
	}
}

// A restore that is killed while good data are there must neither hide them nor take their room for good.
func TestWhatAKilledRestoreLeftIsNotInTheWay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new.etcd")
	d := DirectoryOf(dir, "ns", time.Now)
	for _, made := range []string{dir + ".part/member/snap", dir + ".part-old-7-1/member/snap"} { // killed between two renames
		if err := errors.Join(os.MkdirAll(made, 0o700), os.WriteFile(made+"/db", []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := d.Inspect(t.Context(), datadir.Full, nil); err != nil || got.State == datadir.Missing {
		t.Errorf("the data are %s, %v", got.State, err)
	}
	left, err := os.ReadDir(filepath.Dir(dir))
	if names := fmt.Sprint(left); err != nil || len(left) != 1 {
		t.Errorf("beside the data lie %s, %v", names, err)
	}
}

func TestTheDirectoryTellsWhatIsWrongWithItsVolume(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "new.etcd")
	d := DirectoryOf(dir, "ns", time.Now)
	if v, err := d.Volume(); err != nil || v != (Volume{}) {
		t.Errorf("a new volume: %+v, %v", v, err)
	}
	if v, err := DirectoryOf(dir, "other", time.Now).Volume(); err != nil || v.Reason != agentapi.VolumeMismatch || v.Owner != "ns" || v.Why == "" {
		t.Errorf("another's volume: %+v, %v", v, err)
	}
	if d.Stamp() != "" {
		t.Errorf("of nothing the stamp is %q", d.Stamp())
	}
	if err := d.SetAside(false); err != nil {
		t.Errorf("setting nothing aside: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	was := d.Stamp()
	if was == "" || was != d.Stamp() {
		t.Errorf("the stamp is %q and then %q", was, d.Stamp())
	}
	if err := os.WriteFile(filepath.Join(dir, "member", "snap", "db"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if d.Stamp() == was {
		t.Error("a new database changes no stamp")
	}
	if err := d.SetAside(false); err != nil || d.Stamp() != "" {
		t.Errorf("set aside: %v, the stamp is %q", err, d.Stamp())
	}
	if i, err := d.Inspect(t.Context(), datadir.Full, nil); err != nil || i.State != datadir.Missing {
		t.Errorf("inspected: %+v, %v", i, err)
	}
}
