package cluster

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/health"
	"druid.internal/druid/internal/operator/kube"
)

// refuse finds what is not done although the specification wants it.
func (p *Plan) refuse(o *Observed, in desired.Input) {
	e := o.Etcd
	p.adopt(o)
	no := func(reason string, args ...any) { p.Refused = append(p.Refused, fmt.Sprintf(reason, args...)) }
	if o.TokenTaken {
		no("%s", tokenTaken(e))
	}
	if o.ClaimsOf != "" {
		no("%s, the first volume claim that this Etcd would have, is that of the Etcd %s, and its members would be given the other's volumes: delete this Etcd, and create it with another spec.volumeClaimTemplate or name",
			e.VolumeClaimName(0), o.ClaimsOf)
	}
	if o.TokenFault != "" {
		no("the Secret %s does not hold in %s with what sidecars can be asked any more (%s), and members that start do not get ready with it: delete it, and another one is made, with which they do a minute later",
			e.TokenSecretName(), desired.TokenKey, o.TokenFault)
	}
	for _, s := range e.Secrets() {
		if s.Namespace != "" && s.Namespace != e.Namespace {
			no("%s names the namespace %s, from which pods cannot have Secrets: copy %s into %s", s.Field, s.Namespace, s.Name, e.Namespace)
		}
	}
	if s := e.Spec.Backup.Store; s != nil {
		if _, err := snapshot.NewPrefix(s.Prefix); err != nil { // of an Etcd from before the schema had the rule
			no("spec.backup.store.prefix: %v", err)
		}
	}
	for _, why := range unmakable(e) {
		no("%s", why)
	}
	if live := o.configured(); !o.foreign() && o.originals() && live.Clients != "" && live.Clients != desired.ListenClients(e) {
		no("the original's pods serve clients at %s until the last of them is replaced, and cannot be asked otherwise: set spec.etcd.clientUrlTls and clientPort back, and change them afterwards", live.Clients)
	}
	if i := immutabilityOf(in.Etcd); i != nil && i.RetentionPeriod != nil {
		if c := health.Coverage(in.Etcd, i.RetentionPeriod.Duration); !c.Holds() {
			no("spec.backup.store.immutability.retentionPeriod is too short for spec.backup.fullSnapshotSchedule %q: %s; lengthen the period, or take fulls more often", *in.Etcd.Spec.Backup.FullSnapshotSchedule, c)
		}
	}
	if (p.Size.PeerTLS || p.Size.PeerCertificates) && in.Etcd.Spec.Etcd.PeerUrlTLS == nil {
		no("members use TLS between each other, and which Secrets they do that with is not known any more: name them in spec.etcd.peerUrlTls until all members have changed")
	}
}

// unmakable is what the API server would refuse of the objects that are made, in the fields of the Etcd. The schema cannot tell.
func unmakable(e *druidv1alpha1.Etcd) (all []string) {
	var errs field.ErrorList
	each := func(m map[string]string, at *field.Path, valid func(map[string]string, *field.Path) field.ErrorList) {
		before := len(errs)
		for _, k := range slices.Sorted(maps.Keys(m)) { // the same text at each look
			errs = append(errs, valid(map[string]string{k: m[k]}, at.Key(k))...)
		}
		if len(errs) == before {
			errs = append(errs, valid(m, at)...) // all of them may be too much
		}
	}
	carried := e.PodLabels()
	taken := func(m map[string]string) map[string]string { // not those that others win over
		m = maps.Clone(m)
		maps.DeleteFunc(m, func(k, v string) bool { return carried[k] != v })
		return m
	}
	spec := field.NewPath("spec")
	each(taken(e.Spec.Labels), spec.Child("labels"), validation.ValidateLabels)
	if s := e.Spec.Selector; s != nil { //nolint:staticcheck // the pods of who still uses it carry its labels
		each(taken(s.MatchLabels), spec.Child("selector", "matchLabels"), validation.ValidateLabels)
	}
	each(e.Spec.Annotations, spec.Child("annotations"), apivalidation.ValidateAnnotations)
	if s := e.Spec.Etcd.ClientService; s != nil {
		service := spec.Child("etcd", "clientService")
		each(s.Labels, service.Child("labels"), validation.ValidateLabels)
		each(s.Annotations, service.Child("annotations"), apivalidation.ValidateAnnotations)
	}
	for _, err := range errs {
		all = append(all, err.Error())
	}
	for _, r := range []struct {
		field     string
		resources *corev1.ResourceRequirements
	}{{"spec.etcd.resources", e.Spec.Etcd.Resources}, {"spec.backup.resources", e.Spec.Backup.Resources}} {
		if r.resources == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(r.resources.Requests)) {
			wants := r.resources.Requests[name]
			if most, limited := r.resources.Limits[name]; limited && wants.Cmp(most) > 0 {
				all = append(all, fmt.Sprintf("%s: requests.%s is %s, and limits.%s only %s: lower the request, or raise the limit", r.field, name, &wants, name, &most))
			}
		}
	}
	return all
}

