package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// volumes looks at what the members say of their volumes, at their claims, and at warnings about
// these that are not overtaken.
func (v view) volumes() finding {
	for _, look := range []func() (string, saidOf){v.memberVolumes, v.claims} {
		if reason, bad := look(); len(bad) > 0 {
			if v.Volumes.Text != "" {
				return fails(reason, "%s; %s", bad, v.Volumes.Text)
			}
			return fails(reason, "%s", bad)
		}
	}
	switch v.Volumes.Reason {
	case druidv1alpha1.ReasonVolumeCannotBeResized:
		return fails(v.Volumes.Reason, "%s", v.Volumes.Text)
	case druidv1alpha1.ReasonVolumeResizing:
		// Members work with what they have until then.
		return holds(v.Volumes.Reason, "%s", v.Volumes.Text)
	}
	var missing []string
	for _, i := range v.ordinals() {
		if v.claim(i) == nil {
			missing = append(missing, v.claimName(i))
		}
	}
	if len(missing) > 0 {
		return unclear(druidv1alpha1.ReasonDataVolumesUnknown, "volume claims that do not exist yet: %s", strings.Join(missing, ", "))
	}
	note := ""
	if v.Volumes.Text != "" {
		note = "; " + v.Volumes.Text
	}
	return holds(druidv1alpha1.ReasonDataVolumesReady, "volumes that are ready: %d of %d%s", len(v.ordinals()), len(v.ordinals()), note)
}

func (v view) claimName(ordinal int) string {
	return v.ClaimTemplateName() + "-" + v.Etcd.PodName(ordinal)
}

func (v view) claim(ordinal int) *corev1.PersistentVolumeClaim {
	return pointed(v.Claims, v.claimName(ordinal))
}

// memberVolumes are the volumes that their members cannot work with.
func (v view) memberVolumes() (reason string, bad saidOf) {
	for _, i := range v.ordinals() {
		m := v.member(i)
		if m == nil {
			continue
		}
		why, text := memberVolume(m.Status)
		if why == "" {
			continue
		}
		if reason == "" {
			reason = why
		}
		bad.add(fmt.Sprintf("%s, claim %s", m.Name, v.claimName(i)), text)
	}
	return reason, bad
}

// memberVolume is what a member says is wrong with its volume; an empty reason: nothing.
func memberVolume(m druidv1alpha1.MemberReport) (reason, text string) {
	if n := len(m.Transitions); n > 0 {
		last := m.Transitions[n-1]
		switch last.Reason {
		case druidv1alpha1.MemberReasonVolumeReadOnly:
			return druidv1alpha1.ReasonVolumeReadOnly, cmp.Or(last.Message, string(last.Reason))
		case druidv1alpha1.MemberReasonVolumeMismatch:
			return druidv1alpha1.ReasonVolumeMismatch, cmp.Or(last.Message, string(last.Reason))
		}
	}
	if m.VolumeFull != "" {
		return druidv1alpha1.ReasonVolumeFull, m.VolumeFull + "; raise spec.storageCapacity"
	}
	return "", ""
}

// claims are those that are lost, that cannot grow, or that somebody warns of.
func (v view) claims() (reason string, bad saidOf) {
	for _, i := range v.ordinals() {
		c := v.claim(i)
		if c == nil {
			continue
		}
		why, text := v.claimTrouble(c)
		if text == "" {
			continue
		}
		if reason == "" {
			reason = why
		}
		bad.add("claim "+c.Name, text)
	}
	return reason, bad
}

func (v view) claimTrouble(c *corev1.PersistentVolumeClaim) (reason, text string) {
	if c.Status.Phase == corev1.ClaimLost {
		return druidv1alpha1.ReasonDataVolumesNotReady, "its volume is lost"
	}
	if text := v.going(c); text != "" {
		return druidv1alpha1.ReasonDataVolumesNotReady, text
	}
	// The newest warning that still counts: events are kept for an hour, and what they tell of may
	// be over.
	var newest *corev1.Event
	for i := range v.ClaimEvents {
		e := &v.ClaimEvents[i]
		if e.Type != corev1.EventTypeWarning || e.InvolvedObject.Kind != "PersistentVolumeClaim" || e.InvolvedObject.Name != c.Name ||
			e.InvolvedObject.UID != "" && e.InvolvedObject.UID != c.UID || overtaken(e.Reason, c) {
			continue
		}
		if newest == nil || eventTime(e).After(eventTime(newest)) {
			newest = e
		}
	}
	switch {
	case newest == nil:
		return "", ""
	case growth(newest.Reason):
		return druidv1alpha1.ReasonVolumeCannotBeResized, newest.Reason + detail(newest.Message)
	}
	return druidv1alpha1.ReasonDataVolumesNotReady, newest.Reason + detail(newest.Message)
}

// going says that somebody deletes a claim that only its pod still keeps. Those that we delete get larger, or are
// of a volume that is reported before.
func (v view) going(c *corev1.PersistentVolumeClaim) string {
	if c.DeletionTimestamp == nil || v.Volumes.Reason == druidv1alpha1.ReasonVolumeResizing {
		return ""
	}
	for _, i := range v.ordinals() {
		p := v.pod(i)
		if v.claim(i) != c || p == nil || p.DeletionTimestamp != nil {
			continue
		}
		text := fmt.Sprintf("it is being deleted and goes with the pod %s", p.Name)
		if v.size() == 1 {
			text += ", and no other member has the data: set spec.replicas to 3, delete the pod when all are ready, and go back to 1 when they are again"
		}
		return text
	}
	return ""
}

// overtaken says that a warning is of something that the claim has reached since.
func overtaken(reason string, c *corev1.PersistentVolumeClaim) bool {
	switch {
	case slices.Contains([]string{"ProvisioningFailed", "FailedBinding", "WaitForFirstConsumer", "ClaimMisbound"}, reason):
		return c.Status.Phase == corev1.ClaimBound
	case growth(reason):
		want, has := c.Spec.Resources.Requests[corev1.ResourceStorage], c.Status.Capacity[corev1.ResourceStorage]
		return has.Cmp(want) >= 0
	}
	return false
}

// growth says that a warning is about growing a volume.
func growth(reason string) bool {
	return slices.Contains([]string{"VolumeResizeFailed", "FileSystemResizeFailed", "ExternalExpanding", "VolumeModifyFailed"}, reason)
}

// eventTime is the later of the two times that an event may have.
func eventTime(e *corev1.Event) time.Time {
	if e.EventTime.After(e.LastTimestamp.Time) {
		return e.EventTime.Time
	}
	return e.LastTimestamp.Time
}
