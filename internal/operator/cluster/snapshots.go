package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/metrics"
)

// Snapshot is a full snapshot that must be in the bucket, and found to be good, before a step.
type Snapshot struct {
	// For is what comes after it: the same snapshot is taken once.
	For   string
	Final bool // the last one before the cluster stops
	// Purpose of a final one: the sidecar gives one that it took before only for the same.
	Purpose string
}

// SnapshotState is how far a snapshot is; the zero value: it was not asked for.
type SnapshotState struct {
	Running bool
	Done    bool
	Failed  string // why the last attempt failed
	Ended   time.Time
	// Final is what was taken and proven, of a final one, with a lock of the mode Mode; empty: that is not told. Spoilt is the name of what was taken last and not proven.
	Final  *druidv1alpha1.FinalSnapshot
	Mode   immutability.Mode
	Spoilt string
	// Began is when the first attempt for the same purpose of a final one did.
	Began   time.Time
	Purpose string
}

// snapshotAgain is when a snapshot that failed is tried again.
const snapshotAgain = time.Minute

// hold says what is waited for; empty: nothing any more.
func (s SnapshotState) hold(what string) string {
	switch {
	case s.Done:
		return ""
	case s.Failed != "":
		return fmt.Sprintf("%s, which failed at %s and is tried again: %s", what, s.Ended.UTC().Format(time.RFC3339), s.Failed)
	}
	return what
}

// due says whether it is to be begun now.
func (s SnapshotState) due(now time.Time) bool {
	return !s.Running && !s.Done && (s.Failed == "" || now.Sub(s.Ended) >= snapshotAgain)
}

// beforeUpgrade is the snapshot before pods get another image of etcd; nil: none is needed, or none could
// be taken as the former template has no backups that work.
func beforeUpgrade(o *Observed, safe safety) *Snapshot {
	if o.StatefulSet == nil || !o.Etcd.BackupsEnabled() || !safe.backedUp && movesBackup(o) && !o.originals() {
		return nil
	}
	image := func(all []corev1.Container) string {
		for _, c := range all {
			if c.Name == desired.ContainerEtcd {
				return c.Image
			}
		}
		return ""
	}
	want := image(o.StatefulSet.Spec.Template.Spec.Containers)
	for _, p := range o.Pods {
		if !o.leaves(p) && !upToDate(p, o.StatefulSet) && image(p.Spec.Containers) != want && everRan(p) {
			return &Snapshot{For: "the change of etcd's image to " + want}
		}
	}
	return nil
}

// snapshots takes them, in goroutines of its own: an upload may take longer than an Etcd may wait to be
// looked at. What was done is remembered in memory alone: a snapshot more does no harm.
type snapshots struct {
	dial dialing
	log  *slog.Logger
	now  func() time.Time
	told chan event.GenericEvent // an Etcd of which one has ended

	metrics *metrics.Catalogue

	mu      sync.Mutex
	states  map[types.UID]map[string]SnapshotState
	under   map[types.UID]*attempt // whose end is written into states; nil: none's
	stop    context.CancelFunc
	ctx     context.Context // ends those that are under way
	running sync.WaitGroup
}

// attempt is the taking of one snapshot.
type attempt struct {
	of  string
	end context.CancelFunc
}

// dialing makes clients for the sidecars of an Etcd.
type dialing interface {
	dialer(ctx context.Context, e *druidv1alpha1.Etcd) (dialer, error)
	// full has the original's sidecars among the pods take a snapshot.
	full(ctx context.Context, e *druidv1alpha1.Etcd, pods []*corev1.Pod, what Snapshot, timeout time.Duration) error
}

func newSnapshots(dial dialing, now func() time.Time, log *slog.Logger, m *metrics.Catalogue) *snapshots {
	ctx, stop := context.WithCancel(context.Background())
	return &snapshots{dial: dial, log: log, now: now, told: make(chan event.GenericEvent), metrics: m, states: map[types.UID]map[string]SnapshotState{}, under: map[types.UID]*attempt{}, ctx: ctx, stop: stop}
}

// Start owns the snapshots that are taken: when ctx ends it ends them, and waits for that.
func (s *snapshots) Start(ctx context.Context) error {
	<-ctx.Done()
	s.mu.Lock()
	s.stop() // none begins from now on
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

// of are the states of an Etcd's snapshots.
func (s *snapshots) of(e *druidv1alpha1.Etcd) map[string]SnapshotState {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]SnapshotState{}
	for k, v := range s.states[e.UID] {
		out[k] = v
	}
	return out
}

// forget drops what is known of an Etcd that is gone.
func (s *snapshots) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveUp(uid)
	delete(s.states, uid)
}

// giveUp ends what is under way for an Etcd, and has its end not written. The caller holds the lock.
func (s *snapshots) giveUp(uid types.UID) {
	if a := s.under[uid]; a != nil {
		a.end()
		delete(s.under, uid)
	}
}

