package snapshotter

import (
	"fmt"
	"strings"
	"time"

	"druid.internal/druid/internal/schedule"
)

// Schedule of the fulls. ParseSchedule makes it.
type Schedule struct {
	schedule.Schedule
	// Window is how old the newest full may become before a start takes a new one at once.
	Window time.Duration
}

// ParseSchedule reads an expression as [schedule.Parse] does. The window is 24 hours; 7 days if a day of the
// week is chosen; n hours if the hour is */n.
func ParseSchedule(text string) (*Schedule, error) {
	parsed, err := schedule.Parse(text)
	if err != nil {
		return nil, err
	}
	s := &Schedule{Schedule: parsed, Window: 24 * time.Hour}
	if fields := strings.Fields(parsed.Expression()); len(fields) == 5 {
		var n int
		if day := fields[4]; day != "*" && day != "?" {
			s.Window = 7 * 24 * time.Hour
		} else if _, err := fmt.Sscanf(fields[1], "*/%d", &n); err == nil && n > 0 {
			s.Window = time.Duration(n) * time.Hour
		}
	}
	return s, nil
}
