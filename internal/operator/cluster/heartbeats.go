package cluster

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/kube"
)

// How the Leases of all members are listed.
const (
	// heartbeatsEvery is how often. Members renew theirs every ten seconds by default, and are silent after a minute.
	heartbeatsEvery = 20 * time.Second
	// heartbeatsPage is how many with one request.
	heartbeatsPage = 500
	// heartbeatsAgain is how soon after a failure, and twice as late after each further one.
	heartbeatsAgain = time.Second
	// heardLongAgo is after how long what was listed counts for nothing: listing has failed.
	heardLongAgo = 3 * heartbeatsEvery
)

// heartbeats are the Leases of all members. They are listed every now and then and not watched: a thousand clusters
// renew 300 a second, and to be told of one by a watch takes the operator about ten times what reading it in a list does.
//
// What is known of an Etcd is up to a period old. While something happens to it, or before a member is said to be
// silent, its Leases are read anew: see [Reconciler.hear].
type heartbeats struct {
	live    client.Reader // asks the API server
	unknown time.Duration // after which a Lease is expired
	now     func() time.Time
	log     *slog.Logger

	listed chan struct{} // closed once all are known

	mu sync.RWMutex
	of map[types.NamespacedName]heard // by Etcd
}

// heard are the Leases of an Etcd as they were at a moment, by name. They belong to everybody.
type heard struct {
	at      time.Time
	changed time.Time // by the operator itself, after that; zero: not
	leases  []*coordinationv1.Lease
}

// newerThan says whether a listing that began then may have former ones.
func (h heard) newerThan(began time.Time) bool { return h.at.After(began) || h.changed.After(began) }

func newHeartbeats(live client.Reader, unknown time.Duration, now func() time.Time, log *slog.Logger) *heartbeats {
	return &heartbeats{live: live, unknown: unknown, now: now, log: log, listed: make(chan struct{}), of: map[types.NamespacedName]heard{}}
}

// Start implements source.Source: Etcds are looked at of which a Lease tells something.
func (h *heartbeats) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go h.run(ctx, func(etcd types.NamespacedName) { waiting{queue}.Add(reconcile.Request{NamespacedName: etcd}) })
	return nil
}

// WaitForSync implements source.SyncingSource: no Etcd is looked at before all Leases are known.
func (h *heartbeats) WaitForSync(ctx context.Context) error {
	select {
	case <-h.listed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("list the Leases of members: %w", context.Cause(ctx))
	}
}

