package copier

import (
	"errors"
	"strings"
	"testing"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/store/storetest"
)

func TestADestinationOfAnotherHistoryIsRefused(t *testing.T) {
	owner := func(id string) func(bucket) {
		return func(b bucket) {
			b.raw(snapshot.OwnerKey(newHome, 1).String(), []byte(`{"version":1,"id":"`+id+`","note":"pod-0"}`))
		}
	}
	holds := func(l snapshot.Lineage, names ...string) func(bucket) {
		return func(b bucket) { b.fill(newHome, l, names...) }
	}
	nothing := func(bucket) {}
	named := func(b bucket) {
		b.fill(oldHome, lineageA, streams[:5]...)
		b.fill(oldHome, lineageB, full(36, 3000))
	}
	without := func(b bucket) { b.fill(oldHome, unnamed, streams[:5]...) }
	for title, c := range map[string]struct {
		source, destination func(bucket)
		want                string // part of the refusal; empty: accepted
	}{
		"nothing is there":                      {named, nothing, ""},
		"an earlier copy":                       {named, holds(lineageA, streams[:3]...), ""},
		"an earlier copy of what is gone since": {named, holds(lineageA, full(5, 0)), ""},
		"an earlier copy without manifests":     {without, holds(unnamed, streams[:3]...), ""},
		"of two restores, of which both are gone since": {func(b bucket) {
			b.fill(oldHome, snapshot.Lineage{ID: "c", Parent: "b", Fork: 36}, full(37, 3100))
		}, func(b bucket) {
			b.fill(newHome, lineageA, streams[:3]...)
			b.fill(newHome, lineageB, full(36, 3000))
		}, ""},
		"unnamed and gone since":           {without, holds(unnamed, full(5, 0)), ""},
		"a copy whose manifest is missing": {named, holds(unnamed, streams[0]), ""},
		"our owner":                        {named, owner("a"), ""},
		"our youngest lineage as owner":    {named, owner("b"), ""},
		"another owner":                    {named, owner("x"), `owned by "x" (pod-0)`},
		"an owner nobody can read": {named, func(b bucket) {
			b.raw(snapshot.OwnerKey(newHome, 1).String(), []byte(`{`))
		}, "its owner is not known"},
		"another lineage":                      {named, holds(snapshot.Lineage{ID: "x"}, streams[0]), "lineage x"},
		"what a cluster restored there writes": {named, holds(snapshot.Lineage{ID: "c", Parent: "b", Fork: 36}, full(37, 3100)), "lineage c"},
		"snapshots of no lineage":              {named, holds(unnamed, full(77, 0)), "the unnamed lineage"},
		"newer than the source, of no lineage": {without, holds(unnamed, full(77, 5000)), full(77, 5000)},
	} {
		t.Run(title, func(t *testing.T) {
			from, to := newBucket(t, storetest.S3Like()), newBucket(t, storetest.S3Like())
			c.source(from)
			c.destination(to)
			_, err := newCopier(t, from.Memory, to.Memory, from.options()).Plan(t.Context())
			if c.want == "" {
				if err != nil {
					t.Errorf("Plan = %v, want no error", err)
				}
				return
			}
			if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--take-over") {
				t.Errorf("Plan = %v, want ErrForeign with %q and the remedy", err, c.want)
			}
			o := from.options()
			o.TakeOver = true
			p, err := newCopier(t, from.Memory, to.Memory, o).Plan(t.Context())
			if err != nil || len(p.Warnings) == 0 || !strings.Contains(p.Warnings[0], c.want) {
				t.Errorf("taking over: %v with warnings %q, want the refusal as a warning", err, p.Warnings)
			}
		})
	}
}

// A lineage that left the unnamed one says so by a fork without a parent. An earlier copy of
// what was before is no stranger, even if nothing of it is left at the source.
func TestTheUnnamedLineageIsKnownToWhatLeftIt(t *testing.T) {
	for last, want := range map[int]error{10: nil, 60: nil, 61: ErrForeign} {
		from, to := newBucket(t, storetest.S3Like()), newBucket(t, storetest.S3Like())
		from.fill(oldHome, snapshot.Lineage{ID: "a", Fork: 60}, full(61, 4000))
		to.fill(newHome, unnamed, full(last, 0))
		if _, err := newCopier(t, from.Memory, to.Memory, from.options()).Plan(t.Context()); !errors.Is(err, want) {
			t.Errorf("with an unnamed full at %d: Plan = %v, want %v", last, err, want)
		}
	}
}

func TestOwnerRecordsAreNotCopied(t *testing.T) {
	from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
	from.raw(snapshot.OwnerKey(oldHome, 1).String(), []byte(`{"version":1,"id":"a"}`))
	mustRun(t, newCopier(t, from.Memory, to.Memory, from.options()))
	if n := len(to.Versions(snapshot.OwnerKey(newHome, 1).String())); n != 0 {
		t.Error("the owner record was copied")
	}
}
