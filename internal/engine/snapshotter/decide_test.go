package snapshotter

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/store"
)

func TestWhenAStartTakesAFull(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 30, 0, 0, time.UTC)
	full := func(age time.Duration, final bool) snapshot.Name {
		return snapshot.Name{Kind: snapshot.Full, Last: 100, Created: now.Add(-age).Unix(), Final: final}
	}
	for name, c := range map[string]struct {
		schedule string
		prior    Prior
		want     string // part of the reason; empty: none
	}{
		"no full":                                  {"0 */1 * * *", Prior{}, "no full snapshot"},
		"no full and no schedule":                  {"", Prior{}, "no full snapshot"},
		"a final one":                              {"0 0 * * *", Prior{Exists: true, Full: full(time.Minute, true)}, "final"},
		"another one, and one's own is wanted":     {"0 0 * * *", Prior{Exists: true, Full: full(time.Minute, false), Found: true}, "nobody here took Full-"},
		"deltas cannot go on":                      {"0 0 * * *", Prior{Exists: true, Full: full(time.Minute, false), Unclear: "a gap"}, "a gap"},
		"the last one failed":                      {"0 0 * * *", Prior{Exists: true, Full: full(time.Minute, false), Failed: true}, "failed"},
		"a fresh one":                              {"0 0 * * *", Prior{Exists: true, Full: full(time.Hour, false)}, ""},
		"a day old":                                {"0 0 * * *", Prior{Exists: true, Full: full(25*time.Hour, false)}, "old"},
		"missed, and the next would be too late":   {"0 0 * * *", Prior{Exists: true, Full: full(13*time.Hour, false)}, "missed"},
		"none was missed, and the next comes soon": {"0 13 * * *", Prior{Exists: true, Full: full(23*time.Hour+29*time.Minute, false)}, ""},
		"missed, though the next comes in time":    {"0 0,12 * * *", Prior{Exists: true, Full: full(12*time.Hour+29*time.Minute, false)}, "missed"},
		"every half hour, missed":                  {"*/30 * * * *", Prior{Exists: true, Full: full(31*time.Minute, false)}, "missed"},
		"a weekly one of two days":                 {"0 0 * * 1", Prior{Exists: true, Full: full(36*time.Hour, false)}, ""},
		"a weekly one that was missed":             {"0 0 * * 1", Prior{Exists: true, Full: full(48*time.Hour, false)}, "missed"},
		"a weekly one of eight days":               {"0 0 * * 1", Prior{Exists: true, Full: full(8*24*time.Hour, false)}, "old"},
		"every two hours, an hour ago":             {"0 */2 * * *", Prior{Exists: true, Full: full(20*time.Minute, false)}, ""},
		"every two hours, three hours ago":         {"0 */2 * * *", Prior{Exists: true, Full: full(3*time.Hour, false)}, "old"},
		"every two hours, missed":                  {"0 */2 * * *", Prior{Exists: true, Full: full(100*time.Minute, false)}, "missed"},
		"without a schedule age does not matter":   {"", Prior{Exists: true, Full: full(1000*time.Hour, false)}, ""},
		"without a schedule a failure does matter": {"", Prior{Exists: true, Full: full(time.Hour, false), Failed: true}, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			var next func(time.Time) time.Time
			if c.schedule != "" {
				s, err := ParseSchedule(c.schedule)
				if err != nil {
					t.Fatal(err)
				}
				next, c.prior.Window = s.Next, s.Window
			}
			got := FullReason(c.prior, now, next)
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Fatalf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestTheWindowFollowsTheSchedule(t *testing.T) {
	for spec, want := range map[string]time.Duration{
		"0 */1 * * *": time.Hour, "30 */12 * * *": 12 * time.Hour, "0 3 * * *": 24 * time.Hour, "*/5 * * * *": 24 * time.Hour,
		"0 0 * * 5": 7 * 24 * time.Hour, "0 */4 * * 1-5": 7 * 24 * time.Hour, "@daily": 24 * time.Hour,
		"CRON_TZ=Europe/Berlin 0 */6 * * *": 6 * time.Hour, "0 0 */3 * *": 24 * time.Hour,
	} {
		s, err := ParseSchedule(spec)
		if err != nil || s.Window != want || s.String() != spec {
			t.Errorf("%s: window %v (%v), want %v", spec, s, err, want)
		}
	}
	for _, spec := range []string{"", "* * * *", "61 * * * *", "0 0 0 * * *", "soon"} {
		if _, err := ParseSchedule(spec); err == nil || !strings.Contains(err.Error(), "five fields") {
			t.Errorf("%q: %v, want an error with the remedy", spec, err)
		}
	}
}

func TestWhichLineageTheDataAre(t *testing.T) {
	lineage := func(id, parent string) snapshot.Lineage {
		return snapshot.Lineage{ID: snapshot.LineageID(id), Parent: snapshot.LineageID(parent)}
	}
	hash := &snapshot.HashKV{Revision: 50}
	a := known{Lineage: lineage("a", ""), newest: 100, cluster: 7, hash: hash}
	b := known{Lineage: lineage("b", "a"), newest: 120, cluster: 7, hash: hash}
	elsewhere := known{Lineage: lineage("c", "a"), newest: 120, cluster: 8, hash: hash}
	unnamed := known{newest: 90}
	restored := snapshot.Lineage{ID: "own", Parent: "a", Fork: 80}
	own := func(l snapshot.Lineage) *snapshot.Lineage { return &l }
	for name, c := range map[string]struct {
		file     *snapshot.Lineage
		bucket   []known
		revision snapshot.Revision
		hash     agreement
		want     snapshot.Lineage
		events   []EventCode
		foreign  bool
	}{
		"nothing anywhere":                           {nil, nil, 10, unknown, lineage("new", ""), []EventCode{LineageMinted}, true},
		"a bucket of the original":                   {nil, []known{unnamed}, 200, unknown, lineage("new", ""), []EventCode{LineageMinted}, true},
		"recognised":                                 {nil, []known{a, unnamed}, 100, agrees, lineage("a", ""), []EventCode{LineageAdopted}, false},
		"recognised without a hash":                  {nil, []known{a}, 150, unknown, lineage("a", ""), []EventCode{LineageAdopted}, false},
		"recognised, but behind":                     {nil, []known{a}, 99, agrees, lineage("new", "a"), []EventCode{RolledBack, LineageMinted}, false},
		"recognised, but with another past":          {nil, []known{a}, 150, differs, lineage("new", "a"), []EventCode{RolledBack, LineageMinted}, false},
		"another cluster":                            {nil, []known{elsewhere, a}, 150, agrees, lineage("new", "c"), []EventCode{LineageMinted}, true},
		"only the newest counts":                     {nil, []known{elsewhere, a}, 100, agrees, lineage("new", "c"), []EventCode{LineageMinted}, true},
		"by its file":                                {own(lineage("a", "")), []known{a}, 100, agrees, lineage("a", ""), nil, false},
		"by its file, not uploaded yet":              {own(lineage("r", "a")), []known{b, a}, 60, unknown, lineage("r", "a"), nil, false},
		"by its file in an empty bucket":             {own(lineage("a", "")), nil, 100, unknown, lineage("a", ""), nil, false},
		"by its file, but behind":                    {own(lineage("a", "")), []known{a}, 99, unknown, lineage("new", "a"), []EventCode{RolledBack, LineageMinted}, false},
		"by its file, but with another past":         {own(lineage("a", "")), []known{a}, 400, differs, lineage("new", "a"), []EventCode{RolledBack, LineageMinted}, false},
		"a file from before a fork by another node":  {own(lineage("a", "")), []known{b, a}, 130, agrees, lineage("b", "a"), []EventCode{StaleLineage}, false},
		"a file, and a restore of it elsewhere":      {own(lineage("a", "")), []known{elsewhere, a}, 130, agrees, lineage("a", ""), nil, false},
		"a file, and a fork that is ahead of this":   {own(lineage("a", "")), []known{b, a}, 110, agrees, lineage("a", ""), nil, false},
		"another member was faster":                  {own(lineage("own", "")), []known{a}, 130, unknown, lineage("a", ""), []EventCode{StaleLineage}, false},
		"another member forked at the same time":     {own(lineage("own", "a")), []known{b, a}, 130, agrees, lineage("b", "a"), []EventCode{StaleLineage}, false},
		"another member was faster, but is ahead":    {own(lineage("own", "")), []known{a}, 60, unknown, lineage("own", ""), nil, false},
		"a restore of its own":                       {own(restored), []known{b, a}, 130, unknown, restored, nil, false},
		"an unnamed bucket and a file of a restore":  {own(lineage("r", "")), []known{unnamed}, 80, unknown, lineage("r", ""), nil, false},
		"an older lineage after a newer was started": {own(lineage("b", "a")), []known{b, a}, 125, agrees, lineage("b", "a"), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := judge(evidence{
				file: c.file, bucket: c.bucket, cluster: 7, revision: c.revision,
				compare: func(known) agreement { return c.hash },
				retrace: func(known) agreement { return c.hash },
				mint:    func() snapshot.LineageID { return "new" },
			})
			var codes []EventCode
			for _, e := range v.events {
				codes = append(codes, e.Code)
			}
			if d := cmp.Diff(c.want, v.lineage); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(c.events, codes); d != "" {
				t.Error(d)
			}
			if v.foreign != c.foreign || v.minted != (c.want.ID == "new") {
				t.Errorf("foreign %v, minted %v", v.foreign, v.minted)
			}
		})
	}
}

func TestUnderWhichNamesDataMayWrite(t *testing.T) {
	e := evidence{cluster: 0xab, bucket: []known{{Lineage: snapshot.Lineage{ID: "p", Parent: "g"}}, {Lineage: snapshot.Lineage{ID: "g"}}}}
	v := verdict{lineage: snapshot.Lineage{ID: "l", Parent: "p"}}
	foreign := v
	foreign.foreign = true
	for name, c := range map[string]struct {
		configured, beside string
		v                  verdict
		hasData            bool
		want               []string
	}{
		"configured":                {"me", "root", v, true, []string{"me"}},
		"beside the data":           {"", "root", v, true, []string{"root"}},
		"with a data directory":     {"", "", v, true, []string{"l", "p", "g", "cluster-00000000000000ab"}},
		"without a data directory":  {"", "", v, false, []string{"cluster-00000000000000ab", "l", "p", "g"}},
		"of no known ancestry":      {"", "", foreign, false, []string{"cluster-00000000000000ab", "l"}},
		"of none, with a directory": {"", "", foreign, true, []string{"l", "cluster-00000000000000ab"}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, ownerIDs(c.configured, c.beside, c.v, e, c.hasData)); d != "" {
				t.Fatal(d)
			}
		})
	}
}

