package timeline_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// The writer is refused because of it, so who looks into the bucket is told of it as well.
func TestAnOwnerRecordThatIsNoneIsAFinding(t *testing.T) {
	ref := timeline.Ref{Key: snapshot.OwnerKey("p", 2), Version: "v7"}
	found := timeline.Build(timeline.Listing{BadOwner: &timeline.BadOwner{Ref: ref, Err: errors.New("p/v2/Owner-00000002@v7 is no owner record: \x1b")}}).Findings
	if len(found) != 1 || found[0].Code != timeline.BadOwnerRecord || found[0].Severity != timeline.Danger || found[0].Key != ref.Key.String() || found[0].Version != "v7" ||
		!strings.HasPrefix(found[0].Text, `p/v2/Owner-00000002@v7 is no owner record: \x1b; `) || !strings.Contains(found[0].Text, "--take-over") {
		t.Errorf("%+q", found)
	}
}

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
