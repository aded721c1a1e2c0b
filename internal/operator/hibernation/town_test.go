package hibernation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/backup/immutability"
)

// town is a cluster of three, the bucket of its backups, and an operator that looks at it and does what [Decide] says. Clients write all the
// time over connections that they have, until they are refused. It notes what must never happen.
type town struct {
	t        *testing.T
	now      time.Time // which nobody knows
	off      clocks
	revision int64
	users    int // made by clients, which raises no revision
	members  []*townsman
	lag      time.Duration // how old what sidecars tell of revisions is
	ending   time.Duration // how long members take to stop; without an operator to ask them on, not longer than [RefuseLeast]
	told     []telling

	f    Facts // what does not come from the members: what is written down, and what the operator remembers
	open bool  // clients find the members

	bucket    []*object
	slept     *object   // the last one with which the members stopped
	holds     bool      // whatever is written is held, besides that it is locked
	away      time.Time // the bucket is, until then
	weak      time.Time // locks last for minutes, until then
	spoil     int       // fulls that turn out corrupt: the next ones that are proven
	rots      bool      // and so does the one that is recorded: the next extension tells
	mute      time.Time // extensions tell no dates, until then
	extending bool      // the task that prolongs locks is there
	run       time.Time // when it runs next
	attempt
	purpose string // of the latest

	fault   *fault    // nil: none comes
	hits    int       // how often it came
	anew    bool      // is a member started, after the look
	dead    bool      // the operator
	nobody  time.Time // follows it until then
	seen    int64     // generation, with the latest look
	changed time.Time // is the specification since
	steps   []string
	wrong   []string
}

// clocks are by how much they are ahead. Whoever follows an operator that died has another clock.
type clocks struct{ operator, next, sidecars, store time.Duration }

// townsman is a member. Its clients write as long as it serves them.
type townsman struct {
	since, until time.Time
	cannot       string
	writes       bool
	users        bool // that is all that its clients do

	up          bool
	linked      bool // clients have connections
	comes, ends time.Time
}

type telling struct {
	at       time.Time
	revision int64
}

// object is a full in the bucket.
type object struct {
	name, purpose   string
	begun           time.Time
	final           bool
	revision        int64
	users           int
	until           time.Time // by the clock of the store
	held            bool
	proven, corrupt bool
}

// attempt is the final full that is under way; the zero value: none is.
type attempt struct {
	full   *object
	ready  time.Time // taken, and then proven
	proves bool
}

func (m *townsman) serves(now time.Time) bool { return m.up && !now.Before(m.until) }

func newTown(t *testing.T) *town {
	w := &town{t: t, now: now, revision: 9, lag: 8 * time.Second, ending: RefuseFor + 2*time.Minute, open: true}
	for range 3 {
		w.members = append(w.members, &townsman{writes: true, up: true, linked: true})
	}
	w.f = falling(unlocked)
	return w
}

func (w *town) operator() time.Time { return w.now.Add(w.off.operator) }
func (w *town) sidecars() time.Time { return w.now.Add(w.off.sidecars) }
func (w *town) store() time.Time    { return w.now.Add(w.off.store) }

func (w *town) pods() (n int) {
	for _, m := range w.members {
		if m.up {
			n++
		}
	}
	return n
}

func (w *town) newest() *object {
	if len(w.bucket) == 0 {
		return nil
	}
	return w.bucket[len(w.bucket)-1]
}

// recorded is the final full of the record, nil if there is none.
func (w *town) recorded() *object {
	if r := w.f.Record; r != nil && r.FinalSnapshot != nil {
		for _, o := range w.bucket {
			if o.name == r.FinalSnapshot.Name {
				return o
			}
		}
	}
	return nil
}

// second passes, in which each client that is served writes once.
func (w *town) second() { w.pass(time.Second) }

func (w *town) pass(d time.Duration) {
	w.now = w.now.Add(d)
	for _, m := range w.members {
		w.live(m)
	}
	w.told = append(w.told, telling{w.now, w.revision})
	for len(w.told) > 1 && !w.told[1].at.After(w.now.Add(-w.lag)) {
		w.told = w.told[1:]
	}
	w.work()
	w.extend()
	w.keeps()
}

