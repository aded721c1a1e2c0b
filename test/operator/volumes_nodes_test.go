package operator_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/cluster/image"
	"druid.internal/druid/test/writers"
)

const memberImage = "registry.local/etcd-druid:volumes"

// memberTar is the image of a member's programs.
func memberTar(t *testing.T) string {
	t.Helper()
	programs, err := memberPrograms.Get()
	if err != nil {
		t.Fatal(err)
	}
	spec := image.Spec{Name: memberImage}
	for _, path := range []string{programs.Etcdbrctl, programs.Wrapper} {
		spec.Files = append(spec.Files, image.File{Path: "/usr/local/bin/" + filepath.Base(path), Source: path})
	}
	system, err := image.System()
	if err != nil {
		t.Fatal(err)
	}
	spec.Files = append(spec.Files, system...)
	tar := filepath.Join(t.TempDir(), "members.tar")
	if err := image.Write(tar, spec); err != nil {
		t.Fatal(err)
	}
	return tar
}

// onNodes is a cluster with three nodes, a namespace shop, and the rights of an operator.
func onNodes(t *testing.T) *site {
	t.Helper()
	c := cluster.Run(t, cluster.Options{Pin: *pin, Nodes: 3, Sync: 5 * time.Second, Images: []string{memberTar(t)}, Progress: t.Output()})
	define(t, c)
	objects, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{c, objects, buildProgram(t)}
	s.grant(t)
	s.namespace(t, "shop")
	return s
}

// Volumes of a class that cannot grow any are replaced one after the other while clients write: what was
// acknowledged stays, and at no time two members are away, although all operators die after their first step.
func TestMembersGetLargerVolumesWhileClientsWrite(t *testing.T) {
	together(t, heavy)
	s := onNodes(t)
	m := s.mortal(t, automatic, "images: {all: "+memberImage+"}")
	s.apply(t, fmt.Sprintf(`
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: main, namespace: shop}
spec: {labels: {}, replicas: 3, storageClass: %s, storageCapacity: 1Gi, etcd: {}, backup: {}}
`, cluster.ClassFixed))
	patient := func(what func(context.Context) error) {
		t.Helper()
		if err := cluster.Await(t.Context(), 5*time.Minute, what); err != nil {
			t.Fatal(err)
		}
	}
	patient(s.condition("shop", "main", "AllMembersReady", "True", "AllMembersReady", "3 of 3"))
	former := map[types.UID]bool{}
	for i := range 3 {
		claim, err := s.claim(t.Context(), "shop", fmt.Sprintf("main-main-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		former[claim.UID] = true
	}
	etcd := s.etcdOf(t, "shop")
	w := writing(t, etcd)
	begun := time.Now()
	s.change(t, "Etcd", "shop", "main", func(o map[string]any) { set(o, "2Gi", "spec", "storageCapacity") })
	m.g.road("shop").shorten(true)
	m.until(t, 5*time.Minute, func(ctx context.Context) error {
		away, small := 0, 0
		for i := range 3 {
			claim, err := s.claim(ctx, "shop", fmt.Sprintf("main-main-%d", i))
			switch want := resource.MustParse("2Gi"); {
			case err != nil && !apierrors.IsNotFound(err):
				return err
			case err != nil, claim.DeletionTimestamp != nil:
				away++
			case former[claim.UID]:
				small++
			case claim.Status.Capacity.Storage().Cmp(want) < 0:
				away++
			}
		}
		if away > 1 {
			t.Errorf("%d volumes are away at once", away)
		}
		if away+small > 0 {
			return fmt.Errorf("%d volumes are as they were, %d on their way", small, away)
		}
		return nil
	})
	for _, fact := range []func(context.Context) error{
		s.condition("shop", "main", "AllMembersReady", "True", "AllMembersReady", "3 of 3"),
		s.condition("shop", "main", "DataVolumesReady", "True", "DataVolumesReady", "3 of 3"),
		s.operation("shop", "main", "Reconcile Succeeded"),
	} {
		m.until(t, 5*time.Minute, fact)
	}
	m.g.road("shop").shorten(false)
	stall := w.Stall()
	w.Stop()
	if m.deaths < 9 {
		t.Errorf("%d operators died: too few to show anything", m.deaths)
	}
	t.Logf("three volumes in %v, by operators of which %d died; the longest time without an acknowledged write was %v, of %d writes", time.Since(begun).Round(time.Second), m.deaths, stall.Round(time.Millisecond), w.EverAcknowledged())
	members, err := etcd.MemberList(t.Context())
	if err != nil || len(members.Members) != 3 {
		t.Errorf("the members are %v (%v), want three", members, err)
	}
	if stall > stallAtMost {
		t.Errorf("for %v no write was acknowledged", stall)
	}
	all, err := etcd.Get(t.Context(), writers.Prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, lost := range w.Ledger.AgainstKeys(all.Kvs, all.Header.Revision) {
		t.Error(lost)
	}
}
