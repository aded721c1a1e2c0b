package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/hibernation"
)

// locks asks for them; the period is the bucket's.
func locks(o *Observed) {
	o.Etcd.Spec.Backup.Store.Immutability = &druidv1alpha1.ImmutabilitySpec{RetentionType: druidv1alpha1.RetentionBucket}
}

// finalTaken is a final snapshot that this operator has taken for the generation of the Etcd.
func finalTaken(change ...func(*druidv1alpha1.FinalSnapshot)) func(*Observed) {
	return func(o *Observed) {
		f := &druidv1alpha1.FinalSnapshot{Name: "Full-9", Revision: 1000, VerifiedAt: ago(time.Minute), ProtectedUntil: ptr(ago(-96 * time.Hour))}
		for _, c := range change {
			c(f)
		}
		o.Snapshots = map[string]SnapshotState{finalFor(o.Etcd): {Done: true, Ended: testNow.Add(-time.Minute), Final: f}}
	}
}

// recorded is what an operator before wrote down.
func recorded(generation int64, change ...func(*druidv1alpha1.HibernationStatus)) func(*Observed) {
	return func(o *Observed) {
		h := &druidv1alpha1.HibernationStatus{EtcdUID: o.Etcd.UID, Generation: generation, FinalSnapshot: &druidv1alpha1.FinalSnapshot{Name: "Full-9", Store: storeOf(o.Etcd), Revision: 1000, VerifiedAt: ago(time.Minute), ProtectedUntil: ptr(ago(-96 * time.Hour))}}
		for _, c := range change {
			c(h)
		}
		o.Etcd.Status.Hibernation = h
	}
}

// gone: the members have stopped.
func gone(o *Observed) {
	*o.StatefulSet.Spec.Replicas = 0
	o.Pods, o.Sidecars, o.Asked = nil, nil, false
	o.Etcd.Status.LastKnownRevision = ptr(int64(1000))
}

func volumesGo(o *Observed) {
	v := druidv1alpha1.HibernationDeletesVolumes
	o.Etcd.Spec.Hibernation = &druidv1alpha1.HibernationSpec{Volumes: &v}
}

func at(i int, revision int64) func(*Observed) {
	return func(o *Observed) {
		m := o.Sidecars[i]
		e := *m.Etcd
		e.Revision = revision
		m.Etcd = &e
		o.Sidecars[i] = m
	}
}

// tells: the sidecar of a member tells how that treats clients.
func tells(i int, r *agentapi.Refusal) func(*Observed) {
	return func(o *Observed) {
		m := o.Sidecars[i]
		m.Refusal = r
		o.Sidecars[i] = m
	}
}

// refusing: all members refuse clients since a minute.
func refusing(o *Observed) {
	for i := range o.Sidecars {
		tells(i, &agentapi.Refusal{ForSeconds: 60, LeftSeconds: 540})(o)
	}
}