// begin takes a snapshot, unless that goes on already. Earlier ones, for other things, are given up and forgotten.
func (s *snapshots) begin(o *Observed, what Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := o.Etcd
	if s.ctx.Err() != nil || s.states[e.UID][what.For].Running {
		return
	}
	former, first := s.states[e.UID][what.For], s.now()
	if former.Purpose == what.Purpose && !former.Began.IsZero() {
		first = former.Began
	}
	s.states[e.UID] = map[string]SnapshotState{what.For: {Running: true, Began: first, Purpose: what.Purpose}}
	s.giveUp(e.UID)
	ctx, end := context.WithCancel(s.ctx)
	mine := &attempt{of: what.For, end: end}
	s.under[e.UID] = mine
	pods := slices.Clone(o.Pods)
	s.running.Go(func() {
		defer end()
		began := s.now()
		state := SnapshotState{Began: first, Purpose: what.Purpose}
		taken, err := s.take(ctx, e, pods, what)
		state.Done, state.Ended = err == nil, s.now()
		if begun := state.Ended.Add(-taken.age); begun.Before(first) && taken.age > 0 {
			state.Began = begun
		}
		switch {
		case what.Final && err == nil:
			taken.VerifiedAt = metav1.NewTime(state.Ended.UTC().Truncate(time.Second))
			state.Final, state.Mode = &taken.FinalSnapshot, taken.mode
		case what.Final && (taken.Name == "" || errors.Is(err, errLockNotKnown)):
			state.Spoilt = former.Spoilt // nothing new was found to be bad
			if former.Final != nil && former.Purpose != what.Purpose {
				state.Spoilt = max(state.Spoilt, former.Final.Name) // nor is that good which this one was to take the place of
			}
		case what.Final:
			state.Spoilt = taken.Name
		}
		s.metrics.Snapshot(state.Ended.Sub(began), state.Done)
		log := s.log.With("namespace", e.Namespace, "etcd", e.Name, "for", what.For, "took", s.now().Sub(began))
		if err != nil {
			state.Failed = message(err)
			log.Warn("the snapshot failed", "error", err)
		} else {
			log.Info("the snapshot is in the bucket")
		}
		s.mu.Lock()
		if s.under[e.UID] == mine {
			s.states[e.UID] = map[string]SnapshotState{what.For: state}
			delete(s.under, e.UID)
		}
		s.mu.Unlock()
		select {
		case s.told <- event.GenericEvent{Object: &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name}}}:
		case <-s.ctx.Done():
		}
	})
}

// verifyTimeout bounds the proof that a backup can be restored.
const verifyTimeout = time.Hour

// take has the backup leader take a full snapshot and prove that it can be restored. What it took has a name
// also if it was not proven.
func (s *snapshots) take(ctx context.Context, e *druidv1alpha1.Etcd, pods []*corev1.Pod, what Snapshot) (taken, error) {
	timeout := 15 * time.Minute
	if t := e.Spec.Backup.EtcdSnapshotTimeout; t != nil && t.Duration > 0 {
		timeout = t.Duration
	}
	dial, err := s.dial.dialer(ctx, e)
	if err != nil {
		return taken{}, err
	}
	for _, p := range pods {
		if p.Status.PodIP == "" || p.DeletionTimestamp != nil || desired.OfOriginal(p.Spec) {
			continue
		}
		n, _ := e.PodOrdinal(p.Name)
		c, err := dial(ctx, p, e.PeerHost(n))
		if err != nil {
			return taken{}, err
		}
		if m, err := c.Member(ctx); err == nil && m.Name == e.MemberName(n) && m.BackupLeader {
			defer c.Close()
			return snapshotBy(ctx, c, what, timeout)
		}
		c.Close()
	}
	if what.Final {
		return taken{}, errors.New("no sidecar answers that makes the backups; the condition BackupReady says more")
	}
	return taken{}, s.dial.full(ctx, e, pods, what, timeout)
}

// taken is a full that was taken, with the mode of its lock.
type taken struct {
	druidv1alpha1.FinalSnapshot
	mode immutability.Mode // empty: not told
	age  time.Duration     // since it was begun, as a final one may be given again, also to another operator; 0: not told
}