// tokenTaken is why nothing is done about an Etcd whatever its specification says.
func tokenTaken(e *druidv1alpha1.Etcd) string {
	return fmt.Sprintf("the Secret %s is somebody else's, and the sidecars' token cannot be anywhere else: delete it, or name the Etcd differently", e.TokenSecretName())
}

// sustain has a cluster that runs keep what it needs while its specification is refused, as one that is only tended does: what somebody
// deleted is made again, and the PodDisruptionBudget follows the health of the members that there are. The pods' template and
// configuration stay as they are; without them nothing is made, as what they said is not known any more.
func (p *Plan) sustain(o *Observed, size size, in desired.Input, now time.Time) error {
	if o.foreign() || o.incomplete() || o.replicas() == 0 {
		return nil
	}
	p.sustained, p.healthy, p.Size = true, p.allReady(o, now), size.keep("the specification is refused")
	in.Members, in.Replicas, in.Closed = p.Size.Members, p.Size.Replicas, false
	in.PeerTLS, in.PeerCertificates = false, false // of which only the pods and their configuration know
	in.MinAvailable = health.MinAvailable(p.Size.Replicas, p.healthy, p.safe.backedUp)
	asRunning(o, in)
	set, err := desired.Objects(in)
	if err != nil {
		return err
	}
	p.pick(o, size, set, true)
	return nil
}

// asRunning has the objects around the pods be those of the pods that run, where the specification is not applied.
func asRunning(o *Observed, in desired.Input) {
	if o.incomplete() {
		return
	}
	desired.PortsInUse(in.Etcd, o.StatefulSet.Spec.Template.Spec)
	if s, there := o.Live[Key{"Service", o.Etcd.ClientServiceName()}].(*corev1.Service); there {
		annotations := maps.Clone(s.Annotations)
		delete(annotations, kube.AnnotationApplied)
		in.Etcd.Spec.Etcd.ClientService = &druidv1alpha1.ClientService{Labels: s.Labels, Annotations: annotations, TrafficDistribution: s.Spec.TrafficDistribution}
	}
}

// distrust: of a store with which the members run, and which a specification that is not applied does not name any more, nothing is
// known, so that they are not taken for backed up.
func (p *Plan) distrust(o *Observed) {
	unapplied := p.Mode == ModeTend || len(p.Refused) > 0
	if unapplied && p.safe.noStore && o.StatefulSet != nil && o.StatefulSet.Spec.Template.Annotations[druidv1alpha1.AnnotationBackupChecksum] != "" {
		p.safe = safety{why: "the specification, which is not applied, does not name their store any more"}
	}
}

// reopens: the live object is a Service that has none of etcd's ports, as the cluster was falling asleep, and shall have them.
func (o *Observed) reopens(live, want client.Object) bool {
	is, ok := live.(*corev1.Service)
	shall, same := want.(*corev1.Service)
	return ok && same && !desired.Serves(is) && desired.Serves(shall) && o.replicas() > 0 && !o.stops()
}
