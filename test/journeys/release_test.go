package journeys_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/chart"
)

// helm upgrade brings another operator, and its image to the members one at a time, while clients write.
func upgrade(t *testing.T, s *site) {
	const namespace = "upgrade"
	s.namespace(t, namespace)
	p := s.open(t, namespace, spec(3, backed(s.bucket(t, namespace, namespace, "shop"))))
	p.write(t, p.client)
	values := s.values(s.next)
	values["replicas"] = 2
	if err := chart.Upgrade(t.Context(), s.Kubeconfig, values, patience, quiet); err != nil {
		t.Fatal(err)
	}
	s.image, s.next = s.next, s.image
	operators, err := s.Client.CoreV1().Pods(chart.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + chart.Release})
	if err != nil {
		t.Fatal(err)
	}
	running := 0
	for _, pod := range operators.Items {
		if pod.Spec.Containers[0].Image == s.image && ready(pod) {
			running++
		}
	}
	if running != 2 {
		t.Errorf("%d operators of the new image are ready, want 2", running)
	}
	p.oneAtATime(t, 3, "all members have the new image", func(ctx context.Context) error {
		pods, err := p.pods(ctx)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			for _, c := range pod.Spec.Containers {
				if c.Image != s.image {
					return fmt.Errorf("%s of %s has the image %s", c.Name, pod.Name, c.Image)
				}
			}
		}
		return p.whole(ctx)
	})
	p.nothingIsLost(t, p.client)
}

// helm uninstall leaves the definitions and the Etcds: members go on and make backups. A new installation
// looks after them again, and restarts none, also if the definitions are there from somebody else, as those of the original are.
func uninstall(t *testing.T, s *site) {
	const namespace = "uninstall"
	s.namespace(t, namespace)
	p := s.open(t, namespace, spec(3, backed(s.bucket(t, namespace, namespace, "shop"))))
	p.write(t, p.client)
	before, there := p.uids(t), p.objects(t)
	told := s.uninstall(t)
	definitions := strings.Fields(s.kubectl(t, "get", "crds", "-o", "name"))
	for _, kind := range []string{"etcds", "etcdmembers", "etcdcopybackupstasks", "etcdoperatortasks", "etcdopstasks"} {
		if crd := kind + ".druid.gardener.cloud"; !slices.Contains(definitions, "customresourcedefinition.apiextensions.k8s.io/"+crd) {
			t.Errorf("the definition of %s is gone", kind)
		} else if !strings.Contains(told, crd) {
			t.Errorf("helm tells %q, want that it keeps %s", told, crd)
		}
	}
	if after := p.objects(t); !slices.Equal(after, there) {
		t.Errorf("of the Etcd are left %q, want %q", after, there)
	}
	p.more(t)
	s.await(t, "backups are made without an operator", p.uploaded(p.writers.Ledger.Newest()))
	// Nobody is left to ask, so nothing is refused.
	s.kubectl(t, "--namespace="+namespace, "annotate", "service", "main-client", "by=hand")

	s.installOver(t)
	s.await(t, "the Etcd is whole", p.whole)
	if after := p.uids(t); !slices.Equal(after, before) {
		t.Error("pods were replaced on the way")
	}
	p.nothingIsLost(t, p.client)
	p.close(t)
	s.uninstall(t)
}

// installOver installs the operator where the definitions are there and are of no release, as docs/operations/taking-over.md has it.
func (s *site) installOver(t *testing.T) {
	t.Helper()
	for _, crd := range strings.Fields(s.kubectl(t, "get", "crds", "-o", "name")) {
		if strings.HasSuffix(crd, "."+druidv1alpha1.Group) {
			s.kubectl(t, "annotate", crd, "meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-")
			s.kubectl(t, "label", crd, "app.kubernetes.io/managed-by-")
		}
	}
	err := chart.Install(t.Context(), s.Kubeconfig, s.values(s.image), patience, quiet)
	if err := says(err, "cannot be imported into the current release: invalid ownership metadata"); err != nil {
		t.Fatal(err)
	}
	if err := chart.InstallOver(t.Context(), s.Kubeconfig, s.values(s.image), patience, quiet); err != nil {
		t.Fatal(err)
	}
	s.begun(t)
}

// uninstall takes the operator away, and returns what Helm tells.
func (s *site) uninstall(t *testing.T) (told string) {
	t.Helper()
	begun := time.Now()
	told, err := chart.Uninstall(t.Context(), s.Kubeconfig, patience, quiet)
	if err != nil {
		t.Fatal(err)
	}
	s.await(t, "the operator has ended", func(ctx context.Context) error {
		list, err := s.Client.CoreV1().Pods(chart.Namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d pods are left", len(list.Items))
		}
		return err
	})
	s.installed = false
	s.ends = append(s.ends, period{begun, time.Now()})
	return told
}

// objects are all of the Etcd, as KIND/NAME.
func (p *shop) objects(t *testing.T) []string {
	t.Helper()
	all := strings.Fields(p.kubectl(t, "--namespace="+p.namespace, "get", kinds+",persistentvolumeclaims,etcds", "--selector="+"app.kubernetes.io/part-of="+name, "-o", "name"))
	slices.Sort(all)
	return all
}
