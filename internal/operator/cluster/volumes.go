package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/health"
	"druid.internal/druid/internal/operator/rollout"
	"druid.internal/druid/internal/operator/volumes"
)

// volumesUnasked is what is to be done about volumes, as far as is known without asking anybody. Nothing at all is that
// whatever else is known.
func (o *Observed) volumesUnasked(mode Mode) volumes.Action {
	return volumes.Decide(volumeFacts(o, mode, safety{}, time.Time{}))
}

// asksAbout: what comes next depends on what the sidecars know.
func asksAbout(a volumes.Action) bool { return !a.Done() && a.Kind != volumes.Expand }

// decideVolumes decides what is done about the volumes, after the size and the pods.
func (p *Plan) decideVolumes(o *Observed, now time.Time) {
	if p.Mode == ModeWatch {
		return
	}
	f := volumeFacts(o, p.Mode, p.safe, now)
	f.Replacing = p.Pod.Kind == rollout.Delete
	// A StatefulSet that were taken away for a larger template could not be made again while the specification is refused.
	f.Acts = f.Acts && len(p.Refused) == 0
	switch {
	case p.Size.Waits != "":
		f.Resizing = p.Size.Waits
	case !p.Size.Done:
		f.Resizing = p.Size.Reason
	}
	if p.Pod.Kind != "" && p.Pod.Kind != rollout.Done {
		f.Rolling = p.Pod.Reason
	}
	if p.Volumes = volumes.Decide(f); p.Volumes.Kind != volumes.None {
		noted := o.Observation
		noted.RolloutWaits, noted.Volumes = p.rolloutWaits(), p.volumeNote()
		p.Conditions = health.Conditions(noted, p.Members, now)
	}
}

// volumeNote is what is done about the volumes, for the condition DataVolumesReady.
func (p *Plan) volumeNote() health.VolumeNote {
	n := health.VolumeNote{Text: p.Volumes.Reason}
	switch {
	case p.Volumes.About == volumes.AboutGrowth && p.Volumes.Rule != "3.15":
		n.Reason = druidv1alpha1.ReasonVolumeResizing
	case p.Volumes.About == volumes.AboutStuck:
		n.Reason = druidv1alpha1.ReasonVolumeCannotBeResized
	}
	return n
}

// volumeFacts are what is decided from, but for what goes on with the size and the pods.
func volumeFacts(o *Observed, mode Mode, safe safety, now time.Time) volumes.Facts {
	e := o.Etcd
	if e.Spec.StorageCapacity == nil { // the API server has filled it in, if it made the Etcd by our definition
		e = e.DeepCopy()
		e.SetDefaults()
	}
	f := volumes.Facts{
		Now: now.UTC().Truncate(time.Second), Acts: mode == ModeApply || mode == ModeRepair,
		Want: *e.Spec.StorageCapacity, Wanted: int(sizeOf(o).want),
		BackupHealthy: safe.backedUp, BackupWhy: safe.why, NoStore: safe.noStore,
	}
	if t := o.claimTemplate(); t != nil {
		f.Template, f.TemplateKept = t.Spec.Resources.Requests[corev1.ResourceStorage], templateKept(e, t)
		f.SetUID, f.SetGoing = string(o.StatefulSet.UID), o.StatefulSet.DeletionTimestamp != nil
		f.Reminded = o.StatefulSet.Annotations[druidv1alpha1.AnnotationClaimGone]
	}
	listed, known := o.listed()
	f.MembersKnown = known
	last := max(f.Wanted, int(o.replicas()), int(o.configured().Members))
	var strangers []string
	for _, l := range listed {
		n, ours := e.MemberOrdinal(l.Name)
		switch {
		case l.Learner:
		case !ours || n >= last:
			strangers = append(strangers, name(l)+" is listed, and is none of this Etcd's members that work")
			fallthrough
		default:
			f.Voters++
		}
	}
	slices.Sort(strangers)
	f.Strangers = strings.Join(strangers, "; ")
	for i := range last {
		f.Members = append(f.Members, volumeMember(o, i, listed))
	}
	return f
}

func volumeMember(o *Observed, i int, listed []agentapi.Listed) volumes.Member {
	m := volumes.Member{Ordinal: i, Name: o.Etcd.MemberName(i)}
	for j := range o.Claims {
		if n, _ := o.claimOrdinal(o.Claims[j].Name); n == i {
			m.Claim = volumeClaim(o.Claims[j], o.Classes)
		}
	}
	if p := o.pod(i); p != nil {
		m.Pod, m.PodUID, m.PodGoing = p.Name, string(p.UID), p.DeletionTimestamp != nil
	}
	m.Voter = slices.ContainsFunc(listed, func(l agentapi.Listed) bool { return l.Name == m.Name && !l.Learner })
	sidecar, answered := o.Sidecars[i]
	switch {
	case !answered:
		m.Why = "the sidecar of " + m.Name + " does not answer"
	case !m.Voter || !participates(sidecar):
		m.Why = m.Name + " takes no part"
	case len(sidecar.Etcd.Alarms) > 0:
		m.Why = m.Name + " raised " + strings.Join(sidecar.Etcd.Alarms, " and ")
	default:
		m.Healthy, m.Leader = true, leads(sidecar)
	}
	member := o.member(i)
	if member == nil {
		return m
	}
	m.Trouble, m.Found = troubleOf(&member.Status)
	m.Full = member.Status.VolumeFull != ""
	if m.Found == "" && m.Claim != nil {
		m.Found = m.Claim.Volume
	}
	m.Confirmed = answered && m.Trouble != "" && m.Trouble == sidecarTrouble(sidecar)
	for _, t := range member.Status.Transitions {
		if t.State == druidv1alpha1.MemberStarted && t.TransitionTime.After(m.Worked) {
			m.Worked = t.TransitionTime.Time
		}
	}
	var err error
	if m.Record, err = volumes.ParseRecord(member.Annotations[druidv1alpha1.AnnotationVolumeActions]); err != nil {
		m.Unreadable = fmt.Sprintf("annotation %s of the EtcdMember %s: %v; remove it", druidv1alpha1.AnnotationVolumeActions, member.Name, err)
	}
	return m
}

