package restoreplan_test

import (
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/backup/timeline/timelinetest"
)

var listings = flag.Int("listings", 400, "number of random listings that properties are checked with")

func randomBytes(r *rand.Rand) []byte {
	b := make([]byte, r.IntN(500))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// FuzzAnyPlanIsContiguousInOneLineage checks whatever plans there are for any listing.
func FuzzAnyPlanIsContiguousInOneLineage(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for range *listings {
		f.Add(randomBytes(r), int64(r.IntN(70)), int64(1000+r.IntN(110)))
	}
	f.Fuzz(func(t *testing.T, data []byte, revision, second int64) {
		l := timelinetest.FromBytes(data)
		tl := timeline.Build(l)
		targets := []restoreplan.Target{
			restoreplan.Latest(),
			restoreplan.AtRevision(snapshot.Revision(revision)),
			restoreplan.AtTime(time.Unix(second, 0)),
		}
		for _, o := range l.Objects[:min(3, len(l.Objects))] {
			targets = append(targets, restoreplan.Snapshot(o.Key.Name))
		}
		var options []restoreplan.Options
		for i, o := range append(slices.Clone(l.Objects[:min(2, len(l.Objects))]), timeline.Object{}) {
			opts := restoreplan.Options{
				AcceptLossTo: snapshot.Revision(i * 10),
				Unusable:     map[timeline.Ref]string{o.Ref: "it is damaged"},
				Measured:     map[timeline.Ref]snapshot.Revision{o.Ref: snapshot.Revision(revision)},
			}
			options = append(options, opts)
			for _, lineage := range tl.Lineages {
				opts.Lineage = &lineage.ID
				options = append(options, opts)
			}
		}
		for _, target := range targets {
			for _, opts := range options {
				plan, err := restoreplan.Make(tl, target, opts)
				var noWay *restoreplan.NoWayError
				var loss *restoreplan.LossError
				switch {
				case err == nil:
					check(t, l, tl, target, opts, plan)
				case !errors.As(err, &noWay) && !errors.As(err, &loss):
					t.Errorf("%s: the error is %T", target, err)
				case err.Error() == "":
					t.Errorf("%s: no words", target)
				case loss != nil && !target.IsLatest():
					t.Errorf("%s: a target that was asked for is refused as a loss: %s", target, err)
				}
			}
		}
	})
}

func check(t *testing.T, l timeline.Listing, tl timeline.Timeline, target restoreplan.Target, opts restoreplan.Options, p restoreplan.Plan) {
	t.Helper()
	bad := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s: "+format+"\n%s", append(append([]any{target}, args...), p)...)
	}
	lineage, is := tl.Lineage(p.Lineage.ID)
	if !is || opts.Lineage != nil && *opts.Lineage != p.Lineage.ID {
		bad("lineage %q was not asked for", p.Lineage.ID)
	}
	readable := func(s timeline.Snapshot) bool {
		_, damaged := opts.Unusable[s.Ref]
		listed := slices.ContainsFunc(l.Objects, func(o timeline.Object) bool { return o.Ref == s.Ref && !o.Marker })
		mine := slices.ContainsFunc(lineage.Snapshots, func(m timeline.Snapshot) bool { return m.Key == s.Key && !m.Excluded && m.Problem == "" })
		return listed && mine && !damaged && !s.Excluded && s.Problem == "" && s.Key.Object == snapshot.SnapshotObject
	}
	if !p.Base.Full() || !readable(p.Base) {
		bad("%s cannot be the base", p.Base.Ref)
	}
	pos := p.Base.Last
	if p.StopRevision != 0 && pos > p.StopRevision { // it is cut
		if !holds(p.Base, p.StopRevision) || len(p.Deltas) > 0 {
			bad("nothing tells that the base holds the revision")
		}
		pos = p.StopRevision
	}
	for i, d := range p.Deltas {
		switch {
		case d.Full() || !readable(d.Snapshot):
			bad("%s cannot be applied", d.Ref)
		case d.From != pos+1 || d.Name().Start > d.From || d.To < d.From || d.To > d.Last:
			bad("%s does not continue revision %d", d.Ref, pos)
		case target.Kind == restoreplan.ToRevision && d.Stops != (d.To < d.Last), d.Stops && target.Kind == restoreplan.ToRevision && i != len(p.Deltas)-1:
			bad("%s should not stop", d.Ref)
		case target.Kind == restoreplan.ToTime && !d.Stops && d.NotAfter().After(target.Time):
			bad("%s is applied as a whole, though it may have been received later", d.Ref)
		case target.Kind == restoreplan.ToTime && d.Earliest().After(target.Time):
			bad("%s was received later", d.Ref)
		}
		pos = d.To
	}
	if p.End != pos || p.End > p.Newest || p.Newest < lineage.Newest {
		bad("it ends at %d, not at %d, and the newest is %d", pos, p.End, lineage.Newest)
	}
	accepted := opts.AcceptLossTo > 0 && p.End >= opts.AcceptLossTo
	switch {
	case target.IsLatest() && p.End != p.Newest && !accepted:
		bad("it loses what is known to be newer")
	case target.Kind == restoreplan.ToRevision && (p.End > target.Revision || p.StopRevision != target.Revision || p.End < target.Revision && !accepted):
		bad("it ends at %d, wanted %d", p.End, target.Revision)
	case target.Kind == restoreplan.ToTime && !p.Base.Latest().IsZero() && p.Base.Latest().After(target.Time) && !p.Base.Certain:
		bad("the base is not known to be old enough")
	case target.Kind == restoreplan.ToSnapshot && target.Snapshot.Kind == snapshot.Delta && p.End != target.Snapshot.Last && !accepted:
		bad("it does not end with the snapshot")
	}
}

