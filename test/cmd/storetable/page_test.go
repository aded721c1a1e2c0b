package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/store/storetest"
)

func TestTheCommittedPageIsWhatTheResultsGive(t *testing.T) {
	want, err := render("../../conformance/results")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/reference/stores.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/reference/stores.md is stale, run make generate (-want +got):\n%s", diff)
	}
}

func TestACapabilityIsNoBetterThanItsCases(t *testing.T) {
	const (
		proven, part, fallback = storetest.Proven, storetest.InPart, storetest.Fallback
		absent, open           = storetest.Absent, storetest.NotProven
	)
	cases := map[string]struct {
		outcomes []storetest.Outcome
		want     string
	}{
		"all proven":                     {[]storetest.Outcome{proven, proven}, "yes"},
		"one in part":                    {[]storetest.Outcome{proven, part}, "in part"},
		"one open":                       {[]storetest.Outcome{proven, open}, "in part"},
		"one absent":                     {[]storetest.Outcome{proven, absent}, "in part"},
		"one fallback":                   {[]storetest.Outcome{proven, fallback}, "no, but"},
		"fallback and open":              {[]storetest.Outcome{fallback, open}, "no, but"},
		"all open":                       {[]storetest.Outcome{open}, "not shown"},
		"all absent":                     {[]storetest.Outcome{absent, absent}, "no"},
		"absent and open":                {[]storetest.Outcome{absent, open}, "not shown"},
		"nothing was run":                {nil, "no"},
		"in part alone is not a promise": {[]storetest.Outcome{part}, "in part"},
	}
	for name, c := range cases {
		var r storetest.Report
		for _, o := range c.outcomes {
			r.Results = append(r.Results, storetest.Result{Capability: storetest.Locking, Outcome: o})
		}
		r.Results = append(r.Results, storetest.Result{Capability: storetest.Holding, Outcome: storetest.Fallback})
		if got := verdict(r, storetest.Locking); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestResultsThatCannotBeToldApartOrReadAreRefused(t *testing.T) {
	r := storetest.Report{Provider: "S3", Server: "s", Bucket: "b", Test: "d: t", Results: []storetest.Result{{Case: "c", Outcome: storetest.Proven}}}
	cases := map[string]struct {
		files map[string]string
		want  string
	}{
		"none":       {nil, "no results"},
		"the same":   {map[string]string{"a.json": string(r.Encode()), "b.json": string(r.Encode())}, "both about"},
		"unreadable": {map[string]string{"a.json": "{"}, "a.json"},
	}
	for name, c := range cases {
		dir := t.TempDir()
		for file, content := range c.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := render(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
