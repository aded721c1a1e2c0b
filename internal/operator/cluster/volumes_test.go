package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1 "k8s.io/api/apps/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/volumes"
)

// bound: every claim has a volume of the class.
func bound(class string, grows bool) func(*Observed) {
	return func(o *Observed) {
		o.Classes = map[string]*storagev1.StorageClass{class: {ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "disks", AllowVolumeExpansion: &grows}}
		for i := range o.Claims {
			c := o.Claims[i]
			c.UID, c.Spec.VolumeName, c.Spec.StorageClassName = types.UID("claim-"+c.Name), "pv-"+c.Name, &class
		}
	}
}

func capacity(s string) func(*Observed) {
	return func(o *Observed) { o.Etcd.Spec.StorageCapacity = ptr(resource.MustParse(s)); o.Etcd.Generation++ }
}

// says: a member cannot work with its volume, and its etcd does not run.
func says(i int, reason druidv1alpha1.MemberReason, volume string) func(*Observed) {
	return func(o *Observed) {
		m := &o.Members[i].Status
		m.State, m.SubState = druidv1alpha1.MemberNew, ""
		m.Transitions = append(m.Transitions, druidv1alpha1.MemberTransition{State: druidv1alpha1.MemberNew, Reason: reason, TransitionTime: ago(time.Minute), Message: "it says so"})
		if volume != "" {
			m.VolumeMismatches = []druidv1alpha1.VolumeMismatch{{VolumeID: "former", IdentifiedAt: ago(time.Second), FixedAt: ptr(ago(0))}, {VolumeID: volume, IdentifiedAt: ago(time.Minute)}}
		}
		s := o.Sidecars[i]
		s.Etcd, s.Transitions = nil, []agentapi.Transition{{State: agentapi.New, Reason: agentapi.Reason(reason)}}
		o.Sidecars[i] = s
	}
}

// written: the plan's record stands in the EtcdMember.
func written(t *testing.T, o *Observed, p Plan) {
	t.Helper()
	if p.Volumes.Kind != volumes.WriteDown {
		t.Fatalf("%s %s %q, want something to be written down", p.Volumes.Rule, p.Volumes.Kind, p.Volumes.Reason)
	}
	for i := range o.Members {
		if m := &o.Members[i]; m.Name == p.Volumes.Member {
			m.Annotations = map[string]string{druidv1alpha1.AnnotationVolumeActions: p.Volumes.Record.String()}
		}
	}
}

