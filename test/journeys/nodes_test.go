package journeys_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/chart"
)

// The machine of the leader is turned off. Clients write on, the status says that what is left is enough, and when
// the machine is back so is its member, on its volume.
func nodeLoss(t *testing.T, s *site) {
	const namespace = "node-loss"
	s.namespace(t, namespace)
	p := s.open(t, namespace, spec(3, backed(s.bucket(t, namespace, namespace, "shop"))))
	claims := p.claims(t)
	leader := p.leadElsewhere(t)
	p.write(t, p.client)
	off, err := s.Node(leader.Spec.NodeName)
	if err != nil {
		t.Fatal(err)
	}
	if err := off.Kill(); err != nil {
		t.Fatal(err)
	}
	p.more(t)
	s.await(t, "the status says that two of three have a quorum", func(ctx context.Context) error {
		e, err := p.etcd(ctx)
		if err != nil {
			return err
		}
		if e.Status.ReadyReplicas != 2 {
			return fmt.Errorf("%d are ready", e.Status.ReadyReplicas)
		}
		return p.says(druidv1alpha1.ConditionReady, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonQuorate, "")(ctx)
	})
	if err := off.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.await(t, "the Etcd is whole", p.whole)
	if after := p.claims(t); !slices.Equal(after, claims) {
		t.Errorf("its volumes were %q and are %q", claims, after)
	}
	p.nothingIsLost(t, p.client)
}

// leadElsewhere has a member lead whose node has no operator, which is to tell what happens there, and returns its pod.
func (p *shop) leadElsewhere(t *testing.T) (leader corev1.Pod) {
	t.Helper()
	operators, err := p.Client.CoreV1().Pods(chart.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + chart.Release})
	if err != nil {
		t.Fatal(err)
	}
	p.await(t, "a member leads whose node has no operator", func(ctx context.Context) error {
		pods, err := p.pods(ctx)
		if err != nil {
			return err
		}
		var at string // the leader, which is to hand over
		var to uint64
		for _, pod := range pods {
			endpoint := "http://" + net.JoinHostPort(pod.Status.PodIP, "2379")
			st, err := p.client.Status(ctx, endpoint)
			if err != nil {
				return err
			}
			leads := st.Leader == st.Header.MemberId
			alone := !slices.ContainsFunc(operators.Items, func(o corev1.Pod) bool { return o.Spec.NodeName == pod.Spec.NodeName })
			switch {
			case leads && alone:
				leader = pod
				return nil
			case leads:
				at = endpoint
			case alone:
				to = st.Header.MemberId
			}
		}
		if at == "" || to == 0 {
			return errors.New("nobody leads, or every node has an operator")
		}
		one := p.dial(t, func(c *clientv3.Config) { c.Endpoints = []string{at} })
		if _, err := one.MoveLeader(ctx, to); err != nil {
			return err
		}
		return errors.New("another one is to lead")
	})
	return leader
}

// claims are the uids of the members' claims.
func (p *shop) claims(t *testing.T) (all []string) {
	t.Helper()
	list, err := p.Client.CoreV1().PersistentVolumeClaims(p.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: druidv1alpha1.LabelPartOf + "=" + name})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list.Items {
		all = append(all, string(c.UID))
	}
	return all
}

// All pods and volumes are deleted by whoever lifted the protection. The members begin anew from the bucket by
// themselves, with everything that had been uploaded, and take a higher revision than any client was told.
func restore(t *testing.T, s *site) {
	const namespace = "restore"
	s.namespace(t, namespace)
	p := s.open(t, namespace, spec(3, backed(s.bucket(t, namespace, namespace, "shop"))))
	p.write(t, p.client)
	p.writers.Stop()
	newest := p.writers.Ledger.Newest()
	s.await(t, "all is uploaded", p.uploaded(newest))
	p.loseEverything(t)
	s.await(t, "the Etcd is whole", p.whole)
	p.holds(t, p.client)
	r, err := p.client.Get(t.Context(), "\x00")
	if err != nil {
		t.Fatal(err)
	}
	if r.Header.Revision <= newest {
		t.Errorf("the revision is %d, and clients were told %d: who watches would miss what happens", r.Header.Revision, newest)
	}
	p.write(t, p.client)
	p.nothingIsLost(t, p.client)
}

// loseEverything lifts the protection, and deletes all pods and volumes.
func (p *shop) loseEverything(t *testing.T) {
	t.Helper()
	p.kubectl(t, "--namespace="+p.namespace, "annotate", "etcd", name, druidv1alpha1.AnnotationDisableProtection+"=")
	doomed := append(p.uids(t), p.claims(t)...)
	p.await(t, "the webhook lets them go", func(ctx context.Context) error {
		_, err := p.Kubectl(ctx, "--namespace="+p.namespace, "delete", "persistentvolumeclaims,pods", "--selector="+druidv1alpha1.LabelPartOf+"="+name, "--wait=false", "--grace-period=1")
		return err
	})
	p.await(t, "all of them are gone", func(context.Context) error {
		for _, uid := range append(p.uids(t), p.claims(t)...) {
			if slices.Contains(doomed, uid) {
				return fmt.Errorf("%s is still there", uid)
			}
		}
		return nil
	})
	p.kubectl(t, "--namespace="+p.namespace, "annotate", "etcd", name, druidv1alpha1.AnnotationDisableProtection+"-")
}