// live is what a member does in a moment.
func (w *town) live(m *townsman) {
	switch {
	case m.up && w.f.Replicas == 0 && !w.now.Before(m.ends):
		*m = townsman{writes: m.writes, users: m.users, cannot: m.cannot}
	case !m.up && w.f.Replicas > 0 && !w.now.Before(m.comes) && (w.f.Claims > 0 || !w.now.Before(w.away)):
		if m.up = true; w.f.Claims == 0 && w.pods() == 1 {
			w.restored()
		}
	}
	if w.pods() == len(w.members) {
		w.f.Claims = len(w.members)
	}
	m.linked = m.up && (m.linked || w.open)
	switch writes := m.linked && m.writes && m.serves(w.now) && 2*w.pods() > len(w.members); {
	case writes && m.users:
		w.users++
	case writes:
		w.revision++
	}
}

// restored: the first member begins with what the bucket has.
func (w *town) restored() {
	if o := w.newest(); o == nil || !w.complete(o) || o.corrupt {
		w.note("the members begin with %+v, and clients were told revision %d", o, w.revision)
	}
}

// takes puts a full into the bucket; a final one that was taken before is given again for the same purpose.
func (w *town) takes(final bool, purpose string) *object {
	if o := w.newest(); o != nil && final && o.final && o.purpose == purpose && o.revision == w.revision { // users are not seen
		return o
	}
	o := &object{name: fmt.Sprintf("Full-%08d-%08d", len(w.bucket), w.revision), begun: w.now, final: final, purpose: purpose, revision: w.revision, users: w.users, until: w.lockedUntil(), held: w.holds && final}
	w.bucket = append(w.bucket, o)
	return o
}

// lockedUntil is until when a sidecar locks something. It computes that by its own clock.
func (w *town) lockedUntil() time.Time { return w.sidecars().Add(w.lasts()) }

// lasts is how long a lock does.
func (w *town) lasts() time.Duration {
	if w.now.Before(w.weak) {
		return Clocks + 5*time.Minute
	}
	return 48 * time.Hour
}

// taking is how long a full takes, and as long its proof.
const taking = 10 * time.Second

// work is what the backup leader does: the final full that is asked for, or the first one of another life.
func (w *town) work() {
	there := !w.now.Before(w.away)
	switch a := &w.attempt; {
	case a.full == nil:
		if o := w.newest(); there && w.f.Wanted && w.pods() == len(w.members) && o != nil && o.final {
			w.takes(false, "")
		}
	case !there:
		w.ended(nil, "the bucket does not answer")
	case w.now.Before(a.ready):
	case !a.proves:
		a.proves, a.ready = true, w.now.Add(taking)
		if !w.do("POST /verify", func() {}) {
			w.ended(nil, "it was not verified")
		}
	default:
		if w.spoil > 0 {
			w.spoil--
			a.full.corrupt = true
		}
		if a.full.corrupt {
			w.ended(nil, a.full.name+" is damaged")
			return
		}
		a.full.proven = true
		w.ended(a.full, "")
	}
}

// ended is what the operator then knows of the attempt.
func (w *town) ended(o *object, why string) {
	w.f.Attempt = Attempt{Ended: w.operator(), Failed: why, Spoilt: w.f.Attempt.Spoilt, Began: w.f.Attempt.Began}
	switch {
	case o != nil:
		at := metav1.NewTime(o.until)
		w.f.Attempt.Spoilt, w.f.Attempt.Mode = "", immutability.ModeCompliance
		w.f.Attempt.Taken = &druidv1alpha1.FinalSnapshot{Name: o.name, Store: w.f.Store, Revision: o.revision, VerifiedAt: metav1.NewTime(w.operator()), ProtectedUntil: &at, Held: o.held}
	case w.attempt.full != nil:
		w.f.Attempt.Spoilt = w.attempt.full.name
	}
	w.attempt = attempt{}
}

// every is how often the task runs: twice while a lock lasts by any clock.
func (w *town) every() time.Duration { return (w.lasts() - Clocks) / 2 }

// extend runs the task, also when there is something newer than what it holds.
func (w *town) extend() {
	final := w.recorded()
	if !w.extending || final == nil || w.now.Before(w.away) {
		return
	}
	newer := w.newer()
	unknown := w.f.Record.FinalSnapshot.ProtectedUntil == nil
	waits := !w.f.Keep && w.f.Record.FinalSnapshot.ReadAt == nil
	if soon := w.now.Add(time.Minute); (newer && w.f.Record.Holds() || unknown || waits || w.now.Before(w.mute)) && soon.Before(w.run) {
		w.run = soon
	}
	if w.now.Before(w.run) {
		return
	}
	w.run = w.now.Add(w.every())
	h := w.f.Record.DeepCopy()
	at := metav1.NewTime(w.sidecars())
	h.FinalSnapshot.LookedAt, h.FinalSnapshot.ReadAt = &at, &at
	if w.rots {
		h.FinalSnapshot.Damaged = final.name + " is damaged"
		w.f.Record = h
		return
	}
	if h.HoldsLeft = h.Holds(); newer { // whatever runs held
		h.HoldsLeft = false
		for _, o := range w.bucket {
			o.held = false
		}
	}
	if until := w.lockedUntil(); until.After(final.until) {
		final.until = until
	}
	until := metav1.NewTime(final.until)
	h.FinalSnapshot.ProtectedUntil, h.FinalSnapshot.Held = &until, final.held
	if w.now.Before(w.mute) {
		h.FinalSnapshot.ProtectedUntil, h.FinalSnapshot.Held = nil, false
	}
	w.f.Record = h
}

