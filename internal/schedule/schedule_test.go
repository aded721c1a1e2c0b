package schedule

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]struct {
		zone, expression string
		every            time.Duration
	}{
		"0 0 * * *":                           {"", "0 0 * * *", 0},
		" 0  0 * * * ":                        {"", "0  0 * * *", 0},
		"@every 1h":                           {"", "@every 1h", time.Hour},
		"@every  90s":                         {"", "@every  90s", 90 * time.Second},
		"30 2 * * 1-5":                        {"", "30 2 * * 1-5", 0},
		"0 0 29 2 *":                          {"", "0 0 29 2 *", 0},
		"0 3 ? JAN-mar Sun":                   {"", "0 3 ? JAN-mar Sun", 0},
		"CRON_TZ=Europe/Berlin   0 */6 * * *": {"Europe/Berlin", "0 */6 * * *", 0},
		"TZ=UTC @daily":                       {"UTC", "@daily", 0},
		"TZ=Local 0 0 * * *":                  {"Local", "0 0 * * *", 0},
		"CRON_TZ=UTC\t5 4 * * *":              {"UTC", "5 4 * * *", 0},
	} {
		s, err := Parse(text)
		if err != nil || s.IsZero() || s.Zone() != want.zone || s.Expression() != want.expression || s.Every() != want.every || s.String() != text {
			t.Errorf("%q: zone %q, expression %q, every %v, error %v; want %+v", text, s.Zone(), s.Expression(), s.Every(), err, want)
		}
	}
}