// steps of a cluster of three that is to sleep, sleeps, or is to wake up, one row for each. The conditions are what is
// told of it; replicas is what the StatefulSet shall have.
func TestAClusterFallsAsleepStepByStep(t *testing.T) {
	for phrase, c := range map[string]struct {
		seen     []func(*Observed)
		reason   string
		replicas int32
		snapshot bool
		claims   int // that go
		task     string
		ports    string
	}{
		"nothing is known":                     {[]func(*Observed){wants(0), locks}, "TakingFinalSnapshot", 3, true, 0, "", "backuprestore"},
		"it is proven":                         {[]func(*Observed){wants(0), locks, finalTaken()}, "ScalingToZero", 0, false, 0, "made", "backuprestore"},
		"it was proven, and the operator died": {[]func(*Observed){wants(0), locks, recorded(2)}, "ScalingToZero", 0, false, 0, "made", "backuprestore"},
		"for an earlier hibernation":           {[]func(*Observed){wants(0), locks, recorded(1)}, "TakingFinalSnapshot", 3, true, 0, "made", "backuprestore"},
		"for another Etcd of this name":        {[]func(*Observed){wants(0), recorded(2, func(h *druidv1alpha1.HibernationStatus) { h.EtcdUID = "before" })}, "TakingFinalSnapshot", 3, true, 0, "", "backuprestore"},
		"without a lock":                       {[]func(*Observed){wants(0), locks, finalTaken(func(f *druidv1alpha1.FinalSnapshot) { f.ProtectedUntil = nil })}, "FinalSnapshotNoLock", 3, false, 0, "", "backuprestore"},
		"without a lock where none is wanted":  {[]func(*Observed){wants(0), finalTaken(func(f *druidv1alpha1.FinalSnapshot) { f.ProtectedUntil = nil })}, "ScalingToZero", 0, false, 0, "", "backuprestore"},
		"somebody writes":                      {[]func(*Observed){wants(0), finalTaken(), at(1, 1001)}, "WritesAfterSnapshot", 3, true, 0, "", "backuprestore"},
		"a member lags":                        {[]func(*Observed){wants(0), finalTaken(), at(1, 999)}, "RevisionsNotKnown", 3, false, 0, "", "backuprestore"},
		"a member is away":                     {[]func(*Observed){wants(0), finalTaken(), func(o *Observed) { delete(o.Sidecars, 1) }}, "RevisionsNotKnown", 3, false, 0, "", "backuprestore"},
		"nobody leads": {[]func(*Observed){wants(0), finalTaken(), func(o *Observed) {
			for i, m := range o.Sidecars {
				e := *m.Etcd
				e.Leader = ""
				m.Etcd = &e
				o.Sidecars[i] = m
			}
		}}, "RevisionsNotKnown", 3, false, 0, "", "backuprestore"},
		"by annotation": {[]func(*Observed){wants(0), func(o *Observed) {
			o.Etcd.Annotations = map[string]string{druidv1alpha1.AnnotationSkipHibernationBackup: "true"}
		}}, "ScalingToZero", 0, false, 0, "", "backuprestore"},
		"not by that annotation": {[]func(*Observed){wants(0), func(o *Observed) {
			o.Etcd.Annotations = map[string]string{druidv1alpha1.AnnotationSkipHibernationBackup: "yes"}
		}}, "TakingFinalSnapshot", 3, true, 0, "", "backuprestore"},
		"without a store":             {[]func(*Observed){wants(0), func(o *Observed) { o.Etcd.Spec.Backup.Store = nil }}, "ScalingToZero", 0, false, 0, "", "backuprestore"},
		"asleep":                      {[]func(*Observed){wants(0), locks, recorded(2), gone}, "Hibernated", 0, false, 0, "made", "backuprestore"},
		"asleep, the volumes go":      {[]func(*Observed){wants(0), recorded(2), gone, volumesGo}, "DeletingVolumes", 0, false, 3, "", "backuprestore"},
		"the same, locked":            {[]func(*Observed){wants(0), locks, recorded(2), gone, volumesGo}, "DeletingVolumes", 0, false, 0, "made", "backuprestore"},
		"the same, a run has read it": {[]func(*Observed){wants(0), locks, recorded(2, func(h *druidv1alpha1.HibernationStatus) { h.FinalSnapshot.ReadAt = ptr(ago(time.Minute)) }), gone, volumesGo}, "DeletingVolumes", 0, false, 3, "made", "backuprestore"},
		"asleep, nothing recorded":    {[]func(*Observed){wants(0), gone, volumesGo}, "HibernatedUnproven", 0, false, 0, "", "backuprestore"},
		"asleep, a member had more":   {[]func(*Observed){wants(0), recorded(2), gone, volumesGo, func(o *Observed) { o.Etcd.Status.LastKnownRevision = ptr(int64(1001)) }}, "Hibernated", 0, false, 0, "", "backuprestore"},
		"woken":                       {[]func(*Observed){wants(0), locks, recorded(2), gone, asked, wants(3)}, "WakingUp", 3, false, 0, "stays", "client server backuprestore"},
		"waking up":                   {[]func(*Observed){locks, asked, recorded(2, awake)}, "WakingUp", 3, false, 0, "stays", "client server backuprestore"},
		"woken up": {[]func(*Observed){locks, asked, recorded(2, awake), func(o *Observed) {
			*o.Members[2].Status.Snapshots.LastFull = full("Full-00000000-00001000-1764000000.zst", 10*time.Second)
		}}, "", 3, false, 0, "goes", "client server backuprestore"},
		"a full that somebody put there": {[]func(*Observed){locks, asked, recorded(2, awake), func(o *Observed) {
			*o.Members[2].Status.Snapshots.LastFull = full("Full-00000000-00001000-1764000000.zst", 10*time.Second)
			o.Members[2].Status.Snapshots.LastFull.Taken = false
		}}, "WakingUp", 3, false, 0, "stays", "client server backuprestore"},
		"woken up, by a copy of the final one": {[]func(*Observed){locks, asked, recorded(2, awake), func(o *Observed) {
			*o.Members[2].Status.Snapshots.LastFull = full("Full-00000000-00001000-1764000000.zst.final", 10*time.Second)
		}}, "WakingUp", 3, false, 0, "stays", "client server backuprestore"},
		"a former backup leader's full": {[]func(*Observed){locks, asked, recorded(2, awake), func(o *Observed) {
			old := full(anyFull, 10*time.Second)
			o.Members[0].Status.Snapshots = &druidv1alpha1.MemberSnapshots{LastFull: &old}
		}}, "WakingUp", 3, false, 0, "stays", "client server backuprestore"},
		"a full from before it slept": {[]func(*Observed){locks, asked, recorded(2, awake, func(h *druidv1alpha1.HibernationStatus) { h.FinalSnapshot = nil }), func(o *Observed) {
			*o.Members[2].Status.Snapshots.LastFull = full(anyFull, 20*time.Hour)
		}}, "WakingUp", 3, false, 0, "stays", "client server backuprestore"},
		"a full of less than the final one": {[]func(*Observed){locks, asked, recorded(2, awake), func(o *Observed) {
			*o.Members[2].Status.Snapshots.LastFull = full(anyFull, 10*time.Second)
			o.Members[2].Status.Snapshots.LastFull.EndRevision = 999
		}}, "WakingUp", 3, false, 0, "stays", "client server backuprestore"},
		"the store changes with it":     {[]func(*Observed){wants(0), another, finalTaken()}, "StoreChanged", 3, false, 0, "", "backuprestore"},
		"the store changed since":       {[]func(*Observed){wants(0), recorded(2), gone, volumesGo, another}, "StoreChanged", 0, false, 0, "", "backuprestore"},
		"woken, the store is another":   {[]func(*Observed){wants(0), recorded(2), gone, noClaims, wants(3), another}, "StoreChanged", 0, false, 0, "", "client server backuprestore"},
		"woken, there is no store":      {[]func(*Observed){wants(0), recorded(2), gone, noClaims, wants(3), func(o *Observed) { o.Etcd.Spec.Backup.Store = nil }}, "StoreChanged", 0, false, 0, "", "client server backuprestore"},
		"woken while the volumes go":    {[]func(*Observed){wants(0), volumesGo, recorded(2, func(h *druidv1alpha1.HibernationStatus) { h.VolumesGoSince = ptr(ago(time.Minute)) }), gone, func(o *Observed) { o.Claims = o.Claims[2:] }, wants(3)}, "DeletingVolumes", 0, false, 1, "", "client server backuprestore"},
		"etcd says that data differ":    {[]func(*Observed){wants(0), finalTaken(), corrupt(1)}, "RevisionsNotKnown", 3, false, 0, "", "backuprestore"},
		"two of three have left before": {[]func(*Observed){wants(0), finalTaken(), left}, "ScalingToZero", 0, false, 0, "", "backuprestore"},
		"asleep by annotation": {[]func(*Observed){locks, recorded(1), gone, func(o *Observed) {
			o.Etcd.Annotations = map[string]string{druidv1alpha1.AnnotationDisableRuntimeComponents: ""}
		}}, "Hibernated", 0, false, 0, "made", ""},
		"locks are not asked for any more": {[]func(*Observed){wants(0), recorded(2), gone, asked}, "Hibernated", 0, false, 0, "goes", "backuprestore"},
	} {
		t.Run(phrase, func(t *testing.T) {
			o := running(t, 3, func(o *Observed) { o.Members[2].Status.Snapshots.LastFull.Name = "Full-9" })
			for _, change := range c.seen {
				change(o)
			}
			if o.Etcd.Spec.Replicas == 0 {
				refusing(o)
			}
			p := mustDecide(t, o, testSettings)
			reason := ""
			if h := druidv1alpha1.FindCondition(p.Conditions, druidv1alpha1.ConditionHibernated); h != nil {
				reason = h.Reason
			}
			if waits := reason == "DeletingVolumes" && c.claims == 0; waits != strings.Contains(p.Waits(), "a run of the extension does") || waits && !p.Done() {
				t.Errorf("done %t, waits for %q", p.Done(), p.Waits())
			}
			if reason != c.reason || p.Size.Replicas != c.replicas || (p.Snapshot != nil) != c.snapshot {
				t.Errorf("reason %q, %d replicas, snapshot %+v; want %q, %d, %t; waits for %q", reason, p.Size.Replicas, p.Snapshot, c.reason, c.replicas, c.snapshot, p.Waits())
			}
			claims, task, ports := 0, "", ""
			for _, r := range p.Remove {
				switch r.Kind {
				case "PersistentVolumeClaim":
					claims++
				case druidv1alpha1.KindEtcdOperatorTask:
					task = "goes"
				}
			}
			if o.Live[Key{druidv1alpha1.KindEtcdOperatorTask, "main-hibernation"}] != nil && task == "" {
				task = "stays"
			}
			for _, object := range p.Objects {
				switch object := object.(type) {
				case *druidv1alpha1.EtcdOperatorTask:
					task = "made"
				case *corev1.Service:
					if object.Name == o.Etcd.ClientServiceName() {
						ports = portsOf(object)
					}
				}
			}
			if claims != c.claims || task != c.task || ports != c.ports {
				t.Errorf("claims that go: %d, task %q, ports %q; want %d, %q, %q", claims, task, ports, c.claims, c.task, c.ports)
			}
			if c.replicas == 0 && c.reason == "ScalingToZero" && p.Hibernation == nil {
				t.Error("the members stop, and nothing is written down")
			}
		})
	}
}

