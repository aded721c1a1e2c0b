package snapshotter

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule is when fulls are taken: a cron expression of five fields, in UTC unless it begins
// with CRON_TZ=. The zero Schedule is no use: ParseSchedule.
type Schedule struct {
	spec string
	cron cron.Schedule
	// Window is how old the newest full may become before a start takes a new one at once.
	Window time.Duration
}

// ParseSchedule reads a cron expression such as "0 */1 * * *" or "@daily". The window is 24
// hours; 7 days if a day of the week is chosen; n hours if the hour is */n.
func ParseSchedule(spec string) (*Schedule, error) {
	parsed, err := cron.ParseStandard(spec)
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w; write five fields: minute hour day month weekday", spec, err)
	}
	if parsed.Next(anyDay).IsZero() {
		return nil, fmt.Errorf("schedule %q never comes: there is no such day; change the day of the month or the month", spec)
	}
	s := &Schedule{spec: spec, cron: parsed, Window: 24 * time.Hour}
	fields := strings.Fields(spec)
	for len(fields) > 0 && (strings.HasPrefix(fields[0], "TZ=") || strings.HasPrefix(fields[0], "CRON_TZ=")) {
		fields = fields[1:]
	}
	if len(fields) == 5 {
		var n int
		if day := fields[4]; day != "*" && day != "?" {
			s.Window = 7 * 24 * time.Hour
		} else if _, err := fmt.Sscanf(fields[1], "*/%d", &n); err == nil && n > 0 {
			s.Window = time.Duration(n) * time.Hour
		}
	}
	return s, nil
}

// anyDay is one after which every date comes within the years that are looked at, a 29th of February too.
var anyDay = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// Next is the first time after t; zero if there is none within five years.
func (s *Schedule) Next(t time.Time) time.Time { return s.cron.Next(t.UTC()) }

// String is the expression.
func (s *Schedule) String() string { return s.spec }