func TestParseRejects(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "found 0 fields",
		"   ":                           "found 0 fields",
		"0 0 *":                         "found 3 fields",
		"at noon":                       "found 2 fields",
		"0 0 0 * * *":                   "found 6 fields",
		"@every":                        "write five fields",
		"@every hour":                   "invalid duration",
		"@every 0s":                     "too short; use 1s or more",
		"@every -1h":                    "too short; use 1s or more",
		"@every 10ms":                   "too short; use 1s or more",
		"@sometimes":                    "unrecognized descriptor",
		"@daily @daily":                 "found 2 fields",
		"TZ=UTC":                        "TZ= needs a time zone, a space and an expression",
		"TZ=":                           "TZ= needs a time zone",
		"CRON_TZ=UTC ":                  "CRON_TZ= needs a time zone, a space and an expression",
		"CRON_TZ= 0 0 * * *":            "CRON_TZ= needs a time zone",
		"TZ=UTC TZ=UTC":                 "found 1 fields",
		"TZ=UTC TZ=UTC 0 0 * * *":       "found 6 fields",
		"TZ=Middle/Earth 0 0 * * *":     "unknown time zone Middle/Earth; name a time zone of the IANA database",
		"CRON_TZ=../etc/x 0 0 * * *":    "name a time zone of the IANA database",
		"0 0 30 2 *":                    "never comes",
		"0 0 31 4,6 *":                  "never comes",
		", 0 * * *":                     "empty element",
		"0,,5 0 * * *":                  "empty element",
		"61 0 * * *":                    "above maximum",
		"*/0 0 * * *":                   "positive number",
		"1-2-3 0 * * *":                 "too many hyphens",
		"0 0 * * 7":                     "above maximum",
		strings.Repeat("0,", 200) + "0": "401 bytes are too long; use 256 or fewer",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), `schedule "`) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func TestNextAcrossClockChanges(t *testing.T) {
	for _, c := range []struct{ name, schedule, from, want string }{
		{"a run in the gap comes when the gap ends", "CRON_TZ=Europe/Berlin 30 2 * * *", "2027-03-27T00:00:00Z",
			"2027-03-27T01:30:00Z 2027-03-28T01:00:00Z 2027-03-29T00:30:00Z"},
		{"a repeated run is made once", "CRON_TZ=Europe/Berlin 30 2 * * *", "2027-10-30T00:00:00Z",
			"2027-10-30T00:30:00Z 2027-10-31T00:30:00Z 2027-11-01T01:30:00Z"},
		{"several runs in the gap are one", "CRON_TZ=Europe/Berlin 0,15,30 2,3 * * *", "2027-03-28T00:59:00Z",
			"2027-03-28T01:00:00Z 2027-03-28T01:15:00Z 2027-03-28T01:30:00Z 2027-03-29T00:00:00Z"},
		{"a start within the repeated hour waits for the next day", "CRON_TZ=Europe/Berlin 30 2 * * *", "2027-10-31T01:10:00Z",
			"2027-11-01T01:30:00Z"},
		{"every hour goes on through the repeated hour", "CRON_TZ=Europe/Berlin 0 * * * *", "2027-10-30T23:30:00Z",
			"2027-10-31T00:00:00Z 2027-10-31T01:00:00Z 2027-10-31T02:00:00Z"},
		{"every hour goes on through the gap", "CRON_TZ=Europe/Berlin 20 * * * *", "2027-03-28T00:00:00Z",
			"2027-03-28T00:20:00Z 2027-03-28T01:00:00Z 2027-03-28T01:20:00Z 2027-03-28T02:20:00Z"},
		{"a change of half an hour forward", "CRON_TZ=Australia/Lord_Howe 15 2 * * *", "2027-10-01T20:00:00Z",
			"2027-10-02T15:30:00Z 2027-10-03T15:15:00Z"},
		{"a change of half an hour back", "CRON_TZ=Australia/Lord_Howe 45 1 * * *", "2027-04-02T20:00:00Z",
			"2027-04-03T14:45:00Z 2027-04-04T15:15:00Z"},
		{"a midnight that is skipped", "CRON_TZ=America/Havana 0 0 * * *", "2027-03-13T06:00:00Z",
			"2027-03-14T05:00:00Z 2027-03-15T04:00:00Z"},
		{"a midnight that comes twice", "CRON_TZ=America/Havana 0 0 * * *", "2027-11-06T12:00:00Z",
			"2027-11-07T04:00:00Z 2027-11-08T05:00:00Z"},
		{"a day that a zone left out", "CRON_TZ=Pacific/Apia 0 12 * * *", "2011-12-29T00:00:00Z",
			"2011-12-29T22:00:00Z 2011-12-30T10:00:00Z 2011-12-30T22:00:00Z"},
		{"UTC has no changes", "30 2 * * *", "2027-03-28T00:00:00Z",
			"2027-03-28T02:30:00Z 2027-03-29T02:30:00Z"},
		{"a fixed interval", "CRON_TZ=Europe/Berlin @every 90m", "2027-03-28T00:00:00Z",
			"2027-03-28T01:30:00Z 2027-03-28T03:00:00Z"},
		{"a leap day", "0 0 29 2 *", "2024-03-01T00:00:00Z", "2028-02-29T00:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := parse(t, c.schedule)
			want := strings.Fields(c.want)
			if got := times(t, c.from, len(want), s.Next); got != c.want {
				t.Errorf("%s after %s:\n got %s\nwant %s", c.schedule, c.from, got, c.want)
			}
		})
	}
}

func TestAsCronJobSkipsAndRepeatsAsKubernetesDoes(t *testing.T) {
	s := parse(t, "CRON_TZ=Europe/Berlin 30 2 * * *").AsCronJob()
	if got, want := times(t, "2027-03-27T00:00:00Z", 2, s.Next), "2027-03-27T01:30:00Z 2027-03-29T00:30:00Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := s.Longest(), 47*time.Hour; got != want {
		t.Errorf("longest %v, want %v", got, want)
	}
}

