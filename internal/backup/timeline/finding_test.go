package timeline_test

import (
	"strings"
	"testing"
	"unicode"

	"druid.internal/druid/internal/backup/timeline"
)

// Whoever may write names objects as he likes, also to deceive whoever reads on a terminal what was found.
func TestAFindingIsOneLineWhateverAnObjectIsNamed(t *testing.T) {
	for key, want := range map[string]string{
		"p/v2/README.txt":                  "p/v2/README.txt is",
		"p/v2/\x1b[2Jall is well\nnothing": `p/v2/\x1b[2Jall is well\nnothing is`,
		"p/v2/\u202etxt.lluF":              `p/v2/\u202etxt.lluF is`,
		"p/v2/\xff\"x":                     `p/v2/\xff"x is`,
		"p/v2/ä":                           "p/v2/ä is",
	} {
		found := timeline.Build(timeline.Listing{Foreign: []timeline.Foreign{{Key: key}}}).Findings
		if len(found) != 1 || found[0].Key != key || !strings.HasPrefix(found[0].Text, want) ||
			strings.ContainsFunc(found[0].Text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q: %+q, want it to begin with %q", key, found, want)
		}
	}
}
