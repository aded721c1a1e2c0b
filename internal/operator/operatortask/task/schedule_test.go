package task

import (
	"strings"
	"testing"
)

func TestUnreadableNamesTheField(t *testing.T) {
	for text, want := range map[string]string{"0 0 30 2 *": "there is no such day", "at noon": "found 2 fields", "TZ=UTC": "needs a time zone, a space"} {
		if got := Unreadable(&Task{Schedule: &text}, "spec.when"); !strings.Contains(got, want) || !strings.HasPrefix(got, "spec.when: ") {
			t.Errorf("%q: %q, want the field and %q", text, got, want)
		}
	}
	if got := Unreadable(&Task{}, "spec.when"); got != "" {
		t.Errorf("no schedule: %q", got)
	}
}
