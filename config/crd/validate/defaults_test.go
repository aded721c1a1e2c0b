package validate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/config/crd/crdtest"
	"druid.internal/druid/internal/store/open"
)

func TestEveryDefaultIsFilledIn(t *testing.T) {
	wantMinimal, wantParts, err := crdtest.Defaulted()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ object, want map[string]any }{
		"the minimal Etcd":    {crdtest.Minimal("etcds"), wantMinimal},
		"with optional parts": {crdtest.Parts(), wantParts},
	} {
		t.Run(name, func(t *testing.T) {
			// First in Go: the object must not be changed by it.
			var typed, want v1alpha1.Etcd
			for to, from := range map[*v1alpha1.Etcd]map[string]any{&typed: c.object, &want: c.want} {
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from, to); err != nil {
					t.Fatal(err)
				}
			}
			typed.SetDefaults()
			if diff := cmp.Diff(want, typed); diff != "" {
				t.Errorf("SetDefaults (-want +got):\n%s", diff)
			}
			load(t, "etcds").Default(c.object)
			if diff := cmp.Diff(c.want, c.object); diff != "" {
				t.Errorf("the schema (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryProviderThatIsTakenCanBeOpened(t *testing.T) {
	d := load(t, "etcds")
	store := d.structural.Properties["spec"].Properties["backup"].Properties["store"]
	names := store.Properties["provider"].ValueValidation.Enum
	if len(names) < 20 {
		t.Fatalf("there are %d names", len(names))
	}
	for _, name := range names {
		if _, err := open.ParseProvider(name.Object.(string)); err != nil {
			t.Error(err)
		}
	}
}
