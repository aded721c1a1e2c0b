package snapshotter

import (
	"strings"
	"testing"
	"time"
)

func TestASchedule(t *testing.T) {
	for spec, want := range map[string]string{
		"0 */1 * * *": "", "@daily": "", "CRON_TZ=Europe/Berlin 0 3 * * 1": "", "0 0 29 2 *": "",
		"0 0 30 2 *": "never comes", "0 0 31 4,6 *": "never comes", "0 0 *": "five fields", "": "five fields",
	} {
		s, err := ParseSchedule(spec)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", spec, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", spec, err, want)
		case err == nil && s.Next(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)).IsZero():
			t.Errorf("%q never comes", spec)
		}
	}
}