func TestMembersAreToldHowToTreatClients(t *testing.T) {
	now := []func(*Observed){wants(0), refusing}
	with := func(more ...func(*Observed)) []func(*Observed) { return append(slices.Clone(now), more...) }
	for phrase, c := range map[string]struct {
		seen          []func(*Observed)
		reason        string
		message       string // in it
		refuse, admit bool
	}{
		"nobody was asked yet":      {[]func(*Observed){wants(0)}, "ClosingToClients", "main-0, main-1, main-2 to refuse clients", true, false},
		"all refuse":                {with(), "TakingFinalSnapshot", "the final full snapshot", false, false},
		"one serves them":           {with(tells(1, &agentapi.Refusal{})), "ClosingToClients", "main-1 to refuse", true, false},
		"one soon will":             {with(tells(1, &agentapi.Refusal{ForSeconds: 900, LeftSeconds: 30})), "ClosingToClients", "main-1 to refuse", true, false},
		"a former sidecar":          {with(tells(1, nil)), "TakingFinalSnapshot", "main-1 does not refuse clients (its sidecar is of a version that does not know how)", false, false},
		"a wrapper without a token": {with(tells(1, &agentapi.Refusal{Impossible: "it has no token"})), "TakingFinalSnapshot", "main-1 does not refuse clients (it has no token)", false, false},
		"proven, one just began":    {with(finalTaken(), tells(1, &agentapi.Refusal{ForSeconds: 3, LeftSeconds: 597})), "ClosingToClients", "anew", false, false},
		"proven":                    {with(finalTaken()), "ScalingToZero", "", false, false},
		"the store changes with it": {with(another), "StoreChanged", "", false, true},
		"members are wanted again":  {[]func(*Observed){refusing}, "WakingUp", "main-0, main-1, main-2", false, true},
		"they were wanted before":   {nil, "", "", false, false},
	} {
		p := mustDecide(t, running(t, 3, c.seen...), testSettings)
		var h druidv1alpha1.Condition
		if found := druidv1alpha1.FindCondition(p.Conditions, druidv1alpha1.ConditionHibernated); found != nil {
			h = *found
		}
		if h.Reason != c.reason || !strings.Contains(h.Message, c.message) || p.Sleep.Refuse != c.refuse || p.Sleep.Admit != c.admit {
			t.Errorf("%s: reason %q, refuse %t, admit %t; want %q, %t, %t; %s", phrase, h.Reason, p.Sleep.Refuse, p.Sleep.Admit, c.reason, c.refuse, c.admit, h.Message)
		}
		if c.admit && p.Done() {
			t.Errorf("%s: nothing is left to be done", phrase)
		}
	}
}

// Members that are as many as wanted are asked all the same as long as they may refuse clients.
func TestWhoeverMayRefuseClientsIsAsked(t *testing.T) {
	says := func(reason string, status druidv1alpha1.ConditionStatus) func(*Observed) {
		return func(o *Observed) {
			o.Etcd.Status.Conditions = druidv1alpha1.SetCondition(nil, druidv1alpha1.Condition{Type: druidv1alpha1.ConditionHibernated, Status: status, Reason: reason}, ago(time.Minute))
		}
	}
	for phrase, c := range map[string]struct {
		seen []func(*Observed)
		want bool
	}{
		"awake":                            {nil, false},
		"to sleep, and not any more":       {[]func(*Observed){says("TakingFinalSnapshot", "False")}, true},
		"blocked, and not wanted any more": {[]func(*Observed){says("FinalSnapshotFailed", "False")}, true},
		"told to serve clients again":      {[]func(*Observed){says("WakingUp", "False")}, true},
		"waking up": {[]func(*Observed){says("WakingUp", "False"), recorded(2, awake), func(o *Observed) {
			for i := range o.Pods {
				o.Pods[i].CreationTimestamp = ago(time.Second)
			}
		}}, false},
		"woken before the members stopped":    {[]func(*Observed){says("WakingUp", "False"), recorded(2, awake)}, true},
		"woken before that, long ago":         {[]func(*Observed){says("WakingUp", "False"), recorded(2, func(h *druidv1alpha1.HibernationStatus) { h.AwakeSince = ptr(ago(hibernation.RefuseFor)) })}, false},
		"asleep":                              {[]func(*Observed){says("Hibernated", "True"), gone}, false},
		"pods are left that were told to end": {[]func(*Observed){says("ScalingToZero", "False"), recorded(2)}, true},
	} {
		if got := fallsAsleep(running(t, 3, c.seen...), testNow); got != c.want {
			t.Errorf("%s: asked %t, want %t", phrase, got, c.want)
		}
	}
}

