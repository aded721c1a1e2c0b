package extender

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/store"
)

// run is one run.
type run struct {
	q      Request
	report Report

	bucket  store.Bucket
	means   immutability.Means
	policy  immutability.ExtensionPolicy
	catalog *catalog.Catalog
	tags    catalog.TagPolicy
	server  time.Time // as the store told last
	now     time.Time // by which locks are judged and from which periods count

	unusable map[timeline.Ref]string // found damaged
	accept   snapshot.Revision       // 1 once it is known that a restore would end early
	measured map[timeline.Ref]measure
	fellBack bool
	rare     error              // runs are too rare; it is told when all else is done, of which it hides nothing
	like     *timeline.Snapshot // whose history is looked for just now in place of what was asked for; nil: that
	// releasing: what protects is about to be taken away, so that what there is besides has to be read.
	releasing bool

	asked  sync.Mutex               // of what follows, but for before
	told   map[timeline.Ref]subject // locks that were asked for, or given, in this run
	copies map[timeline.Ref]made    // that this run made
	// written are their names, also of those of which the rest failed: their bytes may stand there.
	written map[timeline.Ref]snapshot.Name
	before  int // objects that were reported before those of the newest chain

	changes, bytesRead, bytesMoved atomic.Int64
	copying                        sync.Mutex // copies are made one by one: each takes a name
	taken, made                    map[snapshot.Key]bool
}

func (x *run) run(ctx context.Context) error {
	if err := x.inspect(ctx); err != nil {
		return err
	}
	if err := x.list(ctx, catalog.TagsOfFulls); err != nil {
		return err
	}
	if x.q.Release {
		return x.release(ctx)
	}
	err := errors.Join(x.both(ctx), x.excludedSince(ctx))
	if err == nil && !x.fellBack && !x.q.DryRun {
		x.collect(ctx)
	}
	if x.fellBack && x.report.Base != "" && !errors.Is(err, ErrNoLock) && !errors.Is(err, ErrNoPeriod) {
		err = errors.Join(err, ErrFellBack)
	}
	return errors.Join(err, x.rare)
}

// newest keeps the newest chain that is good.
func (x *run) newest(ctx context.Context) (choice, error) {
	c, err := x.choose(ctx)
	if err != nil {
		return choice{}, err
	}
	x.report.Lineage, x.report.Base = c.plan.Lineage.ID, c.plan.Base.Name().String()
	x.report.Deltas, x.report.End = len(c.plan.Deltas), c.plan.End
	x.report.Protection, err = x.secure(ctx, c)
	return c, err
}

// secure carries out what was chosen, or says what would be done.
func (x *run) secure(ctx context.Context, c choice) (immutability.Summary, error) {
	if err := x.locked(c); err != nil {
		return x.tell(c.steps), err
	}
	if x.policy.Period <= 0 {
		return immutability.Summary{}, fmt.Errorf("%w: %s does not tell a period that it gives to new objects", ErrNoPeriod, x.report.Location)
	}
	x.rare = cmp.Or(x.rare, x.often(c))
	if x.q.DryRun {
		return x.tell(c.steps), nil
	}
	return x.extend(ctx, c)
}

// often refuses runs that are told to come so rarely that locks end between them. What can be done is done before: a lock
// that has ended for a while is better than one that has ended for good. A hold has no end.
func (x *run) often(c choice) error {
	u := x.policy.Upkeep()
	if x.policy.Every <= 0 || u.Holds() || x.means.Hold || slices.ContainsFunc(c.steps, func(s step) bool { return s.retention != nil && s.retention.Hold }) {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrTooRare, u)
}

