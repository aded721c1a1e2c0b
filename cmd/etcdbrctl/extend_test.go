package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/engine/extender"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/local"
)

// sleeping is a directory with the original's backups, locked for an hour.
func sleeping(t *testing.T, hours int) (args []string, key string, s *local.Store) {
	t.Helper()
	dir := t.TempDir()
	s, err := local.New(dir, local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join("..", "..", "testdata", "upstream-bucket-gzip")
	until := time.Now().Add(time.Duration(hours) * time.Hour)
	err = filepath.WalkDir(source, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(source, path)
		if err != nil || e.IsDir() || !strings.HasPrefix(rel, "ns--uid") {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if strings.Contains(rel, "Full-") {
			key = filepath.ToSlash(rel)
		}
		_, err = s.Put(t.Context(), filepath.ToSlash(rel), f, store.PutOptions{Retention: &immutability.Retention{Mode: immutability.ModeGovernance, Until: until}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return []string{"extend-snapshot-immutability", "--storage-provider=Local", "--store-container=" + dir, "--store-prefix=ns--uid/etcd-main", "--retention-period=96h"}, key, s
}

// dates and sizes of bytes in a table of this verb.
var passing = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\dZ`)

func TestASleepingBackupIsKeptLocked(t *testing.T) {
	args, key, s := sleeping(t, 1)
	code, dry, stderr := etcdbrctl(t, append(args, "--dry-run")...)
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	compareGolden(t, filepath.Join("testdata", "extend-dry-run.txt"), passing.ReplaceAllString(dry, "2026-01-01 00:00:00Z"))
	before, err := s.Stat(t.Context(), store.Version{Key: key})
	if err != nil || time.Until(before.Retention.Until) > time.Hour {
		t.Fatalf("a dry run changed it: %+v, %v", before, err)
	}
	notice := filepath.Join(t.TempDir(), "notice")
	code, done, stderr := etcdbrctl(t, append(args, "--notice-file="+notice)...)
	left, err := os.ReadFile(notice)
	if n, found := immutability.ParseNotice(string(left)); err != nil || !found || n.Snapshot != path.Base(key) || time.Until(n.Until) < 95*time.Hour || n.Damaged != "" || n.End != 871 {
		t.Errorf("it left %q, %v; want what is kept", left, err)
	}
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	compareGolden(t, filepath.Join("testdata", "extend.txt"), passing.ReplaceAllString(done, "2026-01-01 00:00:00Z"))
	after, err := s.Stat(t.Context(), store.Version{Key: key})
	if err != nil || time.Until(after.Retention.Until) < 95*time.Hour {
		t.Errorf("locked until %+v, %v", after.Retention, err)
	}
	code, again, stderr := etcdbrctl(t, append(args, "-o=json")...)
	var r extender.Report
	if err := json.Unmarshal([]byte(again), &r); err != nil || code != exitOK || r.Changes != 0 || len(r.Objects) != 3 || r.Objects[0].Reason != "enough time is left" {
		t.Errorf("again: exit code %d, %+v, %v: %s", code, r, err, stderr)
	}
	if !strings.Contains(again, `"period": "96h"`) {
		t.Errorf("the period is not told as the verbs about buckets tell it: %s", again)
	}
}

func TestADamagedSleepingBackupHasAnExitCodeOfItsOwn(t *testing.T) {
	args, _, s := sleeping(t, 1)
	dir := s.Capabilities().Location
	middle, err := filepath.Glob(filepath.Join(dir, "ns--uid/etcd-main/v2/Incr-00000857*"))
	if err != nil || len(middle) != 1 {
		t.Fatal(middle, err)
	}
	b, err := os.ReadFile(middle[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := errorsOf(os.Chmod(middle[0], 0o644), os.WriteFile(middle[0], b, 0o644)); err != nil {
		t.Fatal(err)
	}
	notice := filepath.Join(t.TempDir(), "notice")
	code, stdout, stderr := etcdbrctl(t, append(args, "--notice-file="+notice)...)
	left, err := os.ReadFile(notice)
	if n, found := immutability.ParseNotice(string(left)); err != nil || !found || !strings.Contains(n.Damaged, "Incr-00000857") || n.End != 856 {
		t.Errorf("it left %q, %v; want what is damaged", left, err)
	}
	if code != exitFellBack || !strings.Contains(stdout, "DAMAGED") || !strings.Contains(stdout, "to revision 856") ||
		!strings.Contains(stderr, "a backup is damaged and is not kept locked") || !strings.Contains(stderr, "Incr-00000857") {
		t.Errorf("exit code %d, want %d: %s%s", code, exitFellBack, stdout, stderr)
	}
}

// A date that was computed from the bucket's policy is likely, and not proven.
func TestANoticeTellsWhetherItsDateWasComputed(t *testing.T) {
	for _, inferred := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "notice")
		r := extender.Report{Base: "Full-1", Protection: immutability.Summary{Objects: 2, Until: time.Now(), Inferred: inferred}}
		if err := leaveNotice(file, time.Now(), r, nil, false); err != nil {
			t.Fatal(err)
		}
		left, err := os.ReadFile(file)
		if n, found := immutability.ParseNotice(string(left)); err != nil || !found || n.Inferred == nil || *n.Inferred != inferred {
			t.Errorf("inferred %t: it left %q, %v", inferred, left, err)
		}
	}
}

// The notice is about what was asked for, not about what is newest.
func TestANoticeIsAboutWhatWasNamed(t *testing.T) {
	until := time.Now().UTC().Truncate(time.Second)
	excluded := slices.Repeat([]string{"Full-4"}, immutability.MostNamed+1)
	newest := extender.Report{Base: "Full-2", End: 9, Protection: immutability.Summary{Objects: 2, Until: until.Add(time.Hour)}, Excluded: excluded}
	for phrase, c := range map[string]struct {
		change func(*extender.Report)
		err    error
		want   immutability.Notice
	}{
		"both are kept": {func(r *extender.Report) {
			r.Kept = &extender.Kept{Asked: "Full-1", Name: "Full-1c", End: 8, Whole: true, Newer: "Full-2", Protection: immutability.Summary{Objects: 2, Until: until}}
		}, nil, immutability.Notice{Snapshot: "Full-1c", End: 8, Whole: true, Until: until, Recorded: "Full-1", Newer: "Full-2", NewestEnd: 9}},
		"what it holds is not understood": {func(r *extender.Report) {
			r.Kept = &extender.Kept{Asked: "Full-1", Name: "Full-1", End: 8, Unproven: "of no known kind", Protection: immutability.Summary{Objects: 2, Until: until}}
		}, nil, immutability.Notice{Snapshot: "Full-1", End: 8, Unproven: "of no known kind", Until: until, Recorded: "Full-1", NewestEnd: 9}},
		"the newer one is damaged": {func(r *extender.Report) {
			r.Kept = &extender.Kept{Asked: "Full-1", Name: "Full-1", End: 8, Newer: "Full-2: a hole", Protection: immutability.Summary{Objects: 2, Until: until}}
			r.Damaged = []replay.Damage{{Object: "Full-2", Reason: "a hole"}}
		}, extender.ErrFellBack, immutability.Notice{Snapshot: "Full-1", End: 8, Until: until, Recorded: "Full-1", Newer: "Full-2: a hole", NewestEnd: 9}},
		"the newer one cannot be chosen": {func(r *extender.Report) {
			*r = extender.Report{Excluded: excluded, Kept: &extender.Kept{Asked: "Full-1", Name: "Full-1", End: 8, Newer: "two histories", Protection: immutability.Summary{Objects: 2, Until: until}}}
		}, &restoreplan.NoWayError{}, immutability.Notice{Snapshot: "Full-1", End: 8, Until: until, Recorded: "Full-1", Newer: "two histories"}},
		"it is gone": {func(r *extender.Report) {
			r.Kept = &extender.Kept{Asked: "Full-3", Problem: "Full-3: it is gone"}
			r.Damaged = []replay.Damage{{Object: "Full-3", Reason: "it is gone"}}
		}, extender.ErrNotKept, immutability.Notice{Snapshot: "Full-2", End: 9, Until: until.Add(time.Hour), Recorded: "Full-3", Damaged: "Full-3: it is gone", NewestEnd: 9}},
	} {
		file, r := filepath.Join(t.TempDir(), "notice"), newest
		c.change(&r)
		if err := leaveNotice(file, time.Now(), r, c.err, false); err != nil {
			t.Fatal(err)
		}
		left, _ := os.ReadFile(file)
		got, found := immutability.ParseNotice(string(left))
		if got.ExcludedCount == nil || *got.ExcludedCount != len(excluded) || len(got.Excluded) != immutability.MostNamed {
			t.Errorf("%s: %+v, want that it tells what is excluded", phrase, got)
		}
		got.At, got.Inferred, got.Excluded, got.ExcludedCount = time.Time{}, nil, nil, nil
		if !found || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", phrase, got, c.want)
		}
	}
}

// A run that could not look at what it was to keep says nothing of it, whatever it found out besides.
func TestARunThatFailedSaysNothingOfWhatItWasToKeep(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notice")
	r := extender.Report{Base: "Full-2", End: 9, Protection: immutability.Summary{Objects: 2}, Kept: &extender.Kept{Asked: "Full-1"}}
	if err := leaveNotice(file, time.Now(), r, errors.New("reset by peer"), false); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadFile(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it says %s, %v", left, err)
	}
}

// The same in three lines looks like three faults.
func TestATableOfWhatIsKeptSaysEverythingOnce(t *testing.T) {
	const newer = "Full-9 of the unnamed lineage"
	for phrase, c := range map[string]struct {
		report extender.Report
		want   string
	}{
		"passed over":              {extender.Report{PassedOver: newer}, "NEWER     " + newer},
		"passed over, with a name": {extender.Report{PassedOver: newer, Kept: &extender.Kept{Newer: newer}}, "NEWER     " + newer},
		"damaged, with a name":     {extender.Report{Damaged: []replay.Damage{{Object: "Full-9", Reason: "a hole"}}, Kept: &extender.Kept{Newer: "Full-9: a hole"}}, "DAMAGED   Full-9: a hole"},
		"newer and damaged":        {extender.Report{Damaged: []replay.Damage{{Object: "Incr-2", Reason: "a hole"}}, Kept: &extender.Kept{Newer: newer}}, "NEWER     " + newer},
	} {
		var out strings.Builder
		if err := extendTable(&out, c.report); err != nil || !strings.Contains(out.String(), c.want+"\n") || strings.Count(out.String(), "Full-9") != 1 {
			t.Errorf("%s: %v, want %q once:\n%s", phrase, err, c.want, out.String())
		}
	}
	file := filepath.Join(t.TempDir(), "notice")
	if err := leaveNotice(file, time.Now(), extender.Report{PassedOver: newer}, extender.ErrFellBack, false); err != nil {
		t.Fatal(err)
	}
	left, _ := os.ReadFile(file)
	if n, found := immutability.ParseNotice(string(left)); !found || n.Damaged != newer {
		t.Errorf("it left %q, want that something newer was passed over", left)
	}
}

func TestANoticeTellsThatNothingIsLeft(t *testing.T) {
	args, key, s := sleeping(t, 1)
	dir := filepath.Join(s.Capabilities().Location, filepath.Dir(filepath.FromSlash(key)))
	if err := errorsOf(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	notice := filepath.Join(t.TempDir(), "notice")
	code, _, stderr := etcdbrctl(t, append(args, "--notice-file="+notice)...)
	left, err := os.ReadFile(notice)
	if n, found := immutability.ParseNotice(string(left)); code == exitOK || err != nil || !found || n.Damaged == "" || n.Snapshot != "" {
		t.Errorf("exit code %d, it left %q, %v; want that nothing is there: %s", code, left, err, stderr)
	}
}

func errorsOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestAMomentIsReadAsDateOrAsSeconds(t *testing.T) {
	want := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	for text, ok := range map[string]bool{"2026-11-22T08:00:00Z": true, "2026-11-22T09:00:00+01:00": true, "1795334400": true,
		"-5": false, "0": false, "1e9": false, "99999999999999999999": false, "2026-11-22": false, "1795334400.5": false, " 1795334400": false} {
		got, err := parseSince(text)
		if (err == nil) != ok || ok && !got.Equal(want) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	if got, err := parseSince(""); err != nil || !got.IsZero() {
		t.Errorf("nothing: %s, %v", got, err)
	}
}

func FuzzAMomentIsInTheEraOfDates(f *testing.F) {
	for _, s := range []string{"", "1795334400", "2026-11-22T08:00:00Z", "253402300800", "0001-01-01T00:00:00Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseSince(s)
		if err != nil || s == "" {
			return
		}
		if got.Unix() <= 0 || got.Unix() > lastSecond+86400 {
			t.Errorf("%q is %s", s, got)
		}
		if again, err := parseSince(got.Format(time.RFC3339)); got.Unix() <= lastSecond && (err != nil || again.Unix() != got.Unix()) {
			t.Errorf("%q: %s, %v", s, again, err)
		}
	})
}

// Runs that come too rarely for the period are told with the arithmetic, when what can be done is done.
func TestRunsTooRareForThePeriodHaveAnExitCode(t *testing.T) {
	args, key, s := sleeping(t, 1)
	notice := filepath.Join(t.TempDir(), "notice")
	code, stdout, stderr := etcdbrctl(t, append(args, "--every=168h", "--notice-file="+notice)...)
	if want := "locks last for 96h from a run, and the next one may be through after 169h"; code != exitTooWeak || !strings.Contains(stderr, want) || !strings.Contains(stdout, "extended") {
		t.Errorf("exit code %d, want %d: %s%s", code, exitTooWeak, stdout, stderr)
	}
	if o, err := s.Stat(t.Context(), store.Version{Key: key}); err != nil || time.Until(o.Retention.Until) < 95*time.Hour {
		t.Errorf("locked until %+v, %v", o.Retention, err)
	}
	left, err := os.ReadFile(notice)
	if n, found := immutability.ParseNotice(string(left)); err != nil || !found || time.Until(n.Until) < 95*time.Hour {
		t.Errorf("it left %q, %v", left, err)
	}
	if code, _, stderr := etcdbrctl(t, append(args, "--every=24h")...); code != exitOK {
		t.Errorf("with daily runs: exit code %d: %s", code, stderr)
	}
	if code, _, stderr := etcdbrctl(t, append(args, "--every=-1h")...); code != exitUsage || !strings.Contains(stderr, "--every") {
		t.Errorf("a negative one: exit code %d: %s", code, stderr)
	}
}
