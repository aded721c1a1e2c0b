package snapshot_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/snapshot"
)

func TestLeaseStatesRoundTrip(t *testing.T) {
	for name, c := range map[string]struct {
		states snapshot.LeaseStates
		text   string
	}{
		"none":                  {snapshot.LeaseStates{}, `[]`},
		"one":                   {snapshot.LeaseStates{{ID: 7, TTL: 60}}, `[7,60]`},
		"ids of one etcd":       {snapshot.LeaseStates{{ID: 7587875011961028609, TTL: 60}, {ID: 7587875011961028611, TTL: 0}, {ID: 7587875011961028612, TTL: -1}}, `[7587875011961028609,60,2,0,1,-1]`},
		"the longest":           {snapshot.LeaseStates{{ID: 1, TTL: snapshot.MaxLeaseTTL}}, `[1,9000000000]`},
		"ids of every size":     {snapshot.LeaseStates{{ID: 1, TTL: 2}, {ID: math.MaxInt64, TTL: 2}, {ID: math.MinInt64, TTL: 2}, {ID: -1, TTL: 2}}, `[1,2,9223372036854775806,2,1,2,9223372036854775807,2]`},
		"more than half of all": {snapshot.LeaseStates{{ID: 1, TTL: 2}, {ID: -1, TTL: 2}}, `[1,2,-2,2]`},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(c.states)
			if err != nil || string(text) != c.text {
				t.Fatalf("got %s, %v, want %s", text, err, c.text)
			}
			var got snapshot.LeaseStates
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.states, got); diff != "" {
				t.Errorf("want - got +\n%s", diff)
			}
		})
	}
}

func TestManifestRejectsImpossibleLeases(t *testing.T) {
	for name, text := range map[string]string{
		"an odd number":              `[{"revision":5,"leases":[7]}]`,
		"no number":                  `[{"revision":5,"leases":[7,"60"]}]`,
		"a fraction":                 `[{"revision":5,"leases":[7,1.5]}]`,
		"no id":                      `[{"revision":5,"leases":[0,60]}]`,
		"an id twice":                `[{"revision":5,"leases":[7,60,0,60]}]`,
		"ids backwards":              `[{"revision":5,"leases":[7,60,-1,60]}]`,
		"ids that overflow":          `[{"revision":5,"leases":[-1,60,8,60]}]`,
		"a negative time":            `[{"revision":5,"leases":[7,-2]}]`,
		"more than etcd grants":      `[{"revision":5,"leases":[7,9000000001]}]`,
		"the largest number":         `[{"revision":5,"leases":[7,9223372036854775807]}]`,
		"more than the largest":      `[{"revision":5,"leases":[7,9223372036854775808]}]`,
		"no revision":                `[{"leases":[7,60]}]`,
		"a negative revision":        `[{"revision":-5,"leases":[7,60]}]`,
		"a range backwards":          `[{"revision":5,"between":[9,7]}]`,
		"a range of the wrong order": `[{"revision":5,"between":[-1,7]}]`,
	} {
		t.Run(name, func(t *testing.T) {
			content := bytes.Replace(manifest().Encode(), []byte("{"), []byte(`{"leases":`+text+`,`), 1)
			if m, err := snapshot.ParseManifest(full, content); err == nil {
				t.Errorf("accepted %+v", m.Leases)
			}
		})
	}
}

func TestLeaseRangesAreUnsigned(t *testing.T) {
	for id, want := range map[int64]bool{4: false, 5: true, math.MaxInt64: true, math.MinInt64: true, -7: true, -6: false} {
		if got := (snapshot.LeaseRange{5, -7}).Contains(id); got != want {
			t.Errorf("from 5 to -7 contains %d: %t, want %t", id, got, want)
		}
	}
}

func FuzzLeaseStates(f *testing.F) {
	f.Add(`[7587875011961028609,60,2,0,1,-1]`)
	f.Add(`[1,2,9223372036854775806,2,1,2,9223372036854775807,2]`)
	f.Add(`[1,2,-2,2]`)
	f.Add(`[` + strings.Repeat("1,1,", 1000) + `1,1]`)
	f.Fuzz(func(t *testing.T, text string) {
		var states snapshot.LeaseStates
		if json.Unmarshal([]byte(text), &states) != nil {
			return
		}
		for i, s := range states {
			if s.TTL < snapshot.LeaseUnknown || s.TTL > snapshot.MaxLeaseTTL || s.ID == 0 || i > 0 && snapshot.CompareLeases(states[i-1].ID, s.ID) >= 0 {
				t.Fatalf("accepted %+v", states)
			}
		}
		again, err := json.Marshal(states)
		if err != nil {
			t.Fatal(err)
		}
		var got snapshot.LeaseStates
		if err := json.Unmarshal(again, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(states, got); len(states) > 0 && diff != "" {
			t.Errorf("want - got +\n%s", diff)
		}
	})
}