// inspect learns what the bucket gives and what may be tried.
func (x *run) inspect(ctx context.Context) error {
	s, caps := x.q.Store, x.q.Store.Capabilities()
	x.bucket = store.Bucket{Default: immutability.ModeUnknown}
	if i, can := store.As[store.Inspector](s); can {
		b, err := i.Inspect(ctx)
		if err != nil && !errors.Is(err, store.ErrUnsupported) && !errors.Is(err, store.ErrForbidden) {
			return err
		}
		if err == nil {
			x.bucket = b
		}
	}
	_, extends := store.As[store.Extender](s)
	_, holds := store.As[store.Holder](s)
	_, copies := store.As[store.Copier](s)
	// Decorators have every capability, so that having it says little: what the bucket can is what its provider tells.
	x.means = immutability.Means{Retention: extends && caps.Lengthens, Hold: holds && caps.Holds && !caps.ObjectLock, Copy: copies && caps.Copies,
		Default: x.bucket.Default, Period: x.bucket.Period}
	x.policy = immutability.ExtensionPolicy{Period: x.q.Period, Limit: x.q.MaxPeriod, Every: x.q.Every}
	if x.policy.Period <= 0 {
		x.policy.Period = x.bucket.Period
	}
	if x.policy.Period <= 0 {
		x.policy.Period = x.q.DefaultPeriod
	}
	if limit := x.limit(); x.policy.Period > limit {
		x.warn("locks are prolonged by %s, not by %s: that is the limit", immutability.Period(limit), immutability.Period(x.policy.Period))
	}
	if given := x.bucket.Period; !caps.ObjectLock && given > 0 && x.policy.Period > given {
		// Whatever is asked for, a copy gets the bucket's period: a longer one would be due at once.
		x.warn("the bucket gives %s to everything and single locks cannot be longer: what is copied is locked for that, not for %s",
			immutability.Period(given), immutability.Period(x.policy.Period))
		x.policy.Period = given
	}
	x.report.Period = immutability.Period(min(x.policy.Period, x.limit()))
	return nil
}

func (x *run) limit() time.Duration {
	if x.q.MaxPeriod > 0 {
		return min(x.q.MaxPeriod, immutability.MaxPeriod)
	}
	return immutability.MaxPeriod
}

// list reads the prefix.
func (x *run) list(ctx context.Context, tags catalog.TagPolicy) error {
	c, err := catalog.Read(ctx, x.q.Store, x.q.Prefix, catalog.Options{Tags: tags})
	if err != nil {
		return err
	}
	if x.catalog == nil {
		for _, n := range c.Notes {
			x.warn("%s", n)
		}
	}
	x.catalog, x.tags, x.taken, x.made = c, tags, map[snapshot.Key]bool{}, map[snapshot.Key]bool{}
	for ref := range c.Objects.All() {
		x.taken[ref.Key.Snapshot()] = true
	}
	x.report.Excluded = nil
	for _, l := range c.Timeline.Lineages {
		for _, s := range slices.Concat(l.Snapshots, l.Missing) {
			if s.Excluded {
				x.report.Excluded = append(x.report.Excluded, s.Name().String())
			}
		}
	}
	return nil
}

// choice is the chain to keep, and what is to be done with everything in it.
type choice struct {
	plan  restoreplan.Plan
	snaps []timeline.Snapshot // the base and its deltas
	steps []step              // of the base first, then of the rest
	of    []int               // steps[i] belongs to snaps[of[i]]; -1: to none
}

// choose finds the newest chain that is good, as far as it was to be read. Each time something turns out
// damaged it plans again without it, as a restore would.
func (x *run) choose(ctx context.Context) (choice, error) {
	for {
		p, err := restoreplan.Make(x.catalog.Timeline, restoreplan.Latest(), restoreplan.Options{
			Lineage: x.q.Lineage, AcceptLossTo: x.accept, Unusable: x.unusable})
		var loss *restoreplan.LossError
		if errors.As(err, &loss) && x.accept == 0 {
			x.accept, x.fellBack = 1, true
			x.lost(loss)
			continue
		}
		if err != nil {
			return choice{}, err
		}
		c, err := x.look(ctx, p)
		if err != nil {
			return choice{}, err
		}
		c.steps = decide(subjectsOf(c.steps), x.policy, x.means, x.now)
		whole, why := mustRead(c.steps, x.q.Verify)
		whole = whole || x.mistrusts(p.Base)
		if x.q.Release {
			if whole = x.releasing; !whole {
				why = "no: nothing is to be released"
			}
		}
		verified, good, err := x.good(ctx, p, whole, why)
		switch {
		case err != nil:
			return choice{}, err
		case good:
			x.report.Verified = verified
			x.passedOver(p)
			return c, nil
		}
	}
}

