package e2e

import (
	"math/rand"
	"slices"
	"testing"

	"druid.internal/druid/test/sites"
)

// momentsOf are where the snapshotter is killed on a store. The full is so large that it is sent
// in parts, which every protocol does in its own way; those of Google do not name the object.
func momentsOf(name string) []moment {
	large := map[string][]moment{
		"Ceph":  {{"begin Full", 1, true}, {"part Full", 2, false}, {"part Full", 2, true}, {"finish Full", 1, false}, {"finish Full", 1, true}},
		"GCS":   {{"begin Full", 1, true}, {"part", 1, false}, {"part", 1, true}, {"finish", 1, false}, {"finish", 1, true}},
		"Azure": {{"part Full", 1, false}, {"part Full", 2, false}, {"part Full", 2, true}, {"finish Full", 1, false}, {"finish Full", 1, true}},
		"OSS":   {{"begin Full", 1, true}, {"part Full", 2, false}, {"part Full", 2, true}, {"finish Full", 1, false}, {"finish Full", 1, true}},
		"Swift": {{"part Full", 1, false}, {"part Full", 2, false}, {"part Full", 2, true}, {"finish Full", 1, false}, {"finish Full", 1, true}},
	}[name]
	return slices.Concat([]moment{
		{"put Owner", 1, false}, {"put Owner", 1, true},
	}, large, []moment{
		{"put Manifest", 1, false}, {"put Manifest", 1, true},
		{"list", 1, false}, {"list", 1, true}, {"inspect", 1, true},
		{"put Incr", 1, false}, {"put Incr", 1, true}, {"put Incr", 2, false}, {"put Incr", 3, true},
		{"read Manifest", 1, true}, {"read Owner", 1, false},
	})
}

// TestWhateverIsUploadedComesBackAfterAnyKillOnEveryStore is the property of MinIO in a shorter
// form: it is the requests that differ. Every other store has one kill at every other moment, with -soak each at all.
func TestWhateverIsUploadedComesBackAfterAnyKillOnEveryStore(t *testing.T) {
	onEveryOtherStore(t, func(t *testing.T, s sites.Site) {
		kind, _ := locked(s)
		w, a := hunted(t, s, kind, 121)
		w.writeLarge(121)
		moments := everyOther(t, momentsOf(s.Name()))
		killAndRestore(t, w, a, rand.New(rand.NewSource(121)), moments, len(moments))
	}, "MinIO", "Local")
}
