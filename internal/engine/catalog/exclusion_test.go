package catalog

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// excluded are the names of the snapshots that count as excluded.
func excluded(c *Catalog) []string {
	var names []string
	for _, o := range c.Listing.Objects {
		if o.Excluded {
			names = append(names, path.Base(o.Key.String()))
		}
	}
	return names
}

func tag(t *testing.T, s *storetest.Memory, name, value string) {
	t.Helper()
	o, err := s.Stat(t.Context(), store.Version{Key: prefix + "/v2/" + name})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetTag(t.Context(), o.Version, ExcludeTag, value); err != nil {
		t.Fatal(err)
	}
}

func TestExclusionFollowsTheTag(t *testing.T) {
	const older, newest = "Full-00000000-00000010-1000.zst", "Full-00000000-00000020-2000.zst"
	const between = "Incr-00000011-00000020-1500.gz"
	for label, c := range map[string]struct {
		profile storetest.Profile
		opts    Options
		tagged  string
		hide    bool
		want    []string
	}{
		"listed with the object":        {storetest.AzureLike(), Options{}, older, false, []string{older}},
		"hidden, as the original asks":  {storetest.S3Like(), Options{}, older, true, []string{older}},
		"a full, not hidden":            {storetest.S3Like(), Options{}, older, false, []string{older}},
		"no full, so not asked":         {storetest.S3Like(), Options{}, between, false, nil},
		"hidden, no full":               {storetest.S3Like(), Options{}, between, true, []string{between}},
		"asked for all":                 {storetest.S3Like(), Options{Tags: TagsOfAll}, between, false, []string{between}},
		"asked for none":                {storetest.S3Like(), Options{Tags: NoTags}, newest, true, nil},
		"the newest, and all ignored":   {storetest.S3Like(), Options{IgnoreExclusions: true}, newest, false, nil},
		"listed, and all ignored":       {storetest.AzureLike(), Options{IgnoreExclusions: true}, older, false, nil},
		"all are asked for and ignored": {storetest.S3Like(), Options{Tags: TagsOfAll, IgnoreExclusions: true}, older, false, nil},
	} {
		t.Run(label, func(t *testing.T) {
			s := storetest.NewMemory(c.profile)
			described(t, s, older, "a", []byte("1"))
			described(t, s, between, "a", []byte("3"))
			described(t, s, newest, "a", []byte("2"))
			tag(t, s, c.tagged, "true")
			if c.hide {
				s.Hide(prefix + "/v2/" + c.tagged)
			}
			if got := excluded(mustRead(t, s, c.opts)); !slices.Equal(got, c.want) {
				t.Fatalf("excluded: %q, want %q", got, c.want)
			}
		})
	}
}

// What is newest once something is excluded is asked for in its turn, and no more.
func TestWhatIsNewestAfterAnExclusionIsAskedForToo(t *testing.T) {
	s := storetest.NewMemory(storetest.S3Like())
	for i := 1; i <= 9; i++ {
		described(t, s, fmt.Sprintf("Full-00000000-%08d-%d.gz", 100*i, 1000*i), "a", []byte{byte(i)})
		for j := range 5 {
			described(t, s, fmt.Sprintf("Incr-%08d-%08d-%d.gz", 100*i+10*j+1, 100*i+10*j+10, 1000*i+j+1), "a", []byte{byte(i), byte(j)})
		}
	}
	for _, excluded := range []string{"Full-00000000-00000900-9000.gz", "Incr-00000831-00000840-8004.gz", "Incr-00000211-00000220-2002.gz"} {
		tag(t, s, excluded, "true")
	}
	asked := &counting{Memory: s}
	c := mustRead(t, asked, Options{})
	if got, want := excluded(c), []string{"Full-00000000-00000900-9000.gz", "Incr-00000831-00000840-8004.gz"}; !slices.Equal(got, want) {
		t.Errorf("excluded: %q, want %q", got, want)
	}
	if chain, _ := c.Timeline.Lineages[0].NewestChain(); chain.End != 830 {
		t.Errorf("the newest chain ends at %d, want 830", chain.End)
	}
	if n := asked.stats.Load(); n != 9+5 {
		t.Errorf("%d objects were asked about, want every full and one chain", n)
	}
	if got := excluded(mustRead(t, s, Options{Tags: TagsOfAll})); len(got) != 3 {
		t.Errorf("excluded of all: %q", got)
	}
}