// ruleOut has no plan use an object any more.
func (x *run) ruleOut(ref timeline.Ref, why string) {
	if x.unusable == nil {
		x.unusable = map[timeline.Ref]string{}
	}
	x.unusable[ref] = why
	x.condemn(ref, why)
}

// condemn records that an object is damaged.
func (x *run) condemn(ref timeline.Ref, why string) {
	x.fellBack = true
	x.damaged(ref.String(), why)
}

// damaged tells of an object once.
func (x *run) damaged(object, why string) {
	if slices.ContainsFunc(x.report.Damaged, func(d replay.Damage) bool { return d.Object == object }) {
		return
	}
	x.report.Damaged = append(x.report.Damaged, replay.Damage{Object: object, Reason: why})
	x.q.Log.Error("a backup is damaged and is not kept locked", "object", object, "reason", why)
}

// passedOver condemns the fulls that a restore would prefer to the base if they were whole.
func (x *run) passedOver(p restoreplan.Plan) {
	l, _ := x.catalog.Timeline.Lineage(p.Lineage.ID)
	for _, s := range l.Snapshots {
		if s.Full() && s.Problem != "" && !s.Excluded && timeline.CompareBases(s, p.Base) > 0 {
			x.condemn(s.Ref, s.Problem)
		}
	}
}

func subjectsOf(steps []step) []subject {
	all := make([]subject, len(steps))
	for i, s := range steps {
		all[i] = s.subject
	}
	return all
}

// look gathers everything that a restore by the plan needs, and asks for locks that are not known.
func (x *run) look(ctx context.Context, p restoreplan.Plan) (choice, error) {
	c := choice{plan: p, snaps: []timeline.Snapshot{p.Base}}
	for _, d := range p.Deltas {
		c.snaps = append(c.snaps, d.Snapshot)
	}
	add := func(kind Kind, ref timeline.Ref, of int) {
		c.steps = append(c.steps, step{subject: subject{kind: kind, ref: ref}})
		c.of = append(c.of, of)
	}
	place := map[snapshot.Key]int{}
	told := map[*snapshot.Manifest]timeline.Ref{}
	for _, m := range x.catalog.Listing.Manifests {
		if m.Manifest != nil && !m.Marker {
			told[m.Manifest] = timeline.Ref{Key: m.Key, Version: m.Version}
		}
	}
	for i, s := range c.snaps {
		place[s.Key] = i
		kind := Delta
		if s.Full() {
			kind = Full
		}
		add(kind, s.Ref, i)
		if ref, has := told[s.Manifest]; has && s.Manifest != nil {
			add(Manifest, ref, i)
		}
	}
	for ref, o := range x.catalog.Objects.All() {
		_, ours := place[ref.Key.Snapshot()]
		switch {
		case o.Marker:
		case ref.Key.Object == snapshot.ExclusionObject && ours:
			add(Exclusion, ref, -1)
		case ref.Key.Object == snapshot.OwnerObject && x.catalog.Owner != nil && ref.Key.Number == x.catalog.Owner.Number:
			add(Owner, ref, -1)
		}
	}
	return c, x.ask(ctx, c.steps)
}

