package cluster

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	secret := func(name string, finalizers ...string) corev1.Secret {
		return corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}}
	}
	deleted := names("users", "x", true)
	held := []corev1.Secret{secret("users", "other/finalizer", druidv1alpha1.Finalizer), secret("free", "other/finalizer")}
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
			if got := keptSecrets(&deleted, c.others, held); !slices.Equal(got, c.want) {
				t.Errorf("kept %q, want %q", got, c.want)
			}
		})
	}
}