type counting struct {
	*storetest.Memory
	stats atomic.Int64
}

func (c *counting) Stat(ctx context.Context, v store.Version) (store.Object, error) {
	c.stats.Add(1)
	return c.Memory.Stat(ctx, v)
}

func TestTagsThatMayNotBeReadAreNoted(t *testing.T) {
	s := storetest.NewMemory(storetest.S3Like())
	described(t, s, "Full-00000000-00000010-1000.zst", "a", []byte("1"))
	described(t, s, "Full-00000000-00000020-2000.zst", "a", []byte("2"))
	faulty := storetest.NewFaulty(s)
	faulty.Inject(storetest.Fail(store.ErrForbidden).On(storetest.OpStat, "").Always())
	c := mustRead(t, faulty, Options{})
	if len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "-1000.zst@v000001 and of 1 more cannot be read") {
		t.Fatalf("notes %q", c.Notes)
	}
}

// Without tags the newest record counts, and of its versions the oldest. With tags none does.
func TestWithoutTagsTheNewestRecordSaysWhatIsExcluded(t *testing.T) {
	const full = "Full-00000000-00000010-1000.zst"
	untagged := storetest.Bare()
	for label, c := range map[string]struct {
		profile storetest.Profile
		records []string // their contents, by number
		want    []string
		notes   int
	}{
		"none":                     {untagged, nil, nil, 0},
		"one":                      {untagged, []string{`{"version":1,"excluded":true}`}, []string{full}, 0},
		"taken back":               {untagged, []string{`{"version":1,"excluded":true}`, `{"version":1,"excluded":false}`}, nil, 0},
		"excluded again":           {untagged, []string{`{"version":1,"excluded":false}`, `{"version":2,"excluded":true,"more":1}`}, []string{full}, 0},
		"garbage":                  {untagged, []string{`{"version":1,"excluded":true}`, `nothing`}, nil, 1},
		"without a version":        {untagged, []string{`{"excluded":true}`}, nil, 1},
		"not believed beside tags": {storetest.S3Like(), []string{`{"version":1,"excluded":true}`}, nil, 0},
	} {
		t.Run(label, func(t *testing.T) {
			s := storetest.NewMemory(c.profile)
			described(t, s, full, "a", []byte("1"))
			for i, content := range c.records {
				put(t, s, snapshot.SnapshotKey(prefix, name(t, full)).Exclusion(int64(i+1)).String(), []byte(content))
			}
			got := mustRead(t, s, Options{})
			if names := excluded(got); !slices.Equal(names, c.want) {
				t.Errorf("excluded: %q, want %q", names, c.want)
			}
			if len(got.Notes) != c.notes {
				t.Errorf("notes %q, want %d", got.Notes, c.notes)
			}
			for _, f := range got.Timeline.Findings {
				if f.Code != timeline.ExcludedObject {
					t.Errorf("finding %v", f)
				}
			}
		})
	}
}

func FuzzExclusion(f *testing.F) {
	f.Add([]byte(`{"version":1,"excluded":true,"at":"2026-11-20T10:00:00Z","reason":"no"}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		x, err := parseExclusion(content)
		if err != nil {
			return
		}
		b, err := x.Encode()
		if err != nil {
			return
		}
		if again, err := parseExclusion(b); err != nil || again.Excluded != x.Excluded || again.Reason != x.Reason {
			t.Errorf("%q is read as %+v and then as %+v, %v", content, x, again, err)
		}
	})
}
