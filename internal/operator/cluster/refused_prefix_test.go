package cluster

import (
	"strings"
	"testing"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// The schema refuses it for new Etcds. One from before keeps its value.
func TestBadPrefixOfAnExistingEtcdIsRefused(t *testing.T) {
	for prefix, want := range map[string]string{"a/../b": `spec.backup.store.prefix: not a valid store prefix: "a/../b" contains an element ".."`, "/a//b/": ""} {
		o := running(t, 3, func(o *Observed) { o.Etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Prefix: prefix} })
		got := strings.Join(mustDecide(t, o, testSettings).Refused, "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("prefix %q: refused %q, want %q", prefix, got, want)
		}
	}
}
