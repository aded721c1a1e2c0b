package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestAConfigMapIsReadAgainWhenItIsAnotherOne(t *testing.T) {
	c, e := newConfigurations(), newEtcd(3)
	three := running(t, 3).ConfigMap.DeepCopy()
	one := running(t, 1).ConfigMap.DeepCopy()
	at := func(m *corev1.ConfigMap, uid, version string) *corev1.ConfigMap {
		m = m.DeepCopy()
		m.UID, m.ResourceVersion = types.UID(uid), version
		return m
	}
	for _, look := range []struct {
		name string
		of   *corev1.ConfigMap
		want int32
	}{
		{"there is none", nil, 0},
		{"there is one", at(three, "a", "1"), 3},
		{"the same, which is not looked into", at(one, "a", "1"), 3},
		{"a new version", at(one, "a", "2"), 1},
		{"made anew", at(three, "b", "2"), 3},
	} {
		if got := c.read(e, look.of).Members; got != look.want {
			t.Errorf("%s: %d members, want %d", look.name, got, look.want)
		}
	}
	if c.forget(e.UID); len(c.of) != 0 {
		t.Error("an Etcd that is gone is remembered")
	}
}
