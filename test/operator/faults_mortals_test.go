package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"druid.internal/druid/test/cluster"
)

// mortals are operators one after the other, each of which dies right after its first step in the namespace
// shop, and never learns how that ended.
type mortals struct {
	s        *site
	g        *gate
	settings []string
	p        *program
	deaths   int
}

// until has them work until a fact is there.
func (m *mortals) until(t *testing.T, atMost time.Duration, fact func(context.Context) error) {
	t.Helper()
	road := m.g.road("shop")
	err := cluster.Await(t.Context(), atMost, func(ctx context.Context) error {
		if err := fact(ctx); err == nil {
			return nil
		} else if !road.buried() {
			return err
		}
		m.p.Kill()
		m.deaths++
		road.revive()
		m.p = m.s.operateAs(t, fmt.Sprintf("mortal %d", m.deaths), m.g.config, m.settings...)
		return errors.New("another one begins")
	})
	if err != nil {
		t.Fatal(err)
	}
}

// mortal begins with an operator that lives, until its road is shortened.
func (s *site) mortal(t *testing.T, settings ...string) *mortals {
	t.Helper()
	config, err := s.ConfigFor("druid")
	if err != nil {
		t.Fatal(err)
	}
	m := &mortals{s: s, g: newGate(t, config), settings: append(settings, "clientConnection: {contentType: application/json}")}
	m.p = s.operateAs(t, "operator", m.g.config, m.settings...)
	return m
}

func TestOperatorsThatDieAfterEachStepTakeAClusterOver(t *testing.T) {
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
	m := s.mortal(t, automatic)
	road := m.g.road("shop")
	road.shorten(true)
	road.watch(func(step, body string) {
		switch {
		case strings.HasPrefix(step, "DELETE statefulsets/") && !strings.Contains(body, `"Orphan"`):
			t.Errorf("the StatefulSet goes with its pods: %s", body)
		case strings.HasPrefix(step, "DELETE pods/") && step != "DELETE pods/main-2", strings.HasPrefix(step, "DELETE persistentvolumeclaims/"):
			t.Errorf("while main-2 is not back: %s", step)
		}
	})
	m.until(t, 8*time.Minute, func(ctx context.Context) error {
		set, err := s.Client.AppsV1().StatefulSets("shop").Get(ctx, "main", metav1.GetOptions{})
		if err == nil && set.UID == former.UID {
			err = errors.New("the StatefulSet is the former one")
		}
		if err != nil {
			return err
		}
		if err := s.only(before, "main-0", "main-1")(ctx); err != nil { // main-2 is replaced in its turn
			return err
		}
		return s.has("shop", "main", slices.Sorted(slices.Values(append(objectsOf("main", 3), snapshotLeases...))))(ctx)
	})
	if m.deaths < 15 {
		t.Errorf("%d operators died: too few to show anything", m.deaths)
	}
	t.Logf("taken over by operators of which %d died", m.deaths)
}