// run lists until ctx ends.
func (h *heartbeats) run(ctx context.Context, tell func(etcd types.NamespacedName)) {
	known, again := false, heartbeatsAgain
	for {
		next := min(heartbeatsEvery, h.unknown/3)
		changed, err := h.poll(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			h.log.Warn("the Leases of the members could not be listed, and are listed again", "in", again, "error", err)
			next, again = again, min(2*again, heartbeatsEvery)
		case !known:
			known, again = true, heartbeatsAgain
			close(h.listed) // every Etcd is looked at now
		default:
			again = heartbeatsAgain
			for _, etcd := range changed {
				tell(etcd)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		}
	}
}

// poll lists the Leases of all members, and returns the Etcds of which one tells something.
func (h *heartbeats) poll(ctx context.Context) ([]types.NamespacedName, error) {
	began := h.now()
	found := map[types.NamespacedName][]*coordinationv1.Lease{}
	err := kube.ListPages(ctx, h.live, heartbeatsPage, func(page *coordinationv1.LeaseList) {
		for i := range page.Items {
			l := &page.Items[i]
			etcd := types.NamespacedName{Namespace: l.Namespace, Name: l.Labels[druidv1alpha1.LabelPartOf]}
			found[etcd] = append(found[etcd], h.kept(etcd, l))
		}
	}, ours)
	if err != nil {
		return nil, err
	}
	return h.take(began, found), nil
}

// kept is a Lease of which as much is what is kept already as can be: most differ only in when they were renewed.
func (h *heartbeats) kept(etcd types.NamespacedName, l *coordinationv1.Lease) *coordinationv1.Lease {
	h.mu.RLock()
	defer h.mu.RUnlock()
	before := h.of[etcd].leases
	if i := slices.IndexFunc(before, func(b *coordinationv1.Lease) bool { return b.UID == l.UID }); i >= 0 && !headChanged(before[i], l) {
		same := *before[i]
		same.ResourceVersion = l.ResourceVersion
		if !reflect.DeepEqual(same.Spec.HolderIdentity, l.Spec.HolderIdentity) {
			same.Spec.HolderIdentity = l.Spec.HolderIdentity
		}
		same.Spec.RenewTime = l.Spec.RenewTime
		return &same
	}
	whole := *l // and not the page that it came with
	return boundedLease(&whole)
}

// take replaces what is known by what was found, and returns the Etcds of which a Lease tells something. What was read
// or made after the listing began is newer.
func (h *heartbeats) take(began time.Time, found map[types.NamespacedName][]*coordinationv1.Lease) (changed []types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := make(map[types.NamespacedName]heard, len(found))
	for etcd, leases := range found {
		slices.SortFunc(leases, byLeaseName)
		of[etcd] = heard{at: began, leases: leases}
	}
	for etcd, before := range h.of {
		switch now, is := of[etcd]; {
		case before.newerThan(began):
			of[etcd] = before
		case !is && len(before.leases) > 0:
			changed = append(changed, etcd)
		case !is:
		case h.tells(before.leases, now.leases) || h.late(now) && !h.late(before):
			changed = append(changed, etcd)
		}
	}
	for etcd := range of {
		if _, was := h.of[etcd]; !was {
			changed = append(changed, etcd)
		}
	}
	h.of = of
	return changed
}

// tells: there are other members, or one is told anew by somebody else, plays another part, or is back after it was
// not heard of for longer than a threshold.
func (h *heartbeats) tells(before, now []*coordinationv1.Lease) bool {
	return !slices.EqualFunc(before, now, func(b, n *coordinationv1.Lease) bool {
		if b.UID != n.UID || headChanged(b, n) || !reflect.DeepEqual(b.Spec.HolderIdentity, n.Spec.HolderIdentity) {
			return false
		}
		was, is := b.Spec.RenewTime, n.Spec.RenewTime
		if was == nil || is == nil {
			return was == is
		}
		return is.Sub(was.Time) < h.unknown
	})
}

// late: a member was not heard of for half of the time after which its Lease is expired. Its Etcd, which may be steady, is looked at
// more often from there on.
func (h *heartbeats) late(at heard) bool {
	return slices.ContainsFunc(at.leases, func(l *coordinationv1.Lease) bool {
		return l.Spec.RenewTime != nil && at.at.Sub(l.Spec.RenewTime.Time) >= h.unknown/2
	})
}

func byLeaseName(a, b *coordinationv1.Lease) int { return cmp.Compare(a.Name, b.Name) }

// last are the Leases of an Etcd as they were listed, or read, last.
func (h *heartbeats) last(e *druidv1alpha1.Etcd) heard {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.of[client.ObjectKeyFromObject(e)]
}

// made takes note of a Lease that the operator made a moment ago.
func (h *heartbeats) made(e *druidv1alpha1.Etcd, l *coordinationv1.Lease) {
	h.change(e, l.Name, boundedLease(l))
}

// removed takes note of a Lease that the operator removed a moment ago.
func (h *heartbeats) removed(e *druidv1alpha1.Etcd, name string) { h.change(e, name) }

// change puts what there is of a name in its place. Of the others is known what was known before.
func (h *heartbeats) change(e *druidv1alpha1.Etcd, name string, there ...*coordinationv1.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := client.ObjectKeyFromObject(e)
	known, before := h.of[key]
	known.leases = append(slices.DeleteFunc(slices.Clone(known.leases), func(b *coordinationv1.Lease) bool { return b.Name == name }), there...)
	slices.SortFunc(known.leases, byLeaseName)
	if known.changed = h.now(); !before {
		known.at = known.changed
	}
	h.of[key] = known
}

// read asks for the Leases of one Etcd.
func (h *heartbeats) read(ctx context.Context, e *druidv1alpha1.Etcd) (heard, error) {
	key, found := client.ObjectKeyFromObject(e), heard{at: h.now()}
	err := kube.ListPages(ctx, h.live, heartbeatsPage, func(list *coordinationv1.LeaseList) {
		for i := range list.Items {
			found.leases = append(found.leases, h.kept(key, &list.Items[i]))
		}
	}, client.InNamespace(e.Namespace), client.MatchingLabels{druidv1alpha1.LabelManagedBy: druidv1alpha1.ManagedBy, druidv1alpha1.LabelPartOf: e.Name})
	if err != nil {
		return heard{}, fmt.Errorf("list the Leases of %s: %w", e.Name, err)
	}
	slices.SortFunc(found.leases, byLeaseName)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of[key] = found // also if there are none: a listing that began before still has them
	return found, nil
}

// kindLease is what an Etcd has one of for each member, as its heartbeat.
const kindLease = "Lease"

// hear reads the Leases of an Etcd anew where what was listed is not enough: something happens to its members, a pod got ready, one of
// them would be said to be silent, or nothing could be listed for a while. calm: nothing has to be done, by what was listed.
func (r *Reconciler) hear(ctx context.Context, o *Observed, calm bool) (anew bool, err error) {
	now := r.now()
	switch lives := slices.ContainsFunc(o.Pods, func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }); {
	case r.rehear:
	case !calm && lives:
	case o.expects(now):
	case len(o.Leases) > 0 && now.Sub(o.heard) > heardLongAgo:
	case slices.ContainsFunc(o.Leases, func(l coordinationv1.Lease) bool {
		return l.Spec.RenewTime != nil && now.Sub(l.Spec.RenewTime.Time) >= r.heartbeats.unknown && o.replicas() > 0
	}):
	default:
		return false, nil
	}
	return true, r.listen(ctx, o)
}

// awaitedFor is for how long a member that is ready is expected to be heard of.
const awaitedFor = time.Minute

// expects: a pod got ready a moment ago, of which nothing was heard yet, and soon will be. Its member counts for nothing until then.
func (o *Observed) expects(now time.Time) bool {
	return slices.ContainsFunc(o.Pods, func(p *corev1.Pod) bool {
		n, ours := o.Etcd.PodOrdinal(p.Name)
		i := slices.IndexFunc(o.Leases, func(l coordinationv1.Lease) bool { return ours && l.Name == o.Etcd.MemberLeaseName(n) })
		if i < 0 || p.DeletionTimestamp != nil {
			return false
		}
		renewed := o.Leases[i].Spec.RenewTime
		return (renewed == nil || renewed.Time.Before(p.CreationTimestamp.Time)) && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && now.Sub(c.LastTransitionTime.Time) < awaitedFor
		})
	})
}

// listen reads the Leases of an Etcd.
func (r *Reconciler) listen(ctx context.Context, o *Observed) error {
	h, err := r.heartbeats.read(ctx, o.Etcd)
	if err == nil {
		o.listen(h)
	}
	return err
}
