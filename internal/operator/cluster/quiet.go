package cluster

import (
	"encoding/json"
	"hash/maphash"
	"reflect"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/health"
	"druid.internal/druid/internal/operator/rollout"
	"druid.internal/druid/internal/operator/volumes"
)

// Quiet is a look at an Etcd after which nothing had to be done. As long as nothing is different from
// then, its objects are not made and compared again: most looks at most Etcds are of this kind.
type Quiet struct {
	print    uint64
	healthy  bool // as the PodDisruptionBudget was made for
	backedUp bool

	mode Mode
	why  string
	size rollout.ScaleStep
	// What was found about the specification.
	schedules, images []string

	volumes volumes.Action // as of this look
}

// After how many periods of status updates, and how long at the most unless one is longer, an Etcd is looked at for which nobody asks and
// that is steady.
const (
	steadyPeriods = 4
	steadyAtMost  = time.Minute
)

// steady: nothing was to be done, nothing is wrong, and after d nothing else will be decided or said, as long as its members go on to
// report and nobody tells of anything. What time alone changes changes once, such as a backup that gets too old, so it is the same until
// then, too.
func steady(o *Observed, p Plan, s Settings, now time.Time, d time.Duration) bool {
	if o.Quiet == nil || unsettled(o, p, now) {
		return false
	}
	later := *o
	later.Leases = slices.Clone(o.Leases)
	for i := range later.Leases {
		l := &later.Leases[i]
		if l.Spec.RenewTime == nil || now.Sub(l.Spec.RenewTime.Time) >= s.Thresholds.Unknown/2 {
			return false
		}
		l.Spec.RenewTime = &metav1.MicroTime{Time: l.Spec.RenewTime.Add(d)}
	}
	q, err := Decide(&later, s, now.Add(d))
	return err == nil && reflect.DeepEqual(p, q)
}

// unsettled: something is wrong, or on its way. Looks ask then for more than what is watched, such as Secrets, events and classes.
func unsettled(o *Observed, p Plan, now time.Time) bool {
	return p.Volumes.Kind != volumes.None || p.Hibernation != nil || len(troubledClaims(o, now)) > 0 ||
		o.Etcd.BackupsEnabled() && !holds(p.Conditions, druidv1alpha1.ConditionBackupReady) ||
		slices.ContainsFunc(o.Pods, func(p *corev1.Pod) bool { return p.Spec.NodeName != "" && !podReady(p) })
}

// fingerprint is over everything that decides what the objects of an Etcd shall be, and what they are.
// Of what is written all the time, Leases and EtcdMembers, it is over what tells whose they are.
func fingerprint(o *Observed) uint64 {
	var p tally
	e := o.Etcd
	p.add("etcd", string(e.UID), strconv.FormatInt(e.Generation, 10))
	p.pairs("annotation", "", e.Annotations)
	if g := e.Status.ObservedGeneration; g != nil {
		p.add("applied", strconv.FormatInt(*g, 10))
	}
	if r := e.Status.LastKnownRevision; r == nil || o.replicas() == 0 {
		p.add("revision", strconv.FormatInt(known(e), 10))
	}
	p.add("known", strconv.FormatInt(known(e)/knownStep, 10))
	p.add("held", strconv.FormatInt(heldBefore(e), 10))
	if h := health.Hibernation(o.Observation); h != nil {
		text, _ := json.Marshal(h) // of a struct of texts and times there is no error
		p.add("hibernation", string(text), newFull(o, h))
	}
	if o.anothers() {
		p.add("extension", o.Extension.Name)
	}
	for key, object := range o.Live {
		what := key.Kind + "/" + key.Name
		p.add(what, string(object.GetUID()))
		switch object := object.(type) {
		case *druidv1alpha1.EtcdMember:
			p.head(what, object)
			if t := object.Status.PeerTLSEnabled; t != nil {
				p.add(what, "tls", strconv.FormatBool(*t))
			}
		case *coordinationv1.Lease:
			p.head(what, object)
		default:
			p.add(what, "version", object.GetResourceVersion())
		}
	}
	for _, pod := range o.Pods {
		p.add("pod", pod.Name, string(pod.UID), pod.Labels[appsv1.ControllerRevisionHashLabelKey], strconv.FormatBool(pod.DeletionTimestamp != nil), pod.Annotations[druidv1alpha1.AnnotationConfigMapRead])
	}
	for i := range o.Claims {
		p.add("claim", o.Claims[i].Name)
	}
	return uint64(p)
}

// tally is the sum of the digests of facts, in whatever order: caches and maps have another one each time. It means
// nothing to another process.
type tally uint64

var tallies = maphash.MakeSeed()

// add takes one fact, which is all of the texts.
func (p *tally) add(texts ...string) {
	var h maphash.Hash
	h.SetSeed(tallies)
	for _, t := range texts {
		_, _ = h.WriteString(t)
		_ = h.WriteByte(0)
	}
	*p += tally(h.Sum64())
}

func (p *tally) pairs(kind, of string, m map[string]string) {
	for k, v := range m {
		p.add(kind, of, k, v)
	}
}

// head is what we write of an object that others fill.
func (p *tally) head(what string, o client.Object) {
	p.pairs("label", what, o.GetLabels())
	p.pairs("annotation", what, o.GetAnnotations())
	for _, r := range o.GetOwnerReferences() {
		p.add("owner", what, string(r.UID))
	}
	p.add("goes", what, strconv.FormatBool(o.GetDeletionTimestamp() != nil))
}

// quiet says whether a plan that was carried out left nothing to do, and what to remember of it.
func quiet(o *Observed, p Plan, out outcome) (Quiet, bool) {
	if out.changed || len(out.failures) > 0 || len(p.Refused) > 0 || !p.Done() || p.Mode == ModeWatch || p.Snapshot != nil ||
		len(p.Remove) > 0 || len(p.Remount) > 0 || o.NewToken != nil || o.Asked {
		return Quiet{}, false
	}
	return Quiet{
		print: fingerprint(o), mode: p.Mode, why: p.Why, size: p.Size, schedules: p.schedules, images: p.images,
		healthy: p.healthy, backedUp: p.safe.backedUp,
	}, true
}
