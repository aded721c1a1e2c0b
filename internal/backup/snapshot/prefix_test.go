package snapshot_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/snapshot"
)

func TestPrefixesAreNormalized(t *testing.T) {
	longest := strings.Repeat("x", snapshot.MaxPrefixLength)
	for text, want := range map[string]snapshot.Prefix{
		"":                   "",
		".":                  "",
		"./":                 "",
		"ns--uid/etcd-main":  "ns--uid/etcd-main",
		"a//b":               "a/b",
		"a/./b":              "a/b",
		"./a":                "a",
		"a/b/":               "a/b",
		"a/b///":             "a/b",
		"/lead/x":            "/lead/x", // upstream's keys begin with the slash
		"//lead//x/":         "/lead/x",
		"/./x":               "/x",
		"x/v2":               "x/v2",
		"a/etcd-main/v2/":    "a/etcd-main/v2",
		"a b/c d":            "a b/c d",
		"a%2Fb":              "a%2Fb",
		"a+b?c#d&e<f>":       "a+b?c#d&e<f>",
		"ünïcode/路径":         "ünïcode/路径",
		"...":                "...",
		"a..b/..c":           "a..b/..c",
		"v2/Full-00000000-1": "v2/Full-00000000-1",
		longest:              snapshot.Prefix(longest),
	} {
		got, err := snapshot.NewPrefix(text)
		if err != nil || got != want {
			t.Errorf("NewPrefix(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestAmbiguousPrefixesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"..":             `element ".."`,
		"a/../b":         `element ".."`,
		"a/..":           `element ".."`,
		"../a":           `element ".."`,
		"/..":            `element ".."`,
		"/":              "names no path",
		"//":             "names no path",
		"/./":            "names no path",
		" ":              "a space",
		" a":             "a space",
		"a ":             "a space",
		"a / b":          "a space",
		"0 /":            "a space",
		"a\n":            "control character",
		"\ta":            "control character",
		"a\x00b":         "control character",
		"a\x7f":          "control character",
		"a\u00a0b":       "invisible",
		"a\u200bb":       "invisible",
		"\ufeffa":        "invisible",
		`a\b`:            "backslash",
		"a\xffb":         "UTF-8",
		"a\xed\xa0\x80b": "UTF-8", // half of a surrogate pair
		strings.Repeat("x", snapshot.MaxPrefixLength+1): "at most 512",
		strings.Repeat("ü", snapshot.MaxPrefixLength):   "at most 512", // counted in bytes, as stores do
	} {
		p, err := snapshot.NewPrefix(text)
		if !errors.Is(err, snapshot.ErrPrefix) || !strings.Contains(err.Error(), want) || p != "" {
			t.Errorf("NewPrefix(%q) = %q, %v; want an error about %s", text, p, err, want)
		}
	}
}

func TestConfusedPrefixes(t *testing.T) {
	for p, want := range map[snapshot.Prefix][]snapshot.Prefix{
		"":                                   nil,
		"x":                                  {"/x"},
		"/x":                                 {"x"},
		"x/v2":                               {"/x/v2", "x"},
		"/x/v1":                              {"x/v1", "/x"},
		"v2":                                 {"/v2", ""},
		"/v2":                                {"v2"},
		"x/v2/Full-00000000-00000001-1":      {"/x/v2/Full-00000000-00000001-1", "x"},
		"x/v1/Backup-1/Full-00000000-0001-1": {"/x/v1/Backup-1/Full-00000000-0001-1", "x"},
		"x/v1/y/v2":                          {"/x/v1/y/v2", "x/v1/y"},
		"x/v22":                              {"/x/v22"},
	} {
		if diff := cmp.Diff(want, p.Mistaken()); diff != "" {
			t.Errorf("%q: want - got +\n%s", p, diff)
		}
	}
}

// FuzzPrefix proves of whatever is accepted that it has one form and that keys below it are read
// as they are written, and by no other prefix.
func FuzzPrefix(f *testing.F) {
	for _, s := range []string{"", "/", "a/b", "/a/b/", "a//b", "a/./b", "a/../b", "a b", "v2/x", "x/v2", "/v1", "a\\b", "\xff", "%2F", "路/径"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := snapshot.NewPrefix(text)
		if err != nil {
			if !errors.Is(err, snapshot.ErrPrefix) || p != "" {
				t.Fatalf("NewPrefix(%q) = %q, %v", text, p, err)
			}
			return
		}
		if again, err := snapshot.NewPrefix(p.String()); err != nil || again != p {
			t.Fatalf("NewPrefix(%q) = %q, and of that %q, %v", text, p, again, err)
		}
		for _, k := range []snapshot.Key{snapshot.SnapshotKey(p, full), snapshot.SnapshotKey(p, full).Manifest(), snapshot.SnapshotKey(p, full).Exclusion(7), snapshot.OwnerKey(p, 3)} {
			if got, err := snapshot.ParseKey(p, k.String()); err != nil || got != k {
				t.Fatalf("prefix %q: want %+v, got %+v, %v", p, k, got, err)
			}
			for _, other := range p.Mistaken() {
				if got, err := snapshot.ParseKey(other, k.String()); err == nil {
					t.Fatalf("%s below %q is taken for %+v below %q", k, p, got, other)
				}
			}
		}
		if key := snapshot.ProbeKey(p, "t"); !snapshot.IsProbe(p, key) {
			t.Fatalf("%s is no probe below %q", key, p)
		}
	})
}