// newer: a full of a later life than the recorded one is in the bucket.
func (w *town) newer() bool {
	after := slices.Index(w.bucket, w.recorded())
	return slices.ContainsFunc(w.bucket[after+1:], func(o *object) bool { return !o.final })
}

// facts are what the operator sees.
func (w *town) facts() Facts {
	f := w.f
	f.Now, f.Pods, f.Members, f.Refusing = w.operator(), w.pods(), nil, nil
	if f.Record != nil && f.Record.AwakeSince != nil && w.newer() {
		f.NewFull = w.newest().name
	}
	if f.Wanted {
		f.Attempt = Attempt{}
	}
	told := w.revision
	if len(w.told) > 0 && !w.told[0].at.After(w.now.Add(-w.lag)) {
		told = w.told[0].revision
	}
	f.Revision = told
	for i, m := range w.members {
		name := fmt.Sprintf("main-%d", i)
		seen := Member{Name: name, Known: m.up, Revision: told, Cannot: m.cannot}
		if m.up && !m.serves(w.now) {
			seen.Refuses, seen.Left = w.now.Sub(m.since), m.until.Sub(w.now)
			f.Refusing = append(f.Refusing, name)
		}
		if !f.Wanted {
			f.Members = append(f.Members, seen)
		}
	}
	return f
}

// look is what the operator does, in the order in which it does it.
func (w *town) look() Step {
	if w.now.Before(w.nobody) {
		return Step{}
	}
	if w.dead { // another one begins
		w.dead, w.attempt, w.f.Attempt, w.off.operator = false, attempt{}, Attempt{}, w.off.next
	}
	f := w.facts()
	w.seen = f.Generation
	if w.f.Attempt = f.Attempt; f.Wanted {
		w.attempt = attempt{}
	}
	s := Decide(f)
	w.carryOut(f, s)
	if w.anew && w.f.Replicas > 0 {
		w.members[1].until = w.now
	}
	w.anew = false
	if s.Asleep && w.f.Locks && !w.extending {
		w.note("the cluster sleeps, and nobody prolongs the lock of its backup")
	}
	if f.Wanted && len(f.Refusing) > 0 && w.now.Sub(w.changed) > time.Minute && w.now.Sub(w.nobody) > time.Minute {
		w.note("members are wanted, and refuse clients: %q", f.Refusing)
	}
	return s
}

func (w *town) carryOut(f Facts, s Step) {
	if d := s.Record.DeepCopy(); !equality.Semantic.DeepEqual(d, f.Record) && !w.do("PATCH status", func() { w.f.Record = d }) {
		return
	}
	for i, m := range w.members {
		if m.up && m.cannot == "" && (s.Admit || s.Refuse) {
			w.do(fmt.Sprintf("POST /clients main-%d", i), func() { m.asked(w.now, s.Admit) })
		}
	}
	done := true
	change := func(step string, differs bool, effect func()) { done = done && (!differs || w.do(step, effect)) }
	change("PATCH the client Service", w.open == s.Closed, func() { w.open = !s.Closed })
	change("PATCH the StatefulSet to 0", s.Hold == "" && !f.Wanted && f.Replicas > 0, w.stop)
	change("PATCH the StatefulSet to 3", s.Hold == "" && f.Wanted && f.Replicas == 0, w.start)
	change("POST the task", s.Extend && !w.extending, func() { w.extending, w.run = true, w.now.Add(w.every()) })
	if !done {
		return
	}
	if s.Take != "" && !f.Attempt.Running {
		w.take(s.Take)
	}
	if !s.Extend && w.extending {
		w.do("DELETE the task", w.dismiss)
	}
	for range f.Claims {
		if s.DeleteClaims {
			w.do("DELETE a volume", w.empty)
		}
	}
}

