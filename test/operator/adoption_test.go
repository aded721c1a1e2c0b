package operator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func asItIs(text string) string { return text }

func TestAClusterOfTheOriginalIsTakenOver(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	s.namespace(t, "shop")
	o := newOriginal(t)
	o.layOut(t, s, asItIs)
	_, before, err := s.pods(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	untouched := func(t *testing.T, p *program, what string) {
		t.Helper()
		kinds := map[string]string{"StatefulSet": "main", "ConfigMap": "main-config", "Service": "main-client", "Role": "druid.gardener.cloud:etcd:main", "PodDisruptionBudget": "main"}
		was := map[string]string{}
		for kind, name := range kinds {
			was[kind] = s.version(t, kind, name)
		}
		s.looked(t, p)
		for kind, name := range kinds {
			if got := s.version(t, kind, name); got != was[kind] && kind != "PodDisruptionBudget" {
				t.Errorf("%s: the %s %s was changed", what, kind, name)
			}
		}
		if err := s.only(before, "main-0", "main-1", "main-2")(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}

	whole := t
	t.Run("it is left alone until somebody asks for it, and its status is written", func(t *testing.T) {
		p := s.operate(whole, "unasked", "controllers: {etcd: {etcdStatusSyncPeriod: 1s}}")
		p.await(t, s.condition("shop", "main", "AllMembersReady", "True", "AllMembersReady", ""))
		untouched(t, p, "nobody asked")
		p.Kill()
	})
	p := s.operate(t, "operator", automatic)
	t.Run("with etcd 3.4 it is refused, with the way out", func(t *testing.T) {
		p.await(t, s.fails("shop", "main", "ERR_REFUSED", "main-1 runs etcd 3.4.34"))
		p.await(t, s.fails("shop", "main", "ERR_REFUSED", "UpgradeEtcdVersion"))
		untouched(t, p, "etcd 3.4")
	})
	t.Run("with etcd 3.5 its objects become ours, and no pod goes before there is a snapshot", func(t *testing.T) {
		o.runs("3.5.27")
		p.await(t, s.ours)
		p.await(t, s.event("shop", "main", "TakingOver", "one at a time"))
		p.await(t, func(context.Context) error {
			if o.asked() == 0 {
				return errors.New("no sidecar was asked for a snapshot")
			}
			return nil
		})
		s.looked(t, p)
		if err := s.only(before, "main-0", "main-1", "main-2")(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("nothing of the original is left in its StatefulSet and its Services", func(t *testing.T) {
		s.apply(t, strings.NewReplacer("name: main", "name: fresh", "shop--main", "shop--fresh", "CLIENTPORT", fmt.Sprint(o.clients), "SIDECARPORT", fmt.Sprint(o.sidecars)).Replace(originalsEtcd))
		for kind, name := range map[string]string{"StatefulSet": "main", "Service": "main-client", "Role": "druid.gardener.cloud:etcd:main"} {
			var made string
			p.await(t, func(ctx context.Context) (err error) {
				made, err = s.spec(ctx, kind, strings.ReplaceAll(name, "main", "fresh"))
				return err
			})
			taken, err := s.spec(t.Context(), kind, name)
			if err != nil {
				t.Fatal(err)
			}
			if kind == "Role" {
				// Until the last of its pods is gone the original's sidecars keep what they need.
				if !strings.Contains(taken, `"statefulsets"`) || strings.Contains(made, `"statefulsets"`) {
					t.Errorf("the Role allows %s, that of a new cluster %s", taken, made)
				}
				continue
			}
			if d := cmp.Diff(strings.ReplaceAll(made, "fresh", "main"), taken); d != "" {
				t.Errorf("%s (-made anew +taken over):\n%s", kind, d)
			}
		}
		if _, err := s.get(t.Context(), "Lease", "shop", "main-full-snap"); err != nil {
			t.Errorf("the original's sidecars have no Lease to write to any more: %v", err)
		}
	})
	t.Run("then the follower of the highest ordinal goes, and no other before that is back", func(t *testing.T) {
		close(o.snapshot)
		p.await(t, s.only(before, "main-0", "main-1"))
		s.looked(t, p)
		if err := s.only(before, "main-0", "main-1")(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// spec is what an object is made to be, without what differs between any two.
func (s *site) spec(ctx context.Context, kind, name string) (string, error) {
	o, err := s.get(ctx, kind, "shop", name)
	if err != nil {
		return "", err
	}
	if kind == "Role" {
		text, err := json.Marshal(o.Object["rules"])
		return string(text), err
	}
	spec, _ := o.Object["spec"].(map[string]any)
	delete(spec, "clusterIP")
	delete(spec, "clusterIPs")
	if template, ok := spec["template"].(map[string]any); ok {
		annotations := template["metadata"].(map[string]any)["annotations"].(map[string]any)
		for _, digest := range []string{"checksum/etcd-configmap", "checksum/etcd-backup"} {
			if annotations[digest] == nil {
				return "", fmt.Errorf("there is no annotation %s", digest)
			}
			delete(annotations, digest)
		}
	}
	text, err := json.MarshalIndent(spec, "", "  ")
	return string(text), err
}

// snapshotLeases stay until the last pod of the original has gone.
var snapshotLeases = []string{"Lease main-delta-snap", "Lease main-full-snap"}

// withFormerLabels is what the original made before it had today's labels: it selected by others, and
// had no others.
func withFormerLabels(text string) string {
	now := regexp.MustCompile(`\{app\.kubernetes\.io/managed-by[^}]*\}`)
	return now.ReplaceAllString(text, "{name: etcd, instance: main}")
}

func TestAStatefulSetThatCannotBeChangedIsMadeAnewAroundItsPods(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	s.namespace(t, "shop")
	o := newOriginal(t)
	o.runs("3.5.27")
	close(o.snapshot)
	o.layOut(t, s, withFormerLabels)
	_, before, err := s.pods(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	former, err := s.Client.AppsV1().StatefulSets("shop").Get(t.Context(), "main", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	p := s.operate(t, "operator", automatic)
	var set *appsv1.StatefulSet
	p.await(t, func(ctx context.Context) (err error) {
		if set, err = s.Client.AppsV1().StatefulSets("shop").Get(ctx, "main", metav1.GetOptions{}); err != nil {
			return err
		}
		if set.UID == former.UID {
			return errors.New("the StatefulSet is the former one")
		}
		return nil
	})
	p.await(t, s.only(before, "main-0", "main-1")) // main-2 is replaced in its turn
	for _, name := range []string{"main-0", "main-1"} {
		pod, err := s.Client.CoreV1().Pods("shop").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !metav1.IsControlledBy(pod, set) || pod.Labels["instance"] != "main" {
			t.Errorf("%s belongs to %v and has the labels %v, want it to be the new StatefulSet's and keep its labels", name, pod.OwnerReferences, pod.Labels)
		}
	}
	p.await(t, s.has("shop", "main", slices.Sorted(slices.Values(append(objectsOf("main", 3), snapshotLeases...)))))

	// A Service that selected by the new labels before the pods have them would lead nowhere.
	var order []string
	for _, r := range s.asked(t, "shop", begun) {
		for _, step := range []string{"patch pods shop/main-0", "patch services shop/main-peer", "delete statefulsets.apps shop/main", "create statefulsets.apps shop/main", "delete pods shop/main-2"} {
			if strings.Contains(r, step) && !slices.Contains(order, step) {
				order = append(order, step)
			}
		}
	}
	want := []string{"patch pods shop/main-0", "patch services shop/main-peer", "delete statefulsets.apps shop/main", "create statefulsets.apps shop/main", "delete pods shop/main-2"}
	if d := cmp.Diff(want, order); d != "" {
		t.Errorf("the steps (-want +got):\n%s\n%s", d, strings.Join(s.asked(t, "shop", begun), "\n"))
	}
	p.await(t, p.counted("etcddruid_objects_total", `action="removed"`, `kind="StatefulSet"`))
	p.await(t, p.counted("etcddruid_pods_replaced_total"))
	p.await(t, s.event("shop", "main", "PodReplaced", "main-2"))
	// By their labels they are found and removed when the last pod of the original has gone.
	for _, name := range []string{"main-full-snap", "main-delta-snap"} {
		l, err := s.Client.CoordinationV1().Leases("shop").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || l.Labels["app.kubernetes.io/part-of"] != "main" || l.Labels["instance"] != "main" {
			t.Errorf("the Lease %s has the labels %v (%v)", name, l.Labels, err)
		}
	}
}
