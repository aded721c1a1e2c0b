package task

import (
	"testing"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

func TestAnEtcdSleepsByItsReplicasOrByAnnotation(t *testing.T) {
	for phrase, c := range map[string]struct {
		replicas    int32
		annotations map[string]string
		sleeps      bool
	}{
		"three members":              {3, nil, false},
		"none":                       {0, nil, true},
		"none, as an annotation has": {3, map[string]string{druidv1alpha1.AnnotationDisableRuntimeComponents: ""}, true},
	} {
		e := &druidv1alpha1.Etcd{}
		e.Spec.Replicas, e.Annotations = c.replicas, c.annotations
		if says := Hibernated.Fails(nil, e); (says == "") != c.sleeps {
			t.Errorf("%s: %q, want that it sleeps: %t", phrase, says, c.sleeps)
		}
	}
}
