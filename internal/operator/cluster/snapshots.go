package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/metrics"
)

// Snapshot is a full snapshot that must be in the bucket, and found to be good, before a step.
type Snapshot struct {
	// For is what comes after it: the same snapshot is taken once.
	For   string
	Final bool // the last one before the cluster stops
}

// SnapshotState is how far a snapshot is; the zero value: it was not asked for.
type SnapshotState struct {
	Running bool
	Done    bool
	Failed  string // why the last attempt failed
	Ended   time.Time
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

// beforeSleep is the snapshot before the last pods go; nil: none is needed. Volumes stay, but what is
// only on volumes is lost with them.
func beforeSleep(s size) *Snapshot {
	if s.want > 0 || s.o.replicas() == 0 || !s.o.Etcd.BackupsEnabled() || s.untouched() {
		return nil
	}
	return &Snapshot{For: fmt.Sprintf("the hibernation of generation %d", s.o.Etcd.Generation), Final: true}
}

// beforeUpgrade is the snapshot before pods get another image of etcd; nil: none is needed, or none could
// be taken as the former template has no backups that work.
func beforeUpgrade(o *Observed, safe safety) *Snapshot {
	if o.StatefulSet == nil || !o.Etcd.BackupsEnabled() || !safe.backedUp && mendsBackup(o) && !o.originals() {
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
	for i := range o.Pods {
		if p := &o.Pods[i]; !upToDate(p, o.StatefulSet) && image(p.Spec.Containers) != want && everRan(p) {
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
	stop    context.CancelFunc
	ctx     context.Context // ends those that are under way
	running sync.WaitGroup
}

// dialing makes clients for the sidecars of an Etcd.
type dialing interface {
	dialer(ctx context.Context, e *druidv1alpha1.Etcd) (dialer, error)
	// full has the original's sidecars among the pods take a snapshot.
	full(ctx context.Context, e *druidv1alpha1.Etcd, pods []corev1.Pod, what Snapshot, timeout time.Duration) error
}

func newSnapshots(dial dialing, now func() time.Time, log *slog.Logger, m *metrics.Catalogue) *snapshots {
	ctx, stop := context.WithCancel(context.Background())
	return &snapshots{dial: dial, log: log, now: now, told: make(chan event.GenericEvent), metrics: m, states: map[types.UID]map[string]SnapshotState{}, ctx: ctx, stop: stop}
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
	delete(s.states, uid)
}

// begin takes a snapshot, unless that goes on already. Earlier ones, for other things, are forgotten.
func (s *snapshots) begin(o *Observed, what Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := o.Etcd
	if s.ctx.Err() != nil || s.states[e.UID][what.For].Running {
		return
	}
	s.states[e.UID] = map[string]SnapshotState{what.For: {Running: true}}
	pods := slices.Clone(o.Pods)
	ctx := s.ctx
	s.running.Go(func() {
		began := s.now()
		err := s.take(ctx, e, pods, what)
		state := SnapshotState{Done: err == nil, Ended: s.now()}
		s.metrics.Snapshot(state.Ended.Sub(began), state.Done)
		log := s.log.With("namespace", e.Namespace, "etcd", e.Name, "for", what.For, "took", s.now().Sub(began))
		if err != nil {
			state.Failed = message(err)
			log.Warn("the snapshot failed", "error", err)
		} else {
			log.Info("the snapshot is in the bucket")
		}
		s.mu.Lock()
		s.states[e.UID] = map[string]SnapshotState{what.For: state}
		s.mu.Unlock()
		select {
		case s.told <- event.GenericEvent{Object: &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name}}}:
		case <-ctx.Done():
		}
	})
}

// verifyTimeout bounds the proof that a backup can be restored.
const verifyTimeout = time.Hour

// take has the backup leader take a full snapshot and prove that it can be restored.
func (s *snapshots) take(ctx context.Context, e *druidv1alpha1.Etcd, pods []corev1.Pod, what Snapshot) error {
	timeout := 15 * time.Minute
	if t := e.Spec.Backup.EtcdSnapshotTimeout; t != nil && t.Duration > 0 {
		timeout = t.Duration
	}
	dial, err := s.dial.dialer(ctx, e)
	if err != nil {
		return err
	}
	for i := range pods {
		p := &pods[i]
		if p.Status.PodIP == "" || p.DeletionTimestamp != nil || desired.OfOriginal(p.Spec) {
			continue
		}
		n, _ := e.PodOrdinal(p.Name)
		c, err := dial(ctx, p, e.PeerHost(n))
		if err != nil {
			return err
		}
		if m, err := c.Member(ctx); err == nil && m.Name == e.MemberName(n) && m.BackupLeader {
			return snapshot(ctx, c, what, timeout)
		}
		c.Close()
	}
	return s.dial.full(ctx, e, pods, what, timeout)
}

func snapshot(ctx context.Context, c *agentapi.Client, what Snapshot, timeout time.Duration) error {
	defer c.Close()
	full, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := c.Full(full, what.Final); err != nil {
		return err
	}
	op, err := c.Verify(ctx)
	if err != nil {
		return fmt.Errorf("the snapshot was taken, but not verified: %w", err)
	}
	verified, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for op.Status == agentapi.InProgress {
		select {
		case <-verified.Done():
			return fmt.Errorf("the snapshot was taken, but not verified: %w", verified.Err())
		case <-tick.C:
		}
		all, err := c.Operations(verified)
		if err != nil {
			return fmt.Errorf("the snapshot was taken, but not verified: %w", err)
		}
		i := slices.IndexFunc(all, func(o agentapi.Operation) bool { return o.Kind == op.Kind && !o.Start.Before(op.Start) })
		if i < 0 {
			return errors.New("the snapshot was taken, but not verified: the sidecar has begun anew")
		}
		op = all[i]
	}
	if op.Status != agentapi.Success {
		return fmt.Errorf("the snapshot was taken, but cannot be restored: %s", op.Message)
	}
	return nil
}
