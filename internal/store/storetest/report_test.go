package storetest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

const reportVariable = "STORETEST_REPORT"

// publishes runs the suite against a bucket in memory, as a provider's test does.
func publishes(t *testing.T, profile, file string, update bool) {
	o := storetest.MemoryOptions()[profile](func(s store.Store) store.Store { return s })
	storetest.Report{Server: "memory", Bucket: profile}.Publish(t, &o, file, update)
	storetest.Run(t, o)
}

func TestAReportTellsWhatEachCaseShowed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results", "memory.json")
	t.Run("bare", func(t *testing.T) { publishes(t, "bare", file, true) })
	r, err := storetest.ReadReport(file)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]storetest.Outcome{}
	for _, res := range r.Results {
		got[res.Case] = res.Outcome
		if (res.Outcome == storetest.Proven) != (len(res.Notes) == 0) {
			t.Errorf("%s: %s with the notes %q", res.Case, res.Outcome, res.Notes)
		}
	}
	for name, want := range map[string]storetest.Outcome{
		"what was put is read back":                                storetest.Proven,
		"an existing key is refused or becomes a further version":  storetest.Fallback,
		"a locked version cannot be deleted":                       storetest.Fallback,
		"a hold protects until it is released":                     storetest.Fallback,
		"a key hidden by a marker can be written again":            storetest.Absent,
		"the default lock is stamped on every object":              storetest.Absent,
		"an outage is an error and never an empty listing":         storetest.Proven,
		"a foreign overwrite loses nothing or is refused or shows": storetest.Fallback,
		"the capabilities are as promised":                         storetest.Proven,
		"a copy is a new object of its own":                        storetest.Proven,
		"versions are listed newest first and all are readable":    storetest.Fallback,
		"deleting removes exactly one version":                     storetest.Proven,
		"a listing that breaks off is an error":                    storetest.Proven,
		"concurrent puts of one key lose nothing":                  storetest.Absent,
		"a foreign overwrite of a locked version loses nothing":    storetest.Fallback,
		"a lock is extended in place and never shortened":          storetest.Fallback,
		"tags are kept, also on locked versions":                   storetest.Fallback,
		"a missing bucket is said to be missing":                   storetest.Proven,
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	if want := "internal/store/storetest: TestAReportTellsWhatEachCaseShowed/bare"; r.Test != want {
		t.Errorf("the report says it is from %q, want %q", r.Test, want)
	}
}

// child runs publishes in another process, whose failure is not ours.
func child(t *testing.T, file, profile string, flags ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], append([]string{"-test.run=^TestAReportIsHeldAgainstItsFile$"}, flags...)...)
	c.Env = append(os.Environ(), reportVariable+"="+file+"="+profile)
	out, err := c.CombinedOutput()
	return string(out), err
}

func TestAReportIsHeldAgainstItsFile(t *testing.T) {
	if told := os.Getenv(reportVariable); strings.Contains(told, "=") {
		file, profile, _ := strings.Cut(told, "=")
		// The name of the test stands in the report.
		t.Run(profile, func(t *testing.T) { publishes(t, profile, file, false) })
		return
	}
	file := filepath.Join(t.TempDir(), "memory.json")
	t.Run("like S3", func(t *testing.T) { publishes(t, "like S3", file, true) })
	if out, err := child(t, file, "like S3"); err != nil {
		t.Errorf("the same run differs from its own file: %v\n%s", err, out)
	}
	if out, err := child(t, file, "like S3", "-test.run=^TestAReportIsHeldAgainstItsFile$/like_S3/a_lock_ends"); err != nil {
		t.Errorf("a part of the same run differs from the file: %v\n%s", err, out)
	}
	for name, c := range map[string]struct{ file, profile string }{
		"another kind of bucket": {file, "bare"},
		"no file":                {file + "-missing", "like S3"},
	} {
		out, err := child(t, c.file, c.profile)
		if want := "run the test with -update"; err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, want a failure with %q\n%s", name, err, want, out)
		}
	}
}

func FuzzReportsAreParsedOrRefused(f *testing.F) {
	f.Add([]byte(`{"provider":"S3","server":"s","bucket":"b","test":"t","results":[{"case":"c","capability":"locks","outcome":"proven"}]}`))
	f.Add([]byte(`{"provider":"S3","server":"s","bucket":"b","test":"t","results":[{"case":"c","capability":"locks","outcome":"failed"}]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := storetest.ParseReport(b)
		if err != nil {
			return
		}
		for _, res := range r.Results {
			if res.Outcome == storetest.Failed || res.Outcome == "" {
				t.Errorf("%+v was accepted", res)
			}
		}
		again, err := storetest.ParseReport(r.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, again); diff != "" {
			t.Errorf("written and read again (-want +got):\n%s", diff)
		}
	})
}
