package desired

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"druid.internal/druid/config/crd/crdtest"
	"druid.internal/druid/config/crd/validate"
)

// A StatefulSet puts the volume of a claim in the place of another one of that name.
func TestNoClaimIsNamedAsAnotherVolumeIs(t *testing.T) {
	d, err := validate.Load("etcds")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, change := range shapes {
		e := etcd(change)
		e.Spec.Etcd.AuthSecretRef = &corev1.SecretReference{Name: "user"}
		set, err := Objects(input(e))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range set.StatefulSet.Spec.Template.Spec.Volumes {
			seen[v.Name] = true
		}
	}
	if n := len(seen); n != 16 {
		t.Errorf("volumes with these shapes: %d, want all 16 that there can be", n)
	}
	for name := range seen {
		o := crdtest.Minimal("etcds")
		o["spec"].(map[string]any)["volumeClaimTemplate"] = name
		d.Default(o)
		if errs := d.Validate(o, nil); errs == nil || !strings.Contains(errs.ToAggregate().Error(), "another volume of the name") {
			t.Errorf("the template %s is taken (%v)", name, errs.ToAggregate())
		}
	}
}
