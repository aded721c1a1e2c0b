package extender_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/collector"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/extender"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

const (
	prefix = enginetest.Prefix
	day    = 24 * time.Hour
	period = 4 * day
)

// The kinds of bucket, by the way in which they prolong.
func inPlace() storetest.Profile { return locking(storetest.S3Like()) }
func holding() storetest.Profile {
	p := locking(storetest.GCSLike())
	p.ObjectLock, p.HoldsOnly = false, true
	return p
}
func copying() storetest.Profile { // like a container of Azure with a policy
	p := locking(storetest.GCSLike())
	p.ObjectLock = false
	return p
}

func locking(p storetest.Profile) storetest.Profile {
	p.Default, p.Period = immutability.ModeCompliance, period
	return p
}

var lineage = snapshot.Lineage{ID: "0123456789abcdef0123456789abcdef"}

// sleeper is a bucket of a cluster that sleeps.
type sleeper struct {
	enginetest.Bucket
}

func asleep(t *testing.T, p storetest.Profile, fulls ...string) sleeper {
	s := sleeper{enginetest.NewBucket(t, p)}
	for _, f := range fulls {
		s.full(f, "the database "+f)
	}
	return s
}

// full writes a full with its manifest: a database that has the revision of its name, packed and with the digest that etcd appends.
func (s sleeper) full(name, content string) {
	s.T.Helper()
	s.object(name, packed(s.T, database(s.T, enginetest.MustName(name).Last, content)))
}

