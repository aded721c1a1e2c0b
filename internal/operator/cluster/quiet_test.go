package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/volumes"
)

func TestALookThatFindsTheSameMakesNoObjects(t *testing.T) {
	o := running(t, 3, relaxed, func(o *Observed) { o.Asked = false })
	first := mustDecide(t, o, testSettings)
	q, is := quiet(o, first, outcome{})
	if !is {
		t.Fatalf("a cluster of which nothing is wrong is not quiet: %+v", first.Size)
	}
	o.Quiet = &q
	second := mustDecide(t, o, testSettings)
	if len(second.Objects) > 0 {
		t.Errorf("%d objects were made", len(second.Objects))
	}
	s, u := statusOf(o, first, outcome{}, "run", testNow), statusOf(o, second, outcome{}, "run", testNow)
	if diff := cmp.Diff(s, u); diff != "" {
		t.Errorf("the status of a quiet look (-first +quiet):\n%s", diff)
	}
	silent(1, 10*time.Minute)(o)
	if p := mustDecide(t, o, testSettings); len(p.Objects) == 0 {
		t.Error("a member is gone, and the PodDisruptionBudget was not made anew")
	}
}

func TestEveryChangeEndsTheQuiet(t *testing.T) {
	before := fingerprint(running(t, 3))
	if again := fingerprint(running(t, 3)); again != before {
		t.Fatal("the same looks different")
	}
	for phrase, change := range map[string]func(*Observed){
		"the specification":         wants(5),
		"an annotation of the Etcd": func(o *Observed) { o.Etcd.Annotations = map[string]string{"a": "b"} },
		"it was applied":            func(o *Observed) { o.Etcd.Status.ObservedGeneration = ptr(int64(7)) },
		"the first backup": func(o *Observed) {
			o.Etcd.Status.LastBackup = &druidv1alpha1.LastBackup{Store: storeOf(o.Etcd), Name: "Full-00000000-00000900-1763000000.zst", Revision: 900}
		},
		"an object was changed":     func(o *Observed) { o.Live[Key{"Service", "main-client"}].SetResourceVersion("2") },
		"an object is gone":         func(o *Observed) { delete(o.Live, Key{"Role", "druid.gardener.cloud:etcd:main"}) },
		"a Lease is gone":           func(o *Observed) { delete(o.Live, Key{"Lease", "main-0"}) },
		"a Lease belongs to nobody": func(o *Observed) { o.Live[Key{"Lease", "main-0"}].SetOwnerReferences(nil) },
		"a Lease lost a label":      func(o *Observed) { o.Live[Key{"Lease", "main-0"}].SetLabels(map[string]string{"x": "y"}) },
		"an EtcdMember goes":        func(o *Observed) { o.Live[Key{"EtcdMember", "main-0"}].SetDeletionTimestamp(&metav1.Time{}) },
		"a member changed its scheme": func(o *Observed) {
			o.Live[Key{"EtcdMember", "main-0"}].(*druidv1alpha1.EtcdMember).Status.PeerTLSEnabled = ptr(true)
		},
		"a pod has a former template": former(0),
		"a pod is another one":        func(o *Observed) { o.Pods[0].UID = "another" },
		"a pod is gone":               func(o *Observed) { o.Pods = o.Pods[:2] },
		"a volume claim is gone":      func(o *Observed) { o.Claims = o.Claims[:2] },
		"somebody's task prolongs locks": func(o *Observed) {
			o.Extension = &druidv1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Name: "often"}}
		},
		"an EtcdMember more than members": func(o *Observed) { o.join(3, false) },
	} {
		o := running(t, 3)
		change(o)
		if fingerprint(o) == before {
			t.Errorf("%s: it looks the same", phrase)
		}
	}
	for phrase, change := range map[string]func(*Observed){
		"a heartbeat": func(o *Observed) { o.Live[Key{"Lease", "main-0"}].SetResourceVersion("2") },
		"a report":    func(o *Observed) { o.Live[Key{"EtcdMember", "main-0"}].SetResourceVersion("2") },
		"another order of the cache": func(o *Observed) {
			slices.Reverse(o.Pods)
			slices.Reverse(o.Claims)
		},
	} {
		o := running(t, 3)
		change(o)
		if fingerprint(o) != before {
			t.Errorf("%s: it looks different", phrase)
		}
	}
}