// volumeClaim is a claim with what its class can do.
func volumeClaim(c *corev1.PersistentVolumeClaim, classes map[string]*storagev1.StorageClass) *volumes.Claim {
	v := &volumes.Claim{Name: c.Name, UID: string(c.UID), Volume: c.Spec.VolumeName, Asks: c.Spec.Resources.Requests[corev1.ResourceStorage], Going: c.DeletionTimestamp != nil}
	has, known := c.Status.Capacity[corev1.ResourceStorage]
	if v.Has = has; !known {
		v.Has = v.Asks
	}
	v.Class = className(c)
	if class := classes[v.Class]; class != nil {
		v.Grows = class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion
		v.Makes = class.Provisioner != noProvisioner
	}
	return v
}

func className(c *corev1.PersistentVolumeClaim) string {
	if c.Spec.StorageClassName == nil {
		return ""
	}
	return *c.Spec.StorageClassName
}

// noProvisioner is Kubernetes' name for classes whose volumes a person makes.
const noProvisioner = "kubernetes.io/no-provisioner"

// templateKept says why a claim template is not made anew, as it differs from ours in more than its size:
// claims with another name would be new and empty.
func templateKept(e *druidv1alpha1.Etcd, t *corev1.PersistentVolumeClaim) string {
	class := ""
	if c := e.Spec.StorageClass; c != nil {
		class = *c
	}
	switch {
	case t.Name != e.VolumeClaimTemplateName():
		return fmt.Sprintf("its name is %s, and that of the specification %s", t.Name, e.VolumeClaimTemplateName())
	case className(t) != class:
		return fmt.Sprintf("its StorageClass is %q, and that of the specification %q", className(t), class)
	case !slices.Equal(t.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}):
		return fmt.Sprintf("its access modes are %v, and ours ReadWriteOnce", t.Spec.AccessModes)
	}
	return ""
}

// troubleOf is what a member says of its volume, and whose data it found.
func troubleOf(m *druidv1alpha1.MemberReport) (volumes.Trouble, string) {
	if len(m.Transitions) == 0 {
		return "", ""
	}
	switch m.Transitions[len(m.Transitions)-1].Reason {
	case druidv1alpha1.MemberReasonVolumeReadOnly:
		return volumes.ReadOnly, ""
	case druidv1alpha1.MemberReasonVolumeMismatch:
		var newest *druidv1alpha1.VolumeMismatch
		for i := range m.VolumeMismatches {
			v := &m.VolumeMismatches[i]
			if v.FixedAt == nil && (newest == nil || v.IdentifiedAt.After(newest.IdentifiedAt.Time)) {
				newest = v
			}
		}
		if newest == nil {
			return volumes.Mismatch, ""
		}
		return volumes.Mismatch, newest.VolumeID
	}
	return "", ""
}

// sidecarTrouble is what a sidecar says of its volume at this moment.
func sidecarTrouble(m agentapi.Member) volumes.Trouble {
	if n := len(m.Transitions); n > 0 {
		switch m.Transitions[n-1].Reason {
		case agentapi.VolumeReadOnly:
			return volumes.ReadOnly
		case agentapi.VolumeMismatch:
			return volumes.Mismatch
		}
	}
	return ""
}

// classes reads those of claims that are smaller than wanted, or that a member cannot work with.
func (r *Reconciler) classes(ctx context.Context, o *Observed) error {
	e := o.Etcd
	if e.Spec.StorageCapacity == nil { // as above
		e = e.DeepCopy()
		e.SetDefaults()
	}
	for _, c := range o.Claims {
		n, _ := o.claimOrdinal(c.Name)
		trouble := volumes.Trouble("")
		if m := o.member(n); m != nil {
			trouble, _ = troubleOf(&m.Status)
		}
		asks, class := c.Spec.Resources.Requests[corev1.ResourceStorage], className(c)
		if _, read := o.Classes[class]; read || class == "" || trouble != volumes.ReadOnly && asks.Cmp(*e.Spec.StorageCapacity) >= 0 {
			continue
		}
		found := &storagev1.StorageClass{}
		switch err := r.live.Get(ctx, types.NamespacedName{Name: class}, found); {
		case apierrors.IsNotFound(err):
			found = nil
		case err != nil:
			return fmt.Errorf("read the StorageClass %s: %w", class, err)
		}
		if o.Classes == nil {
			o.Classes = map[string]*storagev1.StorageClass{}
		}
		o.Classes[class] = found
	}
	return nil
}
