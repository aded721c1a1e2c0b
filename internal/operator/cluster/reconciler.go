package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/health"
	"druid.internal/druid/internal/operator/kube"
	"druid.internal/druid/internal/operator/metrics"
)

// soon is how long until the next look when a step was made, or something is waited for that nobody tells of.
const soon = 2 * time.Second

// mountPatience is how long a pod on a node may take to start before what it mounts is looked for.
const mountPatience = 15 * time.Second

// Reconciler makes clusters of Etcds.
type Reconciler struct {
	settings   Settings
	syncPeriod time.Duration
	now        func() time.Time

	client   client.Client
	live     client.Reader // asks the API server
	stores   stores        // what they give belongs to everybody
	cluster  *kube.Cluster
	applier  *kube.Applier
	recorder events.EventRecorder
	asking   *asking
	// snapshots are taken while Etcds are looked at.
	snapshots *snapshots
	metrics   *metrics.Catalogue
	configs   *configurations
	// heartbeats are the Leases; rehear: they are read at every look.
	heartbeats *heartbeats
	rehear     bool
	logger     *slog.Logger

	mu     sync.Mutex
	tokens map[types.UID]time.Time // when the Secret was seen last, or taken for granted, by Etcd
	claims map[types.UID]claimNews
	quiet  map[types.UID]Quiet
	writes map[types.UID]wroteSet // by Etcd, until the cache has it
	// undone is what somebody else had changed, and was put back, that was not told of yet, by Etcd.
	undone map[types.UID][]string
	// restored is when restores of members ended that were told of, by Etcd and member.
	restored map[types.UID]map[string]time.Time
}

// Reconcile looks at one Etcd.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	e, there, err := named[*druidv1alpha1.Etcd](r.stores, req.Namespace, req.Name)
	if err != nil || !there {
		return reconcile.Result{}, err
	}
	if !controllerutil.ContainsFinalizer(e, druidv1alpha1.Finalizer) || e.DeletionTimestamp != nil {
		e = e.DeepCopy() // it is changed itself
	}
	if e.DeletionTimestamp != nil {
		return r.delete(ctx, e)
	}
	clock := r.metrics.Clock()
	o, err := r.look(ctx, e)
	if err != nil {
		r.metrics.Failure(string(codeObserve))
		return reconcile.Result{}, errors.Join(err, r.blind(ctx, e, err))
	}
	clock.Ended(metrics.Observe)
	if o.Early > 0 {
		return reconcile.Result{RequeueAfter: o.Early}, nil
	}
	now := r.now()
	p, err := Decide(o, r.settings, now)
	clock.Ended(metrics.Decide)
	if p.NoUpgrade {
		r.snapshots.dropUpgrades(e)
	}
	var out outcome
	switch {
	case err != nil:
		out.fail(codeDecide, err)
	case p.Mode != ModeWatch:
		if err := r.finalizer(ctx, e); err != nil {
			return reconcile.Result{}, err
		}
		if p.Sleep.DeleteClaims {
			if err := r.sleeps(ctx, o); err != nil {
				return reconcile.Result{}, err
			}
		}
		if err := r.writeDown(ctx, e, p.Hibernation); err != nil {
			return reconcile.Result{}, err
		}
		if out = r.apply(ctx, o, p); out.there {
			return reconcile.Result{RequeueAfter: togetherWithin}, nil // the next look says whose it is
		}
		if o.CollectionTaken && collects(e) {
			out.fail(codeOf("SYNC", collectionTask(e)), fmt.Errorf("somebody made another EtcdOperatorTask of the name %s, which is the operator's, so nobody deletes backups: delete it", e.CollectionTaskName()))
		}
	}
	clock.Ended(metrics.Apply)
	r.remember(o, p, out)
	r.count(p, out)
	if out.begins(o, p) {
		r.wrote(e, wroteSet{})
		return r.next(o, p, out)
	}
	s := statusOf(o, p, out, string(controller.ReconcileIDFromContext(ctx)), now)
	r.tell(ctx, o, p, out, s)
	if err := r.write(ctx, e, s); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.finish(ctx, o, p, out); err != nil {
		return reconcile.Result{}, err
	}
	clock.Ended(metrics.Report)
	return r.next(o, p, out)
}

// blind writes that nothing is decided, as something cannot be read.
func (r *Reconciler) blind(ctx context.Context, e *druidv1alpha1.Etcd, err error) error {
	if ctx.Err() != nil {
		return nil // the operator ends
	}
	s := *e.Status.DeepCopy()
	s.LastErrors = lastErrors(s.LastErrors, []failure{{codeObserve, err}}, r.now())
	return r.write(ctx, e, s)
}

// count measures what a look came to.
func (r *Reconciler) count(p Plan, out outcome) {
	result := metrics.Waits
	switch {
	case unheardOf(out.failures):
	case len(out.failures) > 0:
		result = metrics.Failed
	case len(p.Refused) > 0:
		result = metrics.Refused
	case p.Done() && !out.changed:
		result = metrics.Done
	}
	r.metrics.Looked(string(p.Mode), result)
	if unheardOf(out.failures) {
		return
	}
	for _, f := range out.failures {
		r.metrics.Failure(string(f.code))
	}
}

