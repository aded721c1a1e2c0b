package restoreplan_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/backup/timeline/timelinetest"
)

// These tests keep failures away that the original is known for. The scenarios in testdata tell
// the same stories with every word of the plan.

// ways lists base and deltas of a plan with what each contributes.
func ways(p restoreplan.Plan) []string {
	list := []string{p.Base.Name().String()}
	for _, d := range p.Deltas {
		list = append(list, fmt.Sprintf("%s %d-%d", d.Name(), d.From, d.To))
	}
	return list
}

func mustPlan(t *testing.T, listing string, target restoreplan.Target, opts restoreplan.Options, want ...string) restoreplan.Plan {
	t.Helper()
	p, err := restoreplan.Make(timeline.Build(timelinetest.MustParse(listing)), target, opts)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, ways(p)); diff != "" {
		t.Errorf("want - got +\n%s", diff)
	}
	return p
}

func mustFail[E error](t *testing.T, listing string, target restoreplan.Target, opts restoreplan.Options) E {
	t.Helper()
	p, err := restoreplan.Make(timeline.Build(timelinetest.MustParse(listing)), target, opts)
	var e E
	if !errors.As(err, &e) {
		t.Fatalf("want %T, got %v and the plan\n%s", e, err, p)
	}
	return e
}

// Appendix C 1.
func TestOverlappingDeltasOfTwoLeadersAreNotAppliedTwice(t *testing.T) {
	mustPlan(t, `
		full 100 at 1000
		delta 101-150 at 1010
		delta 131-180 at 1015
		delta 151-200 at 1020`, restoreplan.Latest(), restoreplan.Options{},
		"Full-00000000-00000100-1000", "Incr-00000101-00000150-1010 101-150", "Incr-00000151-00000200-1020 151-200")
}

// Appendix C 2.
func TestAFullAheadOfItsNameDoesNotStopARestore(t *testing.T) {
	const listing = `
		full 100 at 1000
		delta 101-120 at 1010
		delta 121-200 at 1020`
	base := timelinetest.MustParse(listing).Objects[0].Ref
	for ahead, want := range map[snapshot.Revision][]string{
		100: {"Full-00000000-00000100-1000", "Incr-00000101-00000120-1010 101-120", "Incr-00000121-00000200-1020 121-200"},
		110: {"Full-00000000-00000100-1000", "Incr-00000101-00000120-1010 111-120", "Incr-00000121-00000200-1020 121-200"},
		120: {"Full-00000000-00000100-1000", "Incr-00000121-00000200-1020 121-200"},
		170: {"Full-00000000-00000100-1000", "Incr-00000121-00000200-1020 171-200"},
		200: {"Full-00000000-00000100-1000"},
	} {
		measured := map[timeline.Ref]snapshot.Revision{base: ahead}
		if p := mustPlan(t, listing, restoreplan.Latest(), restoreplan.Options{Measured: measured}, want...); p.End != 200 || !p.EndCertain {
			t.Errorf("ahead %d: want the end at 200, got %d, certain: %t", ahead, p.End, p.EndCertain)
		}
	}
}

func TestAFullAheadOfTheTargetIsNotRestored(t *testing.T) {
	const listing = `
		full 100 at 1000 manifest last=103
		delta 104-160 at 1010
		full 150 at 1100 manifest last=158`
	mustPlan(t, "full 90 at 900\ndelta 91-160 at 1010\nfull 150 at 1100 manifest last=158", restoreplan.AtRevision(155), restoreplan.Options{},
		"Full-00000000-00000090-900", "Incr-00000091-00000160-1010 91-155")
	mustFail[*restoreplan.NoWayError](t, listing, restoreplan.AtRevision(101), restoreplan.Options{})
}

// Appendix C 6.
func TestAGapBetweenDeltasIsFoundBeforeTheRestoreBegins(t *testing.T) {
	const listing = `
		full 100 at 1000
		delta 101-150 at 1010
		delta 181-200 at 1030`
	want := &timeline.Missing{From: 151, To: 180, After: "Incr-00000101-00000150-1010", Before: "Incr-00000181-00000200-1030"}
	loss := mustFail[*restoreplan.LossError](t, listing, restoreplan.Latest(), restoreplan.Options{})
	if diff := cmp.Diff(want, loss.Missing); diff != "" || loss.End != 150 || loss.Newest != 200 {
		t.Errorf("got %+v, want - got +\n%s", loss, diff)
	}
	noWay := mustFail[*restoreplan.NoWayError](t, listing, restoreplan.AtRevision(190), restoreplan.Options{})
	if diff := cmp.Diff(want, noWay.Missing); diff != "" || noWay.Highest != 150 {
		t.Errorf("got %+v, want - got +\n%s", noWay, diff)
	}
}

// Appendix C 7.
func TestDeltasWithoutABaseAreAnErrorAndNoPanic(t *testing.T) {
	const listing = `
		delta 101-150 at 1010
		delta 151-200 at 1020`
	for _, target := range []restoreplan.Target{restoreplan.Latest(), restoreplan.AtRevision(120), restoreplan.AtTime(timelinetest.Second("1015")),
		restoreplan.Snapshot(timelinetest.MustParse(listing).Objects[0].Key.Name)} {
		mustFail[*restoreplan.NoWayError](t, listing, target, restoreplan.Options{})
		mustFail[*restoreplan.NoWayError](t, listing, target, restoreplan.Options{AcceptLossTo: 1})
	}
}

