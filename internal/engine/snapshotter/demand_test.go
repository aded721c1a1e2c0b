package snapshotter

import (
	"testing"

	"druid.internal/druid/internal/engine/catalog"
)

// TestAFullThatAnotherMadeNeedlessIsNotTaken: whoever waits for its turn with a full that is
// demanded finds that the full before it, which began later, was enough.
func TestAFullThatAnotherMadeNeedlessIsNotTaken(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	e.put(3)
	r := start(t, config(e, s))
	until(t, s, "the first full", func(c *catalog.Catalog) bool { return fulls(c) == 1 })
	r.full(false) // which has its turn after the first
	n, err := r.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for why, want := range map[string]int{"": 0, "needed": 1} {
		before := fulls(read(t, s))
		n.mu.Lock()
		n.due = why
		n.mu.Unlock()
		if _, err := n.takeFull(t.Context(), asked{demanded: true}); err != nil {
			t.Fatal(err)
		}
		if got := fulls(read(t, s)) - before; got != want {
			t.Errorf("demanded because %q: %d fulls were taken, want %d", why, got, want)
		}
	}
}