// packed is a file with the digest that etcd appends, as it is stored.
func packed(t *testing.T, file []byte) string {
	t.Helper()
	sum := sha256.Sum256(file)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(append(file, sum[:]...)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// object writes what is named like a full, with a manifest that has its digest.
func (s sleeper) object(name, content string) {
	s.T.Helper()
	n := enginetest.MustName(name)
	enginetest.Put(s.T, s.Memory, enginetest.Key(n), []byte(content))
	m := snapshot.Manifest{Version: 1, Snapshot: name, Lineage: lineage, Digest: sha256.Sum256([]byte(content)), Size: int64(len(content)),
		ContentSize: int64(len(content)), LastRevision: n.Last}
	enginetest.Put(s.T, s.Memory, snapshot.SnapshotKey(prefix, n).Manifest().String(), m.Encode())
}

func (s sleeper) request(at store.Store) extender.Request {
	return extender.Request{Store: at, Prefix: prefix, Now: s.Clock.Now, Since: enginetest.Start,
		Collect: func(only func(timeline.Snapshot) bool, prove extender.Prove) *collector.Collector {
			d, _ := store.As[store.Deleter](at)
			return collector.New(at, d, collector.Options{Prefix: prefix, Policy: extender.Copies, Only: only, Prove: prove, Now: s.Clock.Now})
		}}
}

func (s sleeper) extend(change ...func(*extender.Request)) extender.Report {
	s.T.Helper()
	r, err := s.try(s.Memory, change...)
	if err != nil {
		s.T.Fatal(err)
	}
	return r
}

func (s sleeper) try(at store.Store, change ...func(*extender.Request)) (extender.Report, error) {
	q := s.request(at)
	for _, c := range change {
		c(&q)
	}
	return extender.Run(s.T.Context(), q)
}

// locked is the retention of the only version of a key.
func (s sleeper) locked(key string) immutability.Retention {
	s.T.Helper()
	v := s.Versions(key)
	if len(v) != 1 {
		s.T.Fatalf("%s has %d versions", key, len(v))
	}
	return *v[0].Retention
}

func (s sleeper) end() snapshot.Revision {
	c, _ := s.Catalog(prefix).Timeline.Lineages[0].NewestChain()
	return c.End
}

func (s sleeper) names() (all []string) {
	for ref, o := range s.Catalog(prefix).Objects.All() {
		if !o.Marker && ref.Key.Object == snapshot.SnapshotObject {
			all = append(all, ref.Key.Name.String())
		}
	}
	return all
}

var full = enginetest.FullName(10, 0)

func TestALockThatEndsSoonIsProlongedInPlace(t *testing.T) {
	s := asleep(t, inPlace(), full)
	key := enginetest.Key(enginetest.MustName(full))
	if r := s.extend(); r.Changes != 0 || r.BytesRead != 0 {
		t.Errorf("while enough time is left: %+v", r)
	}
	s.Clock.Advance(3 * day)
	f := storetest.NewFaulty(s.Memory)
	r, err := s.try(f)
	if err != nil {
		t.Fatal(err)
	}
	want := s.Clock.Now().Add(period)
	if got := s.locked(key).Until; !got.Equal(want) {
		t.Errorf("locked until %s, want %s", got, want)
	}
	if !r.Protection.Protected() || !r.Protection.Until.Equal(want) || r.BytesMoved != 0 || r.Verified != "whole" || r.Changes != 2 || len(r.Objects) != 2 {
		t.Errorf("%+v", r)
	}
	for _, o := range r.Objects {
		if o.Way != immutability.WayRetention || o.Result != extender.Extended || !o.After.Equal(want) || !o.Before.Equal(enginetest.Start.Add(period)) {
			t.Errorf("%+v", o)
		}
	}
	if n := f.Count(storetest.OpExtend); n != 2 || f.Count(storetest.OpPut)+f.Count(storetest.OpCopy) != 0 {
		t.Errorf("%d extensions, calls %v", n, f.Calls())
	}
	f = storetest.NewFaulty(s.Memory)
	if r, err = s.try(f); err != nil || r.Changes != 0 || f.Count(storetest.OpExtend) != 0 {
		t.Errorf("right after: %+v, %v", r, err)
	}
}

// For a year, with a run each day, it never becomes deletable, whatever the way, and at the end little is left behind.
func TestASleepingBackupIsNeverDeletable(t *testing.T) {
	for name, p := range map[string]storetest.Profile{"in place": inPlace(), "hold": holding(), "copy": copying()} {
		t.Run(name, func(t *testing.T) {
			s := asleep(t, p, full)
			for range 365 {
				s.Clock.Advance(day)
				r := s.extend()
				if !r.Protection.Protected() || len(r.Warnings) > 0 {
					t.Fatalf("%+v", r)
				}
				c, _ := s.Catalog(prefix).Timeline.Lineages[0].NewestChain()
				v := store.Version{Key: c.Base.Key.String(), ID: c.Base.Version}
				var refused *store.ImmutableError
				if err := s.Delete(t.Context(), v); !errors.As(err, &refused) {
					t.Fatalf("the newest base could be deleted: %v", err)
				}
			}
			if s.end() != 10 {
				t.Errorf("a restore ends at %d", s.end())
			}
			if got := s.names(); len(got) > 4 {
				t.Errorf("left behind: %q", got)
			}
		})
	}
}

// What protects nothing without extension: the twin becomes deletable when its period is over.
func TestATwinWithoutExtensionBecomesDeletable(t *testing.T) {
	s := asleep(t, inPlace(), full)
	s.Clock.Advance(period + time.Minute)
	v := s.Versions(enginetest.Key(enginetest.MustName(full)))[0]
	if err := s.Delete(t.Context(), v.Version); err != nil {
		t.Error(err)
	}
}

func TestAHoldIsSetOnceAndNeverAgain(t *testing.T) {
	s := asleep(t, holding(), full)
	s.Clock.Advance(3 * day)
	r := s.extend()
	if !r.Protection.Held || r.Changes != 4 || r.Objects[0].Way != immutability.WayHold || !r.Objects[0].Held {
		t.Fatalf("%+v", r)
	}
	s.Clock.Advance(100 * day)
	if r = s.extend(); r.Changes != 0 || !r.Protection.Protected() || r.BytesRead != 0 {
		t.Errorf("later: %+v", r)
	}
}

// A cluster that woke up needs no hold any more once it has a newer backup. What somebody else holds stays held.
func TestHoldsOfRunsAreReleasedWhenThereIsSomethingNewer(t *testing.T) {
	release := func(q *extender.Request) { q.Release = true }
	s := asleep(t, holding(), full)
	s.full(enginetest.FullName(5, -10), "older")
	foreign := s.Versions(enginetest.Key(enginetest.MustName(enginetest.FullName(5, -10))))[0]
	if err := s.SetHold(t.Context(), foreign.Version, true); err != nil {
		t.Fatal(err)
	}
	s.Clock.Advance(3 * day)
	s.extend()
	held := func() (n int) {
		for _, o := range s.Catalog(prefix).Objects.All() {
			if o.Retention.Hold {
				n++
			}
		}
		return n
	}
	const ours = 2 // the full and its manifest
	if held() != ours+1 {
		t.Fatalf("%d are held", held())
	}
	if r := s.extend(release); r.Changes != 0 || r.Released || held() != ours+1 || !r.Protection.Held || len(r.Warnings) != 1 {
		t.Errorf("while there is nothing newer: %+v", r)
	}

	newer := enginetest.FullName(12, 1)
	s.full(newer, "the newer database")
	s.Flip(s.Versions(enginetest.Key(enginetest.MustName(newer)))[0].Version, 3)
	if r, err := s.try(s.Memory, release); !errors.Is(err, extender.ErrFellBack) || r.Released || held() != ours+1 {
		t.Errorf("while the newer one is damaged: %v, %+v", err, r)
	}
	newest := enginetest.FullName(14, 2)
	s.full(newest, "the newest database")
	plan := s.extend(release, func(q *extender.Request) { q.DryRun = true })
	if plan.Changes != 0 || plan.BytesRead != 0 || plan.Released || held() != ours+1 || plan.Objects[len(plan.Objects)-1].Result != extender.ToRelease {
		t.Errorf("a dry run: %+v", plan)
	}
	r := s.extend(release)
	if !r.Released || r.Changes != 2*ours || r.Verified != "whole" || r.Base != newest || held() != 1 {
		t.Errorf("%+v, and %d are held", r, held())
	}
	if lock := s.locked(enginetest.Key(enginetest.MustName(full))); lock.Hold {
		t.Errorf("what was released is locked so: %+v", lock)
	}
	if r = s.extend(release); !r.Released || r.Changes != 0 || r.BytesRead != 0 || held() != 1 {
		t.Errorf("the second time: %+v", r)
	}
}

// mortal fails after some changes.
type mortal struct {
	*storetest.Memory
	left int
}

var errDead = errors.New("dead")

func (m *mortal) SetHold(ctx context.Context, v store.Version, on bool) error {
	if m.left--; m.left < 0 {
		return errDead
	}
	return m.Memory.SetHold(ctx, v, on)
}

func (m *mortal) SetTag(ctx context.Context, v store.Version, key, value string) error {
	if m.left--; m.left < 0 {
		return errDead
	}
	return m.Memory.SetTag(ctx, v, key, value)
}

// A run may die between any two requests.
func TestAReleaseThatIsInterruptedIsRunAgain(t *testing.T) {
	for dies := 0; ; dies++ {
		s := asleep(t, holding(), full)
		s.Clock.Advance(3 * day)
		s.extend()
		s.full(enginetest.FullName(12, 1), "the newer database")
		_, err := s.try(&mortal{s.Memory, dies}, func(q *extender.Request) { q.Release = true })
		if err == nil {
			if dies != 4 { // a hold and a mark, of a full and its manifest
				t.Errorf("a release takes %d changes", dies)
			}
			break
		}
		if r := s.extend(func(q *extender.Request) { q.Release = true }); !r.Released {
			t.Errorf("after a death at request %d: %+v", dies, r)
		}
		for ref, o := range s.Catalog(prefix).Objects.All() {
			if o.Retention.Hold || o.Tags[extender.HoldTag] == "true" {
				t.Errorf("after a death at request %d %s is held: %+v", dies, ref, o)
			}
		}
	}
}

func TestACopyOfANewNameIsLockedAnewAndNamesItsOrigin(t *testing.T) {
	s := asleep(t, copying(), full)
	s.Clock.Advance(3 * day)
	r := s.extend()
	o := r.Objects[0]
	if o.Way != immutability.WayCopy || o.Copy == "" || r.BytesMoved != 0 || !r.Protection.Until.Equal(s.Clock.Now().Add(period)) {
		t.Fatalf("%+v", r)
	}
	c, _ := s.Catalog(prefix).Timeline.Lineages[0].NewestChain()
	if m := c.Base.Manifest; c.Base.Key.String() != o.Copy || m == nil || m.CopiedFrom != full || m.Lineage != lineage || c.End != 10 {
		t.Errorf("the newest base is %s with %+v", c.Base.Key, m)
	}
	if got := s.locked(enginetest.Key(enginetest.MustName(full))).Until; !got.Equal(enginetest.Start.Add(period)) {
		t.Errorf("the source was touched: %s", got)
	}
	if len(s.Catalog(prefix).Timeline.Findings) > 0 {
		t.Errorf("findings %+v", s.Catalog(prefix).Timeline.Findings)
	}
	if r = s.extend(); r.Changes != 0 {
		t.Errorf("right after: %+v", r)
	}
	// The copy of the copy names the first origin, and is not read again unless it is in the sample.
	s.Clock.Advance(3 * day)
	s.extend()
	c, _ = s.Catalog(prefix).Timeline.Lineages[0].NewestChain()
	if c.Base.Manifest.CopiedFrom != full {
		t.Errorf("it names %s", c.Base.Manifest.CopiedFrom)
	}
}

// noCopier is a store that does not copy by itself.
type noCopier struct{ m *storetest.Memory }

func (n noCopier) List(ctx context.Context, p string, fn func(store.Object) error) error {
	return n.m.List(ctx, p, fn)
}
func (n noCopier) Open(ctx context.Context, v store.Version, off, l int64) (io.ReadCloser, error) {
	return n.m.Open(ctx, v, off, l)
}
func (n noCopier) Stat(ctx context.Context, v store.Version) (store.Object, error) {
	return n.m.Stat(ctx, v)
}
func (n noCopier) Put(ctx context.Context, key string, b io.Reader, o store.PutOptions) (store.Object, error) {
	return n.m.Put(ctx, key, b, o)
}
func (n noCopier) Capabilities() store.Capabilities                  { return n.m.Capabilities() }
func (n noCopier) Inspect(ctx context.Context) (store.Bucket, error) { return n.m.Inspect(ctx) }

func TestWhereTheStoreDoesNotCopyTheBytesGoThroughUs(t *testing.T) {
	s := asleep(t, copying(), full)
	s.Clock.Advance(3 * day)
	r, err := s.try(noCopier{s.Memory})
	if err != nil || r.Objects[0].Way != immutability.WayStream || r.BytesMoved != s.Versions(enginetest.Key(enginetest.MustName(full)))[0].Size || !r.Protection.Protected() {
		t.Errorf("%+v, %v", r, err)
	}
}

// Copies go when their locks have ended, but only ours, only from --gc-from-timestamp on, and never the newest.
func TestExpiredCopiesGoAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		since time.Duration // after Start
		want  int           // of six copies and the original
	}{
		"all are of this sleep":         {0, 3},
		"three are of an earlier sleep": {10 * day, 6},
		"none is asked for":             {-1, 7},
	} {
		t.Run(name, func(t *testing.T) {
			s := asleep(t, copying(), full)
			since := func(q *extender.Request) {
				q.Since = enginetest.Start.Add(c.since)
				if c.since < 0 {
					q.Since = time.Time{}
				}
			}
			for range 6 {
				s.Clock.Advance(3 * day)
				s.extend(since)
			}
			got := s.names()
			if len(got) != c.want || got[0] != full {
				t.Errorf("left are %d: %q, want %d and the original first", len(got), got, c.want)
			}
			if s.end() != 10 {
				t.Error("nothing can be restored")
			}
		})
	}
}