// A member that does not answer when members are wanted again may refuse clients for as long as it was asked to.
func TestWhoeverDoesNotAnswerIsAskedAgain(t *testing.T) {
	says := func(reason string, before time.Duration) func(*Observed) {
		return func(o *Observed) {
			o.Asked = true
			o.Etcd.Status.Conditions = druidv1alpha1.SetCondition(nil, druidv1alpha1.Condition{Type: druidv1alpha1.ConditionHibernated, Status: druidv1alpha1.ConditionFalse, Reason: reason}, ago(before))
		}
	}
	silent := func(o *Observed) { delete(o.Sidecars, 1) }
	for phrase, c := range map[string]struct {
		seen   []func(*Observed)
		reason string
	}{
		"all serve clients":                    {[]func(*Observed){says("TakingFinalSnapshot", time.Hour)}, ""},
		"one does not answer":                  {[]func(*Observed){says("TakingFinalSnapshot", time.Hour), silent}, "WakingUp"},
		"it does not answer for a while":       {[]func(*Observed){says("WakingUp", hibernation.RefuseFor-time.Second), silent}, "WakingUp"},
		"it does not answer any more":          {[]func(*Observed){says("WakingUp", hibernation.RefuseFor), silent}, ""},
		"it is started anew, and serves them":  {[]func(*Observed){says("TakingFinalSnapshot", time.Hour), silent, func(o *Observed) { o.Pods[1].Status.ContainerStatuses = nil }}, ""},
		"nobody was ever told to refuse them":  {[]func(*Observed){silent, func(o *Observed) { o.Asked = true }}, ""},
		"of two that do not, one refuses them": {[]func(*Observed){says("TakingFinalSnapshot", time.Hour), silent, tells(0, &agentapi.Refusal{LeftSeconds: 60})}, "WakingUp"},
	} {
		p := mustDecide(t, running(t, 3, c.seen...), testSettings)
		reason := ""
		if h := druidv1alpha1.FindCondition(p.Conditions, druidv1alpha1.ConditionHibernated); h != nil {
			reason = h.Reason
		}
		if reason != c.reason {
			t.Errorf("%s: reason %q, want %q", phrase, reason, c.reason)
		}
	}
}

// What is refused does not go on by itself, so nobody is kept waiting for it.
func TestMembersServeClientsWhileTheSpecificationIsRefused(t *testing.T) {
	refused := func(o *Observed) {
		o.Etcd.Spec.Backup.Store.Roles = &druidv1alpha1.StoreRoles{CollectorSecretRef: &corev1.SecretReference{Name: "collector", Namespace: "elsewhere"}}
	}
	for phrase, c := range map[string]struct {
		seen                []func(*Observed)
		refuse, admit, told bool
	}{
		"nobody was asked yet":      {[]func(*Observed){wants(0), refused}, false, false, false},
		"they were asked before":    {[]func(*Observed){wants(0), refusing, refused}, false, true, false},
		"everything is proven":      {[]func(*Observed){wants(0), refusing, finalTaken(), refused}, false, true, false},
		"members were told to stop": {[]func(*Observed){wants(0), refusing, recorded(2), refused, func(o *Observed) { *o.StatefulSet.Spec.Replicas = 0 }}, false, false, true},
		"and the cache is behind":   {[]func(*Observed){wants(0), refusing, recorded(2), refused}, false, false, true},
		"they are wanted again":     {[]func(*Observed){refusing, refused}, false, true, true},
	} {
		p := mustDecide(t, running(t, 3, c.seen...), testSettings)
		if len(p.Refused) == 0 || p.Sleep.Refuse != c.refuse || p.Sleep.Admit != c.admit {
			t.Errorf("%s: refuse %t, admit %t; want %t, %t; refused %q", phrase, p.Sleep.Refuse, p.Sleep.Admit, c.refuse, c.admit, p.Refused)
		}
		if h := druidv1alpha1.FindCondition(p.Conditions, druidv1alpha1.ConditionHibernated); (h != nil) != c.told {
			t.Errorf("%s: of the hibernation it tells %+v", phrase, h)
		}
	}
}

// Whose clock is late or early by less than half an hour, as clocks may be, is no matter: names of fulls follow each other
// whatever the clock says.
func TestTheFirstFullOfANewLifeIsKnownByItsNameAndNoClock(t *testing.T) {
	const final = "Full-00000000-00001000-1764000000.zst.final"
	for phrase, c := range map[string]struct {
		full   string
		ago    time.Duration // by the sidecar's clock; the cluster woke up a minute ago
		end    int64
		reason string
	}{
		"taken by a clock that is late":                {"Full-00000000-00001000-1764000001.zst", 30 * time.Minute, 1000, ""},
		"the same, after something was written":        {"Full-00000000-00001003-1763999000.zst", 30 * time.Minute, 1003, ""},
		"taken by a clock that is early":               {"Full-00000000-00001000-1764001800.zst", -29 * time.Minute, 1000, ""},
		"of the former life, by a clock that is early": {"Full-00000000-00001000-1763999999.zst", -20 * time.Minute, 1000, "WakingUp"},
		"of the former life":                           {"Full-00000000-00000990-1763990000.zst", 5 * time.Hour, 990, "WakingUp"},
		"the final one, by a clock that is early":      {final, -20 * time.Minute, 1000, "WakingUp"},
		"a copy of the final one":                      {"Full-00000000-00001000-1764009000.zst.final", -20 * time.Minute, 1000, "WakingUp"},
	} {
		o := running(t, 3, locks, func(o *Observed) {
			recorded(2, func(h *druidv1alpha1.HibernationStatus) {
				h.FinalSnapshot.Name, h.AwakeSince = final, ptr(ago(time.Minute))
			})(o)
			l := o.Members[2].Status.Snapshots.LastFull
			*l = full(c.full, c.ago)
			l.EndRevision = c.end
		})
		if p := mustDecide(t, o, testSettings); p.Sleep.Reason != c.reason {
			t.Errorf("%s: reason %q, want %q", phrase, p.Sleep.Reason, c.reason)
		}
	}
}

