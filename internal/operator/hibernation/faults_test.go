package hibernation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
)

// fault comes at a step, the nth of its name.
type fault struct {
	step string
	nth  int
	kind
}

func (f fault) String() string { return fmt.Sprintf("%s #%d: %s", f.step, f.nth, f.what) }

// kind is what goes wrong, so many times one after the other.
type kind struct {
	what   string
	times  int
	absent bool // is the operator
	strike func(w *town) (goes, answered bool)
}

// outage is how long a bucket is away, or locks for minutes. absence is how long nobody follows an operator: members serve clients
// again, and what was proven counts.
const (
	outage  = 2 * time.Hour
	absence = 2 * RefuseFor
)

var kinds = []kind{
	{what: "it is refused", times: 1, strike: func(*town) (bool, bool) { return false, false }},
	{what: "it is refused five times", times: 5, strike: func(*town) (bool, bool) { return false, false }},
	{what: "its answer is lost", times: 1, strike: func(*town) (bool, bool) { return true, false }},
	{what: "the operator dies before it", times: 1, strike: func(w *town) (bool, bool) { w.dead = true; return false, false }},
	{what: "the operator dies after it", times: 1, strike: func(w *town) (bool, bool) { w.dead = true; return true, false }},
	{what: "the operator dies after it, and nobody follows", times: 1, absent: true, strike: func(w *town) (bool, bool) {
		w.dead, w.nobody, w.ending = true, w.now.Add(absence), RefuseLeast
		for _, m := range w.members {
			if end := w.now.Add(w.ending); m.ends.After(end) {
				m.ends = end
			}
		}
		return true, false
	}},
	{what: "the operator dies after it, and the specification changes", times: 1, strike: func(w *town) (bool, bool) { w.dead = true; w.wants(!w.f.Wanted); return true, false }},
	{what: "somebody deletes the task", times: 1, strike: func(w *town) (bool, bool) { w.extending = false; return true, true }},
	{what: "a member is started anew", times: 1, strike: func(w *town) (bool, bool) { w.anew = true; return true, true }},
	{what: "extensions tell no dates from then on", times: 1, strike: func(w *town) (bool, bool) { w.mute = w.now.Add(outage); return true, true }},
	{what: "the bucket is away from then on", times: 1, strike: func(w *town) (bool, bool) { w.away = w.now.Add(outage); return true, true }},
	{what: "the bucket locks for minutes from then on", times: 1, strike: func(w *town) (bool, bool) { w.weak = w.now.Add(outage); return true, true }},
	{what: "the final full turns out corrupt", times: 1, strike: func(w *town) (bool, bool) {
		if w.recorded() == nil {
			w.spoil = 1
		} else { // without volumes there would be nothing left
			w.rots = w.f.Keep
		}
		return true, true
	}},
}

// skews are clocks that are wrong by as much as they may be.
var skews = map[string]clocks{
	"all clocks are right":                         {},
	"the operator's is ahead, the next one's late": {operator: Clocks, next: -Clocks},
	"the operator's is late, the next one's ahead": {operator: -Clocks, next: Clocks},
	"the next operator's is a little late":         {next: -Clocks + 5*time.Minute},
	"those of the sidecars are ahead":              {sidecars: Clocks},
	"those of the sidecars are late":               {sidecars: -Clocks},
	"that of the store is ahead":                   {store: Clocks},
	"that of the store is late":                    {store: -Clocks},
}

// do takes a step of the operator; false: it was told that it failed, or is dead.
func (w *town) do(step string, effect func()) bool {
	if w.dead {
		return false
	}
	w.steps = append(w.steps, step)
	goes, answered := w.meets(step)
	if goes {
		effect()
	}
	return answered
}

func (w *town) meets(step string) (goes, answered bool) {
	f := w.fault
	if f == nil || f.step != step || w.hits == f.times || w.took(step) < f.nth {
		return true, true
	}
	w.hits++
	return f.strike(w)
}

func (w *town) took(step string) (n int) {
	for _, s := range w.steps {
		if s == step {
			n++
		}
	}
	return n
}

// until lets time pass, the faster the longer nothing was done, until something is so.
func (w *town) until(what string, fact func(Step) bool) {
	idle, before := 0, 0
	for end := w.now.Add(outage + 2*time.Hour); w.now.Before(end); idle++ {
		if len(w.steps) != before || w.attempt.full != nil {
			idle, before = 0, len(w.steps)
		}
		pace := 2 * time.Second
		if idle > 30 {
			pace = time.Minute
		}
		w.pass(pace)
		if fact(w.look()) {
			return
		}
	}
	w.note("%s; %+v", what, w.look())
}

// wants has the specification want members, or none.
func (w *town) wants(wanted bool) {
	w.f.Wanted, w.changed = wanted, w.now
	w.f.Generation++
}

// days are a cluster's sleep, that it wakes up, and that it falls asleep again. It returns the steps up to then.
func (w *town) days() (steps []string) {
	asleep := func(s Step) bool {
		return w.f.Wanted || s.Asleep && w.extending && (w.f.Keep || w.f.Claims == 0)
	}
	awake := func(s Step) bool {
		serves := !slices.ContainsFunc(w.members, func(m *townsman) bool { return !m.linked || !m.serves(w.now) })
		return !w.f.Wanted || s == Step{} && serves && w.open && w.f.Record == nil && !w.extending
	}
	w.wants(false)
	w.until("it does not fall asleep", asleep)
	for end := w.now.Add(3 * 24 * time.Hour); !w.f.Wanted && w.now.Before(end); {
		w.pass(2 * time.Hour)
		w.look()
	}
	w.wants(true)
	w.until("it does not wake up", awake)
	steps = slices.Clone(w.steps)
	w.rots = false // what it falls asleep with next is another one
	w.wants(false)
	w.until("it does not fall asleep again", asleep)
	return steps
}

// Whatever step of a sleep and of what comes after it goes wrong, in whatever way and by whatever clocks: the members stop, and
// volumes go, with a backup that is proven, complete and protected; it stays so until there is a newer one, and in the end
// the cluster sleeps, or is awake, as if nothing had been.
func TestFaultsAtEachStepOfASleep(t *testing.T) {
	for phrase, change := range map[string]func(w *town){
		"the volumes stay": func(*town) {},
		"the volumes go":   func(w *town) { w.f.Keep = false },
		"the volumes go, and clients make users alone": func(w *town) {
			w.f.Keep = false
			for _, m := range w.members {
				m.users = true
			}
		},
		"the volumes go, and the bucket has holds": func(w *town) { w.f.Keep, w.holds = false, true },
	} {
		t.Run(phrase, func(t *testing.T) {
			t.Parallel()
			life := func(off clocks, f *fault) (w *town, steps []string) {
				w = newTown(t)
				w.f.Locks, w.f.Mode, w.off, w.fault = true, immutability.ModeCompliance, off, f
				w.members[2].users = true
				change(w)
				return w, w.days()
			}
			for skew, off := range skews {
				plain, steps := life(off, nil)
				for _, text := range plain.wrong {
					t.Fatalf("%s: %s; steps %q", skew, text, steps)
				}
				seen := map[string]int{}
				for _, step := range steps {
					seen[step]++
					for _, k := range kinds {
						f := fault{step, seen[step], k}
						w, _ := life(off, &f)
						if w.hits != k.times {
							t.Errorf("%s: %s: it came %d times", skew, f, w.hits)
						}
						for _, text := range w.wrong {
							t.Errorf("%s: %s: %s", skew, f, text)
						}
					}
				}
			}
		})
	}
}