// Who extends may lack the right to delete: then a collector of his own removes the same copies.
func TestACollectorRemovesExpiredCopies(t *testing.T) {
	s := asleep(t, copying(), full)
	for range 6 {
		s.Clock.Advance(3 * day)
		s.extend(func(q *extender.Request) { q.Since = time.Time{} })
	}
	collects := func(since time.Duration) []string {
		t.Helper()
		c := collector.New(s, s, collector.Options{Prefix: prefix, Policy: extender.Copies, Only: extender.CopiedSince(enginetest.Start.Add(since)), Now: s.Clock.Now,
			Prove: func(_ context.Context, tl timeline.Timeline, id snapshot.LineageID) (retention.Proof, []string, error) {
				l, _ := tl.Lineage(id)
				c, _ := l.NewestChain()
				return retention.NewProof(c.Base, nil, c.End, s.Clock.Now()), nil, nil
			}})
		p, err := c.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Execute(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return s.names()
	}
	if got := collects(10 * day); len(got) != 6 {
		t.Errorf("of copies of an earlier sleep too, left are %q", got)
	}
	if got := collects(0); len(got) != 3 || got[0] != full || s.end() != 10 {
		t.Errorf("left are %q, want the original first and what is locked", got)
	}
}

func TestWhoMayNotDeleteKeepsLockedAllTheSame(t *testing.T) {
	s := asleep(t, copying(), full)
	for range 3 {
		s.Clock.Advance(3 * day)
		f := storetest.NewFaulty(s.Memory)
		f.Inject(storetest.Fail(store.ErrForbidden).On(storetest.OpDelete, "").Always())
		r, err := s.try(f)
		if err != nil || !r.Protection.Protected() {
			t.Fatalf("%+v, %v", r, err)
		}
		if deletes := f.Count(storetest.OpDelete); (deletes > 0) != (len(r.Warnings) > 0) {
			t.Errorf("%d deletions, warnings %q", deletes, r.Warnings)
		}
	}
}

// A snapshot whose bytes have changed is never prolonged: the one before is, with an error.
func TestADamagedBackupIsNotProlonged(t *testing.T) {
	older, newer := enginetest.FullName(10, 0), enginetest.FullName(20, 30)
	for name, p := range map[string]storetest.Profile{"in place": inPlace(), "hold": holding(), "copy": copying()} {
		t.Run(name, func(t *testing.T) {
			s := asleep(t, p, older, newer)
			bad := enginetest.Key(enginetest.MustName(newer))
			s.Flip(s.Versions(bad)[0].Version, 3)
			before := s.locked(bad)
			for range 30 {
				s.Clock.Advance(day)
				r, err := s.try(s.Memory)
				due := s.Clock.Now().Sub(enginetest.Start) >= period/2
				if name == "copy" {
					due = s.Clock.Now().Sub(enginetest.Start) >= period-day
				}
				if due != errors.Is(err, extender.ErrFellBack) {
					t.Fatalf("%s: %v", s.Clock.Now(), err)
				}
				if due && (len(r.Damaged) != 1 || !strings.Contains(r.Damaged[0].Object, newer) || r.Base == newer || r.End != 10 || !r.Protection.Protected()) {
					t.Fatalf("%+v", r)
				}
			}
			if got := s.locked(bad); got != before {
				t.Errorf("the damaged one was prolonged: %+v", got)
			}
			for _, n := range s.names() {
				if strings.Contains(n, "-00000020-") && n != newer {
					t.Errorf("the damaged one was copied: %s", n)
				}
			}
		})
	}
}

// Whoever may write makes a manifest with the digest of whatever he writes.
func TestWhatIsNoDatabaseIsNotProlongedWhateverItsManifestTells(t *testing.T) {
	older, newer := enginetest.FullName(10, 0), enginetest.FullName(20, 30)
	for way, p := range map[string]storetest.Profile{"in place": inPlace(), "hold": holding(), "copy": copying()} {
		t.Run(way, func(t *testing.T) {
			s := asleep(t, p, older)
			s.object(newer, "no database at all")
			s.Clock.Advance(80 * time.Hour)
			r, err := s.try(s.Memory)
			if !errors.Is(err, extender.ErrFellBack) || r.Base != older || len(r.Damaged) != 1 || !strings.Contains(r.Damaged[0].Object, newer) {
				t.Errorf("kept %s, %v: %+v", r.Base, err, r.Damaged)
			}
		})
	}
}

func TestWithoutAGoodBackupNothingIsProlonged(t *testing.T) {
	s := asleep(t, inPlace(), full)
	v := s.Versions(enginetest.Key(enginetest.MustName(full)))[0]
	s.Flip(v.Version, 3)
	s.Clock.Advance(3 * day)
	f := storetest.NewFaulty(s.Memory)
	r, err := s.try(f)
	if err == nil || f.Count(storetest.OpExtend) > 0 || len(r.Damaged) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// After the first time one in ten is read, always the same one until it was prolonged.
func TestLaterASampleIsRead(t *testing.T) {
	read, runs := 0, 400
	s := asleep(t, inPlace(), full)
	for range runs {
		s.Clock.Advance(3 * day)
		if r := s.extend(); r.Verified == "whole" {
			read++
		}
	}
	if read < 1+runs/20 || read > 1+runs/5 {
		t.Errorf("%d of %d runs read it", read, runs)
	}
	for v, want := range map[extender.Verify]bool{extender.VerifyAlways: true, extender.VerifyNever: false} {
		s := asleep(t, inPlace(), full)
		for range 20 {
			s.Clock.Advance(3 * day)
			if r := s.extend(func(q *extender.Request) { q.Verify = v }); (r.BytesRead > 0) != want {
				t.Errorf("%s: %d bytes read", v, r.BytesRead)
			}
		}
	}
}

// What the original wrote has no manifests: the full has etcd's SHA-256, the deltas their own.
func TestBackupsOfTheOriginalAreKeptWhole(t *testing.T) {
	for name, c := range map[string]struct {
		p    storetest.Profile
		keys int
	}{"in place": {inPlace(), 3}, "copy": {copying(), 3}} {
		t.Run(name, func(t *testing.T) {
			s := asleep(t, c.p)
			copyAll(t, enginetest.Original(t), s.Memory)
			s.Clock.Advance(3 * day)
			r := s.extend()
			if r.Verified != "whole" || r.End != 871 || len(r.Objects) != c.keys || !r.Protection.Until.Equal(s.Clock.Now().Add(period)) {
				t.Fatalf("%+v", r)
			}
			tl := s.Catalog(prefix).Timeline
			chain, _ := tl.Lineages[0].NewestChain()
			if len(tl.Lineages) != 1 || chain.End != 871 || len(chain.Deltas) != 2 {
				t.Errorf("%+v", chain)
			}
			if name == "copy" {
				for _, s := range append([]timeline.Snapshot{chain.Base}, chain.Deltas[0].Snapshot, chain.Deltas[1].Snapshot) {
					if s.Manifest == nil || s.Manifest.CopiedFrom == "" {
						t.Errorf("a restore uses %s, which is no copy", s.Name())
					}
				}
			}
			s.Flip(s.Versions(chain.Base.Key.String())[0].Version, -40)
			s.Clock.Advance(3 * day)
			if _, err := s.try(s.Memory, func(q *extender.Request) { q.Verify = extender.VerifyAlways }); err == nil {
				t.Error("damage was not noticed")
			}
		})
	}
}

func copyAll(t *testing.T, from, to *storetest.Memory) {
	t.Helper()
	err := from.List(t.Context(), prefix, func(o store.Object) error {
		r, err := from.Open(t.Context(), o.Version, 0, -1)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(r)
		enginetest.Put(t, to, o.Key, b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A native delta tells its name in its header, so it cannot get another one.
func TestANativeDeltaIsProlongedInPlaceAndNeverCopied(t *testing.T) {
	s := asleep(t, inPlace())
	copyAll(t, enginetest.Native(t), s.Memory)
	s.Clock.Advance(3 * day)
	if r := s.extend(); r.Deltas != 2 || len(r.Objects) != 4 || !r.Protection.Protected() {
		t.Errorf("%+v", r)
	}
	s = asleep(t, copying())
	copyAll(t, enginetest.Native(t), s.Memory)
	s.Clock.Advance(3 * day)
	r, err := s.try(s.Memory)
	if err == nil || !strings.Contains(err.Error(), "compact") || !strings.Contains(err.Error(), enginetest.Delta856.String()) {
		t.Errorf("%v", err)
	}
	if want := enginetest.Start.Add(period); !r.Protection.Until.Equal(want) {
		t.Errorf("protected until %s, want the weakest: %s", r.Protection.Until, want)
	}
}

func TestABucketThatLocksNothingIsRefusedAndNothingIsMade(t *testing.T) {
	for name, p := range map[string]storetest.Profile{"bare": storetest.Bare(), "object lock without a default": storetest.S3Like(), "like Google's": storetest.GCSLike()} {
		t.Run(name, func(t *testing.T) {
			s := asleep(t, p, full)
			s.Clock.Advance(3 * day)
			f := storetest.NewFaulty(s.Memory)
			_, err := s.try(f, func(q *extender.Request) { q.Period = period })
			if !errors.Is(err, extender.ErrNoLock) {
				t.Errorf("%v", err)
			}
			for _, op := range []storetest.Op{storetest.OpPut, storetest.OpCopy, storetest.OpExtend, storetest.OpHold, storetest.OpDelete} {
				if f.Count(op) > 0 {
					t.Errorf("it did %s", op)
				}
			}
		})
	}
}

func TestAPeriodIsNeededAndLimited(t *testing.T) {
	p := storetest.S3Like()
	s := asleep(t, p)
	n := enginetest.MustName(full)
	lock := store.PutOptions{Retention: &immutability.Retention{Mode: immutability.ModeGovernance, Until: enginetest.Start.Add(period)}}
	if _, err := s.Put(t.Context(), enginetest.Key(n), strings.NewReader("x"), lock); err != nil {
		t.Fatal(err)
	}
	s.Clock.Advance(3 * day)
	never := func(q *extender.Request) { q.Verify = extender.VerifyNever }
	if _, err := s.try(s.Memory, never); !errors.Is(err, extender.ErrNoPeriod) {
		t.Errorf("without a period: %v", err)
	}
	r := s.extend(never, func(q *extender.Request) { q.DefaultPeriod = 3 * day })
	if !r.Protection.Until.Equal(s.Clock.Now().Add(3 * day)) {
		t.Errorf("by default: %+v", r)
	}
	r = s.extend(never, func(q *extender.Request) { q.Period, q.DefaultPeriod, q.MaxPeriod = 1000*day, 3*day, 10*day })
	if !r.Protection.Until.Equal(s.Clock.Now().Add(10*day)) || len(r.Warnings) == 0 {
		t.Errorf("%+v", r)
	}
}

// Powerless credentials: whatever may not be done is told by the name of the object and the right that is missing.
func TestPowerlessCredentialsAreNamed(t *testing.T) {
	s := asleep(t, inPlace(), full)
	s.Clock.Advance(3 * day)
	f := storetest.NewFaulty(s.Memory)
	f.Inject(storetest.Fail(store.ErrForbidden).On(storetest.OpExtend, "Manifest-").Always())
	r, err := s.try(f)
	if !errors.Is(err, store.ErrForbidden) || !strings.Contains(err.Error(), "Manifest-"+full) || !strings.Contains(err.Error(), "the right to lengthen locks") {
		t.Errorf("%v", err)
	}
	if r.Objects[0].Result != extender.Extended || r.Objects[1].Result != extender.Failed || !r.Protection.Until.Equal(enginetest.Start.Add(period)) {
		t.Errorf("the rest was not tried, or the end is not the weakest: %+v", r)
	}

	p := inPlace()
	p.MuteRetention = true
	s = asleep(t, p, full)
	s.Clock.Advance(3 * day)
	if r, err = s.try(s.Memory); !errors.Is(err, store.ErrForbidden) || !strings.Contains(err.Error(), "the right to read locks") || r.Changes != 0 || r.Protection.Protected() {
		t.Errorf("locks that may not be read: %+v, %v", r, err)
	}
}

// liar accepts a new end and keeps the old one.
type liar struct{ *storetest.Memory }

func (l liar) Extend(ctx context.Context, v store.Version, _ time.Time) (immutability.Retention, error) {
	o, err := l.Stat(ctx, v)
	return *o.Retention, err
}

func TestOnlyWhatWasReadBackIsTold(t *testing.T) {
	s := asleep(t, inPlace(), full)
	s.Clock.Advance(3 * day)
	if r, err := s.try(liar{s.Memory}); err == nil || !r.Protection.Until.Equal(enginetest.Start.Add(period)) {
		t.Errorf("%+v, %v", r, err)
	}
}

// Killed before or after any request, the next run ends what was begun.
func TestItIsGoneOnWithAfterAnyFailure(t *testing.T) {
	for name, p := range map[string]storetest.Profile{"in place": inPlace(), "hold": holding(), "copy": copying()} {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				s := asleep(t, p, full)
				for range 2 { // so that a copy is there that is to go
					s.Clock.Advance(3 * day)
					if name == "copy" {
						s.extend()
					}
				}
				s.Clock.Advance(3 * day)
				f := storetest.NewFaulty(s.Memory)
				f.DieAt(n)
				_, err := s.try(f, func(q *extender.Request) { q.Parallel = 1 })
				if f.Steps() < n {
					if err != nil || n < 10 {
						t.Fatalf("after %d steps: %v", n, err)
					}
					return
				}
				s.Clock.Advance(time.Hour)
				r := s.extend()
				if s.end() != 10 || !r.Protection.Held && r.Protection.Until.Before(s.Clock.Now().Add(period/2)) {
					t.Fatalf("after step %d: revision %d, %+v", n, s.end(), r)
				}
				for _, f := range s.Catalog(prefix).Timeline.Findings {
					t.Fatalf("after step %d: %+v", n, f)
				}
				if got := s.names(); len(got) > 5 {
					t.Fatalf("after step %d: %q", n, got)
				}
				if r = s.extend(); r.Changes != 0 {
					t.Fatalf("after step %d and one more run: %+v", n, r)
				}
			}
		})
	}
}

func TestADryRunChangesAndReadsNothing(t *testing.T) {
	for name, p := range map[string]storetest.Profile{"in place": inPlace(), "hold": holding(), "copy": copying()} {
		t.Run(name, func(t *testing.T) {
			s := asleep(t, p, full)
			s.Clock.Advance(3 * day)
			r := s.extend(func(q *extender.Request) { q.DryRun = true })
			if r.Changes != 0 || r.BytesRead != 0 || r.Objects[0].Result != extender.Planned || len(s.names()) != 1 {
				t.Errorf("%+v", r)
			}
			if got := s.locked(enginetest.Key(enginetest.MustName(full))); !got.Until.Equal(enginetest.Start.Add(period)) || got.Hold {
				t.Errorf("locked %+v", got)
			}
		})
	}
}

// What is excluded is not kept; what guards the prefix is.
func TestExclusionsAndOwnersAreHonoured(t *testing.T) {
	older, newer := enginetest.FullName(10, 0), enginetest.FullName(20, 30)
	s := asleep(t, inPlace(), older, newer)
	if _, err := catalog.Claim(t.Context(), s.Memory, prefix, 0, snapshot.Owner{ID: "us"}); err != nil {
		t.Fatal(err)
	}
	v := s.Versions(enginetest.Key(enginetest.MustName(newer)))[0]
	if err := s.SetTag(t.Context(), v.Version, catalog.ExcludeTag, "true"); err != nil {
		t.Fatal(err)
	}
	s.Clock.Advance(3 * day)
	r := s.extend()
	if r.Base != older || r.End != 10 || !slices.Equal(r.Excluded, []string{newer}) || len(r.Objects) != 3 || r.Objects[2].Kind != extender.Owner || r.Objects[2].Result != extender.Extended {
		t.Errorf("%+v", r)
	}
	s = asleep(t, copying(), older)
	if _, err := catalog.Claim(t.Context(), s.Memory, prefix, 0, snapshot.Owner{ID: "us"}); err != nil {
		t.Fatal(err)
	}
	s.Clock.Advance(3 * day)
	if r = s.extend(); r.Objects[2].Result != extender.Left || !r.Protection.Protected() {
		t.Errorf("records are not copied: %+v", r)
	}
}

func TestAnOutageIsNoDamage(t *testing.T) {
	s := asleep(t, inPlace(), full)
	s.Clock.Advance(3 * day)
	f := storetest.NewFaulty(s.Memory)
	f.Inject(storetest.Fail(store.ErrUnreachable).On(storetest.OpOpen, "v2/Full-").Always())
	r, err := s.try(f)
	if !errors.Is(err, store.ErrUnreachable) || errors.Is(err, extender.ErrFellBack) || len(r.Damaged) > 0 || f.Count(storetest.OpExtend) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// The store's clock counts, not that of a machine that shows another year.
func TestTheClockOfTheStoreCounts(t *testing.T) {
	s := asleep(t, inPlace(), full)
	s.Clock.Advance(3 * day)
	r := s.extend(func(q *extender.Request) { q.Now = func() time.Time { return s.Clock.Now().Add(1000 * day) } })
	if got, most := r.Protection.Until, s.Clock.Now().Add(period+immutability.MaxSkew); got.After(most) || len(r.Warnings) != 1 {
		t.Errorf("locked until %s, at most %s: %q", got, most, r.Warnings)
	}
}

// A thousand objects cost some requests each and no memory to speak of.
func TestAThousandDeltasAreKept(t *testing.T) {
	s := asleep(t, inPlace())
	enginetest.Put(t, s.Memory, enginetest.Key(enginetest.MustName(full)), []byte("without a manifest, like its deltas"))
	for i := range 1000 {
		n := snapshot.Name{Kind: snapshot.Delta, Start: snapshot.Revision(11 + i), Last: snapshot.Revision(11 + i), Created: enginetest.Start.Unix() + int64(i)}
		enginetest.Put(t, s.Memory, snapshot.SnapshotKey(prefix, n).String(), bytes.Repeat([]byte("x"), 10))
	}
	s.Clock.Advance(3 * day)
	r := s.extend(func(q *extender.Request) { q.Verify = extender.VerifyNever })
	if r.Deltas != 1000 || r.Changes != 1001 || !r.Protection.Until.Equal(s.Clock.Now().Add(period)) {
		t.Errorf("%d deltas, %d changes, %s", r.Deltas, r.Changes, r.Protection)
	}
}

// Whoever deletes the final full once its lock has ended leaves its manifest. The run falls back, and its notice has to say so:
// the operator takes its date for the final one's else.
func TestAFallBackIsToldAsDamage(t *testing.T) {
	older, newer := enginetest.FullName(10, 0), enginetest.FullName(20, 30)
	s := asleep(t, inPlace(), older, newer)
	s.Clock.Advance(5 * day)
	v := s.Versions(enginetest.Key(enginetest.MustName(newer)))[0]
	if err := s.Delete(t.Context(), store.Version{Key: v.Key, ID: v.ID}); err != nil {
		t.Fatal(err)
	}
	r, err := s.try(s.Memory)
	t.Logf("base %s, protection %+v, damaged %v, warnings %q, error %v", r.Base, r.Protection, r.Damaged, r.Warnings, err)
	if r.Base == older && len(r.Damaged) == 0 {
		t.Errorf("%s is kept in place of %s (fell back: %t), and nothing of that is in what the notice is made of", r.Base, newer, errors.Is(err, extender.ErrFellBack))
	}
}
