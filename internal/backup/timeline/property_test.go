package timeline_test

import (
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/backup/timeline/timelinetest"
)

func randomBytes(r *rand.Rand) []byte {
	b := make([]byte, r.IntN(600))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// FuzzBuildHoldsItsPromisesForAnyListing checks what must hold however odd a listing is.
func FuzzBuildHoldsItsPromisesForAnyListing(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		f.Add(randomBytes(r))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := timelinetest.FromBytes(data)
		tl := timeline.Build(l)
		everythingIsShownOnce(t, l, tl)
		theOrderOfTheListingDoesNotMatter(t, l, tl)
		for i, lineage := range tl.Lineages {
			if lineage.ID == "" && i != len(tl.Lineages)-1 {
				t.Error("the unnamed lineage is not last")
			}
			newestKnown(t, lineage)
			chains := lineage.Chains()
			for _, c := range chains {
				chainIsContiguous(t, lineage, c)
			}
			theNewestChainIsTheFirst(t, lineage, chains)
			windowsAreApart(t, lineage.Windows())
		}
	})
}

// theNewestChainIsTheFirst of all chains, and there is one if there is any.
func theNewestChainIsTheFirst(t *testing.T, l timeline.Lineage, chains []timeline.Chain) {
	t.Helper()
	newest, is := l.NewestChain()
	if is != (len(chains) > 0) {
		t.Fatalf("there is a newest chain: %v, of %d", is, len(chains))
	}
	if is {
		if d := cmp.Diff(chains[0], newest, cmp.AllowUnexported(timeline.Snapshot{})); d != "" {
			t.Error(d)
		}
	}
}

// everythingIsShownOnce: every key of a snapshot is in exactly one lineage, and what is not
// used has a reason.
func everythingIsShownOnce(t *testing.T, l timeline.Listing, tl timeline.Timeline) {
	t.Helper()
	listed := make(map[timeline.Ref]timeline.Object)
	keys := make(map[snapshot.Key]int)
	for _, o := range l.Objects {
		if o.Key.Object == snapshot.SnapshotObject {
			listed[o.Ref] = o
			keys[o.Key] = 0
		}
	}
	for _, lineage := range tl.Lineages {
		for _, s := range lineage.Snapshots {
			keys[s.Key]++
			if o, is := listed[s.Ref]; !is || o.Marker {
				t.Errorf("%s is not the content of anything listed", s.Ref)
			}
			if s.Lineage != lineage.ID {
				t.Errorf("%s of lineage %q is in lineage %q", s.Ref, s.Lineage, lineage.ID)
			}
			if !s.Usable() && !slices.ContainsFunc(tl.Findings, func(f timeline.Finding) bool { return f.Key == s.Key.String() }) {
				t.Errorf("%s cannot be used and no finding tells why", s.Ref)
			}
			for i, c := range s.Candidates() {
				if c.Marker || i == 0 && c.Ref != s.Ref {
					t.Errorf("candidate %d of %s is %+v", i, s.Ref, c)
				}
			}
		}
		for _, s := range lineage.Missing {
			keys[s.Key]++
			if s.Usable() {
				t.Errorf("%s is missing and usable", s.Key)
			}
		}
	}
	for key, n := range keys {
		if n > 1 {
			t.Errorf("%s is shown %d times", key, n)
		}
	}
	for ref := range listed {
		if keys[ref.Key] != 1 {
			t.Errorf("%s is shown %d times", ref, keys[ref.Key])
		}
	}
}

