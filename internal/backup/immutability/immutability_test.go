package immutability

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// rounds is how many random cases a property test looks at.
const rounds = 50_000

// someRetention is a random answer of a store, nil and nonsense included, with dates around noon.
func someRetention(r *rand.Rand) *Retention {
	if r.IntN(8) == 0 {
		return nil
	}
	words := append([]Mode{"", "locked", "COMPLIANCE"}, modes[:]...)
	ret := &Retention{Mode: words[r.IntN(len(words))], Hold: r.IntN(6) == 0}
	switch r.IntN(4) {
	case 0, 1:
		ret.Until = noon.Add(time.Duration(r.Int64N(int64(400*time.Hour))) - 100*time.Hour)
	case 2:
		ret.Until = noon.Add(time.Duration(r.IntN(120)-60) * time.Minute)
	}
	if r.IntN(20) == 0 {
		ret.Until = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	}
	return ret
}

func someTime(r *rand.Rand) time.Time {
	if r.IntN(10) == 0 {
		return time.Time{}
	}
	return noon.Add(time.Duration(r.Int64N(int64(2*time.Hour))) - time.Hour)
}

func TestModesAreOrderedByStrength(t *testing.T) {
	want := []Mode{ModeNone, ModeUnknown, ModeAdvisory, ModeGovernance, ModeCompliance}
	for i, a := range want {
		for j, b := range want {
			if got := Compare(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("Compare(%s, %s) = %d", a, b, got)
			}
			if got := Weakest(a, b); got != want[min(i, j)] {
				t.Errorf("Weakest(%s, %s) = %s", a, b, got)
			}
		}
		if got, wantLocks := a.Locks(), i >= 2; got != wantLocks {
			t.Errorf("%s.Locks() = %t", a, got)
		}
	}
}

func TestAWordThatIsNoModeIsUnknown(t *testing.T) {
	for _, m := range []Mode{"", "COMPLIANCE", "locked"} {
		if m.String() != "unknown" || m.Locks() || Compare(m, ModeUnknown) != 0 {
			t.Errorf("%q: String %s, Locks %t", string(m), m, m.Locks())
		}
		if got, err := ParseMode(string(m)); err == nil {
			t.Errorf("ParseMode(%q) = %s", string(m), got)
		}
	}
}

func TestParsingUndoesFormatting(t *testing.T) {
	for _, want := range modes {
		got, err := ParseMode(want.String())
		if err != nil || got != want {
			t.Errorf("ParseMode(%q) = %q, %v", want.String(), got, err)
		}
	}
}

func FuzzParseMode(f *testing.F) {
	for _, m := range modes {
		f.Add(string(m))
	}
	f.Add("Compliance")
	f.Fuzz(func(t *testing.T, s string) {
		if m, err := ParseMode(s); err == nil && m.String() != s {
			t.Errorf("ParseMode(%q) = %s", s, m)
		}
	})
}

func TestTheStoresClockIsNeverOutrunWhenDeletingNorLaggedWhenExtending(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range rounds {
		c := Clock{Server: someTime(r), Local: someTime(r)}
		del, ext := c.ForDeletion(), c.ForExtension()
		if !c.Server.IsZero() && (del.After(c.Server) || ext.Before(c.Server) || ext.After(c.Server.Add(MaxSkew))) {
			t.Fatalf("%+v: deletion by %s, extension by %s", c, del, ext)
		}
		if c.Server.IsZero() && !c.Local.IsZero() && (!del.Before(c.Local) || !ext.After(c.Local)) {
			t.Fatalf("%+v without the store's clock: deletion by %s, extension by %s", c, del, ext)
		}
		if c == (Clock{}) && (!del.IsZero() || !ext.IsZero()) {
			t.Fatalf("no clock: deletion by %s, extension by %s", del, ext)
		}
	}
}