// Whoever may write can put a full into the bucket that is newer than the final one by its name and revision, and an operator
// that reads no bucket can tell it from a new one only by who took it.
func TestAFullThatNoMemberTookIsNotThatOfTheNewLife(t *testing.T) {
	const final, forged = "Full-00000000-00001000-1764000000.zst.final", "Full-00000000-00001000-1764000001.zst"
	for taken, want := range map[bool]string{true: forged, false: ""} {
		o := running(t, 3, locks, func(o *Observed) {
			recorded(2, func(h *druidv1alpha1.HibernationStatus) {
				h.FinalSnapshot.Name, h.AwakeSince, h.FinalSnapshot.Held = final, ptr(ago(time.Minute)), true
			})(o)
			l := o.Members[2].Status.Snapshots.LastFull
			*l = full(forged, 48*time.Hour)
			l.Taken = taken
		}, asked)
		p := mustDecide(t, o, testSettings)
		if got := p.Hibernation.NewFull; got != want {
			t.Errorf("taken by a member %t: the new full is %q, want %q", taken, got, want)
		}
		var file string
		for _, object := range p.Objects {
			if c, is := object.(*corev1.ConfigMap); is {
				file = c.Data[desired.SidecarFile]
			}
		}
		if strings.Contains(file, "fullFirst: true") == taken {
			t.Errorf("taken by a member %t: the sidecars are told\n%s", taken, file)
		}
	}
}

// Whoever accepted that a cluster wakes up with less has no use for a record of what it had.
func TestTheFirstFullOfALifeWithLessEndsTheRecordWhereThatIsAccepted(t *testing.T) {
	for accepted, want := range map[bool]bool{true: true, false: false} {
		o := running(t, 3, func(o *Observed) {
			recorded(2, func(h *druidv1alpha1.HibernationStatus) {
				h.FinalSnapshot.Name, h.AwakeSince = "Full-00000000-00001000-1764000000.zst.final", ptr(ago(time.Minute))
			})(o)
			l := o.Members[2].Status.Snapshots.LastFull
			*l = full("Full-00000000-00000007-1764000900.zst", time.Second)
			l.EndRevision = 7
			o.Etcd.Spec.Hibernation = &druidv1alpha1.HibernationSpec{AllowUnprotected: &accepted}
		})
		if got := newFull(o, o.Etcd.Status.Hibernation) != ""; got != want {
			t.Errorf("accepted %t: a new full is there %t", accepted, got)
		}
	}
}

const anyFull = "Full-00000000-00001000-1764000000.zst"

func full(name string, before time.Duration) druidv1alpha1.MemberSnapshot {
	return druidv1alpha1.MemberSnapshot{Name: name, Timestamp: ago(before), EndRevision: 1000, Taken: true}
}

// another: the backups are to be made in another bucket than that of the pods.
func another(o *Observed) {
	o.Etcd.Spec.Backup.Store = o.Etcd.Spec.Backup.Store.DeepCopy()
	o.Etcd.Spec.Backup.Store.Container = ptr("elsewhere")
}

func noClaims(o *Observed) { o.Claims = nil }

func corrupt(i int) func(*Observed) {
	return func(o *Observed) {
		m := o.Sidecars[i]
		e := *m.Etcd
		e.Alarms = []string{alarmCorrupt}
		m.Etcd = &e
		o.Sidecars[i] = m
	}
}

// left: all but the first have left etcd on the way from three to one, and their pods were to go next.
func left(o *Observed) {
	live := desired.ReadConfigMap(o.Etcd, o.ConfigMap)
	live.Members = 1
	o.Configured = &live
	for i, m := range o.Sidecars {
		if i > 0 {
			m.Etcd = nil
		} else {
			e := *m.Etcd
			e.Leader, e.Members = m.ID, e.Members[:1]
			m.Etcd = &e
		}
		o.Sidecars[i] = m
	}
}

// What is only tended keeps what protects it.
func TestAnExtensionStaysWhileTheSpecificationIsOnlyTended(t *testing.T) {
	manual := testSettings
	manual.AutoReconcile = false
	for phrase, change := range map[string]func(*Observed){
		"the operator was upgraded":                func(o *Observed) { o.StatefulSet.Annotations[druidv1alpha1.AnnotationAppliedBy] = "former" },
		"the specification changed, not asked for": func(o *Observed) { o.Etcd.Generation++ },
		"members are wanted, not asked for":        wants(3),
	} {
		o := running(t, 3, wants(0), locks, recorded(2), gone, asked, func(o *Observed) { o.Etcd.Status.ObservedGeneration = ptr(o.Etcd.Generation) }, change)
		p := mustDecide(t, o, manual)
		if p.Mode != ModeTend {
			t.Fatalf("%s: mode %s", phrase, p.Mode)
		}
		for _, r := range p.Remove {
			t.Errorf("%s: the cluster sleeps on, and %s %s goes", phrase, r.Kind, r.Object.GetName())
		}
	}
}

