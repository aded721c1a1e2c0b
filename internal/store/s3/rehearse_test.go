package s3_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
)

// A rehearsal proves each right, and changes nothing that exists.
func TestARehearsalFindsTheRightsThatAreMissing(t *testing.T) {
	for name, denied := range map[string]func(*http.Request) bool{
		"nothing":         func(*http.Request) bool { return false },
		"write objects":   func(r *http.Request) bool { return r.Method == http.MethodPost },
		"abort uploads":   func(r *http.Request) bool { return r.Method == http.MethodDelete && r.URL.Query().Has("uploadId") },
		"delete versions": func(r *http.Request) bool { return r.Method == http.MethodDelete && !r.URL.Query().Has("uploadId") },
		"tag versions":    func(r *http.Request) bool { return r.URL.Query().Has("tagging") },
		"extend locks":    func(r *http.Request) bool { return r.URL.Query().Has("retention") },
	} {
		f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case denied(r):
				refuse(w, http.StatusForbidden, "AccessDenied")
			case r.Method == http.MethodPut:
				refuse(w, http.StatusNotFound, "NoSuchKey")
			default:
				accepting(w, r)
			}
		})
		f.locks = true
		var missing []string
		for _, trial := range f.open(t, f.options()).Rehearse(t.Context(), "p/druid-probe/x") {
			if trial.Err != nil {
				missing = append(missing, string(trial.Change))
				if !errors.Is(trial.Err, store.ErrForbidden) || !strings.Contains(trial.Err.Error(), "grant s3:") {
					t.Errorf("%s: %v, want the action to grant", name, trial.Err)
				}
			}
		}
		want := []string{name}
		if name == "nothing" {
			want = nil
		}
		if !slices.Equal(missing, want) {
			t.Errorf("without the right to %s, these are missing: %v", name, missing)
		}
		for _, r := range f.sent() {
			named := strings.Contains(r.query, "versionId=null") || strings.Contains(r.query, "upload")
			if !strings.HasSuffix(r.path, "/p/druid-probe/x") || !named || r.operation() == "PutObject" || r.operation() == "CompleteMultipartUpload" {
				t.Errorf("%s: %s %s?%s is sent, which could change something", name, r.method, r.path, r.query)
			}
		}
	}
}
