package immutability

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// runs are the moments at which runs begin, from when an object was locked: on a schedule with any phase, each of them late
// by up to slack, and now and then one that somebody starts by hand. Of each pair of runs by schedule one may be missed.
func runs(r *rand.Rand, every, slack, total time.Duration, missed bool) []time.Duration {
	var all []time.Duration
	last := false
	for at := time.Duration(r.Int64N(int64(every))) + 1; at < total; at += every {
		if last = missed && !last && r.IntN(3) == 0; last {
			continue
		}
		all = append(all, at+time.Duration(r.Int64N(int64(slack)+1)))
		if r.IntN(4) == 0 {
			all = append(all, at+time.Duration(r.Int64N(int64(every))))
		}
	}
	slices.Sort(all)
	return all
}

// lapses lives through the runs and says when the lock had ended before the run that came next.
func lapses(p ExtensionPolicy, runs []time.Duration) (at time.Duration, changes int, lapsed bool) {
	lock := &Retention{Mode: ModeCompliance, Until: noon.Add(p.Period)}
	for _, at := range runs {
		now := noon.Add(at)
		if !lock.Protected(now, 0).Protected {
			return at, changes, true
		}
		if e := PlanExtension([]Subject{{Key: "key", Retention: lock}}, p, now)[0]; e.Extend {
			lock = &Retention{Mode: ModeCompliance, Until: e.Until}
			changes++
		}
	}
	return 0, changes, false
}

// Of any period and interval that the documentation allows, and as late as it allows runs to be, a lock never ends.
func TestALockNeverLapsesWhereTheUpkeepHolds(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	for range 20000 {
		p := ExtensionPolicy{Every: time.Minute + time.Duration(r.Int64N(int64(40*24*time.Hour))), Copies: r.IntN(2) == 0}
		u := Upkeep{Every: p.Every}
		p.Period = u.Needs() + time.Duration(r.ExpFloat64()*float64(p.Every)).Truncate(time.Second)
		if r.IntN(3) == 0 {
			p.Period = max(u.Needs(), time.Duration(1+r.IntN(4))*p.Every+time.Duration(r.Int64N(int64(2*time.Second))))
		}
		slack := p.margin() / 2 // the other half is for a run to be through, and for clocks
		all := runs(r, p.Every, slack, 40*p.Every, false)
		if at, _, lapsed := lapses(p, all); lapsed {
			t.Fatalf("a period of %s with a run every %s, late by up to %s, copies %t: it had ended before the run at %s, of %v", p.Period, p.Every, slack, p.Copies, at, all)
		}
	}
}

// Where the period has room for it, a run may be missed.
func TestARunMayBeMissedWhereThePeriodHasRoom(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 2))
	for range 20000 {
		p := ExtensionPolicy{Every: time.Hour + time.Duration(r.Int64N(int64(20*24*time.Hour))), Copies: r.IntN(2) == 0}
		room := 2*p.Every + 2*RunMargin
		if p.Copies {
			room = 2 * (2*p.Every + RunMargin)
		}
		p.Period = room + time.Duration(r.ExpFloat64()*float64(p.Every)).Truncate(time.Second)
		if p.margin() < RunMargin {
			continue
		}
		if at, _, lapsed := lapses(p, runs(r, p.Every, RunMargin/2, 40*p.Every, true)); lapsed {
			t.Fatalf("a period of %s with a run every %s, copies %t: it had ended before the run at %s", p.Period, p.Every, p.Copies, at)
		}
	}
}

// Nobody tells how often runs come: then it is daily, as the documentation asks for, from a period of 25 hours on.
func TestALockNeverLapsesWithDailyRunsOfWhichNobodyTells(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 3))
	for range 20000 {
		p := ExtensionPolicy{Period: 25*time.Hour + time.Duration(r.Int64N(int64(60*24*time.Hour))), Copies: r.IntN(2) == 0}
		if r.IntN(2) == 0 {
			p.Period = time.Duration(2+r.IntN(4)) * 24 * time.Hour
		}
		if at, _, lapsed := lapses(p, runs(r, 24*time.Hour, 30*time.Minute, 60*24*time.Hour, false)); lapsed {
			t.Fatalf("a period of %s with daily runs, copies %t: it had ended before the run at %s", p.Period, p.Copies, at)
		}
	}
}

// A copy costs what the backup has, so there is one in nearly a period; in place it is one request in half a period.
func TestCopiesAreAsRareAsThePeriodAllows(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		period time.Duration
		copies bool
		want   int // changes in 60 days
	}{
		"two days, copied":    {2 * day, true, 59},
		"four days, copied":   {4 * day, true, 19},
		"eight days, copied":  {8 * day, true, 9},
		"a month, copied":     {30 * day, true, 2},
		"two days, in place":  {2 * day, false, 59},
		"four days, in place": {4 * day, false, 29},
		"a month, in place":   {30 * day, false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var daily []time.Duration
			for i := 1; i < 60; i++ {
				daily = append(daily, time.Duration(i)*day+time.Duration(i%7)*time.Second)
			}
			if _, got, lapsed := lapses(ExtensionPolicy{Period: c.period, Copies: c.copies}, daily); lapsed || got != c.want {
				t.Errorf("%d changes, lapsed %t; want %d", got, lapsed, c.want)
			}
		})
	}
}

func TestTheUpkeepTellsItsArithmetic(t *testing.T) {
	for want, u := range map[string]Upkeep{
		"locks last for 48h from a run, and the next one may be through after 25h (24h between two, 1h for one that is late or takes long, and for clocks)": {48 * time.Hour, 24 * time.Hour},
		"locks last for 96h from a run, and the next one may be through after 169h (168h between two, 1h for one that is late or takes long, and for clocks): they may be missing for up to 73h": {
			96 * time.Hour, 168 * time.Hour},
	} {
		if got := u.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	// A policy and the arithmetic are of one mind: what the arithmetic allows is never left alone for longer than it lasts.
	for _, every := range []time.Duration{time.Minute, 8 * time.Hour, 9 * time.Hour, 10 * time.Hour, 24 * time.Hour, 168 * time.Hour} {
		u := Upkeep{Every: every}
		if p := (ExtensionPolicy{Period: u.Needs(), Every: every}); p.Rest() > p.Period+time.Second {
			t.Errorf("every %s: %s have to be left, and no lock is longer than %s", every, p.Rest(), p.Period)
		}
	}
}