// A cluster fell asleep with a specification that was good, and that is changed meanwhile.
func TestExtensionsGoByWhatWasAppliedAlone(t *testing.T) {
	manual := testSettings
	manual.AutoReconcile = false
	object := func(period time.Duration) func(*Observed) {
		return func(o *Observed) {
			o.Etcd.Spec.Backup.Store.Immutability = &druidv1alpha1.ImmutabilitySpec{RetentionType: druidv1alpha1.RetentionObject, RetentionPeriod: &metav1.Duration{Duration: period}}
		}
	}
	monthly := func(o *Observed) { o.Etcd.Spec.Backup.FullSnapshotSchedule = ptr("0 0 1 * *") }
	secret := func(namespace string) func(*Observed) {
		return func(o *Observed) {
			o.Etcd.Spec.Backup.Store.SecretRef = &corev1.SecretReference{Name: "other", Namespace: namespace}
		}
	}
	unlocked := func(o *Observed) { o.Etcd.Spec.Backup.Store.Immutability = nil }
	noStore := func(o *Observed) { o.Etcd.Spec.Backup.Store = nil }
	for phrase, c := range map[string]struct {
		change     []func(*Observed)
		settings   Settings
		follows    bool   // they go by what is written now
		task       string // what becomes of it
		hibernated string // in the message of the condition
	}{
		"nothing changes":                    {nil, testSettings, true, "stays", "wake it"},
		"another schedule":                   {[]func(*Observed){func(o *Observed) { o.Etcd.Spec.Backup.FullSnapshotSchedule = ptr("0 4 * * *") }}, testSettings, true, "stays", ""},
		"another period":                     {[]func(*Observed){object(200 * time.Hour)}, testSettings, true, "stays", ""},
		"other credentials":                  {[]func(*Observed){secret("")}, testSettings, true, "stays", ""},
		"locks are not asked for any more":   {[]func(*Observed){unlocked}, testSettings, true, "goes", ""},
		"a period that is too short":         {[]func(*Observed){object(12 * time.Hour)}, testSettings, false, "stays", ""},
		"fulls that come too rarely":         {[]func(*Observed){monthly}, testSettings, false, "stays", ""},
		"credentials of another namespace":   {[]func(*Observed){secret("elsewhere")}, testSettings, false, "stays", ""},
		"another bucket, and something else": {[]func(*Observed){another, monthly}, testSettings, false, "stays", ""},
		"another bucket":                     {[]func(*Observed){another}, testSettings, false, "stays", "is in aws backups/p, where it is kept locked as before, and the specification names aws elsewhere/p: set spec.backup.store back"},
		"another bucket that locks nothing":  {[]func(*Observed){another, unlocked}, testSettings, false, "stays", "where it is kept locked as before"},
		"no store":                           {[]func(*Observed){noStore}, testSettings, false, "stays", "the specification names no store"},
		"nobody asked for another bucket":    {[]func(*Observed){another}, manual, false, "stays", ""},
		"nobody asked for less":              {[]func(*Observed){unlocked}, manual, false, "stays", ""},
		"nobody asked for a shorter period":  {[]func(*Observed){object(30 * time.Hour)}, manual, false, "stays", ""},
	} {
		o := running(t, 3, wants(0), object(96*time.Hour), refusing, finalTaken())
		fell := mustDecide(t, o, testSettings)
		gone(o)
		asked(o)
		o.Snapshots = nil
		o.Etcd.Status.Hibernation, o.Etcd.Status.ObservedGeneration = fell.Hibernation, ptr(o.Etcd.Generation)
		if fell.Size.Replicas != 0 || fell.Hibernation.Applied == nil {
			t.Fatalf("it fell asleep to %d replicas with the record %+v", fell.Size.Replicas, fell.Hibernation)
		}
		was := o.Etcd.AsApplied().DeepCopy()
		o.Etcd.Generation++
		for _, change := range c.change {
			o.Etcd.Spec.Backup.Store = o.Etcd.Spec.Backup.Store.DeepCopy()
			change(o)
		}
		p := mustDecide(t, o, c.settings)
		o.Etcd.Status.Hibernation = p.Hibernation
		want := was.Spec.Backup
		if c.follows {
			want = o.Etcd.Spec.Backup
		}
		got := o.Etcd.AsApplied().Spec.Backup
		if d := cmp.Diff(want.Store, got.Store) + cmp.Diff(want.FullSnapshotSchedule, got.FullSnapshotSchedule); d != "" {
			t.Errorf("%s: the extension goes by something else:\n%s", phrase, d)
		}
		task := "stays"
		for _, r := range p.Remove {
			if r.Kind == druidv1alpha1.KindEtcdOperatorTask {
				task = "goes"
			}
		}
		if task != c.task {
			t.Errorf("%s: the task %s, want that it %s; refused %q", phrase, task, c.task, p.Refused)
		}
		if h := druidv1alpha1.FindCondition(p.Conditions, druidv1alpha1.ConditionHibernated); c.hibernated != "" && (h == nil || !strings.Contains(h.Message, c.hibernated)) {
			t.Errorf("%s: %+v, want %q", phrase, h, c.hibernated)
		}
	}
}

// An operator before this one wrote down nothing of that. What it applied is known for as long as nobody has changed it.
func TestWhatAFormerOperatorAppliedIsWrittenDownUnlessItWasChanged(t *testing.T) {
	manual := testSettings
	manual.AutoReconcile = false
	for changed, want := range map[bool]bool{false: true, true: false} {
		o := running(t, 3, wants(0), locks, recorded(2), gone, asked, func(o *Observed) {
			o.StatefulSet.Annotations[druidv1alpha1.AnnotationAppliedBy] = "former"
			o.Etcd.Status.ObservedGeneration = ptr(o.Etcd.Generation)
			if changed {
				o.Etcd.Generation++
			}
		})
		if p := mustDecide(t, o, manual); p.Mode != ModeTend || (p.Hibernation.Applied != nil) != want {
			t.Errorf("changed %t: mode %s, applied %+v", changed, p.Mode, p.Hibernation.Applied)
		}
	}
}

// The record of a hibernation takes the place of that of the one before, and what is refused is not in it either.
func TestWhatIsRefusedAsAClusterFallsAsleepAgainIsNotWrittenDown(t *testing.T) {
	applied := &druidv1alpha1.AppliedBackup{Store: newEtcd(3).Spec.Backup.Store, FullSnapshotSchedule: ptr("0 2 * * *")}
	o := running(t, 3, locks, recorded(1, awake, func(h *druidv1alpha1.HibernationStatus) { h.Applied = applied }), wants(0), refusing, finalTaken(), func(o *Observed) {
		o.Etcd.Spec.Backup.Store.Roles = &druidv1alpha1.StoreRoles{CollectorSecretRef: &corev1.SecretReference{Name: "collector", Namespace: "elsewhere"}}
	})
	if p := mustDecide(t, o, testSettings); len(p.Refused) == 0 || cmp.Diff(applied, p.Hibernation.Applied) != "" {
		t.Errorf("refused %q, and applied is %+v", p.Refused, p.Hibernation.Applied)
	}
}

