package e2e

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"druid.internal/druid/examples/policies"
	"druid.internal/druid/test/history"
	"druid.internal/druid/test/stores"
)

// assume returns temporary keys with no more rights than the policy gives.
func assume(t *testing.T, m *stores.MinIO, policy string) stores.Keys {
	t.Helper()
	keys, err := m.Assume(t.Context(), policy)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

type verdicts struct {
	Chains []struct {
		Base, Reason string
		End          int64
		OK           bool
	}
	OK bool
}

func (p place) verifies() verdicts {
	p.t.Helper()
	v := decode[verdicts](p.t, p.succeeds("verify", "--all", "-o=json"))
	if !v.OK || len(v.Chains) == 0 {
		p.t.Errorf("verify: %+v", v)
	}
	return v
}

// TestAWriterWithoutTheRightToDeleteDoesEveryVerbOnALockedBucket goes through the life of a
// backup in a compliance bucket with the rights that the documentation recommends, no more.
func TestAWriterWithoutTheRightToDeleteDoesEveryVerbOnALockedBucket(t *testing.T) {
	t.Parallel()
	m := sharedMinIO(t)
	bucket := newBucket(t, m, stores.Compliance)
	w := newWorld(t, 11, 120)
	w.place = inS3(t, m, m.Endpoint, bucket, assume(t, m, policies.S3(policies.Writer, bucket, prefix)))

	says(t, w.succeeds("store probe"), "not proven")

	r := w.snapshot("--data-dir=" + w.etcd.DataDir())
	w.uploaded(r, 1)
	first := w.write(150)
	w.uploaded(r, first)
	moment := time.Now()
	last := w.write(200)
	w.uploaded(r, last)
	r.stop()

	l := w.list()
	if l.end() != last || len(l.Lineages) != 1 {
		t.Fatalf("restorable up to %d in %d lineages, want %d in one", l.end(), len(l.Lineages), last)
	}
	for _, f := range l.Findings {
		if f.Severity != "info" {
			t.Errorf("an undisturbed backup has a finding: %+v", f)
		}
	}
	deltas := l.all("Incr")
	if len(deltas) < 3 {
		t.Fatalf("only %d deltas", len(deltas))
	}
	for _, s := range append(l.all("Full"), deltas...) {
		if s.Protection == nil || !strings.EqualFold(s.Protection.Mode, "compliance") || time.Until(s.Protection.Until) < 23*time.Hour {
			t.Errorf("%s is not shown as locked for a day: %+v", s.Name, s.Protection)
		}
	}
	says(t, w.succeeds("list"), deltas[0].Name)
	w.verifies()

	says(t, w.succeeds("compact", "-o=json"), `"snapshot"`)
	if got := len(w.list().all("Full")); got != 2 {
		t.Errorf("%d fulls after compaction, want 2", got)
	}
	w.verifies()
	says(t, w.succeeds("compact"), "nothing to do")

	inside := deltas[1].From
	for what, c := range map[string]struct {
		want int64
		args []string
	}{
		"latest":      {last, nil},
		"a revision":  {inside, []string{fmt.Sprintf("--to-revision=%d", inside)}},
		"a time":      {first, []string{"--to-time=" + moment.UTC().Format(time.RFC3339Nano)}},
		"a snapshot":  {deltas[1].To, []string{"--snapshot=" + deltas[1].Name}},
		"all history": {last, []string{"--keep-history"}},
	} {
		dir, err := w.restore(c.args...)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		w.check(dir, c.want)
		if what == "latest" || what == "a time" {
			w.boots(dir, c.want)
		}
	}
	w.deletesNothing(m, bucket)
}

// deletesNothing tries to collect, as the writer and as the collector, what is locked.
func (w *world) deletesNothing(m *stores.MinIO, bucket string) {
	t := w.t
	t.Helper()
	before := versions(t, m, bucket)
	collector := inS3(t, m, m.Endpoint, bucket, assume(t, m, policies.S3(policies.Collector, bucket, prefix)))
	policy := []string{"--garbage-collection-policy=LimitBased", "--max-backups=1", "-o=json"}
	type plan struct {
		Decisions []struct {
			Key, Action string
			Until       time.Time
		}
	}
	blocked := 0
	for _, d := range decode[plan](t, collector.succeeds("collect", policy...)).Decisions {
		if d.Action == "delete" {
			t.Errorf("%s is locked and is to be deleted", d.Key)
		}
		if d.Action == "blocked" {
			blocked++
			if time.Until(d.Until) < 23*time.Hour {
				t.Errorf("%s is blocked until %s, want about a day", d.Key, d.Until)
			}
		}
	}
	if blocked == 0 {
		t.Error("nothing is blocked, though compaction made a newer full")
	}
	collector.succeeds("collect", append(policy, "--yes")...)
	w.succeeds("collect", append(policy, "--yes")...) // the writer finds everything locked as well
	if after := versions(t, m, bucket); len(after) != len(before) {
		t.Errorf("%d versions, there were %d", len(after), len(before))
	}
}

// versions lists everything in a bucket, markers as well.
func versions(t *testing.T, m *stores.MinIO, bucket string) []types.ObjectIdentifier {
	t.Helper()
	var found []types.ObjectIdentifier
	pages := s3.NewListObjectVersionsPaginator(m.Client(m.Root), &s3.ListObjectVersionsInput{Bucket: &bucket})
	for pages.HasMorePages() {
		page, err := pages.NextPage(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range page.Versions {
			found = append(found, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
		}
		for _, v := range page.DeleteMarkers {
			found = append(found, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
		}
	}
	return found
}

// TestCollectingDeletesWhatIsNoLongerLockedAndLeavesTheRestRestorable lifts the locks of a
// governance bucket, which its owner may do.
func TestCollectingDeletesWhatIsNoLongerLockedAndLeavesTheRestRestorable(t *testing.T) {
	t.Parallel()
	m := sharedMinIO(t)
	bucket := newBucket(t, m, stores.Governance)
	w := newWorld(t, 12, 80)
	w.useS3(m, m.Endpoint, bucket)
	w.backup(120) // its full may hold all of that already,
	w.backup(60)  // but not this, so that there is something to compact
	says(t, w.succeeds("compact"), "stored")
	first := w.list()
	last := w.backup(60)
	// Another cluster, whose prefix begins with ours.
	twin := strings.TrimSuffix(prefix, "/") + "-2/v2/"
	v := newVault(t, m, bucket)
	for _, k := range v.keys() {
		v.put(twin+path.Base(k), v.get(k))
	}

	collector := inS3(t, m, m.Endpoint, bucket, assume(t, m, policies.S3(policies.Collector, bucket, prefix)))
	policy := []string{"--garbage-collection-policy=LimitBased", "--max-backups=1", "-o=json"}
	before := versions(t, m, bucket)
	collector.succeeds("collect", append(policy, "--yes")...)
	if got := versions(t, m, bucket); len(got) != len(before) {
		t.Fatalf("%d of %d versions are left, though all are locked", len(got), len(before))
	}
	client := m.Client(m.Root)
	for _, v := range before {
		if _, err := client.PutObjectRetention(t.Context(), &s3.PutObjectRetentionInput{Bucket: &bucket, Key: v.Key, VersionId: v.VersionId,
			BypassGovernanceRetention: aws.Bool(true), Retention: &types.ObjectLockRetention{}}); err != nil {
			t.Fatal(err)
		}
	}
	collector.succeeds("collect", policy...)
	if got := versions(t, m, bucket); len(got) != len(before) {
		t.Fatalf("a dry run deleted %d versions", len(before)-len(got))
	}
	says(t, collector.succeeds("collect", append(policy, "--yes")...), `"result": "deleted"`)
	twins := 0
	for _, v := range versions(t, m, bucket) {
		if strings.HasPrefix(*v.Key, twin) {
			twins++
		}
	}
	if twins != len(before)/2 {
		t.Errorf("of another cluster's %d objects %d are left", len(before)/2, twins)
	}
	gone := first.all("Full")[0]
	left := w.list()
	for _, s := range append(left.all("Full"), left.all("Incr")...) {
		if s.Name == gone.Name {
			t.Errorf("%s was to be deleted", s.Name)
		}
	}
	for _, v := range versions(t, m, bucket) {
		if strings.HasPrefix(*v.Key, prefix+"/") && strings.Contains(*v.Key, gone.Name) {
			t.Errorf("%s version %s is left", *v.Key, *v.VersionId)
		}
	}
	if left.end() != last {
		t.Errorf("restorable up to %d, want %d", left.end(), last)
	}
	w.verifies()
	dir, err := w.restore()
	if err != nil {
		t.Fatal(err)
	}
	w.check(dir, last)
}

// served is the key space an etcd serves.
func served(t *testing.T, e *stores.Etcd) (kvs keyValues, rev int64) {
	t.Helper()
	kvs, rev, err := history.Read(t.Context(), connect(t, e), 0)
	if err != nil {
		t.Fatal(err)
	}
	return kvs, rev
}
