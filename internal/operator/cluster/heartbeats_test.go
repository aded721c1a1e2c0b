package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// leaseServer holds Leases and gives them away in pages of two.
type leaseServer struct {
	client.Reader
	mu      sync.Mutex
	leases  map[string]*coordinationv1.Lease
	version int
	lists   int
	down    bool
	between func() // called once, before the second page
}

func (s *leaseServer) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	if s.down {
		return errors.New("connection refused")
	}
	begin := 0
	if o.Continue != "" {
		if between := s.between; between != nil {
			s.between = nil
			s.mu.Unlock() // it lists, too
			between()
			s.mu.Lock()
		}
		begin, _ = strconv.Atoi(o.Continue)
	}
	into, all := list.(*coordinationv1.LeaseList), []string{}
	for name, l := range s.leases {
		if (o.Namespace == "" || l.Namespace == o.Namespace) && o.LabelSelector.Matches(labels.Set(l.Labels)) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	const page = 2
	for _, name := range all[begin:min(begin+page, len(all))] {
		into.Items = append(into.Items, *s.leases[name].DeepCopy())
	}
	if begin+page < len(all) && o.Limit > 0 {
		into.Continue = strconv.Itoa(begin + page)
	} else if o.Limit == 0 {
		for _, name := range all[min(begin+page, len(all)):] {
			into.Items = append(into.Items, *s.leases[name].DeepCopy())
		}
	}
	return nil
}

// start has s answer.
func (s *leaseServer) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
}

// put makes or renews a Lease; holder "": it was never renewed.
func (s *leaseServer) put(etcd, name, holder string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases == nil {
		s.leases = map[string]*coordinationv1.Lease{}
	}
	l := s.leases[name]
	if l == nil {
		l = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(fmt.Sprintf("%s-%d", name, s.version)),
			Labels:        map[string]string{druidv1alpha1.LabelManagedBy: druidv1alpha1.ManagedBy, druidv1alpha1.LabelPartOf: etcd},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "somebody"}},
		}}
		s.leases[name] = l
	}
	s.version++
	l.ResourceVersion = strconv.Itoa(s.version)
	if holder != "" {
		renewed := metav1.NewMicroTime(at)
		l.Spec.HolderIdentity, l.Spec.RenewTime = &holder, &renewed
	}
}

func quietLog() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func TestALeaseIsToldOfIfItTellsSomething(t *testing.T) {
	now := testNow
	s := &leaseServer{}
	h := newHeartbeats(s, time.Minute, func() time.Time { return now }, quietLog())
	s.put("main", "main-0", "a0:c1:Leader", now)
	s.put("main", "main-1", "a1:c1:Member", now)
	s.put("main", "main-2", "", now)
	s.put("other", "other-0", "b0:c2:Leader", now)
	silent := ""
	for _, step := range []struct {
		what   string
		change func()
		want   []string
	}{
		{"all are new", func() {}, []string{"main", "other"}},
		{"all were renewed", func() {}, nil},
		{"another one leads", func() { s.put("main", "main-1", "a1:c1:Leader", now) }, []string{"main"}},
		{"one was renewed for the first time", func() { s.put("main", "main-2", "a2:c1:Member", now) }, []string{"main"}},
		{"one is not heard of", func() { silent = "other-0" }, nil},
		{"for a while", func() {}, []string{"other"}},
		{"and for longer, which was told already", func() { now = now.Add(heartbeatsEvery) }, nil},
		{"and is back", func() { silent = "" }, []string{"other"}},
		{"somebody took a label away that we made", func() { s.leases["main-0"].Labels["x"] = "y" }, []string{"main"}},
		{"one was deleted", func() { delete(s.leases, "main-2") }, []string{"main"}},
		{"one was made anew", func() {
			delete(s.leases, "main-1")
			s.put("main", "main-1", "a1:c1:Leader", now)
		}, []string{"main"}},
		{"all are gone", func() { delete(s.leases, "other-0") }, []string{"other"}},
	} {
		now = now.Add(heartbeatsEvery)
		step.change()
		for name, l := range s.leases {
			if l.Spec.RenewTime != nil && name != silent {
				l.Spec.RenewTime = &metav1.MicroTime{Time: now}
			}
		}
		changed, err := h.poll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, etcd := range changed {
			got = append(got, etcd.Name)
		}
		slices.Sort(got)
		if d := cmp.Diff(step.want, got); d != "" {
			t.Errorf("%s: -want +got:\n%s", step.what, d)
		}
	}
	last := h.last(newEtcd(3))
	if len(last.leases) != 2 || !last.at.Equal(now) {
		t.Errorf("%d Leases are known, as of %s", len(last.leases), last.at)
	}
	for _, l := range last.leases {
		if len(l.ManagedFields) > 0 || l.ResourceVersion != s.leases[l.Name].ResourceVersion || l.UID != s.leases[l.Name].UID {
			t.Errorf("%s is kept as %+v", l.Name, l)
		}
	}
}

