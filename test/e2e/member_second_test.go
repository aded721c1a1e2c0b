package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/members"
	"druid.internal/druid/test/sites"
)

// TestASecondStoreIsKeptLikeTheFirstAndRestoresTheSame loses a delta of the first store, which the
// second still has, and has the second deny everything for a while, which holds nobody up.
func TestASecondStoreIsKeptLikeTheFirstAndRestoresTheSame(t *testing.T) {
	t.Parallel()
	site := fleet.Get(t, "MinIO")
	gate := gateTo(t, site)
	bucket := fleet.Bucket(t, site, sites.Versioned)
	way, err := site.Way(t.Context(), bucket, gate.Endpoint, sites.Owner)
	if err != nil {
		t.Fatal(err)
	}
	c := enlist(t, members.Options{Members: 3, Second: way, Sidecar: func(_ string, config map[string]any) {
		// Else deltas go with the next full, and those that the first lost would go in the second.
		config["snapshotterConfig"].(map[string]any)["deltaSnapshotRetentionPeriod"] = "1h"
	}}, "")
	second := inSite(t, site, "", bucket, sites.Owner)
	first := handsOn(t, site, containerOf(c.place), sites.Owner)
	c.start()
	c.upload(1) // the first full is there: what comes goes up in deltas
	c.work(2000).wait()
	_, early := c.holds(2)
	c.upload(early)
	c.follows(second, early)

	// The first loses a delta: what the second has of it stays there, and nobody deletes it after it.
	deltas := c.list().all("Incr")
	if len(deltas) == 0 {
		t.Fatalf("no delta holds what was written after the first full: %+v", c.list())
	}
	lost := deltas[len(deltas)-1]
	t.Logf("the first store loses %s, revisions %d to %d", lost.Key, lost.From, lost.To)
	first.destroy(lost.Key, true)
	if end := c.list().end(); end >= early {
		t.Fatalf("the first store still restores revision %d", end)
	}

	// The second denies everything: the first goes on, and the metrics of the writer say so.
	gate.Inject(faults.Fault{Status: http.StatusForbidden, Code: "AccessDenied"})
	failed := func() (n float64) { // by whoever writes the backups meanwhile
		for _, m := range c.Members() {
			of, _ := m.Metric(t.Context(), `etcdbr_secondary_sync_total{succeeded="false"}`) // absent until it happens
			n += of
		}
		return n
	}
	before := failed()
	c.work(2000).wait()
	_, rev := c.holds(2)
	sidecar, err := c.writer().Sidecar()
	c.must(err)
	defer sidecar.Close()
	c.await("a full is taken", func(ctx context.Context) error { // the first restores again, from here on
		full, err := sidecar.Full(ctx, false)
		if err == nil && full.LastRevision < rev {
			t.Errorf("the full ends at %d, want %d", full.LastRevision, rev)
		}
		return err
	})
	c.await("the metrics say that the second store denies", func(context.Context) error {
		if failed() == before {
			return errors.New("no copy has failed")
		}
		return nil
	})
	if end := second.list().end(); end >= rev {
		t.Fatalf("the second store reaches revision %d, though it denied", end)
	}
	gate.Heal()
	c.follows(second, rev)

	// Each restores what the living say; the second also what the first has lost.
	hash := c.hash(rev)
	for what, p := range map[string]place{"first": c.place, "second": second} {
		if _, got := p.mustRestore("--keep-history", fmt.Sprintf("--to-revision=%d", rev)); got.HashKV.Hash != hash {
			t.Errorf("the %s store restores revision %d to HashKV %08x, the members have %08x", what, rev, got.HashKV.Hash, hash)
		}
	}
	if _, got := second.mustRestore("--keep-history", fmt.Sprintf("--to-revision=%d", early)); got.HashKV.Hash != c.hash(early) {
		t.Errorf("the second store restores revision %d to HashKV %08x, the members have %08x", early, got.HashKV.Hash, c.hash(early))
	}
	for _, f := range second.list().Findings {
		if f.Severity == "error" {
			t.Errorf("finding about the second store: %+v", f)
		}
	}
	// Whatever lies in the first lies in the second, byte for byte, but for who owns it.
	there := handsOn(t, site, bucket, sites.Owner)
	has := there.keys()
	if !slices.Contains(has, lost.Key) {
		t.Errorf("the second store has no %s any more", lost.Key)
	}
	for _, lineage := range c.list().Lineages {
		for _, s := range lineage.Snapshots {
			if !slices.Contains(has, s.Key) {
				t.Errorf("the second store has no %s:\n  %s", s.Key, strings.Join(has, "\n  "))
			} else if a, b := first.get(s.Key), there.get(s.Key); !slices.Equal(a, b) {
				t.Errorf("%s is not the same in both stores: %d and %d bytes", s.Key, len(a), len(b))
			}
		}
	}
}

// follows waits until a second store restores a revision.
func (c *crew) follows(second place, rev int64) {
	c.t.Helper()
	c.await(fmt.Sprintf("revision %d is in the second store", rev), func(context.Context) error {
		if end := second.list().end(); end < rev {
			return fmt.Errorf("it ends at %d", end)
		}
		return nil
	})
}

// hash is the HashKV of the first member at a revision that it has.
func (c *crew) hash(rev int64) uint32 {
	c.t.Helper()
	m := c.Members()[0]
	client, err := c.ClientOf(m)
	c.must(err)
	defer client.Close()
	h, err := client.HashKV(c.t.Context(), m.ClientURL(), rev)
	c.must(err)
	return h.Hash
}
