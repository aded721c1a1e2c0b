package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzAFileIsReadAsItIsOrRefusedInLines: what is accepted is the same when it is written and read
// again; what is refused has problems of one line each.
func FuzzAFileIsReadAsItIsOrRefusedInLines(f *testing.F) {
	for _, text := range []string{"", header, everything, Defaults("v1").YAML(), header + "featureGates: &a {UseEtcdWrapper: true}\nlogging: *a\n", "[", "{\"kind\": 1}", header + "? [a]\n: b\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, _, err := Parse("druid.yaml", data, "v1")
		if err != nil {
			for _, p := range problems(t, err) {
				if !strings.HasPrefix(p, "druid.yaml:") || strings.ContainsAny(p, "\n\r") {
					t.Errorf("problem %q", p)
				}
			}
			return
		}
		again, _, err := Parse("druid.yaml", []byte(c.YAML()), "v1")
		if err != nil {
			t.Fatalf("what was written is refused: %v\n%s", err, c.YAML())
		}
		if d := cmp.Diff(c, again, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("-read +read again:\n%s", d)
		}
	})
}

// FuzzGatesAreReadAsWritten is about the flag.
func FuzzGatesAreReadAsWritten(f *testing.F) {
	for _, text := range []string{"", "A=true", "A=true,B=false", " A = 1 ,", "A", "=true", "A=true,A=false"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set, err := parseGates(text)
		if err != nil {
			return
		}
		again, err := parseGates(switches{&set}.text())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(set, again); d != "" {
			t.Errorf("-read +read again:\n%s", d)
		}
	})
}
