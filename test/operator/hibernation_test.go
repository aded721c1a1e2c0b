package operator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Clients with connections write until they are refused, and again with the first look after replicas were set back.
func TestClientsWriteAgainWhenAHibernationIsGivenUp(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	s.class(t, "grows", true)
	l := newLand(t, s)
	s.namespace(t, "shop")
	w := l.settle("shop")
	p := s.operate(t, "operator", automatic)
	s.apply(t, l.etcdIn("shop", "grows", 3))
	p.await(t, s.condition("shop", "main", "AllMembersReady", "True", "AllMembersReady", ""))
	writes := func(want bool) func(context.Context) error {
		return func(context.Context) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if got := w.writes(); got != want {
				return fmt.Errorf("clients write: %t, want %t", got, want)
			}
			return nil
		}
	}
	p.await(t, writes(true))
	hold := make(chan struct{}) // the final snapshot lasts until the end
	defer close(hold)
	w.mu.Lock()
	w.hold = hold
	w.mu.Unlock()

	s.change(t, "Etcd", "shop", "main", replicas(0))
	p.await(t, s.condition("shop", "main", "Hibernated", "False", "TakingFinalSnapshot", ""))
	p.await(t, writes(false))
	s.change(t, "Etcd", "shop", "main", replicas(3))
	p.await(t, writes(true))
	p.await(t, s.operation("shop", "main", "Reconcile Succeeded"))
	for _, text := range w.wrongs() {
		t.Error(text)
	}
}

// The first final snapshot is damaged. The members go on until another one is good; then the task keeps it locked
// until the cluster has woken up and made a newer one.
func TestADamagedFinalSnapshotKeepsTheMembersGoing(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	s.class(t, "grows", true)
	l := newLand(t, s)
	s.namespace(t, "shop")
	w := l.settle("shop")
	p := s.operate(t, "operator", "controllers: {etcd: {enableEtcdSpecAutoReconcile: true, etcdStatusSyncPeriod: 1s}, etcdOpsTask: {requeueInterval: 1s}}")
	s.apply(t, l.etcdIn("shop", "grows", 3))
	p.await(t, s.condition("shop", "main", "AllMembersReady", "True", "AllMembersReady", ""))
	w.mu.Lock()
	w.corrupt = 1
	w.mu.Unlock()

	s.change(t, "Etcd", "shop", "main", func(o map[string]any) {
		replicas(0)(o)
		spec(map[string]any{"retentionType": "bucket"}, "backup", "store", "immutability")(o)
	})
	p.await(t, s.condition("shop", "main", "Hibernated", "False", "FinalSnapshotFailed", "is damaged"))
	set, err := s.Client.AppsV1().StatefulSets("shop").Get(t.Context(), "main", metav1.GetOptions{})
	if err != nil || *set.Spec.Replicas != 3 {
		t.Fatalf("%d pods are wanted, want 3 (%v)", *set.Spec.Replicas, err)
	}
	service, err := s.Client.CoreV1().Services("shop").Get(t.Context(), "main-client", metav1.GetOptions{})
	if err != nil || len(service.Spec.Ports) != 1 || service.Spec.Ports[0].Name != "backuprestore" {
		t.Errorf("clients find the ports %v (%v)", service.Spec.Ports, err)
	}

	p.await(t, s.condition("shop", "main", "Hibernated", "True", "Hibernated", ""))
	w.mu.Lock()
	second := w.newest().SnapName
	w.mu.Unlock()
	p.await(t, s.condition("shop", "main", "Hibernated", "True", "Hibernated", second))
	p.await(t, s.condition("shop", "main", "HibernationBackupProtected", "True", "FinalSnapshotProtected", second+" is locked until"))
	p.await(t, s.worked("EtcdOperatorTask", "shop", "main-hibernation", "InProgress", "the CronJob main-hibernation runs at 0 0 * * *"))

	s.change(t, "Etcd", "shop", "main", replicas(3))
	p.await(t, func(ctx context.Context) error {
		o, err := s.get(ctx, "Etcd", "shop", "main")
		if err != nil {
			return err
		}
		if h, there, _ := unstructured.NestedMap(o.Object, "status", "hibernation"); there {
			return fmt.Errorf("it remembers %v", h)
		}
		return nil
	})
	p.await(t, s.absent("EtcdOperatorTask", "shop", "main-hibernation"))
	p.await(t, s.absent("CronJob", "shop", "main-hibernation"))
	for _, text := range w.wrongs() {
		t.Error(text)
	}
}

