// Package schedule parses cron expressions and computes when they run. All schedules of the product go through
// it: fulls, defragmentation, and the CronJobs of standing tasks. It is the only importer of the cron library,
// which panics on some input and skips or repeats runs when clocks change.
//
// It does not run anything and reads no clock.
package schedule

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // a container image has no time zones

	"github.com/robfig/cron/v3"
)

// maxLength is the longest expression in bytes, as in the definitions of the resources.
const maxLength = 256

// Schedule is a cron expression. Parse makes it; the zero value never runs.
type Schedule struct {
	text, zone, expression string
	location               *time.Location
	runs                   cron.Schedule // in UTC, which stands for the wall clock of location
	fixedHours             bool          // some hours of the day have no run
	cronJob                bool
}

// Parse reads an expression of five fields (minute, hour, day of month, month, day of week), @every with a
// duration of at least a second, or a word such as @daily. CRON_TZ=ZONE or TZ=ZONE in front names a time zone;
// without one the expression is in UTC. An expression that never comes is an error.
func Parse(text string) (Schedule, error) {
	s := Schedule{text: text, expression: strings.TrimSpace(text), location: time.UTC}
	if err := s.parse(); err != nil {
		if len(text) > maxLength {
			text = text[:maxLength] + "..."
		}
		return Schedule{}, fmt.Errorf("schedule %q: %w", text, err)
	}
	return s, nil
}

var errSyntax = errors.New("write five fields (minute, hour, day of month, month, day of week) such as 30 2 * * *, or a word such as @daily, optionally after CRON_TZ=ZONE and a space")

func (s *Schedule) parse() (err error) {
	if len(s.text) > maxLength {
		return fmt.Errorf("%d bytes are too long; use %d or fewer", len(s.text), maxLength)
	}
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		rest, found := strings.CutPrefix(s.expression, prefix)
		if !found {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) < 2 || strings.ContainsAny(rest[:1], " \t") {
			return fmt.Errorf("%s needs a time zone, a space and an expression; %w", prefix, errSyntax)
		}
		s.zone = fields[0]
		if s.location, err = time.LoadLocation(s.zone); err != nil {
			return fmt.Errorf("%w; name a time zone of the IANA database such as Europe/Berlin", err)
		}
		s.expression = strings.TrimSpace(strings.TrimPrefix(rest, s.zone))
		break
	}
	switch fields := strings.Fields(s.expression); {
	case len(fields) == 2 && fields[0] == "@every":
		every, err := time.ParseDuration(fields[1])
		if err != nil {
			return fmt.Errorf("@every: %w", err)
		}
		if every < time.Second {
			return fmt.Errorf("@every %s is too short; use 1s or more", fields[1])
		}
		s.runs = cron.Every(every)
		return nil
	case strings.HasPrefix(s.expression, "@") && len(fields) == 1:
	case len(fields) != 5:
		return fmt.Errorf("found %d fields instead of 5; %w", len(fields), errSyntax)
	default:
		for _, field := range fields {
			for _, part := range strings.Split(field, ",") {
				if part == "" {
					return fmt.Errorf("field %q has an empty element; %w", field, errSyntax)
				}
			}
		}
	}
	if s.runs, err = cron.ParseStandard(s.expression); err != nil {
		return fmt.Errorf("%w; %w", err, errSyntax)
	}
	fields, is := s.runs.(*cron.SpecSchedule)
	if !is {
		return errSyntax
	}
	const allHours = 1<<24 - 1
	fields.Location = time.UTC
	s.fixedHours = fields.Hour&allHours != allHours
	if fields.Next(firstYear).IsZero() {
		return errors.New("it never comes: there is no such day; change the day of the month or the month")
	}
	return nil
}

// firstYear begins a leap year, so that every date comes within the five years that the library searches.
var firstYear = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

// String returns the expression as it was given to Parse.
func (s Schedule) String() string { return s.text }

// IsZero reports whether s is the zero Schedule, which never runs.
func (s Schedule) IsZero() bool { return s.runs == nil }

// Zone returns the time zone that the expression names, or "" if it names none.
func (s Schedule) Zone() string { return s.zone }

// Expression returns the expression without its time zone.
func (s Schedule) Expression() string { return s.expression }

