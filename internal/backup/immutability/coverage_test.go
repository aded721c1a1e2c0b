package immutability

import (
	"testing"
	"time"
)

func TestTheNewestChainIsLockedAtEveryMoment(t *testing.T) {
	const h, m = time.Hour, time.Minute
	for _, c := range []struct {
		of    Coverage
		holds bool
		says  string
	}{
		{Coverage{96 * h, 24 * h, 15 * m}, true,
			"objects are locked for 96h, and a full is the newest for up to 24h30m (24h between two, 15m until the next is in the bucket, 15m for clocks)"},
		{Coverage{24*h + 30*m, 24 * h, 15 * m}, true,
			"objects are locked for 24h30m, and a full is the newest for up to 24h30m (24h between two, 15m until the next is in the bucket, 15m for clocks)"},
		// The shortest of S3 beside the usual schedule: one day after the full, and before the next.
		{Coverage{24 * h, 24 * h, 15 * m}, false,
			"objects are locked for 24h, and a full is the newest for up to 24h30m (24h between two, 15m until the next is in the bucket, 15m for clocks): it would be without a lock for up to 30m"},
		{Coverage{0, 7 * 24 * h, 90 * time.Second}, false,
			"objects are locked for 0m, and a full is the newest for up to 168h16m30s (168h between two, 1m30s until the next is in the bucket, 15m for clocks): it would be without a lock for up to 168h16m30s"},
	} {
		if got := c.of.Holds(); got != c.holds {
			t.Errorf("%+v: covered %t, want %t", c.of, got, c.holds)
		}
		if got := c.of.String(); got != c.says {
			t.Errorf("%+v\n got %q\nwant %q", c.of, got, c.says)
		}
	}
}