// While a cluster sleeps its specification is changed to one that the operator refuses, and then to another bucket: the
// extension goes on as it was, and everybody is told why.
func TestTheExtensionOfASleepGoesByWhatWasApplied(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	s.class(t, "grows", true)
	l := newLand(t, s)
	s.namespace(t, "shop")
	w := l.settle("shop")
	p := s.operate(t, "operator", "controllers: {etcd: {enableEtcdSpecAutoReconcile: true, etcdStatusSyncPeriod: 1s}, etcdOpsTask: {requeueInterval: 1s}}")
	s.apply(t, l.etcdIn("shop", "grows", 1))
	p.await(t, s.condition("shop", "main", "AllMembersReady", "True", "AllMembersReady", ""))
	s.change(t, "Etcd", "shop", "main", func(o map[string]any) {
		replicas(0)(o)
		spec(map[string]any{"retentionType": "object", "retentionPeriod": "96h"}, "backup", "store", "immutability")(o)
	})
	p.await(t, s.condition("shop", "main", "Hibernated", "True", "Hibernated", ""))
	p.await(t, s.worked("EtcdOperatorTask", "shop", "main-hibernation", "InProgress", "the CronJob main-hibernation runs at 0 0 * * *"))
	jobs := s.Client.BatchV1().CronJobs("shop")
	remade := func(when string) { // as the task has it by now
		t.Helper()
		former, err := jobs.Get(t.Context(), "main-hibernation", metav1.GetOptions{})
		if err == nil {
			err = jobs.Delete(t.Context(), former.Name, metav1.DeleteOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		p.await(t, func(ctx context.Context) error {
			job, err := jobs.Get(ctx, former.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if job.UID == former.UID {
				return errors.New("it is still the former one")
			}
			run := strings.Join(job.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args, " ")
			if job.Spec.Schedule != "0 0 * * *" || !strings.Contains(run, "--retention-period=96h0m0s") || strings.Contains(run, "elsewhere") {
				t.Errorf("%s: it runs at %s %s", when, job.Spec.Schedule, run)
			}
			return nil
		})
	}
	remade("asleep")

	s.change(t, "Etcd", "shop", "main", func(o map[string]any) {
		spec("0 0 1 * *", "backup", "fullSnapshotSchedule")(o)
		spec("12h", "backup", "store", "immutability", "retentionPeriod")(o)
	})
	p.await(t, s.condition("shop", "main", "HibernationBackupProtected", "True", "FinalSnapshotProtected", "not by spec.backup"))
	remade("refused")
	const task = "main-hibernation"
	former, err := s.get(t.Context(), "EtcdOperatorTask", "shop", task)
	if err != nil {
		t.Fatal(err)
	}
	s.delete(t, "EtcdOperatorTask", "shop", task)
	p.await(t, func(ctx context.Context) error {
		now, err := s.get(ctx, "EtcdOperatorTask", "shop", task)
		if err == nil && now.GetUID() == former.GetUID() {
			err = errors.New("it is still the former one")
		}
		return err
	})
	p.await(t, s.worked("EtcdOperatorTask", "shop", task, "InProgress", "runs at 0 0 * * *"))

	s.change(t, "Etcd", "shop", "main", func(o map[string]any) {
		spec("0 0 * * *", "backup", "fullSnapshotSchedule")(o)
		spec("96h", "backup", "store", "immutability", "retentionPeriod")(o)
		spec("elsewhere", "backup", "store", "container")(o)
	})
	p.await(t, s.condition("shop", "main", "Hibernated", "True", "StoreChanged", "where it is kept locked as before"))
	remade("in another bucket")

	s.change(t, "Etcd", "shop", "main", func(o map[string]any) {
		replicas(1)(o)
		unstructured.RemoveNestedField(o, "spec", "backup", "store")
	})
	p.await(t, s.condition("shop", "main", "Hibernated", "False", "WakingUp", "is kept locked until there is"))
	p.await(t, s.condition("shop", "main", "AllMembersReady", "True", "AllMembersReady", ""))
	s.change(t, "Etcd", "shop", "main", replicas(0))
	p.await(t, s.condition("shop", "main", "Hibernated", "True", "HibernatedUnproven", ""))
	p.await(t, s.condition("shop", "main", "HibernationBackupProtected", "True", "FinalSnapshotProtected", ""))
	remade("asleep again without a store")
	for _, text := range w.wrongs() {
		t.Error(text)
	}
}
