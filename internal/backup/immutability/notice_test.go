package immutability

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestANoticeIsFoundInWhatAPodLeaves(t *testing.T) {
	at := time.Date(2026, 6, 1, 3, 0, 0, 0, time.UTC)
	yes, many := true, 100_000
	for phrase, n := range map[string]Notice{
		"reckoned":         {At: at, Snapshot: "Full-1", End: 9, Until: at.Add(time.Hour), Inferred: &yes},
		"locked":           {At: at, Snapshot: "Full-1", End: 9, Until: at.Add(time.Hour)},
		"held":             {At: at, Snapshot: "Full-1", Held: true},
		"damaged":          {At: at, Snapshot: "Full-1", Damaged: strings.Repeat("\"ü", MaxNotice)},
		"nothing is there": {At: at, Damaged: "no full"},
		"with all there is": {At: at, Snapshot: "Full-1", Damaged: strings.Repeat("\"ü", MaxNotice), Newer: strings.Repeat("\"ü", MaxNotice),
			Excluded: slices.Repeat([]string{"Incr-18446744073709551615-18446744073709551615-9223372036854775807.zst.final"}, MostNamed), ExcludedCount: &many},
	} {
		text := n.String()
		if len(text) > MaxNotice || strings.Contains(text, "\n") {
			t.Errorf("%s: %d bytes, want one line of at most %d", phrase, len(text), MaxNotice)
		}
		got, found := ParseNotice("a line\n" + text + "\nanother one")
		if !found || !got.At.Equal(n.At) || !got.Until.Equal(n.Until) || got.Held != n.Held || got.Snapshot != n.Snapshot || got.End != n.End ||
			len(got.Excluded) == 0 && len(n.Excluded) > 0 || (got.ExcludedCount == nil) != (n.ExcludedCount == nil) || (got.Inferred == nil) != (n.Inferred == nil) || (got.Damaged == "") != (n.Damaged == "") {
			t.Errorf("%s: read back %+v, %t", phrase, got, found)
		}
	}
	for _, none := range []string{"", "{}", "not a notice", `{"extensionAt":"2026-06-01T03:00:00Z"}`} {
		if got, found := ParseNotice(none); found {
			t.Errorf("%q is %+v, want none", none, got)
		}
	}
}
