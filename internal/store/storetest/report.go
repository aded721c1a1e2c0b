package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Report is what one run of the suite showed, kept as a file beside the tests, from which
// docs/reference/stores.md is generated. A provider has one for each kind of bucket and server
// it is run against.
type Report struct {
	Provider string `json:"provider"` // filled in
	Server   string `json:"server"`   // what it was proven against, e.g. "MinIO, TLS"
	Bucket   string `json:"bucket"`   // the kind of bucket, e.g. "versions and object lock"
	Test     string `json:"test"`     // filled in: directory and name of the test

	// Limits are sentences about what cannot be proven against this server, whatever the
	// suite does: an emulator that encodes a document shows that we follow the document.
	Limits []string `json:"limits,omitempty"`

	Results []Result `json:"results"` // filled in, in the order of the suite
}

// Publish makes o record the run that follows, and when the test ends has the test fail if the
// file tells otherwise, or writes the file if update is set. It is one line before Run:
//
//	storetest.Report{Server: "MinIO, TLS", Bucket: "versions"}.Publish(t, &o, "../results/s3-minio-versions.json", *update)
//	storetest.Run(t, o)
//
// A test run in part (go test -run) is held against its part of the file. Nothing is written
// of a run that failed or was not whole.
func (r Report) Publish(t *testing.T, o *Options, file string, update bool) {
	t.Helper()
	r.Provider = o.Want.Provider
	r.Test = nameOf(t, callerFunction())
	if r.Server == "" || r.Bucket == "" {
		t.Fatal("a Report needs Server and Bucket")
	}
	o.Record = func(got Result) { r.Results = append(r.Results, got) }
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		if !update {
			r.compare(t, file)
			return
		}
		if err := r.write(file); err != nil {
			t.Error(err)
		}
	})
}

// callerFunction is the full name of the function that called Publish.
func callerFunction() string {
	pc, _, _, ok := runtime.Caller(2)
	if !ok {
		return ""
	}
	return runtime.FuncForPC(pc).Name()
}

// nameOf is the directory of a test in the repository and its name.
func nameOf(t *testing.T, function string) string {
	dir, last := filepath.Split(function)
	pkg, _, _ := strings.Cut(last, ".")
	return strings.TrimPrefix(dir+strings.TrimSuffix(pkg, "_test"), "druid.internal/druid/") + ": " + t.Name()
}

// whole says whether every case of the suite was run.
func (r Report) whole() bool { return len(r.Results) == len(cases) }

func (r Report) write(file string) error {
	if !r.whole() {
		return fmt.Errorf("%s is not written: %d of %d cases were run", file, len(r.Results), len(cases))
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, r.Encode(), 0o644)
}

// Encode is the content of the file.
func (r Report) Encode() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		panic(err) // it is made of strings
	}
	return b.Bytes()
}

func (r Report) compare(t *testing.T, file string) {
	t.Helper()
	const remedy = "if that is right, run the test with -update and then make generate"
	want, err := ReadReport(file)
	if err != nil {
		t.Errorf("%v; %s", err, remedy)
		return
	}
	if !r.whole() {
		want.Results = only(want.Results, r.Results)
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("this run showed something else than %s tells (-file +run); %s:\n%s", file, remedy, diff)
	}
}

// only are those of all whose case is among some.
func only(all, some []Result) []Result {
	ran := map[string]bool{}
	for _, r := range some {
		ran[r.Case] = true
	}
	var kept []Result
	for _, r := range all {
		if ran[r.Case] {
			kept = append(kept, r)
		}
	}
	return kept
}

// ReadReport reads what Publish has written. A report with fields of a later version, or of a
// failed run, is an error.
func ReadReport(file string) (Report, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return Report{}, fmt.Errorf("the results of the conformance suite: %w", err)
	}
	r, err := ParseReport(b)
	if err != nil {
		return Report{}, fmt.Errorf("the results of the conformance suite: %s: %w", file, err)
	}
	return r, nil
}

// ParseReport parses the content of such a file.
func ParseReport(b []byte) (Report, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var r Report
	if err := d.Decode(&r); err != nil {
		return Report{}, err
	}
	if r.Provider == "" || r.Server == "" || r.Bucket == "" || r.Test == "" || len(r.Results) == 0 {
		return Report{}, errors.New("it lacks provider, server, bucket, test or results")
	}
	for _, res := range r.Results {
		if res.Case == "" || !known(res.Outcome) || res.Outcome == Failed {
			return Report{}, fmt.Errorf("the case %q has the outcome %q", res.Case, res.Outcome)
		}
	}
	return r, nil
}

func known(o Outcome) bool {
	for _, other := range worstFirst {
		if o == other {
			return true
		}
	}
	return false
}
