package cluster

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

func TestSecretsWhoseFinalizerNobodyNeeds(t *testing.T) {
	names := func(secret, uid string, deleted bool) druidv1alpha1.Etcd {
		e := newEtcd(1)
		e.UID = types.UID(uid)
		e.Spec.Etcd.AuthSecretRef = &corev1.SecretReference{Name: secret}
		if deleted {
			e.DeletionTimestamp = ptr(ago(0))
		}
		return *e
	}
	deleted := names("users", "x", true)
	for phrase, c := range map[string]struct {
		others []druidv1alpha1.Etcd
		want   []string
	}{
		"it alone named it":                     {nil, []string{"users"}},
		"another names it":                      {[]druidv1alpha1.Etcd{names("users", "y", false)}, nil},
		"another named it, and is deleted":      {[]druidv1alpha1.Etcd{names("users", "y", true)}, []string{"users"}},
		"another names something else":          {[]druidv1alpha1.Etcd{names("theirs", "y", false)}, []string{"users"}},
		"it is listed as not being deleted yet": {[]druidv1alpha1.Etcd{names("users", "x", false)}, []string{"users"}},
	} {
		t.Run(phrase, func(t *testing.T) {
			if got := unneeded(&deleted, c.others, []string{"users"}); !slices.Equal(got, c.want) {
				t.Errorf("unneeded are %q, want %q", got, c.want)
			}
		})
	}
}

// A Secret that the specification names no more may be another Etcd's, or another field's.
func TestSecretsThatASpecificationNamedBefore(t *testing.T) {
	e := newEtcd(1)
	e.Spec.Etcd.AuthSecretRef = &corev1.SecretReference{Name: "users"}
	mounts := func(names ...string) *appsv1.StatefulSet {
		s := &appsv1.StatefulSet{}
		for _, name := range names {
			s.Spec.Template.Spec.Volumes = append(s.Spec.Template.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}})
		}
		s.Spec.Template.Spec.Volumes = append(s.Spec.Template.Spec.Volumes, corev1.Volume{Name: "scratch"})
		s.Spec.Template.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "plain"}, {Name: "key", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: names[len(names)-1]},
		}}}}}}
		return s
	}
	if got := formerSecrets(mounts("users", "before"), mounts("users", "next")); !slices.Equal(got, []string{"before"}) {
		t.Errorf("former are %q, want before", got)
	}
	if got := formerSecrets(nil, mounts("users")); got != nil {
		t.Errorf("former are %q of a new StatefulSet", got)
	}
	if got := unneeded(e, nil, []string{"users", "before"}); !slices.Equal(got, []string{"before"}) {
		t.Errorf("unneeded are %q, and the Etcd names users", got)
	}
}