// take begins to take a final full.
func (w *town) take(purpose string) {
	former := w.f.Attempt
	w.f.Attempt = Attempt{Running: true, Spoilt: former.Spoilt, Began: w.operator()}
	if purpose == w.purpose && !former.Began.IsZero() {
		w.f.Attempt.Began = former.Began
	}
	w.purpose = purpose
	if w.now.Before(w.away) {
		w.ended(nil, "the bucket does not answer")
		return
	}
	var full *object
	if !w.do("POST /snapshot/full", func() { full = w.takes(true, purpose) }) {
		w.ended(nil, "it was not taken")
		return
	}
	if begun := w.operator().Add(full.begun.Sub(w.now)); begun.Before(w.f.Attempt.Began) {
		w.f.Attempt.Began = begun
	}
	w.attempt = attempt{full: full, ready: w.now.Add(taking)}
}

// asked has a member refuse clients, or admit them.
func (m *townsman) asked(now time.Time, admit bool) {
	switch {
	case admit:
		m.until = now
		return
	case m.serves(now):
		m.since = now
	}
	m.until = now.Add(RefuseFor)
}

// stop has the members go.
func (w *town) stop() {
	w.mayStop()
	w.f.Replicas, w.slept = 0, w.recorded()
	for _, m := range w.members {
		m.ends = w.now.Add(w.ending)
	}
}

// start has them come back.
func (w *town) start() {
	if w.f.Claims > 0 && w.f.Claims < len(w.members) {
		w.note("the members start with %d volumes", w.f.Claims)
	}
	w.f.Replicas = int32(len(w.members))
	for _, m := range w.members {
		m.comes = w.now.Add(20 * time.Second)
	}
}

// dismiss has the task go.
func (w *town) dismiss() {
	switch o := w.recorded(); {
	case !w.newer():
		w.note("the task goes, and nothing is newer than %+v", o)
	}
	for _, o := range w.bucket {
		if o.held {
			w.note("the task goes, and %s is held for ever", o.name)
		}
	}
	w.extending = false
}

// empty has a volume go.
func (w *town) empty() {
	r, o := w.f.Record, w.recorded()
	switch {
	case w.f.Claims == 0:
		return
	case w.f.Keep, r == nil, r.VolumesGoSince == nil:
		w.note("a volume goes, and what is written down is %+v", r)
	case w.f.Locks && r.FinalSnapshot.ProtectedUntil == nil && !r.FinalSnapshot.Held:
		w.note("a volume goes, and no lock is known of %+v", o)
	case w.f.Replicas > 0, w.pods() > 0:
		w.note("a volume goes of a cluster that has %d pods", w.pods())
	case !w.safe(o), !w.complete(o):
		w.note("a volume goes, and the bucket has %+v for revision %d", o, w.revision)
	}
	w.f.Claims--
}

// complete: a full has everything that clients were told.
func (w *town) complete(o *object) bool { return o.revision == w.revision && o.users == w.users }

// safe: a full was proven, and nobody can delete it for longer than clocks may differ, by the operator's.
func (w *town) safe(o *object) bool {
	return w.protected(o) && (!w.f.Locks || o.held || o.until.Sub(w.operator()) > Clocks)
}

// protected: a full was proven, and nobody can delete it now.
func (w *town) protected(o *object) bool {
	return o != nil && o.proven && (!w.f.Locks || o.held || o.until.After(w.store()))
}

// mayStop notes whatever the members must not stop with.
func (w *town) mayStop() {
	r, o := w.f.Record, w.recorded()
	switch {
	case r == nil, r.FinalSnapshot == nil, r.Generation != w.seen, r.AwakeSince != nil:
		w.note("the members stop, and what is written down is %+v", r)
	case !w.safe(o):
		w.note("the members stop, and the bucket has %+v", o)
	case !w.complete(o):
		w.note("the members stop with %+v, and have revision %d and %d users", o, w.revision, w.users)
	}
	for i, m := range w.members {
		if m.writes && m.serves(w.now) {
			w.note("the members stop, and main-%d serves clients", i)
		}
	}
}

// keeps notes what is lost while nobody does anything.
func (w *town) keeps() {
	o := w.recorded()
	switch {
	case o == nil || w.newer():
		return
	case w.f.Replicas == 0 && w.f.Record.AwakeSince == nil && !w.complete(o):
		w.note("clients write after the members were told to stop with %+v: they have revision %d and %d users", o, w.revision, w.users)
	case !w.rots && !w.protected(o):
		w.note("the lock of %s ended at %s, and nothing is newer", o.name, o.until)
	}
}

func (w *town) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.wrong, text) {
		w.wrong = append(w.wrong, text)
	}
}
