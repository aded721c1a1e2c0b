package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/engine/provisioner"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/admin"
	"druid.internal/druid/internal/store/local"
)

// What is locked stays so for ever, so nobody shall take the plan for the deed.
func TestAPlanToLockSaysHowItIsDone(t *testing.T) {
	step := immutability.BucketPlan{Steps: []immutability.BucketStep{{Do: immutability.BucketLock, Text: "lock it"}}}
	const give = "Give --yes to lock it."
	for phrase, c := range map[string]struct {
		view bucketView
		want bool
	}{
		"a plan":           {bucketView{Report: provisioner.Report{Plan: step}, DryRun: true, Lock: true}, true},
		"nothing to do":    {bucketView{DryRun: true, Lock: true}, false},
		"locked already":   {bucketView{Report: provisioner.Report{Plan: immutability.BucketPlan{Steps: []immutability.BucketStep{{Do: immutability.BucketLengthen}}}}, DryRun: true, Lock: true}, false},
		"done":             {bucketView{Report: provisioner.Report{Plan: step}, Lock: true}, false},
		"a plan to ensure": {bucketView{Report: provisioner.Report{Plan: step}, DryRun: true}, false},
	} {
		var out strings.Builder
		if err := bucketTable(&out, c.view); err != nil || strings.Contains(out.String(), give) != c.want {
			t.Errorf("%s: %v, want it to say %q: %v\n%s", phrase, err, give, c.want, out.String())
		}
	}
}

// A directory that shows locks of single files must not look as if they held.
func TestADirectoryThatIsInspectedSaysThatItsLocksAreAdvisory(t *testing.T) {
	b, err := local.NewAdmin(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r, err := provisioner.New(b).Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := bucketTable(&out, bucketView{Report: r}); err != nil || !strings.Contains(out.String(), immutability.Advice) {
		t.Errorf("%v, want it to say %q\n%s", err, immutability.Advice, out.String())
	}
}

// What a verb calls locked, it must not refuse to unlock as something else, or the other way round.
func TestATableSaysWhatLocksTheBucket(t *testing.T) {
	for want, b := range map[string]immutability.Bucket{
		"no":  {Exists: true},
		"yes": {Exists: true, Locked: true},
		"by a statement of its policy, which whoever may change that can take away": {Exists: true, Guards: []immutability.Guard{immutability.GuardSettings}},
	} {
		var out strings.Builder
		if err := bucketTable(&out, bucketView{Report: provisioner.Report{Before: b}}); err != nil || !regexp.MustCompile(`(?m)^locked +`+want+`$`).MatchString(out.String()) {
			t.Errorf("%v, want %q:\n%s", err, want, out.String())
		}
	}
}

// What was read before the steps must not look as if it were what came of them.
func TestATableOfWhatCouldNotBeReadBackSaysSo(t *testing.T) {
	r := provisioner.Report{Before: immutability.Bucket{Exists: true}, Done: []provisioner.Done{{BucketStep: immutability.BucketStep{Do: immutability.BucketVersions}}}}
	for _, read := range []bool{true, false} {
		if r.After = nil; read {
			r.After = &immutability.Bucket{Exists: true, Versioned: true}
		}
		var out strings.Builder
		if err := bucketTable(&out, bucketView{Report: r}); err != nil || strings.Contains(out.String(), "could not be read") == read {
			t.Errorf("read back %t: %v\n%s", read, err, out.String())
		}
	}
}

func TestABucketIsNotCalledABucketTwice(t *testing.T) {
	var out strings.Builder
	if err := bucketTable(&out, bucketView{Report: provisioner.Report{Location: "bucket one at https://s3.example"}}); err != nil || strings.Contains(out.String(), "bucket one") && strings.Contains(out.String(), "bucket  bucket") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// Neither is a matter of the store: another command line would do.
func TestWhatNoServerMakesABucketOfIsUsage(t *testing.T) {
	for _, kind := range []error{admin.ErrIncomplete, store.ErrBucketName} {
		err := fmt.Errorf("create: %w", &store.Failure{Kind: kind, Said: "no", Cause: errors.New("no")})
		if code := exitCode(err); code != exitUsage {
			t.Errorf("%v: exit code %d, want %d", err, code, exitUsage)
		}
	}
	if !errors.Is(store.ErrBucketName, store.ErrNoBucket) {
		t.Error("there is a bucket whose name is not allowed")
	}
}