func TestWaitsGrowUpToTheirBound(t *testing.T) {
	b := Backoff{First: time.Second, Max: 10 * time.Second, Multiply: 2}.complete()
	var got []time.Duration
	for n := range 6 {
		got = append(got, b.delay(n+1)/time.Second)
	}
	if d := cmp.Diff([]time.Duration{1, 2, 4, 8, 10, 10}, got); d != "" {
		t.Fatal(d)
	}
	if d := (Backoff{}).complete(); d.delay(1) != time.Second || d.delay(1000) != 128*time.Second {
		t.Fatalf("%+v", d)
	}
}

func TestMetricsHaveTheOriginalsNamesAndBoundedLabels(t *testing.T) {
	r := prometheus.NewRegistry()
	m := NewMetrics(r)
	now := time.Now()
	m.taken(snapshot.Name{Kind: snapshot.Full}, 9, now, now)
	m.failed(snapshot.Delta, errors.New("x"), now, now)
	m.need(snapshot.Delta, true)
	for i := range 50 {
		m.failure(fmt.Errorf("put number %d: %w", i, store.ErrThrottled))
		m.failure(fmt.Errorf("number %d", i))
		m.failure(&member.CompactedError{From: snapshot.Revision(i)})
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, f := range families {
		got[f.GetName()] = len(f.GetMetric())
	}
	want := map[string]int{
		"etcdbr_snapshot_latest_revision": 1, "etcdbr_snapshot_latest_timestamp": 1, "etcdbr_snapshot_required": 1,
		"etcdbr_snapshot_duration_seconds": 2, "etcdbr_snapshotter_failure": 3,
		"etcdbr_snapstore_latest_deltas_total": 1, "etcdbr_snapstore_latest_deltas_revisions_total": 1,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

func TestAConfigurationThatCannotWorkIsRefused(t *testing.T) {
	e, s := newEtcd(t), memory()
	for name, spoil := range map[string]func(*Config){
		"no etcd":                    func(c *Config) { c.Connect = nil },
		"no store":                   func(c *Config) { c.Store = nil },
		"an unknown packing":         func(c *Config) { c.Compression = ".rar" },
		"an unknown format":          func(c *Config) { c.Format = "xml" },
		"an unknown packing of JSON": func(c *Config) { c.Format, c.DeltaCompression = "v2-json", ".rar" },
		"a negative period":          func(c *Config) { c.DeltaPeriod = -1 },
	} {
		cfg := config(e, s)
		spoil(&cfg)
		if _, err := New(cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", name, err)
		}
	}
}

// Whoever may write can begin another lineage. When all of it is excluded, the data are those of the lineage before it.
func TestALineageOfWhichAllIsExcludedIsNotTheNewest(t *testing.T) {
	of := func(id snapshot.LineageID, excluded bool) timeline.Lineage {
		return timeline.Lineage{Lineage: snapshot.Lineage{ID: id}, Newest: 9, Snapshots: []timeline.Snapshot{{
			Object: timeline.Object{Excluded: excluded}, Last: 9, Manifest: &snapshot.Manifest{ClusterID: 1, LastRevision: 9},
		}}}
	}
	known := knownLineages(timeline.Timeline{Lineages: []timeline.Lineage{of("forged", true), of("ours", false)}})
	if len(known) != 2 || known[0].ID != "ours" || known[1].ID != "forged" {
		t.Fatalf("known are %+v", known)
	}
	if v := judge(evidence{bucket: known, cluster: 1, revision: 9}); v.lineage.ID != "ours" || v.minted {
		t.Errorf("data without a file are taken for those of %s", v.lineage.ID)
	}
}
