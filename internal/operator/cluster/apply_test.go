package cluster

import (
	"slices"
	"testing"
)

// The API server refuses a RoleBinding whose Role it does not know, and pods begin with their StatefulSet.
func TestWhatNeedsOtherObjectsOfANewClusterIsMadeAfterThem(t *testing.T) {
	p := mustDecide(t, empty(newEtcd(3)), testSettings)
	first, then := apart(p.Objects)
	if len(first)+len(then) != len(p.Objects) {
		t.Fatalf("%d objects are made together and %d afterwards, of %d", len(first), len(then), len(p.Objects))
	}
	var kinds []string
	for _, object := range then {
		kinds = append(kinds, keyOf(object).Kind)
	}
	if want := []string{"RoleBinding", "StatefulSet"}; !slices.Equal(kinds, want) {
		t.Errorf("made afterwards are %q, want %q in this order", kinds, want)
	}
	for _, object := range first {
		if keyOf(object).Kind == "Role" {
			return
		}
	}
	t.Error("the Role is not made before its RoleBinding")
}
