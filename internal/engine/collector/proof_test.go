package collector

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func TestNothingIsDeletedWithoutAProof(t *testing.T) {
	for title, p := range profiles() {
		t.Run(title, func(t *testing.T) {
			b := newBucket(t, p)
			b.fill("a", threeStreams, nil)
			want := b.keys()
			o := b.options(keepOne)
			o.Prove = nil
			c := New(b, b, o)
			planned := plan(t, c)
			collect(t, c)
			if diff := cmp.Diff(want, b.keys()); diff != "" {
				t.Errorf("something was deleted (-want +got):\n%s", diff)
			}
			if planned.Waiting.Objects == 0 || len(planned.Proven) > 0 {
				t.Errorf("%+v wait and %v is proven, want some and none", planned.Waiting, planned.Proven)
			}
			var table strings.Builder
			if err := planned.WriteTable(&table); err != nil || !strings.Contains(table.String(), "waiting: 5 (") {
				t.Errorf("the table does not name what waits, %v:\n%s", err, table.String())
			}
		})
	}
}

// Only the second of three streams is proven, as when the newest full is damaged.
func TestNewestProvenChainAndWhatIsNewerStay(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, nil)
	o := b.options(keepOne)
	o.Prove = func(ctx context.Context, tl timeline.Timeline, id snapshot.LineageID) (retention.Proof, []string, error) {
		l, _ := tl.Lineage(id)
		for _, c := range l.Chains() {
			if c.Base.Name().String() == threeStreams[3] {
				return retention.NewProof(c.Base, nil, c.Base.Last, start), []string{"the newest full is damaged"}, nil
			}
		}
		return retention.Proof{}, nil, errors.New("no such full")
	}
	c := New(b, b, o)
	p := plan(t, c)
	if !slices.Contains(p.Notes, "the newest full is damaged") {
		t.Errorf("notes = %q", p.Notes)
	}
	collect(t, c)
	for _, name := range threeStreams {
		n, err := snapshot.ParseName(name)
		if err != nil {
			t.Fatal(err)
		}
		base, err := snapshot.ParseName(threeStreams[3])
		if err != nil {
			t.Fatal(err)
		}
		if got, want := slices.Contains(b.keys(), name), snapshot.Compare(n, base) >= 0; got != want {
			t.Errorf("%s is there: %t, want %t", name, got, want)
		}
	}
}

func TestChainIsReadOnlyIfItsProofLetsMoreGo(t *testing.T) {
	for title, c := range map[string]struct {
		locked time.Duration
		policy retention.Policy
		want   int
	}{
		"something may go":     {0, keepOne, 1},
		"everything is locked": {1000 * time.Hour, keepOne, 0},
		"nothing is to go":     {0, retention.Policy{Method: retention.LimitBased, MaxBackups: 9, DeltaRetention: 1000 * time.Hour}, 0},
		"there is no policy":   {0, retention.Policy{}, 0},
	} {
		for _, last := range []bool{false, true} {
			b := newBucket(t, storetest.S3Like())
			b.fill("a", threeStreams, func(string) store.PutOptions {
				if c.locked == 0 {
					return store.PutOptions{}
				}
				return lockedUntil(start.Add(c.locked))
			})
			o, read := b.options(c.policy), 0
			o.LocksLast = last
			o.Prove = func(ctx context.Context, tl timeline.Timeline, id snapshot.LineageID) (retention.Proof, []string, error) {
				read++
				return proveListed(ctx, tl, id)
			}
			collect(t, New(b, b, o))
			if read != c.want {
				t.Errorf("%s, locks last %t: %d chains were read, want %d", title, last, read, c.want)
			}
		}
	}
}

func TestProofIsVoidOnceAnObjectOfItChanges(t *testing.T) {
	for title, change := range map[string]func(t *testing.T, b bucket){
		"the full is written again": func(t *testing.T, b bucket) {
			if err := b.Delete(t.Context(), b.Versions(key(threeStreams[5]))[0].Version); err != nil {
				t.Fatal(err)
			}
			b.put(threeStreams[5], "-", store.PutOptions{})
		},
		"the full is gone": func(t *testing.T, b bucket) {
			if err := b.Delete(t.Context(), b.Versions(key(threeStreams[5]))[0].Version); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(title, func(t *testing.T) {
			b := newBucket(t, storetest.GCSLike())
			b.fill("a", threeStreams, nil)
			c := New(b, b, b.options(keepOne))
			p := plan(t, c)
			if len(p.Deletions()) == 0 {
				t.Fatal("nothing is to be deleted")
			}
			b.Clock.Advance(time.Minute)
			change(t, b)
			r, err := c.Execute(t.Context(), p)
			if err != nil || r.Total(Deleted).Objects != 0 || r.Total(Blocked).Objects+r.Total(Spared).Objects != len(p.Deletions()) {
				t.Errorf("%v, and of %d versions %d were deleted", err, len(p.Deletions()), r.Total(Deleted).Objects)
			}
		})
	}
}

func TestStoreThatFailsWhileAChainIsReadEndsThePlan(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, nil)
	o := b.options(keepOne)
	o.Prove = func(context.Context, timeline.Timeline, snapshot.LineageID) (retention.Proof, []string, error) {
		return retention.Proof{}, nil, store.ErrUnreachable
	}
	if _, err := New(b, b, o).Plan(t.Context()); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("Plan = %v, want %v", err, store.ErrUnreachable)
	}
}
