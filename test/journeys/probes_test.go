package journeys_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/stores"
)

// Two of three etcds hang, and one sidecar, while the store is away. The kubelets restart those three containers when
// their probe has failed as often as it may. The others, which have no quorum and no store, are not: neither is
// mended by a restart.
func probes(t *testing.T, s *site) {
	const namespace = "probes"
	s.namespace(t, namespace)
	store, err := stores.StartMinIO(t.Context(), stores.MinIOOptions{Dir: filepath.Join(t.TempDir(), "minio"), Host: s.Host})
	if err != nil {
		t.Fatal(err)
	}
	stop := func() {
		if store == nil {
			return
		}
		if err := store.Stop(); err != nil {
			t.Error(err)
		}
		store = nil
	}
	t.Cleanup(stop)
	p := s.open(t, namespace, spec(3, backed(s.bucketOn(t, store, stores.Compliance, namespace, namespace, "shop"))))
	p.write(t, p.client)
	before := p.restarts(t)
	hang := map[string]string{"main-0/backup-restore": "etcdbrctl", "main-1/etcd": "etcd-wrapper", "main-2/etcd": "etcd-wrapper"}

	stop()
	begun := time.Now()
	for container, program := range hang {
		pod, _, _ := strings.Cut(container, "/")
		p.onVolume(t, pod, `
for group in $(grep -l "$2" /proc/[0-9]*/cgroup); do
	pid=${group%/cgroup}
	test "$(cat "$pid/comm")" != `+program+` || { kill -STOP "${pid#/proc/}" && found=1; }
done
test "$found"`)
	}
	shortest := p.patienceOfProbes(t)
	restarted := map[string]time.Duration{}
	p.await(t, "the kubelets restart what hangs", func(context.Context) error {
		now := p.restarts(t)
		for container, n := range now {
			switch took := time.Since(begun); {
			case n == before[container]:
			case hang[container] == "":
				t.Errorf("%s was restarted after %s, and all it lacks is a quorum or the store", container, took.Round(time.Second))
				before[container] = n
			case restarted[container] == 0:
				restarted[container] = took
				t.Logf("%s hung and was restarted after %s", container, took.Round(time.Second))
			}
		}
		if len(restarted) < len(hang) {
			return fmt.Errorf("restarted are %v of %v", restarted, hang)
		}
		return nil
	})
	for container, took := range restarted {
		if took < shortest {
			t.Errorf("%s was restarted after %s: something else than the probe did it, which takes %s", container, took, shortest)
		}
	}
	p.await(t, "events tell why", p.killed(hang))
	p.await(t, "none of them is waited for as for a pod that is deleted", p.killedSoon(t, hang))
	p.await(t, "the members are ready", p.says(druidv1alpha1.ConditionAllMembersReady, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonAllMembersReady, "3 of 3"))
	p.more(t)
	p.writers.Mark() // without a quorum nobody was answered
	p.await(t, "the status says that there are no backups", func(ctx context.Context) error {
		e, err := p.etcd(ctx)
		if err != nil {
			return err
		}
		if c := druidv1alpha1.FindCondition(e.Status.Conditions, druidv1alpha1.ConditionBackupReady); c == nil || c.Status == druidv1alpha1.ConditionTrue {
			return fmt.Errorf("BackupReady is %+v without a store", c)
		}
		return nil
	})
	if got := p.restarts(t); !maps.Equal(got, p.expected(before, hang)) {
		t.Errorf("restarts were %v and are %v", before, got)
	}
	p.nothingIsLost(t, p.client)
}

// expected are the restarts after each of these containers had one.
func (p *shop) expected(before map[string]int32, once map[string]string) map[string]int32 {
	after := maps.Clone(before)
	for container := range once {
		after[container]++
	}
	return after
}

// restarts are those of all containers, by POD/CONTAINER.
func (p *shop) restarts(t *testing.T) map[string]int32 {
	t.Helper()
	pods, err := p.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int32{}
	for _, pod := range pods {
		for _, c := range pod.Status.ContainerStatuses {
			all[pod.Name+"/"+c.Name] = c.RestartCount
		}
	}
	return all
}

// patienceOfProbes is how long a container is alive at least that does not answer any more, by the probes of the pods. Each
// container has one.
func (p *shop) patienceOfProbes(t *testing.T) (shortest time.Duration) {
	t.Helper()
	pods, err := p.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		for _, c := range pod.Spec.Containers {
			probe := c.LivenessProbe
			if probe == nil || c.StartupProbe == nil {
				t.Fatalf("%s of %s has no probes", c.Name, pod.Name)
			}
			if d := time.Duration(probe.PeriodSeconds*(probe.FailureThreshold-1)) * time.Second; shortest == 0 || d < shortest {
				shortest = d
			}
		}
	}
	return shortest
}

// killedSoon is nil once it is known how these containers ended, and fails if one had all of the grace period of its pod for that, which
// a pod has that is deleted.
func (p *shop) killedSoon(t *testing.T, containers map[string]string) func(context.Context) error {
	known := map[string]bool{}
	return func(ctx context.Context) error {
		pods, err := p.pods(ctx)
		if err != nil {
			return err
		}
		list, err := p.Client.CoreV1().Events(p.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, pod := range pods {
			for _, c := range pod.Status.ContainerStatuses {
				container, ended := pod.Name+"/"+c.Name, c.LastTerminationState.Terminated
				i := slices.IndexFunc(list.Items, func(e corev1.Event) bool { return killing(e) == container })
				if containers[container] == "" || known[container] || i < 0 || ended == nil {
					continue
				}
				known[container] = true
				grace := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
				waited := ended.FinishedAt.Sub(list.Items[i].FirstTimestamp.Time)
				t.Logf("%s ended %s after its probe had failed", container, waited)
				if waited >= grace {
					t.Errorf("%s ended %s after its probe had failed: all of the grace period of its pod was waited for, %s", container, waited, grace)
				}
			}
		}
		if len(known) < len(containers) {
			return fmt.Errorf("known are %v of %v", known, containers)
		}
		return nil
	}
}

// killing is the container that an event says is killed because of its probe, as POD/CONTAINER; empty: none.
func killing(e corev1.Event) string {
	if e.Reason != "Killing" || !strings.Contains(e.Message, "failed liveness probe") {
		return ""
	}
	return e.InvolvedObject.Name + "/" + strings.TrimSuffix(strings.TrimPrefix(e.InvolvedObject.FieldPath, "spec.containers{"), "}")
}

// killed is nil once events say that these containers were killed as their probes failed.
func (p *shop) killed(containers map[string]string) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := p.Client.CoreV1().Events(p.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		told := map[string]bool{}
		for _, e := range list.Items {
			if container := killing(e); container != "" {
				told[container] = true
			}
		}
		for container := range containers {
			if !told[container] {
				return errors.New("nothing is told of " + container)
			}
		}
		if len(told) != len(containers) {
			return fmt.Errorf("killed were %v, want %v", told, containers)
		}
		return nil
	}
}
