package operator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// votes has the member of an Etcd that joins tell of itself as its sidecar does.
func (s *site) votes(t *testing.T, namespace, member string, id int) {
	t.Helper()
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	for _, told := range []struct {
		kind, sub string
		what      map[string]any
	}{
		{"Lease", "", map[string]any{"spec": map[string]any{"holderIdentity": fmt.Sprintf("%x:c1:Member", id), "renewTime": now}}},
		{"EtcdMember", "status", map[string]any{"status": map[string]any{
			"id": fmt.Sprintf("%016x", id), "clusterID": "00000000000000c1", "state": "Started", "subState": "Follower",
		}}},
	} {
		patch, err := json.Marshal(told.what)
		if err != nil {
			t.Fatal(err)
		}
		var subs []string
		if told.sub != "" {
			subs = append(subs, told.sub)
		}
		if _, err := s.objects.Resource(resources[told.kind]).Namespace(namespace).Patch(t.Context(), member, types.MergePatchType, patch, metav1.PatchOptions{}, subs...); err != nil {
			t.Fatal(err)
		}
	}
}

// How the sidecars join is shown by test/e2e on etcds that run; what an Etcd and operators that die after each step make of it, here.
func TestAnEtcdTellsHowItsMembersJoinAClusterOutside(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	s.namespace(t, "shop")
	m := s.mortal(t, automatic)
	m.g.road("shop").shorten(true)
	await := func(fact func(context.Context) error) { t.Helper(); m.until(t, 5*time.Minute, fact) }
	s.apply(t, `
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: main, namespace: shop}
spec:
  labels: {}
  replicas: 3
  backup: {}
  etcd:
    bootstrapWithExistingCluster:
      members: [{name: old-0, peerUrls: ["http://old-0.example.org:2380"]}]
      clientEndpoints: ["http://old-0.example.org:2379"]
`)
	await(s.has("shop", "main", objectsOf("main", 3)))
	told := func(ctx context.Context) (string, error) {
		c, err := s.Client.CoreV1().ConfigMaps("shop").Get(ctx, "main-config", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return c.Data["backup-restore.conf.yaml"], nil
	}
	if conf, err := told(t.Context()); err != nil || !strings.Contains(conf, "existingCluster") || !strings.Contains(conf, "http://old-0.example.org:2379") {
		t.Errorf("the sidecars are not told of the cluster outside (%v): %s", err, conf)
	}
	const of = "BootstrappedWithExistingCluster"
	await(s.condition("shop", "main", of, "False", "BootstrapInProgress", "0 of 3"))

	t.Run("another cluster is refused on the way", func(t *testing.T) {
		_, err := s.objects.Resource(resources["Etcd"]).Namespace("shop").Patch(t.Context(), "main", types.MergePatchType,
			[]byte(`{"spec":{"etcd":{"bootstrapWithExistingCluster":{"clientEndpoints":["http://elsewhere:2379"]}}}}`), metav1.PatchOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.etcd.bootstrapWithExistingCluster") || !strings.Contains(err.Error(), "wait until the condition "+of+" is True") {
			t.Errorf("%v, want a refusal with the field and the condition", err)
		}
	})
	s.votes(t, "shop", "main-0", 0xa0)
	await(s.condition("shop", "main", of, "False", "BootstrapInProgress", "1 of 3"))
	for i := range 3 {
		s.votes(t, "shop", fmt.Sprintf("main-%d", i), 0xa0+i)
	}
	await(s.condition("shop", "main", of, "True", "BootstrapCompleted", "remove old-0 from the cluster"))
	await(func(ctx context.Context) error {
		e, err := s.get(ctx, "Etcd", "shop", "main")
		if err != nil {
			return err
		}
		members, _, _ := unstructured.NestedSlice(e.Object, "status", "bootstrapWithExistingCluster", "members")
		if !strings.Contains(fmt.Sprint(members), "old-0") {
			err = fmt.Errorf("the status remembers %v", members)
		}
		return err
	})

	t.Run("that it is not named any more is told to the sidecars, and what was stays known", func(t *testing.T) {
		s.change(t, "Etcd", "shop", "main", func(o map[string]any) {
			unstructured.RemoveNestedField(o, "spec", "etcd", "bootstrapWithExistingCluster")
		})
		await(func(ctx context.Context) error {
			conf, err := told(ctx)
			if err == nil && strings.Contains(conf, "existingCluster") {
				err = errors.New("the sidecars are still told of the cluster outside")
			}
			return err
		})
		await(s.condition("shop", "main", of, "True", "BootstrapCompleted", "members outside that were left in it are removed"))
	})
}