// snapshotBy has a sidecar take a full and prove it.
func snapshotBy(ctx context.Context, c *agentapi.Client, what Snapshot, timeout time.Duration) (t taken, err error) {
	full, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	take := func() (agentapi.Snapshot, error) { return c.Full(full, false) }
	if what.Final {
		take = func() (agentapi.Snapshot, error) { return c.Final(full, what.Purpose) }
	}
	s, err := take()
	if err != nil {
		return taken{}, err
	}
	answered := time.Now()
	t = taken{FinalSnapshot: druidv1alpha1.FinalSnapshot{Name: s.SnapName, Revision: max(s.LastRevision, s.ContentRevision), Digest: s.Digest, Suspect: s.Suspect}}
	if s.AgeSeconds > 0 {
		defer func() { t.age = time.Duration(s.AgeSeconds)*time.Second + time.Since(answered) }()
	}
	if err := proven(ctx, c, t.FinalSnapshot, what.Final); err != nil {
		return t, err
	}
	if !what.Final {
		return t, nil
	}
	told := s
	if told.ImmutableUntil.IsZero() { // a store that tells dates of objects only when all are asked for, or computed
		if told, err = lockOf(ctx, c, s.SnapName); err != nil { // the time for a full may be over
			return t, err
		}
	}
	if !told.ImmutableUntil.IsZero() {
		at := metav1.NewTime(told.ImmutableUntil.UTC().Truncate(time.Second))
		t.ProtectedUntil, t.Inferred = &at, told.Inferred
		t.RetentionPeriod = given(told)
	}
	t.mode = immutability.Mode(told.Mode)
	return t, nil
}

// given is for how long the bucket locked a full; nil: not known. Periods are whole hours, mostly days; the moment in the name is by
// the clock of the sidecar and the end by that of the store, which may differ, so the next hour is taken.
func given(s agentapi.Snapshot) *metav1.Duration {
	d := s.ImmutableUntil.Sub(s.CreatedOn)
	if d <= 0 || s.CreatedOn.IsZero() {
		return nil
	}
	return &metav1.Duration{Duration: (d + time.Hour - time.Second).Truncate(time.Hour)}
}

// errLockNotKnown: nothing is wrong with the snapshot itself.
var errLockNotKnown = errors.New("the snapshot was taken and proven, but until when it is locked is not known")

// lockTimeout bounds the question, for which the bucket is listed.
const lockTimeout = 5 * time.Minute

// lockOf has what is known of the lock of a full; zero: nothing is.
func lockOf(ctx context.Context, c *agentapi.Client, name string) (agentapi.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	l, err := c.Latest(ctx)
	if err != nil {
		return agentapi.Snapshot{}, fmt.Errorf("%w: %w", errLockNotKnown, err)
	}
	if l.FullSnapshot == nil || l.FullSnapshot.SnapName != name {
		return agentapi.Snapshot{}, nil
	}
	return *l.FullSnapshot, nil
}

// proven is nil when the chain of the full can be restored, up to its last revision: a proof that was under way before is not
// of it, and is asked for again. Exactly that full must be the base, or else a later one may be.
func proven(ctx context.Context, c *agentapi.Client, taken druidv1alpha1.FinalSnapshot, exactly bool) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	for again := range 2 {
		op, err := verify(ctx, c)
		switch {
		case err != nil:
			return fmt.Errorf("the snapshot was taken, but not verified: %w", err)
		case op.Status != agentapi.Success:
			return fmt.Errorf("the snapshot was taken, but cannot be restored: %s", op.Message)
		case op.Proved != nil && op.Proved.EndRevision >= taken.Revision && (op.Proved.Base == taken.Name || again == 1 && !exactly):
			return nil
		case again == 1 && op.Proved != nil && op.Proved.Base == taken.Name:
			return fmt.Errorf("the snapshot %s was taken up to revision %d, and verified up to revision %d", taken.Name, taken.Revision, op.Proved.EndRevision)
		case again == 1 && op.Proved != nil:
			return fmt.Errorf("the snapshot %s was taken, and %s was verified in its place", taken.Name, op.Proved.Base)
		}
	}
	return fmt.Errorf("the snapshot %s was taken, and the sidecar does not tell what it verified", taken.Name)
}

// verify proves the newest chain, and returns when that has ended.
func verify(ctx context.Context, c *agentapi.Client) (agentapi.Operation, error) {
	op, err := c.Verify(ctx)
	if err != nil {
		return op, err
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for op.Status == agentapi.InProgress {
		select {
		case <-ctx.Done():
			return op, ctx.Err()
		case <-tick.C:
		}
		all, err := c.Operations(ctx)
		if err != nil {
			return op, err
		}
		i := slices.IndexFunc(all, func(o agentapi.Operation) bool { return o.Kind == op.Kind && !o.Start.Before(op.Start) })
		if i < 0 {
			return op, errors.New("the sidecar has begun anew")
		}
		op = all[i]
	}
	return op, nil
}

// dropUpgrades forgets the snapshots of an Etcd that were taken before another image: the next one, also if it is the same, comes later.
func (s *snapshots) dropUpgrades(e *druidv1alpha1.Etcd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.states[e.UID], func(what string, state SnapshotState) bool { return what != finalFor(e) && !state.Running })
}

// drop forgets one snapshot of an Etcd: what comes now is another life of its members.
func (s *snapshots) drop(uid types.UID, of string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.under[uid]; a != nil && a.of == of {
		s.giveUp(uid)
	}
	delete(s.states[uid], of)
}