// A cluster woke up from its volumes after its store was removed, so that it took no new full, and sleeps again.
func TestWhatIsKeptLockedInAFormerStoreStaysSoThroughAnotherSleep(t *testing.T) {
	store := newEtcd(3).Spec.Backup.Store
	store.Immutability = &druidv1alpha1.ImmutabilitySpec{RetentionType: druidv1alpha1.RetentionBucket}
	o := running(t, 3, locks, recorded(1, awake), wants(0), asked, func(o *Observed) {
		o.Etcd.Status.Hibernation.Applied = &druidv1alpha1.AppliedBackup{Store: store}
		o.Etcd.Spec.Backup.Store = nil
	})
	p := mustDecide(t, o, testSettings)
	if got := strings.Join(changes(o, p), ", "); p.Size.Replicas != 0 || strings.Contains(got, druidv1alpha1.KindEtcdOperatorTask) {
		t.Errorf("to %d pods: %s", p.Size.Replicas, got)
	}
	if h := p.Hibernation; h == nil || h.FinalSnapshot == nil || h.AwakeSince == nil || h.Applied == nil || cmp.Diff(store, h.Applied.Store) != "" {
		t.Errorf("what is written down is %+v", h)
	}
}

// Nothing of a change that is refused is done, so that what is written down stays as true as it was.
func TestWhatIsRefusedChangesNothingOfWhatIsKnownOfASleep(t *testing.T) {
	short := func(o *Observed) {
		o.Etcd.Spec.Backup.Store.Immutability = &druidv1alpha1.ImmutabilitySpec{RetentionType: druidv1alpha1.RetentionObject, RetentionPeriod: &metav1.Duration{Duration: 12 * time.Hour}}
	}
	for phrase, seen := range map[string][]func(*Observed){
		"members are wanted": {wants(3), locks, recorded(1), gone, short},
		"none is, without proof": {wants(0), locks, recorded(1, awake), refusing, short, func(o *Observed) {
			o.Etcd.Spec.Hibernation = &druidv1alpha1.HibernationSpec{AllowUnprotected: ptr(true)}
			o.Etcd.Annotations = map[string]string{druidv1alpha1.AnnotationSkipHibernationBackup: "true"}
		}},
		"none is":                 {wants(0), locks, recorded(1, awake), refusing, short},
		"there is to be no store": {wants(3), recorded(1, awake), func(o *Observed) { o.Etcd.Spec.Backup.Store, o.TokenTaken = nil, true }},
	} {
		o := running(t, 3, seen...)
		want := o.Etcd.Status.Hibernation.DeepCopy()
		p := mustDecide(t, o, testSettings)
		if d := cmp.Diff(want, p.Hibernation); len(p.Refused) == 0 || d != "" || p.Snapshot != nil {
			t.Errorf("%s: refused %q, taken is %+v; -want +got:\n%s", phrase, p.Refused, p.Snapshot, d)
		}
	}
}

// Somebody deleted it, and its pods are there: they get another one before anything else.
// Volumes that wait for a run of the extension do so for long if there is none.
func TestWhyNobodyReadsTheFinalSnapshotIsInTheCondition(t *testing.T) {
	o := running(t, 3)
	for _, change := range []func(*Observed){wants(0), locks, recorded(2), gone, volumesGo, refusing} {
		change(o)
	}
	o.NoExtension = "another object has its name"
	c := druidv1alpha1.FindCondition(mustDecide(t, o, testSettings).Conditions, druidv1alpha1.ConditionHibernated)
	if c == nil || c.Status != druidv1alpha1.ConditionFalse || !strings.Contains(c.Message, "no run of the extension does: another object has its name") {
		t.Errorf("%+v", c)
	}
}

func TestMembersWithoutAStatefulSetDoNotCountAsAsleep(t *testing.T) {
	noSet := func(o *Observed) { delete(o.Live, Key{"StatefulSet", "main"}); o.StatefulSet = nil }
	o := running(t, 3, locks, wants(0), noSet)
	p := mustDecide(t, o, testSettings)
	if c := druidv1alpha1.FindCondition(p.Conditions, druidv1alpha1.ConditionHibernated); c == nil || c.Reason == druidv1alpha1.ReasonScalingToZero || p.Sleep.Extend {
		t.Errorf("%+v, and an extension is to be there: %t", c, p.Sleep.Extend)
	}
}

// Members that work must not be stopped because a cache still holds the StatefulSet of their sleep.
func TestMembersStopByTheVersionAloneThatWasLookedAt(t *testing.T) {
	o := running(t, 3, wants(0), locks, recorded(1, awake), func(o *Observed) {
		*o.StatefulSet.Spec.Replicas = 0
		o.StatefulSet.ResourceVersion = "7"
	})
	for _, object := range mustDecide(t, o, testSettings).Objects {
		if set, is := object.(*appsv1.StatefulSet); is && set.ResourceVersion != "7" {
			t.Errorf("0 replicas are applied to version %q, want that of the look", set.ResourceVersion)
		}
	}
}

func awake(h *druidv1alpha1.HibernationStatus) { h.AwakeSince = ptr(ago(time.Minute)) }

// asked: the task is there that prolongs locks.
func asked(o *Observed) {
	task := extensionTask(o.Etcd)
	o.Extension = task
	o.Live[Key{druidv1alpha1.KindEtcdOperatorTask, task.Name}] = task
}