func TestWhatIsDoneAboutVolumesIsToldInTheCondition(t *testing.T) {
	for phrase, c := range map[string]struct {
		change []func(*Observed)
		want   volumes.Kind
		rule   string
		status druidv1alpha1.ConditionStatus
		reason string
		says   string
		waits  string // of the plan; empty: nothing is waited for
	}{
		"nothing":       {[]func(*Observed){bound("disk", false)}, "", "", "True", "DataVolumesReady", "3 of 3", ""},
		"they can grow": {[]func(*Observed){bound("disk", true), capacity("32Gi")}, volumes.Expand, "3.1", "True", "VolumeResizing", "32Gi", ""},
		"nobody acts on it": {[]func(*Observed){bound("disk", true), capacity("32Gi"), func(o *Observed) {
			o.Etcd.Annotations = map[string]string{druidv1alpha1.AnnotationSuspendReconcile: ""}
		}}, "", "", "True", "DataVolumesReady", "3 of 3", ""},
		"the template comes first":    {[]func(*Observed){bound("disk", false), capacity("32Gi")}, volumes.ReplaceTemplate, "3.5", "True", "VolumeResizing", "made anew", ""},
		"pods are replaced meanwhile": {[]func(*Observed){bound("disk", false), capacity("32Gi"), former(1)}, volumes.Wait, "3.4", "True", "VolumeResizing", "after the pods", "after the pods"},
		"members are added meanwhile": {[]func(*Observed){bound("disk", false), capacity("32Gi"), wants(5)}, volumes.Wait, "3.3", "True", "VolumeResizing", "from 3 members to 5", "from 3"},
		"the volumes are on the way": {[]func(*Observed){bound("disk", true), func(o *Observed) {
			o.Claims[1].Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("8Gi")}
		}}, volumes.Report, "3.16", "True", "VolumeResizing", "from 8Gi to 16Gi", "from 8Gi"},
		"the class is gone":           {[]func(*Observed){bound("disk", false), capacity("32Gi"), grownTemplate, func(o *Observed) { o.Classes["disk"] = nil }}, volumes.Report, "3.7", "False", "VolumeCannotBeResized", "is gone", "is gone"},
		"a read-only one":             {[]func(*Observed){bound("disk", false), says(0, druidv1alpha1.MemberReasonVolumeReadOnly, "")}, volumes.WriteDown, "2.9", "False", "VolumeReadOnly", "it says so; main-main-0 is going to be replaced", ""},
		"a read-only one, and others": {[]func(*Observed){bound("disk", false), says(0, druidv1alpha1.MemberReasonVolumeReadOnly, ""), down(1)}, volumes.Wait, "2.8", "False", "VolumeReadOnly", "the sidecar of main-1 does not answer", "main-1"},
		"somebody else's":             {[]func(*Observed){bound("disk", false), says(0, druidv1alpha1.MemberReasonVolumeMismatch, "theirs")}, volumes.WriteDown, "2.16", "False", "VolumeMismatch", `that of "theirs"`, ""},
		"the record is broken": {[]func(*Observed){bound("disk", false), says(0, druidv1alpha1.MemberReasonVolumeReadOnly, ""), func(o *Observed) {
			o.Members[0].Annotations = map[string]string{druidv1alpha1.AnnotationVolumeActions: "{"}
		}}, volumes.Report, "2.1", "False", "VolumeReadOnly", "remove it", ""},
		"what a member said is overtaken": {[]func(*Observed){bound("disk", false), says(0, druidv1alpha1.MemberReasonVolumeReadOnly, ""), func(o *Observed) { o.Sidecars[0] = agentapi.Member{Name: "main-0"} }}, volumes.Wait, "2.7", "False", "VolumeReadOnly", "says itself", "says itself"},
	} {
		o := running(t, 3, append([]func(*Observed){relaxed}, c.change...)...)
		p := mustDecide(t, o, testSettings)
		got := druidv1alpha1.FindCondition(p.Conditions, druidv1alpha1.ConditionDataVolumesReady)
		if p.Volumes.Kind != c.want || p.Volumes.Rule != c.rule || got.Status != c.status || got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: rule %s %s, condition %s %s %q; want rule %s %s, condition %s %s with %q", phrase, p.Volumes.Rule, p.Volumes.Kind, got.Status, got.Reason, got.Message, c.rule, c.want, c.status, c.reason, c.says)
		}
		if waits := p.Waits(); c.waits == "" && waits != "" || !strings.Contains(waits, c.waits) {
			t.Errorf("%s: waits %q, want %q", phrase, waits, c.waits)
		}
		if quietly := p.Done() && c.want == volumes.Wait; quietly || !p.Done() && c.want == "" {
			t.Errorf("%s: done is %t", phrase, p.Done())
		}
	}
}

// grownTemplate: the StatefulSet was made anew.
func grownTemplate(o *Observed) {
	o.StatefulSet.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage] = *o.Etcd.Spec.StorageCapacity
}

func TestAMemberGetsANewVolumeStepByStep(t *testing.T) {
	o := running(t, 3, relaxed, bound("disk", false), capacity("32Gi"), grownTemplate)
	p := mustDecide(t, o, testSettings)
	if p.Volumes.Member != "main-1" {
		t.Errorf("first is %q, want main-1: main-2 leads", p.Volumes.Member)
	}
	written(t, o, p)
	if p = mustDecide(t, o, testSettings); p.Volumes.Kind != volumes.DeleteClaim || p.Volumes.Claim != "main-main-1" || p.Volumes.UID != "claim-main-main-1" {
		t.Fatalf("second %+v, want the claim of main-1 to go", p.Volumes)
	}
	o.Claims[1].DeletionTimestamp = ptr(ago(0))
	if p = mustDecide(t, o, testSettings); p.Volumes.Kind != volumes.DeletePod || p.Volumes.UID != "pod-1" {
		t.Fatalf("third %+v, want the pod of main-1 to go", p.Volumes)
	}
	wants(1)(o)
	if p = mustDecide(t, o, testSettings); p.Size.Members != 1 {
		t.Errorf("with one member wanted, which is another: %+v, want it to leave", p.Size)
	}
	o.Claims[0].DeletionTimestamp = ptr(ago(0))
	if p = mustDecide(t, o, testSettings); p.Size.Members != 3 || !strings.Contains(p.Size.Waits, "main-main-0 to be replaced") {
		t.Errorf("with one member wanted, whose claim goes: %+v, want nobody to leave", p.Size)
	}
}

