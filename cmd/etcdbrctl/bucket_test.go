package main

import (
	"strings"
	"testing"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/engine/provisioner"
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