// next is when the Etcd is looked at again, if nothing happens before.
func (r *Reconciler) next(o *Observed, p Plan, out outcome) (reconcile.Result, error) {
	var errs []error
	for _, f := range out.failures {
		errs = append(errs, f.err)
	}
	switch {
	case unheardOf(out.failures):
		return reconcile.Result{RequeueAfter: min(soon, r.syncPeriod), Priority: priority(0)}, nil
	case len(errs) > 0:
		return reconcile.Result{}, errors.Join(errs...) // again, later each time
	case p.Mode != ModeWatch && ((!p.Done() || out.set) && len(p.Refused) == 0 || o.expects(r.now())):
		return reconcile.Result{RequeueAfter: min(soon, r.syncPeriod), Priority: priority(0)}, nil
	}
	period := r.syncPeriod
	if longer := max(period, min(steadyPeriods*period, steadyAtMost)); steady(o, p, r.settings, r.now(), longer) {
		period = longer
	}
	// Looks for which nobody asked come last: if they were all that there is time for, new Etcds would
	// wait for ever.
	return reconcile.Result{RequeueAfter: inStep(r.now(), period), Priority: priority(handler.LowPriority)}, nil
}

// steps are how many moments there are in a period at which Etcds are looked at for which nobody asked.
const steps = 15

// inStep is in how long such a moment is, after a period or little less: to wake up for each of many Etcds takes as
// long as the looks do.
func inStep(now time.Time, period time.Duration) time.Duration {
	step := period / steps
	if step == 0 {
		return period
	}
	return now.Add(period).Truncate(step).Sub(now)
}

func priority(p int) *int { return &p }

// look observes, and asks the sidecars if that is needed.
func (r *Reconciler) look(ctx context.Context, e *druidv1alpha1.Etcd) (*Observed, error) {
	o, err := r.observe(e)
	if err != nil {
		return nil, err
	}
	if err := r.whole(ctx, o); err != nil {
		return nil, err
	}
	if err := r.findOriginal(ctx, o); err != nil {
		return nil, err
	}
	if o.Early = r.early(o, r.now()); o.Early > 0 {
		return o, nil
	}
	o.Configured = r.configs.read(e, o.ConfigMap)
	if o.ClusterUID, err = r.cluster.UID(ctx); err != nil {
		return nil, err
	}
	mode, _, _ := modeOf(o, r.settings)
	if err := r.strayClaims(ctx, o, mode); err != nil {
		return nil, err
	}
	r.claimEvents(ctx, o)
	if mode == ModeWatch {
		return o, nil
	}
	if err := r.classes(ctx, o); err != nil {
		return nil, err
	}
	pending := o.volumesUnasked(mode)
	q, calm := r.calm(o)
	if anew, err := r.hear(ctx, o, calm && pending.Done()); err != nil {
		return nil, err
	} else if anew {
		q, calm = r.calm(o)
	}
	if calm && pending.Done() {
		if err := r.token(ctx, o, false); err != nil {
			return nil, err
		}
		if o.NewToken == nil && !o.TokenTaken && !o.TokenGoing && o.TokenFault == "" {
			q.volumes = pending
			o.Quiet = &q
			return o, nil
		}
	}
	if sizeOf(o).want > 0 {
		r.snapshots.drop(e.UID, finalFor(e))
	}
	o.Snapshots = r.snapshots.of(e)
	s := sizeOf(o)
	asks := s.asks() || len(outdated(o)) > 0 || o.foreign() || asksAbout(pending) || fallsAsleep(o, r.now())
	if o.Asked = asks; asks && !r.asking.take(o) {
		o.Early = answersAtMost // an event comes with the answers
		return o, nil
	}
	if err := r.token(ctx, o, asks); err != nil {
		return nil, err
	}
	if err := r.missingSecrets(ctx, o); err != nil {
		return nil, err
	}
	if s.certifies() {
		if err := r.tryCertificates(ctx, o, s); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// calm is an earlier look that found the same as this one, with nothing to do.
func (r *Reconciler) calm(o *Observed) (Quiet, bool) {
	r.mu.Lock()
	q, known := r.quiet[o.Etcd.UID]
	r.mu.Unlock()
	return q, known && !r.unready(o) && len(outdated(o)) == 0 && q.print == fingerprint(o)
}

// remember keeps a look after which nothing had to be done.
func (r *Reconciler) remember(o *Observed, p Plan, out outcome) {
	if o.Quiet != nil && len(p.Objects) == 0 {
		return // it is one already
	}
	q, is := quiet(o, p, out)
	r.mu.Lock()
	defer r.mu.Unlock()
	if is {
		r.quiet[o.Etcd.UID] = q
	} else {
		delete(r.quiet, o.Etcd.UID)
	}
}

// unready: a pod is on a node and is not ready, for longer than starting takes.
func (r *Reconciler) unready(o *Observed) bool {
	return slices.ContainsFunc(o.Pods, func(p *corev1.Pod) bool {
		return p.Spec.NodeName != "" && !podReady(p) && r.now().Sub(unreadySince(p)) > mountPatience
	})
}

// finalizer keeps the Etcd until its objects are gone.
func (r *Reconciler) finalizer(ctx context.Context, e *druidv1alpha1.Etcd) error {
	if controllerutil.ContainsFinalizer(e, druidv1alpha1.Finalizer) {
		return nil
	}
	before := head(e)
	before.ResourceVersion, before.Finalizers = e.ResourceVersion, e.Finalizers
	after := before.DeepCopy()
	controllerutil.AddFinalizer(after, druidv1alpha1.Finalizer)
	if err := r.client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kube.FieldManager)); err != nil {
		return fmt.Errorf("add the finalizer: %w", err)
	}
	e.ResourceVersion, e.Finalizers = after.ResourceVersion, after.Finalizers
	return nil
}