func TestOperatorsThatDieAfterEachStepCarryATaskOut(t *testing.T) {
	together(t, light)
	site := newSite(t)
	site.grant(t)
	m := site.mortal(t, copying)
	s := site.tasks(t, "shop")
	road, made := m.g.road("shop"), 0
	road.shorten(true)
	road.watch(func(step, _ string) {
		if step == "POST jobs/main-worker" {
			made++
		}
	})
	s.make(t, "main", twoClouds)
	m.until(t, 5*time.Minute, s.hasJob("main", anyJob))
	m.until(t, 5*time.Minute, s.is("main", "Succeeded=False Copying", ""))
	s.patch(t, "main", `{"spec":{"maxBackups":7}}`)
	m.until(t, 5*time.Minute, s.hasJob("main", func(j *batchv1.Job) bool {
		return slices.Contains(j.Spec.Template.Spec.Containers[0].Args, "--max-backups-to-copy=7")
	}))
	s.pod(t, "main", corev1.PodStatus{Phase: corev1.PodSucceeded})
	m.until(t, 5*time.Minute, s.is("main", "Succeeded=True CopySucceeded", ""))
	if err := s.all().Delete(t.Context(), "main", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.until(t, 5*time.Minute, s.gone("main"))
	if made != 2 {
		t.Errorf("%d Jobs were made for two specifications", made)
	}
	if m.deaths < 5 {
		t.Errorf("%d operators died: too few to show anything", m.deaths)
	}
	t.Logf("a task carried out by operators of which %d died", m.deaths)
}

func TestOperatorsThatDieAfterEachStepTakeOneSnapshot(t *testing.T) {
	together(t, light)
	s, l, w := newShop(t)
	m := s.mortal(t, often)
	road := m.g.road("shop")
	w.mu.Lock()
	w.road = road
	w.mu.Unlock()
	s.apply(t, l.etcdIn("shop", "grows", 1))
	m.until(t, 5*time.Minute, s.condition("shop", "main", "Ready", "True", "Quorate", ""))

	road.shorten(true)
	for i, final := range []string{"false", "true"} {
		name := "final-" + final
		s.work(t, "shop", name, strings.Replace(fullNow, "type: full", "type: full, isFinal: "+final, 1))
		m.until(t, 5*time.Minute, s.worked("EtcdOperatorTask", "shop", name, "Succeeded", "in the bucket: Full-"))
		w.mu.Lock()
		if len(w.fulls) != i+1 {
			t.Errorf("%d fulls were taken for %d tasks: %+v", len(w.fulls), i+1, w.fulls)
		}
		w.mu.Unlock()
	}
	s.change(t, "Etcd", "shop", "main", replicas(0))
	s.work(t, "shop", "extend", extending)
	m.until(t, 5*time.Minute, s.worked("EtcdOperatorTask", "shop", "extend", "InProgress", "the CronJob extend runs at"))
	s.change(t, "Etcd", "shop", "main", replicas(1))
	m.until(t, 5*time.Minute, s.worked("EtcdOperatorTask", "shop", "extend", "Succeeded", ""))
	m.until(t, 5*time.Minute, s.absent("CronJob", "shop", "extend"))
	made := 0
	road.watch(func(step, _ string) {
		if strings.HasPrefix(step, "POST jobs/exclude-") {
			made++
		}
	})
	s.work(t, "shop", "exclude", excluding)
	m.until(t, 5*time.Minute, s.worked("EtcdOperatorTask", "shop", "exclude", "InProgress", "the Job "))
	tasks{s, "shop"}.pod(t, "exclude", exited(0, ""))
	m.until(t, 5*time.Minute, s.worked("EtcdOperatorTask", "shop", "exclude", "Succeeded", "left out of restores"))
	if made != 1 {
		t.Errorf("%d Jobs were made for one task", made)
	}
	if m.deaths < 5 {
		t.Errorf("%d operators died: too few to show anything", m.deaths)
	}
	before := m.deaths
	s.secret(t, "shop", "members")
	if _, err := s.Client.CoreV1().Secrets("shop").Create(t.Context(), collectorsKeys(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const collection = "main-collection"
	jobs := s.Client.BatchV1().CronJobs("shop")
	s.change(t, "Etcd", "shop", "main", collected)
	m.until(t, 5*time.Minute, s.worked("EtcdOperatorTask", "shop", collection, "InProgress", "no run has ended yet"))
	first, err := jobs.Get(t.Context(), collection, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := jobs.Delete(t.Context(), collection, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.until(t, 5*time.Minute, func(ctx context.Context) error {
		again, err := jobs.Get(ctx, collection, metav1.GetOptions{})
		if err == nil && again.UID == first.UID {
			err = errors.New("it is not gone yet")
		}
		return err
	})
	s.change(t, "Etcd", "shop", "main", uncollected)
	m.until(t, 5*time.Minute, s.absent("EtcdOperatorTask", "shop", collection))
	m.until(t, 5*time.Minute, s.absent("CronJob", "shop", collection))
	if m.deaths-before < 5 {
		t.Errorf("%d operators died while a collection began and ended: too few to show anything", m.deaths-before)
	}
	t.Logf("tasks carried out by operators of which %d died", m.deaths)
}
