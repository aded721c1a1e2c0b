package operator_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/writers"
)

// stallAtMost is some elections, on a machine that other tests keep so busy that a member hears of its leader seconds late.
const stallAtMost = 90 * time.Second

// On real nodes a rollout, the replacement of a read-only volume, the way from three members to one and a deletion are made by operators that all die after
// their first step: whatever clients were told is there, in the end on the volume alone, and no two pods are away at once.
func TestOperatorsThatDieAfterEachStepReplaceAndRemoveMembersWhileClientsWrite(t *testing.T) {
	together(t, heavy)
	s := onNodes(t)
	m := s.mortal(t, automatic, "images: {all: "+memberImage+"}")
	s.apply(t, etcdYAML("shop", "main", 3))
	patient := func(what func(context.Context) error) {
		t.Helper()
		if err := cluster.Await(t.Context(), 5*time.Minute, what); err != nil {
			t.Fatal(err)
		}
	}
	patient(s.condition("shop", "main", "AllMembersReady", "True", "AllMembersReady", "3 of 3"))
	etcd := s.etcdOf(t, "shop")
	w := writing(t, etcd)
	former, err := s.Client.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(former.Items) != 3 {
		t.Fatalf("%d pods (%v)", len(former.Items), err)
	}
	// oneAway complains when two members have no pod that has been ready and is not about to go. What a probe says of one later
	// is of its cluster: while there is no leader none is ready.
	beenReady := map[types.UID]bool{}
	oneAway := func(ctx context.Context, of int) {
		pods, err := s.Client.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{})
		if err != nil {
			return
		}
		there := 0
		for i := range pods.Items {
			p := &pods.Items[i]
			if isReady(p) {
				beenReady[p.UID] = true
			}
			if beenReady[p.UID] && p.DeletionTimestamp == nil {
				there++
			}
		}
		if there < of-1 {
			t.Errorf("%d of %d members have a pod", there, of)
		}
	}
	m.g.road("shop").shorten(true)
	s.change(t, "Etcd", "shop", "main", func(o map[string]any) { set(o, "extensive", "spec", "etcd", "metrics") })
	m.until(t, 8*time.Minute, func(ctx context.Context) error {
		oneAway(ctx, 3)
		for i := range former.Items {
			p, err := s.Client.CoreV1().Pods("shop").Get(ctx, former.Items[i].Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if p.UID == former.Items[i].UID {
				return fmt.Errorf("%s is as it was", p.Name)
			}
		}
		return s.operation("shop", "main", "Reconcile Succeeded")(ctx)
	})
	t.Logf("a rollout by operators of which %d died", m.deaths)
	if m.deaths < 5 {
		t.Errorf("%d operators died: too few to show anything", m.deaths)
	}
	before := m.deaths
	spoilt, err := s.claim(t.Context(), "shop", "main-main-2")
	if err == nil {
		err = s.OnVolume(t.Context(), "shop", "main-2", spoilt.Name, cluster.MakeReadOnly)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.until(t, 8*time.Minute, func(ctx context.Context) error {
		oneAway(ctx, 3)
		c, err := s.claim(ctx, "shop", spoilt.Name)
		if err == nil && (c.UID == spoilt.UID || c.Status.Phase != corev1.ClaimBound) {
			err = fmt.Errorf("the claim %s is %s, and read-only was %s", c.Name, c.UID, spoilt.UID)
		}
		if err != nil {
			return err
		}
		return s.condition("shop", "main", "AllMembersReady", "True", "AllMembersReady", "3 of 3")(ctx)
	})
	t.Logf("a read-only volume replaced by operators of which %d died", m.deaths-before)
	if m.deaths-before < 3 {
		t.Errorf("%d operators died: too few to show anything", m.deaths-before)
	}
	before = m.deaths
	left := append(objectsOf("main", 1), "PersistentVolumeClaim main-main-1", "PersistentVolumeClaim main-main-2")
	slices.Sort(left)
	s.change(t, "Etcd", "shop", "main", func(o map[string]any) { set(o, int64(1), "spec", "replicas") })
	m.until(t, 8*time.Minute, func(ctx context.Context) error {
		set, err := s.Client.AppsV1().StatefulSets("shop").Get(ctx, "main", metav1.GetOptions{})
		if err != nil {
			return err
		}
		list, err := etcd.MemberList(ctx)
		if err == nil && int(*set.Spec.Replicas) < len(list.Members) {
			t.Errorf("%d pods are wanted of %d members", *set.Spec.Replicas, len(list.Members))
		}
		if err := s.has("shop", "main", left)(ctx); err != nil {
			return err
		}
		return s.operation("shop", "main", "Reconcile Succeeded")(ctx)
	})
	t.Logf("from three members to one by operators of which %d died", m.deaths-before)
	if m.deaths-before < 4 {
		t.Errorf("%d operators died: too few to show anything", m.deaths-before)
	}
	m.g.road("shop").shorten(false)
	stall := w.Stall()
	w.Stop()
	t.Logf("the longest time without an acknowledged write was %v, of %d writes", stall.Round(time.Millisecond), w.EverAcknowledged())
	if stall > stallAtMost {
		t.Errorf("for %v no write was acknowledged", stall)
	}
	members, err := etcd.MemberList(t.Context())
	if err != nil || len(members.Members) != 1 {
		t.Errorf("the members are %v (%v), want one", members, err)
	}
	all, err := etcd.Get(t.Context(), writers.Prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, lost := range w.Ledger.AgainstKeys(all.Kvs, all.Header.Revision) {
		t.Error(lost)
	}
	kept, volumes := map[string]types.UID{}, []string(nil)
	for i := range 3 {
		name := fmt.Sprintf("main-main-%d", i)
		c, err := s.claim(t.Context(), "shop", name)
		if err != nil || c.Status.Phase != corev1.ClaimBound {
			t.Fatalf("the volume %s: %v (%v), want it to stay", name, c, err)
		}
		kept[name], volumes = c.UID, append(volumes, "PersistentVolumeClaim "+name)
	}

	before = m.deaths
	m.g.road("shop").shorten(true)
	s.delete(t, "Etcd", "shop", "main")
	m.until(t, 8*time.Minute, func(ctx context.Context) error {
		if err := s.absent("Etcd", "shop", "main")(ctx); err != nil {
			return err
		}
		return s.has("shop", "main", volumes)(ctx)
	})
	t.Logf("deleted by operators of which %d died", m.deaths-before)
	if m.deaths-before < 8 {
		t.Errorf("%d operators died: too few to show anything", m.deaths-before)
	}
	m.g.road("shop").shorten(false)
	for name, uid := range kept {
		if c, err := s.claim(t.Context(), "shop", name); err != nil || c.UID != uid || c.Status.Phase != corev1.ClaimBound {
			t.Errorf("the volume %s: %v (%v), want it to stay", name, c, err)
		}
	}
	s.apply(t, etcdYAML("shop", "main", 1))
	patient(s.condition("shop", "main", "AllMembersReady", "True", "AllMembersReady", "1 of 1"))
	again := s.etcdOf(t, "shop")
	if all, err = again.Get(t.Context(), writers.Prefix, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	for _, lost := range w.Ledger.AgainstKeys(all.Kvs, all.Header.Revision) {
		t.Errorf("after the deletion: %s", lost)
	}
}

// etcdOf is a client of the Etcd main by its Service.
func (s *site) etcdOf(t *testing.T, namespace string) *clientv3.Client {
	t.Helper()
	service, err := s.Client.CoreV1().Services(namespace).Get(t.Context(), "main-client", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + net.JoinHostPort(service.Spec.ClusterIP, "2379")}, DialTimeout: 5 * time.Second, DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { etcd.Close() })
	return etcd
}

// writing has clients write, and returns when many writes were acknowledged. From then on stalls count.
func writing(t *testing.T, etcd *clientv3.Client) *writers.Writers {
	t.Helper()
	w := &writers.Writers{}
	w.Start(t.Context(), etcd)
	t.Cleanup(w.Stop)
	await(t, func(context.Context) error {
		if w.EverAcknowledged() < 100 {
			return errors.New("too few writes were acknowledged")
		}
		return nil
	})
	w.Mark()
	return w
}
