package cluster

import (
	"cmp"
	"encoding/json"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/health"
	"druid.internal/druid/internal/operator/rollout"
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
}

// fingerprint is over everything that decides what the objects of an Etcd shall be, and what they are.
// Of what is written all the time, Leases and EtcdMembers, it is over what tells whose they are.
func fingerprint(o *Observed) uint64 {
	h := fnv.New64a()
	put := func(texts ...string) {
		for _, t := range texts {
			_, _ = io.WriteString(h, t)
			_, _ = h.Write([]byte{0})
		}
	}
	pairs := func(m map[string]string) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			put(k, m[k])
		}
		put("")
	}
	e := o.Etcd
	put(string(e.UID), strconv.FormatInt(e.Generation, 10))
	pairs(e.Annotations)
	if g := e.Status.ObservedGeneration; g != nil {
		put(strconv.FormatInt(*g, 10))
	}
	if r := e.Status.LastKnownRevision; r == nil || o.replicas() == 0 {
		put("revision", strconv.FormatInt(known(e), 10))
	}
	if h := health.Hibernation(o.Observation); h != nil {
		text, _ := json.Marshal(h) // of a struct of texts and times there is no error
		put(string(text), newFull(o, h))
	}
	if o.anothers() {
		put("extension", o.Extension.Name)
	}
	for _, key := range slices.SortedFunc(maps.Keys(o.Live), func(a, b Key) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) }) {
		object := o.Live[key]
		put(key.Kind, key.Name, string(object.GetUID()))
		switch object := object.(type) {
		case *druidv1alpha1.EtcdMember:
			head(object, put, pairs)
			if t := object.Status.PeerTLSEnabled; t != nil {
				put(strconv.FormatBool(*t))
			}
		default:
			if key.Kind == "Lease" {
				head(object, put, pairs)
				continue
			}
			put(object.GetResourceVersion())
		}
	}
	for _, p := range byName(o.Pods) {
		put(p.Name, string(p.UID), p.Labels[appsv1.ControllerRevisionHashLabelKey], strconv.FormatBool(p.DeletionTimestamp != nil), p.Annotations[druidv1alpha1.AnnotationConfigMapRead])
	}
	for _, c := range byName(o.Claims) {
		put(c.Name)
	}
	return h.Sum64()
}

// byName sorts objects: a cache lists them in another order each time.
func byName[T any, P interface {
	*T
	client.Object
}](all []T) []P {
	sorted := make([]P, len(all))
	for i := range all {
		sorted[i] = &all[i]
	}
	slices.SortFunc(sorted, func(a, b P) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return sorted
}

// head is what we write of an object that others fill.
func head(o client.Object, put func(...string), pairs func(map[string]string)) {
	pairs(o.GetLabels())
	pairs(o.GetAnnotations())
	for _, r := range o.GetOwnerReferences() {
		put(string(r.UID))
	}
	put(strconv.FormatBool(o.GetDeletionTimestamp() != nil))
}

// quiet says whether a plan that was carried out left nothing to do, and what to remember of it.
func quiet(o *Observed, p Plan, out outcome) (Quiet, bool) {
	if out.changed || len(out.failures) > 0 || len(p.Refused) > 0 || !p.Done() || p.Mode == ModeWatch || p.Snapshot != nil ||
		len(p.Remove) > 0 || len(p.Remount) > 0 || o.NewToken != nil || o.Asked {
		return Quiet{}, false
	}
	return Quiet{
		print: fingerprint(o), mode: p.Mode, why: p.Why, size: p.Size, schedules: p.schedules, images: p.images,
		healthy: holds(p.Conditions, druidv1alpha1.ConditionAllMembersReady), backedUp: p.safe.backedUp,
	}, true
}