// holds tells that the history of a full reaches back to a revision.
func holds(s timeline.Snapshot, r snapshot.Revision) bool {
	return s.Manifest != nil && s.Manifest.HashKV != nil && s.Manifest.HashKV.CompactRevision <= r && r <= s.Last
}

// TestARevisionHasAPlanExactlyIfAWindowOrAFullHoldsIt compares two ways to find out what can be restored.
func TestARevisionHasAPlanExactlyIfAWindowOrAFullHoldsIt(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	plans, refusals := 0, 0
	for range *listings {
		tl := timeline.Build(timelinetest.FromBytes(randomBytes(r)))
		for _, l := range tl.Lineages {
			windows := l.Windows()
			for revision := snapshot.Revision(1); revision < 80; revision++ {
				want := slices.ContainsFunc(windows, func(w timeline.Window) bool { return w.From <= revision && revision <= w.To }) ||
					slices.ContainsFunc(l.Snapshots, func(s timeline.Snapshot) bool { return s.Full() && s.Usable() && holds(s, revision) })
				_, err := restoreplan.Make(tl, restoreplan.AtRevision(revision), restoreplan.Options{Lineage: &l.ID})
				if got := err == nil; got != want {
					t.Errorf("revision %d of lineage %q: want a plan: %t, got error %v; windows %+v", revision, l.ID, want, err, windows)
				}
				if want {
					plans++
				} else {
					refusals++
				}
			}
		}
	}
	if plans < 1000 || refusals < 1000 {
		t.Errorf("want many of both, got %d plans and %d refusals", plans, refusals)
	}
}

// TestDamageFoundOneByOneEndsInAnErrorOrAPlan plays a restorer that finds every object it
// reads damaged and plans again, until nothing is left.
func TestDamageFoundOneByOneEndsInAnErrorOrAPlan(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range *listings {
		l := timelinetest.FromBytes(randomBytes(r))
		tl := timeline.Build(l)
		opts := restoreplan.Options{Unusable: make(map[timeline.Ref]string), AcceptLossTo: 1}
		for {
			p, err := restoreplan.Make(tl, restoreplan.Latest(), opts)
			if err != nil {
				break
			}
			damaged := p.Base.Ref
			if n := len(p.Deltas); n > 0 {
				damaged = p.Deltas[n-1].Ref
			}
			if _, again := opts.Unusable[damaged]; again {
				t.Fatalf("%s is planned again although it is damaged", damaged)
			}
			opts.Unusable[damaged] = "it is damaged"
		}
		if len(opts.Unusable) > len(l.Objects) {
			t.Errorf("%d objects and %d damaged ones", len(l.Objects), len(opts.Unusable))
		}
	}
}
