package journeys_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// Pods get another specification one at a time, the leader's last, while clients write; then they are of another user, and back.
func rollout(t *testing.T, s *site) {
	const namespace = "rollout"
	s.namespace(t, namespace)
	p := s.open(t, namespace, spec(3, backed(s.bucket(t, namespace, namespace, "shop"))))
	p.write(t, p.client)
	before := p.uids(t)
	leader := p.leader(t)
	p.patch(t, `{etcd: {metrics: extensive, resources: {requests: {cpu: 20m, memory: 64Mi}}}}`)
	s.await(t, "the status says that pods are being replaced", func(ctx context.Context) error {
		e, err := p.etcd(ctx)
		if err != nil {
			return err
		}
		c := druidv1alpha1.FindCondition(e.Status.Conditions, druidv1alpha1.ConditionAllMembersUpdated)
		if c == nil || c.Status != druidv1alpha1.ConditionFalse {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
	var order []string // of the new pods
	p.oneAtATime(t, 3, "the Etcd is whole", func(ctx context.Context) error {
		pods, err := p.pods(ctx)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if !slices.Contains(before, string(pod.UID)) && !slices.Contains(order, pod.Name) {
				order = append(order, pod.Name)
			}
		}
		if len(order) != 3 {
			return fmt.Errorf("replaced are %q", order)
		}
		return p.whole(ctx)
	})
	if order[2] != leader {
		t.Errorf("the order was %q, and %s led when it began", order, leader)
	}
	s.await(t, "an event tells of each pod", p.told("PodReplaced", leader))
	for _, asRoot := range []bool{true, false} { // with what the other user left on the volumes
		before = p.uids(t)
		p.patch(t, fmt.Sprintf("{runAsRoot: %t}", asRoot))
		s.await(t, fmt.Sprintf("all are replaced and the Etcd is whole with runAsRoot: %t", asRoot), func(ctx context.Context) error {
			pods, err := p.pods(ctx)
			if err != nil {
				return err
			}
			for _, pod := range pods {
				if slices.Contains(before, string(pod.UID)) {
					return fmt.Errorf("%s is as it was", pod.Name)
				}
			}
			return p.whole(ctx)
		})
	}
	p.nothingIsLost(t, p.client)
}

// leader is the pod whose etcd leads.
func (p *shop) leader(t *testing.T) (pod string) {
	t.Helper()
	p.await(t, "one member leads", func(ctx context.Context) error {
		var members druidv1alpha1.EtcdMemberList
		if err := p.read(ctx, "etcdmembers", "", &members); err != nil {
			return err
		}
		pod = ""
		for _, m := range members.Items {
			if m.Status.SubState != druidv1alpha1.MemberLeader {
				continue
			}
			if pod != "" {
				return errors.New("there are two")
			}
			pod = m.Name
		}
		if pod == "" {
			return fmt.Errorf("nobody of %d says that it leads", len(members.Items))
		}
		return nil
	})
	return pod
}

// One member becomes three, and three one, while clients write. The members' names have a prefix, those
// of their pods have not.
func scale(t *testing.T, s *site) {
	const namespace = "scale"
	s.namespace(t, namespace)
	p := s.open(t, namespace, spec(1, map[string]any{"memberNamePrefix": "blue"}))
	p.write(t, p.client)
	members := func(want ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := p.votes(p.client, want...)(ctx); err != nil {
				return err
			}
			return p.whole(ctx)
		}
	}
	s.await(t, "one member votes", members("blue-main-0"))
	s.kubectl(t, "--namespace="+namespace, "scale", "etcd", name, "--replicas=3")
	s.await(t, "three members vote", members("blue-main-0", "blue-main-1", "blue-main-2"))
	s.await(t, "the status says so", p.says(druidv1alpha1.ConditionAllMembersReady, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonAllMembersReady, "3 of 3"))
	s.await(t, "an event tells of it", p.told("Scaling", "3"))
	pods, err := p.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, pod := range pods {
		if want := fmt.Sprintf("main-%d", i); pod.Name != want {
			t.Errorf("pod %d is %s, want %s", i, pod.Name, want)
		}
		var m druidv1alpha1.EtcdMember
		if err := p.read(t.Context(), "etcdmembers", "blue-"+pod.Name, &m); err != nil {
			t.Error(err)
		}
	}
	s.kubectl(t, "--namespace="+namespace, "scale", "etcd", name, "--replicas=1")
	s.await(t, "one member is left", members("blue-main-0"))
	p.nothingIsLost(t, p.client)
}

// Three members become one, and the one that is to stay loses its volume while the others are still to be removed: they have the data,
// and what is written meanwhile. It must not begin from the backups beside them.
func loseWhoStays(t *testing.T, s *site) {
	const namespace, stays = "scale-in-loss", "main-0"
	s.namespace(t, namespace)
	p := s.open(t, namespace, spec(3, backed(s.bucket(t, namespace, namespace, "shop"))))
	p.write(t, p.client)
	s.kubectl(t, "--namespace="+namespace, "annotate", "etcd", name, druidv1alpha1.AnnotationDisableProtection+"=")
	s.kubectl(t, "--namespace="+namespace, "scale", "etcd", name, "--replicas=1")
	s.await(t, "one member is listed", func(ctx context.Context) error {
		all, err := s.Client.CoreV1().ConfigMaps(namespace).Get(ctx, name+"-config", metav1.GetOptions{})
		if err == nil && strings.Contains(all.Data["etcd.conf.yaml"], "main-1=") {
			err = errors.New("main-1 is still listed")
		}
		return err
	})
	s.await(t, "the webhook lets its volume go", func(ctx context.Context) error {
		_, err := s.Kubectl(ctx, "--namespace="+namespace, "delete", "persistentvolumeclaim/main-"+stays, "pod/"+stays, "--wait=false", "--grace-period=1")
		return err
	})
	s.await(t, "it waits for the others", func(ctx context.Context) error {
		var m druidv1alpha1.EtcdMember
		if err := p.read(ctx, "etcdmembers", stays, &m); err != nil {
			return err
		}
		if !strings.Contains(m.Status.Waiting, "nothing is begun beside them") {
			return fmt.Errorf("it waits %q", m.Status.Waiting)
		}
		return nil
	})
	p.more(t)
	s.await(t, "it has joined them, and they have left", func(ctx context.Context) error {
		if err := p.votes(p.client, stays)(ctx); err != nil {
			return err
		}
		return p.whole(ctx)
	})
	p.nothingIsLost(t, p.client)
}

// A drained node takes one member along, and no second one until it is back.
func eviction(t *testing.T, s *site) {
	const namespace = "eviction"
	s.namespace(t, namespace)
	p := s.open(t, namespace, spec(3, backed(s.bucket(t, namespace, namespace, "shop"))))
	p.write(t, p.client)
	evict := func(ctx context.Context, pod string) error {
		return s.Client.PolicyV1().Evictions(namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: namespace}})
	}
	budget := func(minAvailable, allowed int32) func(context.Context) error {
		return func(ctx context.Context) error {
			b, err := s.Client.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got := b.Spec.MinAvailable.IntVal; got != minAvailable || b.Status.DisruptionsAllowed != allowed {
				return fmt.Errorf("minAvailable is %d and %d pods may go, want %d and %d", got, b.Status.DisruptionsAllowed, minAvailable, allowed)
			}
			return nil
		}
	}
	s.await(t, "one of three healthy members with backups may go", budget(2, 1))
	if err := evict(t.Context(), "main-1"); err != nil {
		t.Fatalf("a healthy cluster refuses the eviction of one member: %v", err)
	}
	for _, other := range []string{"main-0", "main-2"} {
		if err := evict(t.Context(), other); !apierrors.IsTooManyRequests(err) {
			t.Errorf("%s is evicted while another is away: %v, want that the budget refuses it", other, err)
		}
	}
	p.oneAtATime(t, 3, "it is back", func(ctx context.Context) error {
		if err := p.whole(ctx); err != nil {
			return err
		}
		return budget(2, 1)(ctx)
	})
	if err := evict(t.Context(), "main-0"); err != nil {
		t.Errorf("after that: %v", err)
	}
	s.await(t, "the Etcd is whole", p.whole)
	s.await(t, "one may go again", budget(2, 1))
	wrong := s.credentials(namespace)
	wrong["secretAccessKey"] = "no longer it"
	s.apply(t, secret(namespace, storeSecret, wrong))
	s.await(t, "none may go of three healthy members without backups", budget(3, 0))
	if err := evict(t.Context(), "main-2"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("main-2 is evicted while nothing is backed up: %v, want that the budget refuses it", err)
	}
	p.nothingIsLost(t, p.client)
}