func TestWhatWasReadWhileAllWereListedIsNotForgotten(t *testing.T) {
	now := testNow
	s := &leaseServer{}
	h := newHeartbeats(s, time.Minute, func() time.Time { return now }, quietLog())
	for i := range 3 {
		s.put("main", fmt.Sprintf("main-%d", i), "", now)
	}
	s.put("old", "a-old", "", now) // on the first page
	s.between = func() {           // the first page, with main-0, is read by now
		now = now.Add(time.Second)
		s.put("main", "main-0", "a0:c1:Leader", now)
		if _, err := h.read(t.Context(), newEtcd(3)); err != nil {
			t.Error(err)
		}
		delete(s.leases, "a-old")
		if _, err := h.read(t.Context(), newEtcd(1, func(e *druidv1alpha1.Etcd) { e.Name = "old" })); err != nil {
			t.Error(err)
		}
		h.made(newEtcd(3), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "main-3", UID: "new"}})
	}
	if _, err := h.poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last := h.last(newEtcd(1, func(e *druidv1alpha1.Etcd) { e.Name = "old" })); len(last.leases) > 0 {
		t.Errorf("a Lease that was gone by then is known again: %s", last.leases[0].Name)
	}
	var got []string
	for _, l := range h.last(newEtcd(3)).leases {
		got = append(got, fmt.Sprint(l.Name, " ", l.Spec.HolderIdentity != nil))
	}
	if d := cmp.Diff([]string{"main-0 true", "main-1 false", "main-2 false", "main-3 false"}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// Of the other Leases is known what was known before: nobody has heard of them since.
func TestWhatTheOperatorMakesAndRemovesIsKnownAtOnce(t *testing.T) {
	now, e := testNow, newEtcd(3)
	s := &leaseServer{}
	h := newHeartbeats(s, time.Minute, func() time.Time { return now }, quietLog())
	names := func() (all []string) {
		for _, l := range h.last(e).leases {
			all = append(all, l.Name)
		}
		return all
	}
	s.put("main", "main-0", "", now)
	s.put("main", "main-1", "", now)
	if _, err := h.poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(20 * time.Second)
	h.made(e, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "main-2"}})
	h.removed(e, "main-0")
	if got := names(); !slices.Equal(got, []string{"main-1", "main-2"}) || !h.last(e).at.Equal(testNow) {
		t.Errorf("%q are known, as of %s", got, h.last(e).at)
	}
	s.between = func() { // a listing that has begun still has it
		now = now.Add(time.Second)
		h.removed(e, "main-1")
	}
	s.put("main", "main-2", "", now)
	if _, err := h.poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := names(); !slices.Equal(got, []string{"main-2"}) {
		t.Errorf("%q are known", got)
	}
}

func TestLeasesAreListedAgainAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{down: true}
		h := newHeartbeats(s, time.Minute, time.Now, quietLog())
		ctx, stop := context.WithCancel(t.Context())
		var told []string
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			h.run(ctx, func(etcd types.NamespacedName) { told = append(told, etcd.Name) })
		}()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		select {
		case <-h.listed:
			t.Error("Leases are said to be known that could not be listed")
		default:
		}
		if s.lists != 3 { // at 0, 1 and 3 s
			t.Errorf("listed %d times within 5 s, want 3", s.lists)
		}
		s.put("main", "main-0", "a0:c1:Leader", time.Now())
		s.start()
		if err := h.WaitForSync(ctx); err != nil {
			t.Fatal(err)
		}
		if len(told) > 0 {
			t.Errorf("%v are looked at although all are", told)
		}
		s.put("main", "main-0", "a0:c1:Member", time.Now())
		time.Sleep(heartbeatsEvery)
		synctest.Wait()
		if !slices.Equal(told, []string{"main"}) {
			t.Errorf("told of %v", told)
		}
		stop()
		<-ended
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		if err := newHeartbeats(s, time.Minute, time.Now, quietLog()).WaitForSync(cancelled); !errors.Is(err, context.Canceled) {
			t.Errorf("not to wait any longer ends with %v", err)
		}
	})
}

// replacedPod has a pod be made just now, when its member was heard of last.
func replacedPod(o *Observed, i int) {
	o.Pods[i].CreationTimestamp = metav1.NewTime(testNow)
	o.Leases[i].Spec.RenewTime = &metav1.MicroTime{Time: testNow.Add(-time.Second)}
}

func readyNow(o *Observed, i int) {
	for j := range o.Pods[i].Status.Conditions {
		o.Pods[i].Status.Conditions[j].LastTransitionTime = metav1.NewTime(testNow)
	}
}