// A StatefulSet that is made anew leaves as many pods as there are, whatever is wanted meanwhile.
func TestPodsWithoutAStatefulSetGetItAgain(t *testing.T) {
	without := func(o *Observed) { delete(o.Live, Key{"StatefulSet", "main"}); o.StatefulSet = nil }
	going := func(o *Observed) { o.StatefulSet.DeletionTimestamp = ptr(ago(0)) }
	for phrase, c := range map[string]struct {
		change   []func(*Observed)
		replicas int32
	}{
		"it goes":                               {[]func(*Observed){going}, 3},
		"it goes, and nobody is wanted":         {[]func(*Observed){going, wants(0)}, 3},
		"it is gone":                            {[]func(*Observed){without}, 3},
		"it is gone, and one member is wanted":  {[]func(*Observed){without, wants(1)}, 3},
		"it is gone, and nobody is wanted":      {[]func(*Observed){without, wants(0)}, 3},
		"it is gone, and five are wanted":       {[]func(*Observed){without, wants(5)}, 3},
		"it is gone, and a pod was lost then":   {[]func(*Observed){without, func(o *Observed) { o.Pods = o.Pods[:2] }}, 3},
		"it is gone, and the only pods are too": {[]func(*Observed){without, wants(0), func(o *Observed) { o.Pods = nil }}, 0},
	} {
		o := running(t, 3, append([]func(*Observed){relaxed}, c.change...)...)
		p := mustDecide(t, o, testSettings)
		var made int32 = -1
		for _, object := range p.Objects {
			if s, is := object.(*appsv1.StatefulSet); is {
				made = *s.Spec.Replicas
			}
		}
		if p.Size.Replicas != c.replicas || made != c.replicas || p.Size.Members != 3 || p.Snapshot != nil && c.replicas == 0 {
			t.Errorf("%s: %+v, a StatefulSet of %d; want %d", phrase, p.Size, made, c.replicas)
		}
	}
}

func TestNoVolumeGrowsByASpecificationThatIsRefused(t *testing.T) {
	refused := func(o *Observed) {
		o.Etcd.Spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{ServerTLSSecretRef: corev1.SecretReference{Name: "server", Namespace: "elsewhere"}}
	}
	for phrase, c := range map[string]struct {
		change []func(*Observed)
		before volumes.Kind // without the refusal
		want   volumes.Kind
	}{
		"they can grow":               {[]func(*Observed){bound("disk", true), capacity("32Gi")}, volumes.Expand, volumes.None},
		"the StatefulSet comes first": {[]func(*Observed){bound("disk", false), capacity("32Gi")}, volumes.ReplaceTemplate, volumes.None},
		"a volume is read-only":       {[]func(*Observed){bound("disk", false), says(0, druidv1alpha1.MemberReasonVolumeReadOnly, "")}, volumes.WriteDown, volumes.WriteDown},
	} {
		if p := mustDecide(t, running(t, 3, c.change...), testSettings); p.Volumes.Kind != c.before {
			t.Errorf("%s: without the refusal %q, want %q: %s", phrase, p.Volumes.Kind, c.before, p.Volumes.Reason)
		}
		p := mustDecide(t, running(t, 3, append(c.change, refused)...), testSettings)
		if len(p.Refused) == 0 || p.Volumes.Kind != c.want {
			t.Errorf("%s: %q, want %q; refused %q", phrase, p.Volumes.Kind, c.want, p.Refused)
		}
		if v := druidv1alpha1.FindCondition(p.Conditions, druidv1alpha1.ConditionDataVolumesReady); v == nil || v.Reason == druidv1alpha1.ReasonVolumeResizing {
			t.Errorf("%s: the condition is %+v", phrase, v)
		}
	}
}

// The sidecars are asked while a step may be taken, and not for what only a person can mend.
func TestWhatIsPendingWithoutBeingAsked(t *testing.T) {
	for phrase, c := range map[string]struct {
		change        []func(*Observed)
		pending, asks bool
	}{
		"nothing":        {[]func(*Observed){bound("disk", false)}, false, false},
		"they can grow":  {[]func(*Observed){bound("disk", true), capacity("32Gi")}, true, false},
		"a fixed class":  {[]func(*Observed){bound("disk", false), capacity("32Gi"), grownTemplate}, true, true},
		"the only one's": {[]func(*Observed){bound("disk", false), capacity("32Gi"), grownTemplate, wants(1)}, false, false},
		"read-only":      {[]func(*Observed){bound("disk", false), says(0, druidv1alpha1.MemberReasonVolumeReadOnly, "")}, true, true},
		"wrong and restarted": {[]func(*Observed){bound("disk", false), says(0, druidv1alpha1.MemberReasonVolumeMismatch, "theirs"), func(o *Observed) {
			o.Members[0].Annotations = map[string]string{druidv1alpha1.AnnotationVolumeActions: fmt.Sprintf(`{"restart":{"volumes":["theirs on %s"],"pod":"former","at":"2025-06-01T02:00:00Z"}}`, o.Claims[0].Spec.VolumeName)}
		}}, false, false},
	} {
		o := running(t, 3, c.change...)
		o.Sidecars, o.Asked = nil, false
		if a := o.volumesUnasked(ModeApply); a.Done() == c.pending || asksAbout(a) != c.asks {
			t.Errorf("%s: pending %t, asks %t; want %t, %t", phrase, !a.Done(), asksAbout(a), c.pending, c.asks)
		}
	}
}