// What time alone changes is known beforehand, so that nobody has to look for it.
func TestAnEtcdIsSteadyUntilTimeChangesSomething(t *testing.T) {
	for phrase, c := range map[string]struct {
		change func(*Observed)
		after  time.Duration
		want   bool
	}{
		"nothing happens":                   {func(*Observed) {}, time.Minute, true},
		"a backup will be too old":          {func(*Observed) {}, 22 * time.Hour, false},
		"a member is late":                  {silent(1, 31*time.Second), time.Minute, false},
		"a member never reported":           {func(o *Observed) { o.Leases[1].Spec.RenewTime = nil }, time.Minute, false},
		"uploads are due":                   {func(o *Observed) { o.Members[2].Status.Snapshots.NothingNew = ptr(ago(3 * time.Minute)) }, time.Minute, false},
		"something was to be done just now": {func(o *Observed) { o.Quiet = nil }, time.Minute, false},
	} {
		o := running(t, 3, relaxed, func(o *Observed) {
			o.Asked = false
			for _, c := range o.Claims {
				c.Status.Capacity = c.Spec.Resources.Requests
			}
		})
		p := mustDecide(t, o, testSettings)
		o.Etcd.Status = statusOf(o, p, outcome{}, "run", testNow) // as it is known from here on
		q, is := quiet(o, mustDecide(t, o, testSettings), outcome{})
		if !is {
			t.Fatalf("%s: a cluster of which nothing is wrong is not quiet", phrase)
		}
		o.Quiet = &q
		before := slices.Clone(o.Leases)
		c.change(o)
		if got := steady(o, mustDecide(t, o, testSettings), testSettings, testNow, c.after); got != c.want {
			t.Errorf("%s: steady for %s: %t", phrase, c.after, got)
		}
		if phrase == "nothing happens" && !o.Leases[0].Spec.RenewTime.Equal(before[0].Spec.RenewTime) {
			t.Errorf("a Lease was changed: %v", o.Leases[0].Spec.RenewTime)
		}
	}
}

func TestWhereSomethingIsWrongNothingIsSettled(t *testing.T) {
	for phrase, c := range map[string]struct {
		see    func(*Observed)
		decide func(*Plan)
		want   bool
	}{
		"nothing is":               {},
		"a pod begins":             {see: func(o *Observed) { o.Pods[1].Status.Conditions = nil }, want: true},
		"no node has room":         {see: func(o *Observed) { o.Pods[1].Spec.NodeName, o.Pods[1].Status.Conditions = "", nil }},
		"a volume is not bound":    {see: func(o *Observed) { o.Claims[0].Status.Phase = "Pending" }, want: true},
		"a volume does not grow":   {decide: func(p *Plan) { p.Volumes.Kind = volumes.Report }, want: true},
		"it woke up":               {decide: func(p *Plan) { p.Hibernation = &druidv1alpha1.HibernationStatus{} }, want: true},
		"nothing is backed up":     {see: func(o *Observed) { o.Members[2].Status.Snapshots.NothingNew = ptr(ago(time.Hour)) }, want: true},
		"and nobody wants it, too": {see: func(o *Observed) { o.Members[2].Status.Snapshots, o.Etcd.Spec.Backup.Store = nil, nil }},
	} {
		o := running(t, 3, func(o *Observed) {
			for i, c := range o.Claims {
				c.Status.Capacity, o.Pods[i].Spec.NodeName = c.Spec.Resources.Requests, "node"
			}
		})
		if c.see != nil {
			c.see(o)
		}
		p := mustDecide(t, o, testSettings)
		if c.decide != nil {
			c.decide(&p)
		}
		if got := unsettled(o, p, testNow); got != c.want {
			t.Errorf("%s: unsettled %t", phrase, got)
		}
	}
}
