package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
)

// staysDisabled: what is needed to begin again, and the identity of the Jobs that keep the backup locked.
func staysDisabled(kind string) bool {
	return kind == "ConfigMap" || kind == "StatefulSet" || kind == "ServiceAccount"
}

// superfluous finds what nobody wants any more.
func (p *Plan) superfluous(o *Observed, size size) {
	e := o.Etcd
	remove := func(kind, name, reason string, args ...any) {
		object, there := o.Live[Key{kind, name}]
		if !there || object.GetDeletionTimestamp() != nil {
			return
		}
		if owner := metav1.GetControllerOf(object); owner != nil && owner.UID != e.UID {
			return
		}
		p.Remove = append(p.Remove, Removal{object, kind, fmt.Sprintf(reason, args...)})
	}
	for _, name := range []string{e.FullSnapshotLeaseName(), e.DeltaSnapshotLeaseName()} {
		if o.originals() {
			break // whose sidecars write to them
		}
		remove("Lease", name, "the original's heartbeat of snapshots: the EtcdMembers tell of them now")
	}
	if p.Mode == ModeTend {
		return
	}
	if e.RuntimeComponentsDisabled() {
		if o.replicas() == 0 && len(o.Pods) == 0 {
			for _, key := range slices.SortedFunc(maps.Keys(o.Live), func(a, b Key) int { return strings.Compare(a.String(), b.String()) }) {
				m, _ := o.Live[key].(*druidv1alpha1.EtcdMember)
				forgets := m != nil && m.Status.Revision > known(e)
				if !staysDisabled(key.Kind) && key.Kind != druidv1alpha1.KindEtcdOperatorTask && !forgets {
					remove(key.Kind, key.Name, "switched off by the annotation %s", druidv1alpha1.AnnotationDisableRuntimeComponents)
				}
			}
		}
		return
	}
	if p.Size.Replicas == 0 && o.replicas() == 0 && len(o.Pods) == 0 {
		for i := range o.Members {
			if m := &o.Members[i]; m.Status.Revision <= known(e) {
				remove(druidv1alpha1.KindEtcdMember, m.Name, "the cluster sleeps")
			}
		}
		// Members of which the last news is of before the sleep would seem to be gone for good.
		for i := range o.Leases {
			if l := &o.Leases[i]; l.Spec.RenewTime == nil || e.Status.LastKnownRevision != nil {
				remove(kindLease, l.Name, "the cluster sleeps")
			}
		}
		return
	}
	listed, sure := o.listed()
	keep := max(int(p.Size.Members), int(p.Size.Replicas), int(o.replicas()))
	for i := range o.Members {
		m := &o.Members[i]
		n, _ := e.MemberOrdinal(m.Name)
		if n < keep || !(sure || size.unborn()) || m.Status.Revision > known(e) {
			continue
		}
		if slices.ContainsFunc(listed, func(l agentapi.Listed) bool { return l.Name == m.Name }) {
			continue
		}
		remove(druidv1alpha1.KindEtcdMember, m.Name, "it has left the cluster of %d", p.Size.Members)
		remove("Lease", m.Name, "its member has left the cluster of %d", p.Size.Members)
	}
	for i := range o.Leases {
		l := &o.Leases[i]
		if n, _ := e.MemberOrdinal(l.Name); n >= keep && o.member(n) == nil {
			remove("Lease", l.Name, "there is no such member")
		}
	}
}