// Appendix C 8.
func TestAnExcludedNewestFullIsNotRestored(t *testing.T) {
	mustPlan(t, `
		full 100 at 1000
		delta 101-150 at 1010
		full 200 at 1100 excluded`, restoreplan.Latest(), restoreplan.Options{},
		"Full-00000000-00000100-1000", "Incr-00000101-00000150-1010 101-150")
}

// Appendix C 15.
func TestAllSuffixesAndTheFirstLayoutMakeOneChain(t *testing.T) {
	mustPlan(t, `
		full 10 at 1000 .gz final dir=Backup-1000
		delta 11-20 at 1010 dir=Backup-1000
		delta 21-30 at 1020 .gz
		delta 31-40 at 1030 .zlib
		delta 41-50 at 1040 .Z
		delta 51-60 at 1050 .zst`, restoreplan.Latest(), restoreplan.Options{},
		"Full-00000000-00000010-1000.gz.final", "Incr-00000011-00000020-1010 11-20", "Incr-00000021-00000030-1020.gz 21-30",
		"Incr-00000031-00000040-1030.zlib 31-40", "Incr-00000041-00000050-1040.Z 41-50", "Incr-00000051-00000060-1050.zst 51-60")
}

// Appendix C 16.
func TestNineDigitRevisionsAreAppliedAfterEightDigitOnes(t *testing.T) {
	mustPlan(t, `
		delta 100000001-100000100 at 3000
		full 99999990 at 1000
		delta 99999991-100000000 at 2000`, restoreplan.Latest(), restoreplan.Options{},
		"Full-00000000-99999990-1000", "Incr-99999991-100000000-2000 99999991-100000000", "Incr-100000001-100000100-3000 100000001-100000100")
}

func TestATargetIsOneThing(t *testing.T) {
	const listing = "full 100 at 1000"
	for _, target := range []restoreplan.Target{
		{Kind: restoreplan.ToRevision, Revision: 100, Time: timelinetest.Second("2000")},
		{Revision: 100}, // no kind
		{Kind: "moment"},
	} {
		mustFail[*restoreplan.NoWayError](t, listing, target, restoreplan.Options{})
	}
	for want, target := range map[string]restoreplan.Target{
		"latest":                               restoreplan.Latest(),
		"revision 7":                           restoreplan.AtRevision(7),
		"snapshot Full-00000000-00000100-1000": restoreplan.Snapshot(timelinetest.MustParse(listing).Objects[0].Key.Name),
		"time 1970-01-01T00:00:05.5Z":          restoreplan.AtTime(timelinetest.Second("5.5")),
	} {
		if got := target.String(); got != want || target.IsLatest() != (want == "latest") {
			t.Errorf("want %s, got %s", want, got)
		}
	}
}

// A target made from an unset variable must not restore the newest state.
func TestZeroTargetIsNotLatest(t *testing.T) {
	const listing = "full 100 at 1000"
	for name, target := range map[string]restoreplan.Target{
		"revision 0":          restoreplan.AtRevision(0),
		"negative revision":   restoreplan.AtRevision(-1),
		"zero time":           restoreplan.AtTime(time.Time{}),
		"snapshot of no name": restoreplan.Snapshot(snapshot.Name{}),
	} {
		t.Run(name, func(t *testing.T) {
			if target.IsLatest() {
				t.Error("want a target other than the latest")
			}
			mustFail[*restoreplan.NoWayError](t, listing, target, restoreplan.Options{})
			mustFail[*restoreplan.NoWayError](t, listing, target, restoreplan.Options{AcceptLossTo: 1})
		})
	}
}

func TestTimeBeyondBackupIsRefused(t *testing.T) {
	const listing = `
		full 100 at 1000 manifest latest=1001
		delta 101-150 at 1010 manifest earliest=1002 latest=1010`
	hourLater := restoreplan.AtTime(timelinetest.Second("4610"))
	noWay := mustFail[*restoreplan.NoWayError](t, listing, hourLater, restoreplan.Options{})
	if noWay.Highest != 150 || noWay.Accept != 150 {
		t.Errorf("got %+v, want 150 as the highest revision and the loss to accept", noWay)
	}
	p := mustPlan(t, listing, hourLater, restoreplan.Options{AcceptLossTo: 150}, "Full-00000000-00000100-1000", "Incr-00000101-00000150-1010 101-150")
	if want := timelinetest.Second("1010"); !p.EndTime.Equal(want) {
		t.Errorf("it ends at %s, want %s", p.EndTime, want)
	}
	offset := restoreplan.AtTime(timelinetest.Second("1010").In(time.FixedZone("", 5*3600+1800)))
	mustPlan(t, listing, offset, restoreplan.Options{}, "Full-00000000-00000100-1000", "Incr-00000101-00000150-1010 101-150")
}
