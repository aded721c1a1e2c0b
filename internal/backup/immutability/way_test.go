package immutability

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

func TestTheWaysAreThoseThatCanProlong(t *testing.T) {
	locked, none := &Retention{Mode: ModeCompliance, Until: time.Unix(9e8, 0)}, &Retention{Mode: ModeNone}
	for name, c := range map[string]struct {
		means Means
		lock  *Retention
		want  []Way
	}{
		"object lock":                                 {Means{Retention: true, Copy: true, Default: ModeCompliance, Period: Day}, locked, []Way{WayRetention, WayCopy, WayStream}},
		"object lock without a default":               {Means{Retention: true, Copy: true, Default: ModeNone}, locked, []Way{WayRetention}},
		"advisory":                                    {Means{Retention: true, Hold: true, Default: ModeNone}, &Retention{Mode: ModeAdvisory, Until: time.Unix(9e8, 0)}, []Way{WayRetention, WayHold}},
		"written before the default":                  {Means{Retention: true, Hold: true, Copy: true, Default: ModeCompliance, Period: Day}, none, []Way{WayCopy, WayStream}},
		"a bucket's policy, with holds":               {Means{Hold: true, Copy: true, Default: ModeGovernance, Period: Day}, locked, []Way{WayHold, WayCopy, WayStream}},
		"a bucket's policy":                           {Means{Copy: true, Default: ModeGovernance, Period: Day}, locked, []Way{WayCopy, WayStream}},
		"a bucket's policy, and no copies":            {Means{Default: ModeGovernance, Period: Day}, locked, []Way{WayStream}},
		"a policy that is not told":                   {Means{Copy: true, Default: ModeUnknown}, locked, []Way{WayCopy, WayStream}},
		"a policy that is not told, and no lock":      {Means{Retention: true, Hold: true, Copy: true, Default: ModeUnknown}, none, nil},
		"a mode without a period":                     {Means{Copy: true, Default: ModeGovernance}, locked, nil},
		"nothing locks":                               {Means{Retention: true, Hold: true, Copy: true, Default: ModeNone}, none, nil},
		"a lock that is not told, in a locked bucket": {Means{Retention: true, Copy: true, Default: ModeCompliance, Period: Day}, nil, []Way{WayCopy, WayStream}},
	} {
		if got := c.means.Ways(c.lock); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for w, want := range map[Way]bool{WayRetention: false, WayHold: false, WayCopy: true, WayStream: true} {
		if w.Moves() != want {
			t.Errorf("%s moves: %v", w, w.Moves())
		}
	}
}

func TestALockIsOriginalUntilItWasProlonged(t *testing.T) {
	made := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *Retention { return &Retention{Mode: ModeCompliance, Until: made.Add(d)} }
	for name, c := range map[string]struct {
		lock *Retention
		want bool
	}{
		"as it was made":           {at(4 * Day), true},
		"made shorter than usual":  {at(Day), true},
		"made a little later":      {at(4*Day + time.Hour), true},
		"prolonged":                {at(4*Day + time.Hour + time.Second), false},
		"not told":                 {nil, true},
		"a hold that has no end":   {&Retention{Mode: ModeUnknown, Hold: true}, true},
		"prolonged after one half": {at(6 * Day), false},
	} {
		if got := c.lock.Original(made, 4*Day); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !at(90*Day).Original(time.Time{}, 4*Day) {
		t.Error("of what nobody knows when it was made")
	}
}

func TestASampleIsATenthAndAlwaysTheSame(t *testing.T) {
	chosen := 0
	for i := range 10_000 {
		until := time.Unix(int64(1_700_000_000+i*3600), 0)
		got := Sampled("a/v2/Full-1", strconv.Itoa(i%3), until)
		if got != Sampled("a/v2/Full-1", strconv.Itoa(i%3), until.UTC()) {
			t.Fatal("asked twice, it says something else")
		}
		if got {
			chosen++
		}
	}
	if chosen < 900 || chosen > 1100 {
		t.Errorf("%d of 10000, want a tenth", chosen)
	}
}
