package task

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAScheduleIsReadAsACronJobHasIt(t *testing.T) {
	for text, want := range map[string]Schedule{
		"0 0 * * *":                           {When: "0 0 * * *"},
		"@every 1h":                           {When: "@every 1h", Every: time.Hour},
		"30 2 * * 1-5":                        {When: "30 2 * * 1-5"},
		"CRON_TZ=Europe/Berlin   0 */6 * * *": {When: "0 */6 * * *", Zone: "Europe/Berlin"},
		"TZ=Local 0 0 * * *":                  {When: "0 0 * * *"},
		"TZ=UTC @daily":                       {When: "@daily", Zone: "UTC"},
	} {
		got, err := ParseSchedule(text)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q (-want +got): %v\n%s", text, err, diff)
		}
	}
	for text, says := range map[string]string{"0 0 30 2 *": "there is no such day", "at noon": "expected exactly 5 fields"} {
		if got := Unreadable(&Task{Schedule: &text}, "spec.when"); !strings.Contains(got, says) || !strings.HasPrefix(got, "spec.when ") {
			t.Errorf("%q: %q, want the field and %q", text, got, says)
		}
	}
	if got := Unreadable(&Task{}, "spec.when"); got != "" {
		t.Errorf("no schedule: %q", got)
	}
}
