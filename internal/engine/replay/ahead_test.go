package replay

import (
	"testing"

	"druid.internal/druid/internal/engine/fetch"
)

func TestObjectsOpenAtATimeShareWhatIsReadAhead(t *testing.T) {
	a := ahead{left: 48 << 20}
	const requests, large = 5, 1 << 30
	var shares []int64
	held := int64(0)
	for range 6 {
		share, size := a.take(requests, large)
		if share != size*(requests+1) || size > fetch.DefaultRangeBytes {
			t.Errorf("a share of %d bytes for ranges of %d", share, size)
		}
		if held += share; held > 48<<20 {
			t.Errorf("%d bytes are borrowed, want at most %d", held, 48<<20)
		}
		shares = append(shares, share)
	}
	if shares[0] != 24<<20 || shares[1] != 12<<20 || shares[2] != 6<<20 || shares[3] != 0 || shares[5] != 0 {
		t.Errorf("shares %v, want half of what is left each, and in the end nothing", shares)
	}
	for _, s := range shares {
		a.give(s)
	}
	if a.left != 48<<20 {
		t.Errorf("%d bytes are left after all were given back", a.left)
	}
	for what, got := range map[string]func() (int64, int64){
		"one request at a time": func() (int64, int64) { return a.take(1, large) },
		"a small object":        func() (int64, int64) { return a.take(requests, 1000) },
	} {
		if share, _ := got(); share != 0 {
			t.Errorf("%s takes %d bytes", what, share)
		}
	}
	if _, size := (&ahead{left: DefaultReadAhead}).take(requests, large); size != fetch.DefaultRangeBytes {
		t.Errorf("without a limit a range has %d bytes, want %d", size, fetch.DefaultRangeBytes)
	}
}
