package snapshotter

import (
	"slices"
	"sync"
	"testing"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func TestAFullTellsHowFarItIsAndThatItIsOver(t *testing.T) {
	t.Parallel()
	e := newEtcd(t)
	e.put(50)
	f := storetest.NewFaulty(memory())
	f.Inject(storetest.Fail(store.ErrUnreachable).On(storetest.OpPut, "/Full-")) // the first one fails
	cfg := config(e, f)
	var mu sync.Mutex
	var told []Progress
	cfg.Progress = func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, p)
	}
	r := start(t, cfg)
	taken := r.full(false)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	ends := slices.DeleteFunc(slices.Clone(told), func(p Progress) bool { return !p.Over })
	if len(ends) < 2 {
		t.Fatalf("the end was told %d times, want it of the failure and of the success", len(ends))
	}
	last := ends[slices.IndexFunc(ends, func(p Progress) bool { return p.Name == taken.Key.Name })]
	if last.Read != taken.Manifest.ContentSize || last.Total != last.Read {
		t.Errorf("%d of %d bytes were read in the end, want all of %d", last.Read, last.Total, taken.Manifest.ContentSize)
	}
	for i, p := range told[1:] {
		if before := told[i]; before.Name == p.Name && p.Read < before.Read {
			t.Errorf("progress goes back from %d to %d", before.Read, p.Read)
		}
	}
}