func TestAnEtcdIsLookedAtSoonWhileAPodThatIsReadyIsNotHeardOf(t *testing.T) {
	r := &Reconciler{now: func() time.Time { return testNow }, syncPeriod: time.Minute, heartbeats: newHeartbeats(&leaseServer{}, time.Minute, time.Now, quietLog()), settings: testSettings}
	for phrase, c := range map[string]struct {
		change func(*Observed)
		want   bool
	}{
		"all were heard of":     {func(*Observed) {}, false},
		"it got ready just now": {func(o *Observed) { replacedPod(o, 1); readyNow(o, 1) }, true},
		"it is ready for long":  {func(o *Observed) { replacedPod(o, 1) }, false},
		"another is for long":   {func(o *Observed) { replacedPod(o, 0); replacedPod(o, 1); readyNow(o, 1) }, true},
		"of one of which nothing is done": {func(o *Observed) {
			replacedPod(o, 1)
			readyNow(o, 1)
			o.Etcd.Annotations = map[string]string{druidv1alpha1.AnnotationSuspendReconcile: "true"}
		}, false},
	} {
		o := running(t, 3, c.change)
		p := mustDecide(t, o, testSettings)
		if got, err := r.next(o, p, outcome{}); err != nil || (got.RequeueAfter <= soon) != c.want {
			t.Errorf("%s: looked at again in %s (%v), want it soon: %t", phrase, got.RequeueAfter, err, c.want)
		}
	}
}

func TestLeasesAreReadAnewWhereThoseListedAreNotEnough(t *testing.T) {
	for phrase, c := range map[string]struct {
		change func(*Observed)
		calm   bool
		rehear bool
		want   bool
	}{
		"nothing happens":                         {func(*Observed) {}, true, false, false},
		"somebody wants them read each time":      {func(*Observed) {}, true, true, true},
		"something happens":                       {func(o *Observed) { o.Pods[0].Spec.NodeName = "n" }, false, false, true},
		"something happens, and no pod can start": {func(*Observed) {}, false, false, false},
		"one member is silent": {func(o *Observed) {
			o.Leases[1].Spec.RenewTime = &metav1.MicroTime{Time: testNow.Add(-time.Minute)}
		}, true, false, true},
		"all are, as the cluster sleeps": {func(o *Observed) {
			o.Leases[1].Spec.RenewTime = &metav1.MicroTime{Time: testNow.Add(-time.Hour)}
			o.StatefulSet.Spec.Replicas, o.Pods = ptr(int32(0)), nil
		}, true, false, false},
		"one never reported, and is ready for long":                 {func(o *Observed) { o.Leases[1].Spec.RenewTime = nil }, true, false, false},
		"one never reported, and got ready just now":                {func(o *Observed) { readyNow(o, 1); o.Leases[1].Spec.RenewTime = nil }, true, false, true},
		"a new pod is ready, and its member was heard of before it": {func(o *Observed) { replacedPod(o, 1); readyNow(o, 1) }, true, false, true},
		"a new pod was unready just now": {func(o *Observed) {
			replacedPod(o, 1)
			readyNow(o, 1)
			for i := range o.Pods[1].Status.Conditions {
				o.Pods[1].Status.Conditions[i].Status = corev1.ConditionFalse
			}
		}, true, false, false},
		"a new pod is ready, and goes": {func(o *Observed) {
			replacedPod(o, 1)
			readyNow(o, 1)
			o.Pods[1].DeletionTimestamp = &metav1.Time{Time: testNow}
		}, true, false, false},
		"a pod that was heard of got ready":   {func(o *Observed) { readyNow(o, 1) }, true, false, false},
		"nothing could be listed for a while": {func(o *Observed) { o.heard = testNow.Add(-heardLongAgo - time.Second) }, true, false, true},
		"there is nothing yet":                {func(o *Observed) { o.Leases, o.Pods, o.heard = nil, nil, time.Time{} }, false, false, false},
	} {
		t.Run(phrase, func(t *testing.T) {
			s := &leaseServer{}
			r := &Reconciler{now: func() time.Time { return testNow }, rehear: c.rehear}
			r.heartbeats = newHeartbeats(s, time.Minute, r.now, quietLog())
			o := running(t, 3)
			o.heard = testNow.Add(-time.Second)
			c.change(o)
			s.put("main", "main-0", "a9:c1:Leader", testNow)
			anew, err := r.hear(t.Context(), o, c.calm)
			if err != nil {
				t.Fatal(err)
			}
			if anew != c.want || (s.lists == 1) != c.want {
				t.Fatalf("read: %t, with %d requests, want %t", anew, s.lists, c.want)
			}
			if _, still := o.Live[Key{kindLease, "main-1"}]; anew && (len(o.Leases) != 1 || still || *o.Leases[0].Spec.HolderIdentity != "a9:c1:Leader" || !o.heard.Equal(testNow)) {
				t.Errorf("it listens to %v, of %s", o.Leases, o.heard)
			}
		})
	}
	r := &Reconciler{now: func() time.Time { return testNow }, heartbeats: newHeartbeats(&leaseServer{down: true}, time.Minute, time.Now, quietLog()), rehear: true}
	o := running(t, 3)
	if _, err := r.hear(t.Context(), o, true); err == nil || len(o.Leases) != 3 {
		t.Errorf("what cannot be read is %v, and %d Leases are left", err, len(o.Leases))
	}
}