// Every returns the duration of @every, or 0 if the clock decides when s runs.
func (s Schedule) Every() time.Duration {
	if every, is := s.runs.(cron.ConstantDelaySchedule); is {
		return every.Delay
	}
	return 0
}

// AsCronJob returns s as the CronJob controller of Kubernetes runs it: a run whose local time does not exist is
// skipped, and one whose local time comes twice is made twice.
func (s Schedule) AsCronJob() Schedule {
	s.cronJob = true
	return s
}

// Next returns the first run after t, or the zero time if there is none within five years.
//
// A run whose local time is skipped when clocks go forward comes at that instant. A local time that comes twice
// when clocks go back has one run, the first; an expression for every hour goes on through both.
//
//	CRON_TZ=Europe/Berlin 30 2 * * *    28 March 2027: 03:00 CEST (02:30 is skipped)
//	                                    31 October 2027: 02:30 CEST, and not again at 02:30 CET
func (s Schedule) Next(t time.Time) time.Time {
	switch runs := s.runs.(type) {
	case nil:
		return time.Time{}
	case *cron.SpecSchedule:
		if s.cronJob {
			local := *runs
			local.Location = s.location
			return local.Next(t.UTC()).UTC()
		}
	case cron.ConstantDelaySchedule:
		return runs.Next(t.UTC())
	}
	// Between two changes of its offset, the wall clock of a zone is UTC plus that offset.
	local := t.In(s.location)
	after := toWall(local)
	for {
		begin, end := local.ZoneBounds()
		if s.fixedHours && !begin.IsZero() {
			if seen := toWall(begin.Add(-1).In(s.location)); seen.After(after) {
				after = seen // the clocks went back: these wall times had their runs
			}
		}
		wall := s.runs.Next(after)
		if wall.IsZero() {
			return time.Time{}
		}
		if run := wall.Add(-offset(local)); end.IsZero() || run.Before(end) {
			return run
		}
		local = end.In(s.location)
		if wall.Before(toWall(local)) {
			return end.UTC() // the clocks go forward past this wall time
		}
		after = toWall(local).Add(-1)
	}
}

// Previous returns the last run that is not after t, or the zero time if there was none in the eight years
// before, which is longer than from one 29 February to the next.
func (s Schedule) Previous(t time.Time) time.Time {
	const most = 8*366*24*time.Hour + 24*time.Hour
	for back := time.Minute; ; back *= 2 {
		at := s.Next(t.Add(-min(back, most)))
		if !at.IsZero() && !at.After(t) {
			for next := s.Next(at); !next.IsZero() && !next.After(t); next = s.Next(at) {
				at = next
			}
			return at
		}
		if back >= most {
			return time.Time{}
		}
	}
}

// longest caches results of [Schedule.Longest]: few schedules are in use, and the operator asks at each pass.
var longest = struct {
	sync.Mutex
	of map[longestKey]time.Duration
}{of: map[longestKey]time.Duration{}}

type longestKey struct {
	text    string
	cronJob bool
}

// maxLongest limits the cache, as users choose the expressions.
const maxLongest = 1000

// Longest returns the longest time between two runs in nine years, which is longer than from one 29 February to
// the next, or among the first hundred thousand runs. The first call for an expression takes up to 0.1 s.
func (s Schedule) Longest() time.Duration {
	key := longestKey{s.text, s.cronJob}
	longest.Lock()
	known, is := longest.of[key]
	longest.Unlock()
	if is {
		return known
	}
	found := s.longest()
	longest.Lock()
	defer longest.Unlock()
	if len(longest.of) >= maxLongest {
		clear(longest.of)
	}
	longest.of[key] = found
	return found
}

func (s Schedule) longest() (longest time.Duration) {
	last := s.Next(firstYear)
	for n := 0; n < 100_000 && last.Before(firstYear.AddDate(9, 0, 0)); n++ {
		next := s.Next(last)
		if next.IsZero() {
			break
		}
		longest, last = max(longest, next.Sub(last)), next
	}
	return longest
}

// toWall returns what the clock at local shows, as a time in UTC.
func toWall(local time.Time) time.Time { return local.Add(offset(local)).UTC() }

func offset(local time.Time) time.Duration {
	_, seconds := local.Zone()
	return time.Duration(seconds) * time.Second
}
