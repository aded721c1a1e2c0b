package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func TestOfManyClaimsAtOnceOneSucceeds(t *testing.T) {
	for label, profile := range map[string]storetest.Profile{
		"a store that refuses to overwrite": storetest.S3Like(),
		"one that only keeps versions":      storetest.CephLike(),
		"one without versions":              storetest.GCSLike(),
	} {
		t.Run(label, func(t *testing.T) {
			s := storetest.NewMemory(profile)
			var wg sync.WaitGroup
			errs := make([]error, 8)
			for i := range errs {
				wg.Go(func() {
					_, errs[i] = Claim(t.Context(), s, prefix, 0, snapshot.Owner{ID: fmt.Sprint("writer ", i)})
				})
			}
			wg.Wait()
			winner := ""
			for i, err := range errs {
				switch {
				case err == nil && winner != "":
					t.Fatalf("both %s and writer %d succeeded", winner, i)
				case err == nil:
					winner = fmt.Sprint("writer ", i)
				case !errors.Is(err, ErrClaimed):
					t.Fatal(err)
				}
			}
			if c := mustRead(t, s, Options{}); c.Owner == nil || c.Owner.ID != winner || c.Owner.Number != 1 {
				t.Fatalf("owner %+v, want %q", c.Owner, winner)
			}
		})
	}
}

func TestALostClaimIsRecognised(t *testing.T) {
	for label, fault := range map[string]storetest.Fault{
		"a lost response": storetest.LoseResponse().On(storetest.OpPut, "Owner-"),
		"nothing wrong":   storetest.Fail(store.ErrUnreachable).On(storetest.OpDelete, ""),
	} {
		t.Run(label, func(t *testing.T) {
			s := storetest.NewMemory(storetest.S3Like())
			faulty := storetest.NewFaulty(s)
			faulty.Inject(fault)
			for range 2 { // and again after a restart
				rec, err := Claim(t.Context(), faulty, prefix, 4, snapshot.Owner{ID: "me", Note: "here"})
				if err != nil || rec.Number != 5 || rec.ID != "me" {
					t.Fatalf("%+v (%v)", rec, err)
				}
			}
		})
	}
	faulty := storetest.NewFaulty(storetest.NewMemory(storetest.S3Like()))
	faulty.Inject(storetest.Fail(store.ErrUnknownOutcome).On(storetest.OpPut, ""))
	if _, err := Claim(t.Context(), faulty, prefix, 0, snapshot.Owner{ID: "me"}); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Fatalf("%v for a claim that never happened, want ErrUnknownOutcome", err)
	}
}

func TestTheHighestNumberAndItsOldestVersionCount(t *testing.T) {
	s := storetest.NewMemory(storetest.CephLike())
	for _, o := range []struct {
		number int64
		id     string
	}{{2, "second"}, {1, "first"}, {2, "forged later"}} {
		put(t, s, snapshot.OwnerKey(prefix, o.number).String(), encodeOwner(snapshot.Owner{ID: o.id}))
	}
	if c := mustRead(t, s, Options{}); c.Owner == nil || c.Owner.ID != "second" || c.Owner.Number != 2 {
		t.Fatalf("owner %+v", c.Owner)
	}
	s.Hide(snapshot.OwnerKey(prefix, 2).String())
	if c := mustRead(t, s, Options{}); c.Owner == nil || c.Owner.ID != "second" {
		t.Fatalf("owner %+v behind a marker", c.Owner)
	}
	if c := mustRead(t, s, Options{}); slices.ContainsFunc(c.Timeline.Findings, isBadOwner) {
		t.Errorf("found %v", c.Timeline.Findings)
	}
	for i, nonsense := range []string{"nonsense", "\x8f\x00\x1b[2J\n12", "{}"} {
		number := int64(i + 3)
		key := snapshot.OwnerKey(prefix, number).String()
		o := put(t, s, key, []byte(nonsense))
		c := mustRead(t, s, Options{})
		if c.Owner == nil || c.Owner.Number != number || !errors.Is(c.Owner.Err, ErrBadOwner) || !strings.HasPrefix(c.Owner.Err.Error(), o.Version.String()+" ") {
			t.Fatalf("owner %+v of a record that cannot be read", c.Owner)
		}
		at := slices.IndexFunc(c.Timeline.Findings, isBadOwner)
		if at < 0 || c.Timeline.Findings[at].Key != key || c.Timeline.Findings[at].Version != o.ID {
			t.Errorf("found %v, want %s", c.Timeline.Findings, key)
		}
	}
	put(t, s, snapshot.OwnerKey(prefix, 6).String(), encodeOwner(snapshot.Owner{ID: "who took over"}))
	if c := mustRead(t, s, Options{}); slices.ContainsFunc(c.Timeline.Findings, isBadOwner) {
		t.Errorf("after taking over it found %v", c.Timeline.Findings)
	}
}

func isBadOwner(f timeline.Finding) bool { return f.Code == timeline.BadOwnerRecord }

func FuzzParseOwner(f *testing.F) {
	f.Add(encodeOwner(snapshot.Owner{ID: "me", Note: "host"}))
	f.Add([]byte("{}"))
	at := store.Version{Key: "p/v2/Owner-00000007"}
	f.Fuzz(func(t *testing.T, b []byte) {
		rec := parseOwner(7, at, b)
		if rec.Number != 7 || rec.Err == nil && rec.ID == "" {
			t.Fatalf("%+v", rec)
		}
		if rec.Err == nil && rec.Since.Year() < 9999 && rec.Since.Year() > 0 {
			if again := parseOwner(7, at, encodeOwner(rec.Owner)); again.Err != nil || again.ID != rec.ID {
				t.Fatalf("%+v became %+v", rec, again)
			}
		}
	})
}
