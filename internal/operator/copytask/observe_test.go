package copytask

import (
	"context"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