func portsOf(s *corev1.Service) string {
	var names []string
	for _, p := range s.Spec.Ports {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

func TestTwoEtcdsOfOneNamespaceSleepByThemselves(t *testing.T) {
	a, b := newEtcd(0), newEtcd(0, func(e *druidv1alpha1.Etcd) { e.Name, e.UID = "events", "other-uid" })
	pa, pb := extensionTask(a), extensionTask(b)
	if pa.Name == pb.Name || !metav1.IsControlledBy(pa, a) || metav1.IsControlledBy(pa, b) {
		t.Errorf("tasks %s and %s", pa.Name, pb.Name)
	}
	s := snapshots{states: map[types.UID]map[string]SnapshotState{a.UID: {finalFor(a): {Done: true}}}}
	if got := s.of(b); len(got) != 0 {
		t.Errorf("what is known of main counts for events: %+v", got)
	}
}

// A look after which nothing was to be done is not the last one: what runs of the extension tell may let volumes go.
func TestWhatIsToldOfASleepingBackupIsLookedAt(t *testing.T) {
	now := time.Now()
	before := running(t, 3, wants(0), recorded(2), gone, volumesGo)
	for phrase, change := range map[string]func(*druidv1alpha1.FinalSnapshot){
		"damage":   func(f *druidv1alpha1.FinalSnapshot) { f.Damaged = "a hole" },
		"a date":   func(f *druidv1alpha1.FinalSnapshot) { f.ProtectedUntil = &metav1.Time{Time: now} },
		"a look":   func(f *druidv1alpha1.FinalSnapshot) { f.LookedAt = &metav1.Time{Time: now} },
		"its hold": func(f *druidv1alpha1.FinalSnapshot) { f.Held = true },
	} {
		after := running(t, 3, wants(0), recorded(2, func(h *druidv1alpha1.HibernationStatus) { change(h.FinalSnapshot) }), gone, volumesGo)
		if fingerprint(before) == fingerprint(after) {
			t.Errorf("%s changes nothing", phrase)
		}
	}
}

// A cluster that fell asleep is not to wake up with less, and be it empty, without anybody being told.
func TestMembersDoNotBeginWithLessThanTheFinalSnapshot(t *testing.T) {
	was := func(store string) func(*Observed) {
		return func(o *Observed) {
			if store == "" {
				store = storeOf(o.Etcd)
			}
			o.Etcd.Status.LastBackup = &druidv1alpha1.LastBackup{Store: store, Name: "Full-00000000-00000900-1763000000.zst", Revision: 900}
		}
	}
	named := func(h *druidv1alpha1.HibernationStatus) {
		h.FinalSnapshot.Name = "Full-00000000-00001000-1764000000.zst.final"
	}
	for phrase, c := range map[string]struct {
		seen []func(*Observed)
		want int64
	}{
		"asleep":                {[]func(*Observed){wants(0), locks, recorded(2, named), gone}, 1000},
		"woken":                 {[]func(*Observed){wants(0), recorded(2, named), gone, asked, wants(3)}, 1000},
		"waking up":             {[]func(*Observed){locks, asked, recorded(2, named, awake)}, 1000},
		"never asleep":          {nil, 0},
		"of a former Etcd":      {[]func(*Observed){wants(0), recorded(2, named, func(h *druidv1alpha1.HibernationStatus) { h.EtcdUID = "before" })}, 0},
		"without a snapshot":    {[]func(*Observed){locks, asked, recorded(2, named, awake, func(h *druidv1alpha1.HibernationStatus) { h.FinalSnapshot = nil })}, 0},
		"of another store":      {[]func(*Observed){locks, asked, recorded(2, named, awake, func(h *druidv1alpha1.HibernationStatus) { h.FinalSnapshot.Store = "elsewhere" })}, 0},
		"no name of a full":     {[]func(*Observed){locks, asked, recorded(2, named, awake, func(h *druidv1alpha1.HibernationStatus) { h.FinalSnapshot.Name = "Full" })}, 0},
		"the store was changed": {[]func(*Observed){was("elsewhere")}, 900},
		"the same, and less is accepted": {[]func(*Observed){was("elsewhere"), func(o *Observed) {
			o.Etcd.Spec.Hibernation = &druidv1alpha1.HibernationSpec{AllowUnprotected: ptr(true)}
		}}, 0},
		"the same, and what is there is taken over": {[]func(*Observed){was("elsewhere"), func(o *Observed) {
			o.Etcd.Annotations = map[string]string{druidv1alpha1.AnnotationTakeOverBackups: "true"}
		}}, 0},
		"the last backup is in the store":          {[]func(*Observed){was("")}, 1},
		"asleep, with less in the store of before": {[]func(*Observed){wants(0), locks, recorded(2, named), gone, was("elsewhere")}, 1000},
		"less is accepted": {[]func(*Observed){locks, asked, recorded(2, named, awake), func(o *Observed) {
			o.Etcd.Spec.Hibernation = &druidv1alpha1.HibernationSpec{AllowUnprotected: ptr(true)}
		}}, 0},
	} {
		o := running(t, 3, c.seen...)
		p := mustDecide(t, o, testSettings)
		if got := input(o, testSettings, &p).AtLeast; got != c.want {
			t.Errorf("%s: revision %d, want %d", phrase, got, c.want)
		}
	}
}

// The members' configuration would else change with every look.
func TestMembersAreToldOfTheLastKnownRevisionInLargeSteps(t *testing.T) {
	for known, want := range map[int64]int64{0: 0, 99_999_999: 0, 1_000_010_000: 1_000_000_000, 1_099_999_999: 1_000_000_000, 1_100_000_000: 1_100_000_000} {
		o := running(t, 3)
		o.Etcd.Status.LastKnownRevision = &known
		p := mustDecide(t, o, testSettings)
		if got := input(o, testSettings, &p).LastKnown; got != want {
			t.Errorf("of revision %d they are told %d, want %d", known, got, want)
		}
	}
}

// Only with the type object does the specification say how strong a lock is to be.
func TestALockThatIsWeakerThanAskedForIsNone(t *testing.T) {
	of := func(kind druidv1alpha1.RetentionType, mode *druidv1alpha1.RetentionMode) func(*Observed) {
		return func(o *Observed) {
			o.Etcd.Spec.Backup.Store.Immutability = &druidv1alpha1.ImmutabilitySpec{RetentionType: kind, RetentionPeriod: &metav1.Duration{Duration: 96 * time.Hour}, Mode: mode}
		}
	}
	governance := func(o *Observed) {
		for k, s := range o.Snapshots {
			s.Mode = immutability.ModeGovernance
			o.Snapshots[k] = s
		}
	}
	for phrase, c := range map[string]struct {
		asked func(*Observed)
		holds bool
	}{
		"compliance, by default": {of(druidv1alpha1.RetentionObject, nil), true},
		"compliance":             {of(druidv1alpha1.RetentionObject, ptr(druidv1alpha1.RetentionCompliance)), true},
		"governance":             {of(druidv1alpha1.RetentionObject, ptr(druidv1alpha1.RetentionGovernance)), false},
		"what the bucket gives":  {of(druidv1alpha1.RetentionBucket, nil), false},
	} {
		p := mustDecide(t, running(t, 3, wants(0), refusing, c.asked, finalTaken(), governance), testSettings)
		if (p.Sleep.Reason == druidv1alpha1.ReasonFinalSnapshotNoLock) != c.holds {
			t.Errorf("%s: %s: %s", phrase, p.Sleep.Reason, p.Sleep.Message)
		}
	}
}
