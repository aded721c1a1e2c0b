package agentapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestEveryPathIsThereOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Routes() {
		if seen[r.Path] || r.Doc == "" || len(r.Methods) == 0 || !strings.HasPrefix(r.Path, "/") {
			t.Errorf("%+v: there already, or something is missing", r)
		}
		seen[r.Path] = true
		if found, ok := Find(r.Path); !ok || found.Path != r.Path {
			t.Errorf("%s is not found: %+v", r.Path, found)
		}
	}
}

func TestReadsAreNeverCombinedWithChanges(t *testing.T) {
	// HEAD promises that nothing happens; the original's paths that change something allow GET for its
	// callers, and nothing new does.
	original := []string{InitStart, Full, Delta}
	for _, r := range Routes() {
		changes := r.Allows(http.MethodPost)
		if changes && r.Allows(http.MethodHead) {
			t.Errorf("%s changes something and takes HEAD", r.Path)
		}
		if changes && r.Allows(http.MethodGet) && !slices.Contains(original, r.Path) {
			t.Errorf("%s changes something and takes GET", r.Path)
		}
		if changes && r.Access == Open {
			t.Errorf("%s changes something and is open to everybody", r.Path)
		}
	}
}

func TestOnlyProfilesHavePathsBelow(t *testing.T) {
	for path, want := range map[string]string{
		"/debug/pprof/heap": Profiles,
		"/debug/pprof":      "",
		"/member/":          "",
		"/member/x":         "",
		"/MEMBER":           "",
		"":                  "",
	} {
		if r, ok := Find(path); r.Path != want || ok != (want != "") {
			t.Errorf("%q: %q, %t; want %q", path, r.Path, ok, want)
		}
	}
}

func TestEveryErrorHasACode(t *testing.T) {
	for err, want := range map[error]int{
		ErrNoStore:                             405,
		fmt.Errorf("full: %w", ErrUnavailable): 503,
		ErrNotLeader:                           503,
		ErrBusy:                                409,
		ErrRefused:                             422,
		errors.New("another"):                  500,
	} {
		if got := CodeOf(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

func FuzzParseValidationMode(f *testing.F) {
	f.Add("sanity")
	f.Add("full")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		got := ParseValidationMode(s)
		if (got == ValidateSanity) != (s == "sanity") || got != ValidateSanity && got != ValidateFull {
			t.Errorf("%q: %s", s, got)
		}
	})
}