// ask fills locks and the time.
func (x *run) ask(ctx context.Context, steps []step) error {
	var clock struct {
		sync.Mutex
		server time.Time
	}
	g, each := errgroup.WithContext(ctx)
	g.SetLimit(x.q.Parallel)
	for i := range steps {
		s := &steps[i].subject
		o, _ := x.catalog.Objects.Find(s.ref)
		s.created, s.retention = o.Modified, o.Retention
		if known, told := x.known(s.ref); told {
			s.created, s.retention = known.created, known.retention
			continue
		}
		if o.Retention != nil && !o.ServerTime.IsZero() {
			clock.Lock()
			clock.server = latest(clock.server, o.ServerTime)
			clock.Unlock()
			continue
		}
		if o.Retention != nil && i > 0 { // only the time is missing, and one answer tells it
			continue
		}
		g.Go(func() error {
			o, err := x.q.Store.Stat(each, s.address())
			switch {
			case errors.Is(err, store.ErrForbidden):
				return nil
			case err != nil:
				return fmt.Errorf("ask about the lock of %s: %w", s.ref, err)
			}
			s.retention, s.created = o.Retention, o.Modified
			x.remember(*s)
			clock.Lock()
			defer clock.Unlock()
			clock.server = latest(clock.server, o.ServerTime)
			return nil
		})
	}
	err := g.Wait()
	x.server = latest(x.server, clock.server)
	at := immutability.Clock{Server: x.server, Local: x.q.Now()}
	x.now = at.ForExtension()
	if ahead, known := at.Skew(); known && ahead.Abs() > immutability.MaxSkew {
		x.warn("the clocks of this machine and of the store differ by %s; the store's counts", ahead.Abs().Round(time.Second))
	}
	return err
}

// known is a lock that was told already.
func (x *run) known(ref timeline.Ref) (subject, bool) {
	x.asked.Lock()
	defer x.asked.Unlock()
	s, told := x.told[ref]
	return s, told
}

// remember notes a lock that was told, so that nobody asks for it again.
func (x *run) remember(s subject) {
	x.asked.Lock()
	defer x.asked.Unlock()
	x.told[s.ref] = s
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// locked refuses where nothing is locked and nothing would be.
func (x *run) locked(c choice) error {
	for _, s := range c.steps {
		if r := s.retention; r == nil || r.Hold || r.Mode != immutability.ModeNone || len(s.ways) > 0 {
			return nil
		}
	}
	why := "the bucket gives no lock to what is written into it"
	if x.means.Default == immutability.ModeUnknown {
		why = "whether the bucket locks what is written into it is not told"
	}
	return fmt.Errorf("%w: %s of the provider %s: none of %d objects has a lock, and %s", ErrNoLock, x.report.Location, x.q.Store.Capabilities().Provider, len(c.steps), why)
}

func (x *run) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, w := range x.report.Warnings {
		if w == text {
			return
		}
	}
	x.report.Warnings = append(x.report.Warnings, text)
}

// tell reports the steps without carrying them out.
func (x *run) tell(steps []step) immutability.Summary {
	var locks []*immutability.Retention
	for _, s := range steps {
		x.add(s.planned())
		if s.kind.restored() {
			locks = append(locks, s.retention)
		}
	}
	return immutability.Summarize(locks, x.now)
}

// add reports an object once.
func (x *run) add(o Object) {
	for _, known := range x.report.Objects[:x.before] {
		if known.Key == o.Key && known.Version == o.Version {
			return
		}
	}
	x.report.Objects = append(x.report.Objects, o)
}

// object begins the report about a step.
func (s step) object() Object {
	o := Object{Key: s.Key, Version: s.Version, Kind: s.kind, Result: Left, Reason: string(s.Reason)}
	if s.retention != nil {
		o.Before, o.After, o.Held = s.retention.Until, s.retention.Until, s.retention.Hold
	}
	return o
}

func (s step) planned() Object {
	o := s.object()
	switch {
	case s.due():
		o.Result, o.Way = Planned, s.ways[0]
		if o.Way == immutability.WayRetention {
			o.After = s.Until
		}
	case s.broken() && s.kind.restored():
		o.Result = Failed
	}
	return o
}
