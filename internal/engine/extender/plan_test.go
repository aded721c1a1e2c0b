package extender

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

var born = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

const fourDays = 4 * immutability.Day

func of(kind Kind, lock *immutability.Retention) subject {
	n := snapshot.Name{Kind: snapshot.Full, Last: 10, Created: born.Unix()}
	return subject{kind: kind, ref: timeline.Ref{Key: snapshot.SnapshotKey("p", n), Version: "1"}, retention: lock, created: born}
}

func until(d time.Duration) *immutability.Retention {
	return &immutability.Retention{Mode: immutability.ModeCompliance, Until: born.Add(d)}
}

func TestEachObjectGetsWhatItNeeds(t *testing.T) {
	held, none := until(fourDays), &immutability.Retention{Mode: immutability.ModeNone}
	held.Hold = true
	inPlace := immutability.Means{Retention: true, Copy: true, Default: immutability.ModeCompliance, Period: fourDays}
	copying := immutability.Means{Copy: true, Default: immutability.ModeCompliance, Period: fourDays}
	for name, c := range map[string]struct {
		subject subject
		means   immutability.Means
		age     time.Duration
		ways    []immutability.Way
		reason  immutability.ExtensionReason
		broken  bool
	}{
		"young":                             {of(Full, until(fourDays)), inPlace, immutability.Day, nil, immutability.ExtensionEnough, false},
		"half its period is over":           {of(Full, until(fourDays)), inPlace, 2*immutability.Day + time.Second, []immutability.Way{immutability.WayRetention, immutability.WayCopy, immutability.WayStream}, immutability.ExtensionDue, false},
		"its lock has ended":                {of(Full, until(fourDays)), copying, 5 * immutability.Day, []immutability.Way{immutability.WayCopy, immutability.WayStream}, immutability.ExtensionEnded, false},
		"held":                              {of(Full, held), inPlace, 30 * immutability.Day, nil, immutability.ExtensionHold, false},
		"written before the bucket locked":  {of(Full, none), inPlace, immutability.Day, []immutability.Way{immutability.WayCopy, immutability.WayStream}, immutability.ExtensionNoLock, false},
		"never locked, and nothing locks":   {of(Full, none), immutability.Means{Retention: true, Copy: true, Default: immutability.ModeNone}, 0, nil, immutability.ExtensionNoLock, true},
		"its lock is not told":              {of(Full, nil), inPlace, 3 * immutability.Day, nil, immutability.ExtensionUnknown, true},
		"an owner record, in place":         {of(Owner, until(fourDays)), inPlace, 3 * immutability.Day, []immutability.Way{immutability.WayRetention}, immutability.ExtensionDue, false},
		"an owner record, where copies are": {of(Owner, until(fourDays)), copying, 3 * immutability.Day, nil, immutability.ExtensionDue, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := decide([]subject{c.subject}, immutability.ExtensionPolicy{Period: fourDays}, c.means, born.Add(c.age))[0]
			if !slices.Equal(s.ways, c.ways) || s.Reason != c.reason || s.broken() != c.broken {
				t.Errorf("ways %q because %s, broken %v; want %q because %s, broken %v", s.ways, s.Reason, s.broken(), c.ways, c.reason, c.broken)
			}
		})
	}
}

func TestWhatWasNeverProlongedIsReadFirst(t *testing.T) {
	means := immutability.Means{Retention: true, Default: immutability.ModeCompliance, Period: fourDays}
	sampled := func(sampled bool) subject {
		s := of(Full, until(6*immutability.Day))
		for i := 0; immutability.Sampled(s.ref.Key.String(), s.ref.Version, s.retention.Until) != sampled; i++ {
			s.ref.Version = strconv.Itoa(i)
		}
		return s
	}
	for name, c := range map[string]struct {
		subjects []subject
		verify   Verify
		age      time.Duration
		want     bool
	}{
		"nothing is due":                          {[]subject{of(Full, until(fourDays))}, VerifyFirst, immutability.Day, false},
		"nothing is due, and always wanted":       {[]subject{of(Full, until(fourDays))}, VerifyAlways, immutability.Day, true},
		"due for the first time":                  {[]subject{of(Full, until(fourDays))}, VerifyFirst, 3 * immutability.Day, true},
		"due for the first time, and not wanted":  {[]subject{of(Full, until(fourDays))}, VerifyNever, 3 * immutability.Day, false},
		"only the delta was never prolonged":      {[]subject{of(Full, until(6*immutability.Day)), of(Delta, until(fourDays))}, VerifyFirst, 5 * immutability.Day, true},
		"prolonged before, and not in the sample": {[]subject{of(Full, until(6*immutability.Day))}, VerifyFirst, 5 * immutability.Day, false},
		"prolonged before, and always wanted":     {[]subject{of(Full, until(6*immutability.Day))}, VerifyAlways, 5 * immutability.Day, true},
		"prolonged before, and in the sample":     {[]subject{sampled(true)}, VerifyFirst, 5 * immutability.Day, true},
		"prolonged before, and in no sample":      {[]subject{sampled(false)}, VerifyFirst, 5 * immutability.Day, false},
		"only a record is due":                    {[]subject{of(Full, until(6*immutability.Day)), of(Owner, until(fourDays))}, VerifyFirst, 3 * immutability.Day, false},
	} {
		t.Run(name, func(t *testing.T) {
			steps := decide(c.subjects, immutability.ExtensionPolicy{Period: fourDays}, means, born.Add(c.age))
			if got, why := mustRead(steps, c.verify); got != c.want || (why == "") != got {
				t.Errorf("%v because %q, want %v", got, why, c.want)
			}
		})
	}
}
