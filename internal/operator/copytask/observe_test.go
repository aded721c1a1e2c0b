package copytask

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubernetes "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// held is what somebody who is asked holds, and has no pods.
type held struct {
	task    *druidv1alpha1.EtcdCopyBackupsTask
	job     *batchv1.Job
	secrets []string
	asked   []string
}

func (h *held) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	h.asked = append(h.asked, fmt.Sprintf("%T %s", into, key.Name))
	switch into := into.(type) {
	case *druidv1alpha1.EtcdCopyBackupsTask:
		*into = *h.task.DeepCopy()
		return nil
	case *batchv1.Job:
		if h.job != nil {
			*into = *h.job.DeepCopy()
			return nil
		}
	case *corev1.Secret:
		for _, s := range h.secrets {
			if s == key.Name {
				return nil
			}
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (h *held) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func TestATaskOfWhoseEndTheCacheDoesNotKnowIsNotBegunAgain(t *testing.T) {
	task := newTask()
	over := task.DeepCopy()
	over.Status.Conditions = []druidv1alpha1.Condition{{Type: druidv1alpha1.ConditionSucceeded, Status: druidv1alpha1.ConditionTrue}}
	r := &Reconciler{cache: &held{}, live: &held{task: over}}
	o, err := r.look(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Decide(o, testSettings)
	if err != nil || p.State != Over {
		t.Errorf("it is %s (%v), want %s", p.State, err, Over)
	}
}

func TestEachSecretIsLookedForOnce(t *testing.T) {
	task := newTask(func(t *druidv1alpha1.EtcdCopyBackupsTask) {
		t.Spec.SourceStore.SecretRef = &corev1.SecretReference{Name: "target"}
	})
	for name, c := range map[string]struct {
		there   []string
		missing int
	}{
		"there": {[]string{"target"}, 0}, "missing": {nil, 1},
	} {
		live := &held{task: task, secrets: c.there}
		r := &Reconciler{cache: &held{job: at(t).Job}, live: live}
		o, err := r.look(t.Context(), task)
		if err != nil || len(o.MissingSecrets) != c.missing || len(live.asked) != 1 {
			t.Errorf("%s: %v are missing after asking for %q (%v), want %d after one", name, o.MissingSecrets, live.asked, err, c.missing)
		}
	}
}

// The Job waits for its pods, and one on a node that is lost ends never.
func TestATaskThatIsDeletedNamesThePodThatDoesNotEnd(t *testing.T) {
	task := newTask(func(t *druidv1alpha1.EtcdCopyBackupsTask) {
		t.Finalizers, t.DeletionTimestamp = []string{druidv1alpha1.Finalizer}, ptr(metav1.NewTime(testNow.Add(-time.Hour)))
	})
	for age, want := range map[time.Duration]string{
		time.Second: "", time.Minute: "the task is deleted when all its pods have ended: move-worker-x does not; if its node is lost for good, remove the node, or delete the pod by force",
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: "move-worker-x", Namespace: task.Namespace, DeletionTimestamp: ptr(metav1.NewTime(testNow.Add(-age))), Finalizers: []string{"somebody.example/waits"},
			Labels: map[string]string{druidv1alpha1.LabelPartOf: task.Name, druidv1alpha1.LabelComponent: druidv1alpha1.ComponentCopyBackupsJob},
		}}
		s := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{kubernetes.AddToScheme, druidv1alpha1.AddToScheme} {
			if err := add(s); err != nil {
				t.Fatal(err)
			}
		}
		c := fake.NewClientBuilder().WithScheme(s).WithStatusSubresource(task).WithObjects(task.DeepCopy(), pod).Build()
		r := &Reconciler{now: func() time.Time { return testNow }, client: c, cache: c, live: c, logger: slog.New(slog.DiscardHandler)}
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(task)}); err != nil {
			t.Fatal(err)
		}
		var now druidv1alpha1.EtcdCopyBackupsTask
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(task), &now); err != nil {
			t.Fatal(err)
		}
		got := ""
		if now.Status.LastError != nil {
			got = *now.Status.LastError
		}
		if got != want {
			t.Errorf("after %s: %q, want %q", age, got, want)
		}
	}
}
