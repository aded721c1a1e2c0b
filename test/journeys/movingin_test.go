package journeys_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/stores"
)

// Plain etcds of this machine become an Etcd, as docs/operations/moving-in.md has it, while clients write.
func moveIn(t *testing.T, s *site) {
	const namespace = "moving-in"
	p, outside, old, joins := s.outside(t, namespace)
	settings := backed(s.bucket(t, namespace, namespace, "shop"))
	settings["etcd"] = joins
	p.make(t, spec(3, settings))
	const of = druidv1alpha1.ConditionBootstrappedWithExistingCluster
	s.await(t, "it is told that the members join", p.says(of, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonBootstrapInProgress, "of 3, one after the other"))
	s.await(t, "it is told that all have joined, and what is next", p.says(of, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonBootstrapCompleted, "remove old-0, old-1, old-2 from the cluster one after the other"))
	s.await(t, "all six vote", p.votes(old, "main-0", "main-1", "main-2", "old-0", "old-1", "old-2"))
	p.opens(t) // with backups, so one of these leads

	p.writers.Stop() // the clients move
	p.writers.Start(t.Context(), p.client)
	p.removes(t, outside.Members[0])
	p.patch(t, `{etcd: {bootstrapWithExistingCluster: null}}`) // the others are left to the sidecars
	s.await(t, "the members outside have left", p.votes(p.client, "main-0", "main-1", "main-2"))
	outside.Close()
	s.await(t, "the Etcd is whole", p.whole)
	p.nothingIsLost(t, p.client)
	s.await(t, "all is uploaded", p.uploaded(p.writers.Ledger.Newest()))
	e, err := p.etcd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if was := e.Status.BootstrapWithExistingCluster; was == nil || len(was.Members) != 3 {
		t.Errorf("of the cluster before the status says %+v", was)
	}
}

// outside is a cluster of this machine to which clients write, and what an Etcd in a namespace says to join it. Names in Kubernetes mean
// nothing to its members, so a Service for each pod gives it an address that does.
func (s *site) outside(t *testing.T, namespace string) (p *shop, outside *stores.Etcd, old *clientv3.Client, joins map[string]any) {
	t.Helper()
	s.namespace(t, namespace)
	outside, err := stores.StartEtcd(t.Context(), stores.EtcdOptions{Members: 3, Name: "old", Host: s.Host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(outside.Close)
	if old, err = clientv3.New(clientv3.Config{Endpoints: outside.Endpoints(), Logger: zap.NewNop()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { old.Close() })
	p = &shop{site: s, namespace: namespace}
	p.write(t, old)
	var listed []any
	for _, m := range outside.Members {
		listed = append(listed, map[string]any{"name": m.Name, "peerUrls": []string{m.PeerURL}})
	}
	return p, outside, old, map[string]any{
		"bootstrapWithExistingCluster": map[string]any{"members": listed, "clientEndpoints": outside.Endpoints()},
		"additionalAdvertisePeerURLs":  p.doors(t, 3),
	}
}

// doors are addresses of pods for who is outside, each that of a Service of its own.
func (p *shop) doors(t *testing.T, members int) (urls []any) {
	t.Helper()
	for i := range members {
		pod := fmt.Sprintf("%s-%d", name, i)
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "door-" + pod}, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"statefulset.kubernetes.io/pod-name": pod}, Ports: []corev1.ServicePort{{Port: 2380}}, PublishNotReadyAddresses: true,
		}}
		made, err := p.Client.CoreV1().Services(p.namespace).Create(t.Context(), service, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, map[string]any{"memberName": pod, "urls": []string{"http://" + made.Spec.ClusterIP + ":2380"}})
	}
	return urls
}

// votes is nil if these are the members, and all of them vote.
func (p *shop) votes(client *clientv3.Client, want ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := client.MemberList(ctx)
		if err != nil {
			return err
		}
		var got []string
		for _, m := range list.Members {
			if m.IsLearner {
				return fmt.Errorf("%s has no vote yet", m.Name)
			}
			got = append(got, m.Name)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("the members are %q, want %q", got, want)
		}
		return nil
	}
}

// removes takes a member outside off the list, as a person would, and ends it.
func (p *shop) removes(t *testing.T, m *stores.Member) {
	t.Helper()
	p.await(t, m.Name+" is not listed any more", func(ctx context.Context) error {
		list, err := p.client.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, listed := range list.Members {
			if listed.Name == m.Name {
				_, err = p.client.MemberRemove(ctx, listed.ID)
			}
		}
		return err
	})
	m.Kill()
}