func TestSkewIsToldWhenBothClocksAreKnown(t *testing.T) {
	if got, ok := (Clock{Server: noon, Local: noon.Add(time.Minute)}).Skew(); !ok || got != time.Minute {
		t.Errorf("Skew() = %s, %t", got, ok)
	}
	for _, c := range []Clock{{Server: noon}, {Local: noon}, {}} {
		if got, ok := c.Skew(); ok {
			t.Errorf("%+v: Skew() = %s", c, got)
		}
	}
}

func TestOnlyWhatIsKnownToBeFreeMayBeDeleted(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	free := 0
	for range rounds {
		ret, now := someRetention(r), someTime(r)
		margin := time.Duration(r.IntN(40)-10) * time.Minute
		got := ret.Protected(now, margin)
		if got.Protected {
			if !got.Until.IsZero() && !now.IsZero() && (ret == nil || got.Until.Before(now)) {
				t.Fatalf("%+v at %s: %+v ends in the past", ret, now, got)
			}
			if !got.Until.IsZero() && ret.Protected(got.Until.Add(1), margin).Protected {
				t.Fatalf("%+v: %+v still protects after its end", ret, got)
			}
			continue
		}
		free++
		known := ret != nil && !ret.Hold && (ret.Mode == ModeNone || ret.Mode.Locks())
		ended := known && !ret.Until.IsZero() && !now.IsZero() && now.After(ret.Until) && now.After(ret.Until.Add(margin))
		never := known && ret.Until.IsZero() && ret.Mode == ModeNone
		if !ended && !never {
			t.Fatalf("%+v at %s with margin %s: %+v", ret, now, margin, got)
		}
	}
	if free < rounds/20 {
		t.Errorf("only %d of %d cases were free: the property was hardly tried", free, rounds)
	}
}

func TestWhatIsReportedAsProtectedIsNeverDeletable(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	reported := 0
	for range rounds {
		var rs []*Retention
		for range 1 + r.IntN(3) {
			rs = append(rs, someRetention(r))
		}
		now := someTime(r)
		s := Summarize(rs, now)
		if !s.Protected() {
			if !s.Until.IsZero() || s.Held {
				t.Fatalf("not protected, but %+v", s)
			}
			continue
		}
		reported++
		if s.Unknown+s.Unprotected != 0 || s.Objects != len(rs) {
			t.Fatalf("protected, but %+v", s)
		}
		for _, ret := range rs {
			if !ret.Protected(now, 0).Protected {
				t.Fatalf("%+v is deletable at %s inside of %+v", ret, now, s)
			}
			// At any moment up to the end that was told, too.
			if !s.Until.IsZero() && !ret.Protected(s.Until, 0).Protected {
				t.Fatalf("%+v is deletable at the end told by %+v", ret, s)
			}
		}
		r.Shuffle(len(rs), func(i, j int) { rs[i], rs[j] = rs[j], rs[i] })
		if diff := cmp.Diff(s, Summarize(rs, now)); diff != "" {
			t.Fatalf("the order matters: %s", diff)
		}
	}
	if reported < rounds/20 {
		t.Errorf("only %d of %d cases were protected: the property was hardly tried", reported, rounds)
	}
}