// Runs never come out of order, twice, or on the wrong wall time, whatever the zone does.
func TestNextIsMonotonic(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "Europe/Dublin", "America/Havana", "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Gaza", "America/Scoresbysund", "Asia/Kathmandu"} {
		for _, expression := range []string{"30 2 * * *", "0 0 * * *", "*/20 * * * *", "15,45 1-3 * * *", "0 */2 * * *", "59 23 * * 6,0"} {
			s := parse(t, "CRON_TZ="+zone+" "+expression)
			last := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
			location, _ := time.LoadLocation(zone)
			for last.Year() < 2027 {
				next := s.Next(last)
				if !next.After(last) {
					t.Fatalf("%s: %v follows %v", s, next, last)
				}
				if previous := s.Previous(next); !previous.Equal(next) {
					t.Fatalf("%s: Previous(%v) = %v", s, next, previous)
				}
				if between := s.Next(last.Add(next.Sub(last) / 2)); !between.Equal(next) {
					t.Fatalf("%s: %v follows %v, but %v follows the middle", s, next, last, between)
				}
				if begin, _ := next.In(location).ZoneBounds(); !begin.Equal(next) && !parse(t, expression).Next(toWall(next.In(location)).Add(-1)).Equal(toWall(next.In(location))) {
					t.Fatalf("%s runs at %v", s, next.In(location))
				}
				last = next
			}
		}
	}
}

func TestPrevious(t *testing.T) {
	now := time.Date(2025, time.June, 1, 3, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"0 0 * * *":                        "2025-06-01T00:00:00Z",
		"0 3 * * *":                        "2025-06-01T03:00:00Z",
		"1 3 * * *":                        "2025-05-31T03:01:00Z",
		"* * * * *":                        "2025-06-01T03:00:00Z",
		"*/5 4 * * *":                      "2025-05-31T04:55:00Z",
		"0 0 29 2 *":                       "2024-02-29T00:00:00Z",
		"0 0 1 1 *":                        "2025-01-01T00:00:00Z",
		"CRON_TZ=Europe/Berlin 0 1 * * *":  "2025-05-31T23:00:00Z",
		"CRON_TZ=Europe/Berlin 30 2 * * *": "2025-06-01T00:30:00Z",
	} {
		if got := parse(t, text).Previous(now).Format(time.RFC3339); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestLongest(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0 0 * * *":                          day,
		"*/5 * * * *":                        5 * time.Minute,
		"0 8,20 * * *":                       12 * time.Hour,
		"0 8,10 * * *":                       22 * time.Hour,
		"0 0 * * 1-5":                        3 * day,                    // over the weekend
		"0 0 1 * *":                          31 * day,                   // a month
		"30 1 29 2 *":                        (4*365 + 1) * day,          // leap years
		"0 0 * 1 *":                          (365 - 30 + 1) * day,       // January alone, of a leap year
		"* * * 1 *":                          (366-31)*day + time.Minute, // the same, dense
		"@every 90m":                         90 * time.Minute,
		"CRON_TZ=Europe/Berlin 30 2 * * *":   25 * time.Hour,
		"CRON_TZ=Europe/Berlin 20 * * * *":   time.Hour,
		"CRON_TZ=Europe/Berlin 0 0,12 * * *": 13 * time.Hour,
	} {
		for range 2 { // the second result is a cached one
			if got := parse(t, text).Longest(); got != want {
				t.Errorf("%s: %s, want %s", text, got, want)
			}
		}
	}
}

func TestZeroScheduleNeverRuns(t *testing.T) {
	var s Schedule
	if !s.IsZero() || !s.Next(firstYear).IsZero() || !s.Previous(firstYear).IsZero() || s.Every() != 0 {
		t.Error("the zero schedule runs")
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"TZ=UTC", "CRON_TZ=Europe/Berlin 30 2 * * *", "@every 1ns", "*/5,1-3 0 ? JAN 5L", "TZ= ", "CRON_TZ=Local @daily", "\t"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		next := s.Next(firstYear)
		if !next.After(firstYear) {
			t.Fatalf("%q: %v follows %v", text, next, firstYear)
		}
		if again := parse(t, s.String()); !again.Next(firstYear).Equal(next) {
			t.Fatalf("%q: String does not parse back", text)
		}
	})
}

func parse(t *testing.T, text string) Schedule {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// times formats n runs after from.
func times(t *testing.T, from string, n int, next func(time.Time) time.Time) string {
	t.Helper()
	at, err := time.Parse(time.RFC3339, from)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for range n {
		at = next(at)
		all = append(all, at.UTC().Format(time.RFC3339))
	}
	return strings.Join(all, " ")
}
