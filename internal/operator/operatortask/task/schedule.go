package task

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule is when the CronJob of a standing task runs.
type Schedule struct {
	When string // as a CronJob has it, without a zone of time
	Zone string // empty: that of the cluster's controllers
	// Every is between two runs of one that is reckoned from the run before, such as @every 12h; 0: it comes by
	// the clock.
	Every time.Duration
}

// ParseSchedule reads what a person wrote, as cron has it. What never comes is an error.
func ParseSchedule(text string) (Schedule, error) {
	parsed, err := cron.ParseStandard(text)
	if err != nil {
		return Schedule{}, err
	}
	if parsed.Next(time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Schedule{}, errors.New("it never comes: there is no such day")
	}
	var s Schedule
	s.Zone, s.When = inZone(text)
	if constant, is := parsed.(cron.ConstantDelaySchedule); is {
		s.Every = constant.Delay
	}
	return s, nil
}

// Unreadable says why the schedule of a task, which stands in a field, cannot be read; empty: it can, or there is none.
func Unreadable(t *Task, field string) string {
	if t.Schedule == nil {
		return ""
	}
	if _, err := ParseSchedule(*t.Schedule); err != nil {
		return fmt.Sprintf("%s %q cannot be read: %v", field, *t.Schedule, err)
	}
	return ""
}

// inZone takes the zone of time out of a schedule: a CronJob has a field for it.
func inZone(schedule string) (zone, when string) {
	schedule = strings.TrimSpace(schedule)
	for _, name := range []string{"CRON_TZ=", "TZ="} {
		if rest, is := strings.CutPrefix(schedule, name); is {
			zone, when, _ = strings.Cut(rest, " ")
			if zone == "Local" {
				zone = "" // a CronJob must not say so; without a zone it means the same
			}
			return zone, strings.TrimSpace(when)
		}
	}
	return "", schedule
}