func TestExtendingNeverShortensNeverExceedsALimitAndSettles(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	extended := 0
	for range rounds {
		policy := ExtensionPolicy{
			Period: time.Duration(r.Int64N(int64(200*time.Hour))) - time.Hour,
			Limit:  time.Duration(r.Int64N(int64(200*time.Hour))) - 50*time.Hour,
			Every:  max(0, time.Duration(r.Int64N(int64(100*time.Hour)))-30*time.Hour),
			Copies: r.IntN(2) == 0,
		}
		if r.IntN(3) == 0 {
			policy.NotAfter = someTime(r).Add(time.Duration(r.IntN(200)-50) * time.Hour)
		}
		now := someTime(r)
		s := Subject{Key: "key", Retention: someRetention(r)}
		e := PlanExtension([]Subject{s}, policy, now)[0]
		if !e.Extend {
			if !e.Until.IsZero() {
				t.Fatalf("not extended, but %+v", e)
			}
			continue
		}
		extended++
		old := s.Retention
		switch {
		case old == nil, old.Hold, !old.Mode.Locks():
			t.Fatalf("extends what has no lock to extend: %+v", e)
		case !e.Until.After(old.Until), !e.Until.After(now):
			t.Fatalf("%+v at %s would shorten", e, now)
		case old.Until.Sub(now) >= policy.Due():
			t.Fatalf("%+v at %s is not due", e, now)
		case policy.Limit > 0 && e.Until.After(now.Add(policy.Limit+time.Second)):
			t.Fatalf("%+v at %s exceeds %s", e, now, policy.Limit)
		case !policy.NotAfter.IsZero() && e.Until.After(policy.NotAfter):
			t.Fatalf("%+v exceeds %s", e, policy.NotAfter)
		case e.Until.Nanosecond() != 0:
			t.Fatalf("%+v is not a whole second", e)
		}
		s.Retention = &Retention{Mode: old.Mode, Until: e.Until}
		if again := PlanExtension([]Subject{s}, policy, now)[0]; again.Extend {
			t.Fatalf("extends twice at the same moment: %+v, then %+v", e, again)
		}
	}
	if extended < rounds/20 {
		t.Errorf("only %d of %d cases were extended: the property was hardly tried", extended, rounds)
	}
}

func TestAHibernatedChainStaysLockedWhenPlannedEveryFewHours(t *testing.T) {
	for name, c := range map[string]struct{ period, every time.Duration }{
		"four days, planned every six hours":      {96 * time.Hour, 6 * time.Hour},
		"a month, planned daily":                  {720 * time.Hour, 24 * time.Hour},
		"one day, planned every twenty hours":     {24 * time.Hour, 20 * time.Hour},
		"ten minutes, planned every five minutes": {10 * time.Minute, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			policy := ExtensionPolicy{Period: c.period}
			lock := &Retention{Mode: ModeCompliance, Until: noon.Add(c.period)}
			requests := 0
			for i := range 400 {
				now := noon.Add(time.Duration(i) * c.every)
				if !lock.Protected(now, 0).Protected {
					t.Fatalf("not locked any more at %s", now)
				}
				if e := PlanExtension([]Subject{{Key: "key", Retention: lock}}, policy, now)[0]; e.Extend {
					lock = &Retention{Mode: ModeCompliance, Until: e.Until}
					requests++
				}
			}
			t.Logf("%d requests in 400 runs", requests)
			if half := c.period / 2; half >= MinRest && requests > int(400*c.every/half)+1 {
				t.Errorf("%d requests in 400 runs", requests)
			}
		})
	}
}

func TestALockCoversWhatWasAskedForIfItIsNoWeakerAndNoShorter(t *testing.T) {
	end := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	asked := Retention{Mode: ModeGovernance, Until: end.Add(time.Millisecond)}
	held := Retention{Hold: true}
	cases := map[string]struct {
		got   *Retention
		asked Retention
		want  bool
	}{
		"the same, to the second":  {&Retention{Mode: ModeGovernance, Until: end}, asked, true},
		"stronger and longer":      {&Retention{Mode: ModeCompliance, Until: end.Add(time.Hour)}, asked, true},
		"weaker":                   {&Retention{Mode: ModeAdvisory, Until: end.Add(time.Hour)}, asked, false},
		"shorter":                  {&Retention{Mode: ModeCompliance, Until: end.Add(-time.Second)}, asked, false},
		"none":                     {&Retention{Mode: ModeNone}, asked, false},
		"not told":                 {nil, asked, true},
		"of unknown kind":          {&Retention{Mode: ModeUnknown}, asked, true},
		"a hold, none there":       {&Retention{Mode: ModeNone}, held, false},
		"a hold":                   {&Retention{Mode: ModeNone, Hold: true}, held, true},
		"nothing asked, all there": {&Retention{Mode: ModeCompliance, Until: end, Hold: true}, Retention{}, true},
	}
	for name, c := range cases {
		if got := c.got.Covers(c.asked); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