// head is an Etcd for requests of which the answer need not be the whole Etcd: nothing else is read of it.
func head(e *druidv1alpha1.Etcd) *metav1.PartialObjectMetadata {
	h := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name, UID: e.UID}}
	h.SetGroupVersionKind(druidv1alpha1.GroupVersion().WithKind(druidv1alpha1.KindEtcd))
	return h
}

// finish takes annotations away by which somebody asked for what is done: for the specification that was seen, and
// with the values that were. Who asks for a newer one meanwhile has that looked at.
func (r *Reconciler) finish(ctx context.Context, o *Observed, p Plan, out outcome) error {
	e := o.Etcd
	if len(out.failures) > 0 || len(p.Refused) > 0 || !p.Size.Done {
		return nil
	}
	var done []string
	for name, value := range e.Annotations {
		switch name {
		case druidv1alpha1.AnnotationOperation, druidv1alpha1.AnnotationOperationOld:
			if p.Mode == ModeApply && value == druidv1alpha1.OperationReconcile {
				done = append(done, name)
			}
		case druidv1alpha1.AnnotationTakeOverBackups:
			// All pods were told, and whoever makes the backups could. While there are none the condition is that of before.
			if p.Mode != ModeWatch && e.NoMembers() == "" && p.Done() && len(elsewhere(o)) == 0 && holds(p.Conditions, druidv1alpha1.ConditionBackupReady) {
				done = append(done, name)
			}
		}
	}
	if len(done) == 0 {
		return nil
	}
	// The version of the Etcd says nothing here: it changes with each status.
	steps := []step{{"test", "/metadata/uid", e.UID}, {"test", "/metadata/generation", e.Generation}}
	for _, name := range done {
		path := "/metadata/annotations/" + strings.ReplaceAll(name, "/", "~1")
		steps = append(steps, step{"test", path, e.Annotations[name]}, step{"remove", path, nil})
	}
	patch, err := json.Marshal(steps)
	if err == nil {
		err = r.client.Patch(ctx, head(e), client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(kube.FieldManager))
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the annotation of what is done from the Etcd of generation %d: %w", e.Generation, err)
	}
	return nil
}

// step is one of a JSON patch, which is carried out whole or, if a test fails, not at all.
type step struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// undid notes what is told of at the end of this look, or of the next one if this one fails.
func (r *Reconciler) undid(e *druidv1alpha1.Etcd, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.undone[e.UID] = append(r.undone[e.UID], what)
}

// tell logs and sends events of what became different.
func (r *Reconciler) tell(ctx context.Context, o *Observed, p Plan, out outcome, s druidv1alpha1.EtcdStatus) {
	e := o.Etcd
	op, before := s.LastOperation, e.Status.LastOperation
	if op != nil && (before == nil || before.RunID != op.RunID) {
		r.log(ctx).Info("the Etcd was looked at", "mode", p.Mode, "why", p.Why, "operation", op.Type, "state", op.State, "description", op.Description)
		switch {
		case op.State == druidv1alpha1.LastOperationSucceeded:
			r.event(e, Applied, op.Description)
		case len(p.Refused) > 0:
			r.event(e, Refused, op.Description)
		case op.State == druidv1alpha1.LastOperationError:
			r.event(e, ApplyFailed, op.Description)
		case !p.Size.Done && !unheardOf(out.failures):
			r.event(e, Scaling, op.Description)
		}
	}
	r.mu.Lock()
	undone := r.undone[e.UID]
	delete(r.undone, e.UID)
	r.mu.Unlock()
	if len(undone) > 0 {
		r.event(e, ChangeUndone, strings.Join(undone, "; "))
	}
	for _, n := range byKind(slices.Concat(holdNews(health.Hibernation(o.Observation), s.Hibernation), hibernationNews(e.Status.Conditions, s.Conditions), conditionNews(e, s.Conditions), backupNews(e.Status.Backup, s.Backup), r.restoreNews(o))) {
		r.event(e, n.kind, n.note)
	}
}

func (r *Reconciler) log(ctx context.Context) *slog.Logger {
	return r.logger.With("run", controller.ReconcileIDFromContext(ctx))
}
