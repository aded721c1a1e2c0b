package immutability

import (
	"strings"
	"testing"
	"time"
)

func TestANoticeIsFoundInWhatAPodLeaves(t *testing.T) {
	at := time.Date(2026, 6, 1, 3, 0, 0, 0, time.UTC)
	yes := true
	for phrase, n := range map[string]Notice{
		"reckoned":         {At: at, Snapshot: "Full-1", End: 9, Until: at.Add(time.Hour), Inferred: &yes},
		"locked":           {At: at, Snapshot: "Full-1", End: 9, Until: at.Add(time.Hour)},
		"held":             {At: at, Snapshot: "Full-1", Held: true},
		"damaged":          {At: at, Snapshot: "Full-1", Damaged: strings.Repeat("\"ü", MaxNotice)},
		"nothing is there": {At: at, Damaged: "no full"},
	} {
		text := n.String()
		if len(text) > MaxNotice || strings.Contains(text, "\n") {
			t.Errorf("%s: %d bytes, want one line of at most %d", phrase, len(text), MaxNotice)
		}
		got, found := ParseNotice("a line\n" + text + "\nanother one")
		if !found || !got.At.Equal(n.At) || !got.Until.Equal(n.Until) || got.Held != n.Held || got.Snapshot != n.Snapshot || got.End != n.End ||
			(got.Inferred == nil) != (n.Inferred == nil) || (got.Damaged == "") != (n.Damaged == "") {
			t.Errorf("%s: read back %+v, %t", phrase, got, found)
		}
	}
	for _, none := range []string{"", "{}", "not a notice", `{"extensionAt":"2026-06-01T03:00:00Z"}`} {
		if got, found := ParseNotice(none); found {
			t.Errorf("%q is %+v, want none", none, got)
		}
	}
}