func theOrderOfTheListingDoesNotMatter(t *testing.T, l timeline.Listing, want timeline.Timeline) {
	t.Helper()
	for _, twin := range duplicates(l) {
		if twin {
			return // the same version listed twice with different facts
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	l.Objects, l.Manifests = slices.Clone(l.Objects), slices.Clone(l.Manifests)
	r.Shuffle(len(l.Objects), func(i, j int) { l.Objects[i], l.Objects[j] = l.Objects[j], l.Objects[i] })
	r.Shuffle(len(l.Manifests), func(i, j int) { l.Manifests[i], l.Manifests[j] = l.Manifests[j], l.Manifests[i] })
	if got := timeline.Build(l); !reflect.DeepEqual(got, want) {
		t.Errorf("another order of the listing gives another timeline:\nwant %s%s\ngot  %s%s", show(want, "timeline"), show(want, "findings"), show(got, "timeline"), show(got, "findings"))
	}
}

func duplicates(l timeline.Listing) map[timeline.Ref]bool {
	twice := make(map[timeline.Ref]bool)
	for _, o := range l.Objects {
		_, is := twice[o.Ref]
		twice[o.Ref] = is
	}
	for _, m := range l.Manifests {
		ref := timeline.Ref{Key: m.Key, Version: m.Version}
		_, is := twice[ref]
		twice[ref] = is
	}
	return twice
}

func newestKnown(t *testing.T, l timeline.Lineage) {
	t.Helper()
	var want snapshot.Revision
	for _, s := range slices.Concat(l.Snapshots, l.Missing) {
		if !s.Excluded {
			want = max(want, s.Last)
		}
	}
	if l.Newest != want {
		t.Errorf("newest known revision: want %d, got %d", want, l.Newest)
	}
	if s, is := l.NewestKnown(); is && s.Last != want || !is && want != 0 {
		t.Errorf("newest known snapshot: %s", s.Key)
	}
}

// chainIsContiguous also compares with the slowest way to find out how far one can get.
func chainIsContiguous(t *testing.T, l timeline.Lineage, c timeline.Chain) {
	t.Helper()
	pos := c.Base.Last
	for _, d := range c.Deltas {
		if d.From != pos+1 || d.Name().Start > d.From || d.To > d.Last || d.To < d.From || !d.Usable() || d.Full() {
			t.Errorf("after revision %d comes %s with %d-%d", pos, d.Ref, d.From, d.To)
		}
		pos = d.To
	}
	want := slowReach(l, c.Base.Last)
	if c.End != pos || c.End != want {
		t.Errorf("chain of %s: want end %d, got %d, its deltas end at %d", c.Base.Name(), want, c.End, pos)
	}
	inTime := l.Links().FollowInTime(c.Base.Last)
	if len(inTime) > 0 && inTime[len(inTime)-1].To != want || len(inTime) == 0 && want != c.Base.Last {
		t.Errorf("in order of time the chain of %s ends elsewhere than at %d: %v", c.Base.Name(), want, inTime)
	}
	if (c.Gap == nil) != (c.End >= l.Newest) || c.Gap != nil && (c.Gap.From != c.End+1 || c.Gap.To < c.Gap.From) {
		t.Errorf("chain of %s ends at %d of %d with gap %+v", c.Base.Name(), c.End, l.Newest, c.Gap)
	}
}

func slowReach(l timeline.Lineage, pos snapshot.Revision) snapshot.Revision {
	for moved := true; moved; {
		moved = false
		for _, s := range l.Snapshots {
			if s.Usable() && !s.Full() && s.Name().Start-1 <= pos && s.Last > pos {
				pos, moved = s.Last, true
			}
		}
	}
	return pos
}

func windowsAreApart(t *testing.T, windows []timeline.Window) {
	t.Helper()
	for i, w := range windows {
		if w.From > w.To || i > 0 && w.From <= windows[i-1].To+1 {
			t.Errorf("window %d is %d-%d", i, w.From, w.To)
		}
	}
}

func TestEveryFindingHasAScenario(t *testing.T) {
	source, err := os.ReadFile("finding.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`= "([a-z-]+)" +// `).FindAllStringSubmatch(string(source), -1)
	if len(codes) < 20 {
		t.Fatalf("want all codes, found %d", len(codes))
	}
	var told strings.Builder
	for _, file := range []string{"plain", "gaps", "leaders", "versions", "manifests", "lineages", "content"} {
		text, err := os.ReadFile("testdata/" + file + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		told.Write(text)
	}
	for _, c := range codes {
		if !strings.Contains(told.String(), " "+c[1]+": ") {
			t.Errorf("no scenario shows the finding %s", c[1])
		}
	}
}
