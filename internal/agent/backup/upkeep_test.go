package backup

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/snapshotter"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// shortPeriod is about the shortest period of collection that is not taken for "never".
const shortPeriod = time.Second + time.Millisecond

func full(t *testing.T, sc *sidecar) agentapi.Snapshot {
	t.Helper()
	return asked(t, func(ctx context.Context) (agentapi.Snapshot, error) { return sc.Full(ctx, false) })
}

func TestWhatThePolicyLetsGoIsCollected(t *testing.T) {
	t.Parallel()
	e, bucket := newEtcds(t, 1), memory()
	cfg := e.config(0, to(bucket))
	cfg.CollectEvery, cfg.Policy = shortPeriod, retention.Policy{Method: retention.LimitBased, MaxBackups: 2}
	sc := run(t, cfg)
	for range 5 {
		e.put(3)
		full(t, sc)
	}
	last := e.put(3)
	until(t, "two fulls are left", func() bool { return countFulls(t, bucket, prefix) == 2 })
	until(t, "three collected fulls are counted", func() bool {
		n, _ := sc.metric("etcdbr_snapshot_gc_total", "kind=Full", "succeeded=true")
		return n >= 3
	})
	reaches(t, bucket, last)
	whole(t, bucket, last)
}

func TestWithoutRoomNothingIsProvenByItself(t *testing.T) {
	t.Parallel()
	e, bucket := newEtcds(t, 1), memory()
	cfg := e.config(0, to(bucket))
	cfg.VerifyEvery, cfg.Room = 20*time.Millisecond, func() error { return errors.New("7 MB are free") }
	sc := run(t, cfg)
	e.put(3)
	full(t, sc)
	until(t, "that there is no room is told", func() bool {
		s := sc.board.now().Snapshots
		n, _ := sc.metric("etcdbr_protection_verify_total", "result=error")
		return n > 0 && s != nil && s.Proof != nil && s.Proof.Result == agentapi.ProofUnknown && strings.Contains(s.Proof.Message, "7 MB are free")
	})
	if all := sc.Operations(); len(all) != 0 {
		t.Errorf("nevertheless %+v", all)
	}
	if _, err := sc.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "who asks for a proof has it", func() bool { return operation(sc, "verify").Status == agentapi.Success })
}

// TestNothingOfAnotherOwnerIsCollected has somebody take the prefix over while this cluster has nothing to upload.
func TestNothingOfAnotherOwnerIsCollected(t *testing.T) {
	t.Parallel()
	e, bucket := newEtcds(t, 1), memory()
	cfg := e.config(0, to(bucket))
	cfg.CollectEvery, cfg.Policy = 0, retention.Policy{Method: retention.LimitBased, MaxBackups: 1}
	sc := run(t, cfg)
	for range 3 {
		e.put(3)
		full(t, sc)
	}
	before := countFulls(t, bucket, prefix)
	if _, err := catalog.Claim(t.Context(), bucket, prefix, 1, snapshot.Owner{ID: "another", Since: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := sc.term().collect(t.Context()); !errors.Is(err, snapshotter.ErrOwned) {
		t.Errorf("collecting ends with %v, want snapshotter.ErrOwned", err)
	}
	if n := countFulls(t, bucket, prefix); n != before || n < 3 {
		t.Errorf("%d fulls are left, want all %d", n, before)
	}
}

func TestWithoutAPolicyOrAPeriodNothingIsCollected(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"no policy":               func(c *Config) { c.CollectEvery = shortPeriod },
		"a period of a second":    func(c *Config) { c.CollectEvery, c.Policy.Keep.Last = time.Second, 1 },
		"no period although told": func(c *Config) { c.Policy.Keep.Last = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, bucket := newEtcds(t, 1), storetest.NewFaulty(memory())
			cfg := e.config(0, to(bucket))
			cfg.SurveyEvery = shortPeriod
			change(&cfg)
			cfg.Policy.DeltaRetention = 0
			sc := run(t, cfg)
			for range 3 {
				e.put(1)
				full(t, sc)
			}
			looks := bucket.Count(storetest.OpList)
			until(t, "the bucket was looked through twice since", func() bool { return bucket.Count(storetest.OpList) >= looks+2 })
			if n := bucket.Count(storetest.OpDelete); n != 0 || countFulls(t, bucket, prefix) < 3 {
				t.Errorf("%d versions were deleted, want none", n)
			}
		})
	}
}

func TestTheSecondStoreIsKeptLikeTheFirst(t *testing.T) {
	t.Parallel()
	e, clock := newEtcds(t, 1), start()
	locked := storetest.S3Like()
	locked.Default, locked.Period, locked.Now = immutability.ModeCompliance, time.Hour, clock.Now
	first, second := storetest.NewMemory(locked), storetest.NewFaulty(storetest.NewMemory(storetest.Bare()))
	cfg := e.config(0, to(first))
	cfg.Now = clock.Now
	cfg.CollectEvery, cfg.Policy = shortPeriod, retention.Policy{Method: retention.LimitBased, MaxBackups: 1}
	cfg.Second = &Secondary{Source: to(second), Prefix: "elsewhere", Every: 50 * time.Millisecond, Record: filepath.Join(t.TempDir(), "copied.json")}
	sc := run(t, cfg)
	for range 3 {
		e.put(3)
		full(t, sc)
	}
	last := e.put(3)
	arrived := func() snapshot.Revision {
		lineages := look(t, second, "elsewhere").Timeline.Lineages
		if len(lineages) == 0 {
			return 0
		}
		chain, _ := lineages[0].NewestChain()
		return chain.End
	}
	until(t, "everything arrives at the second store", func() bool { return arrived() >= last })
	until(t, "the metrics tell", func() bool {
		n, _ := sc.metric("etcdbr_secondary_sync_total", "succeeded=true")
		at, _ := sc.metric("etcdbr_secondary_synced_timestamp")
		return n > 0 && at > 0
	})
	// The first store's locks keep three fulls although the policy wants one. The second has no
	// locks, and must not delete and copy in turns what the first still has.
	syncs, _ := sc.metric("etcdbr_secondary_sync_total", "succeeded=true")
	until(t, "it was compared a few times more", func() bool {
		n, _ := sc.metric("etcdbr_secondary_sync_total", "succeeded=true")
		return n > syncs+3
	})
	if n := second.Count(storetest.OpDelete); n != 0 || countFulls(t, second, "elsewhere") < 3 {
		t.Errorf("%d versions were deleted from the second store, want none while the first has them", n)
	}
	before := second.Count(storetest.OpPut)
	syncs, _ = sc.metric("etcdbr_secondary_sync_total", "succeeded=true")
	until(t, "it was compared again", func() bool {
		n, _ := sc.metric("etcdbr_secondary_sync_total", "succeeded=true")
		return n > syncs+1
	})
	if n := second.Count(storetest.OpPut); n != before {
		t.Errorf("%d objects were written to a second store that has everything", n-before)
	}
	clock.Advance(2 * time.Hour)
	until(t, "what the first let go goes from the second", func() bool {
		return countFulls(t, first, prefix) == 1 && countFulls(t, second, "elsewhere") == 1
	})
}

func TestASecondStoreThatIsDownOrForeignHoldsUpNothing(t *testing.T) {
	t.Parallel()
	down := storetest.NewFaulty(memory())
	down.Inject(storetest.Fail(store.ErrUnreachable).Always())
	foreign := memory()
	func() { // somebody else's backups
		e := newEtcds(t, 1)
		sc := run(t, e.config(0, to(foreign)))
		e.put(3)
		full(t, sc)
		if err := sc.stop(); err != nil {
			t.Fatal(err)
		}
	}()
	for name, second := range map[string]store.Store{"down": down, "foreign": foreign} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, first := newEtcds(t, 1), memory()
			before := 0
			if name == "foreign" {
				before = look(t, second, prefix).Objects.Len()
			}
			cfg := e.config(0, to(first))
			cfg.Second = &Secondary{Source: to(second), Prefix: prefix, Every: 20 * time.Millisecond}
			sc := run(t, cfg)
			full(t, sc)
			last := e.put(10)
			reaches(t, first, last)
			until(t, "the failures are counted", func() bool {
				n, _ := sc.metric("etcdbr_secondary_sync_total", "succeeded=false")
				return n > 1
			})
			if name == "foreign" && look(t, second, prefix).Objects.Len() != before {
				t.Error("the foreign backups were touched")
			}
			whole(t, first, last)
		})
	}
}

func TestASurveyCountsGaps(t *testing.T) {
	t.Parallel()
	e, bucket := newEtcds(t, 1), memory()
	cfg := e.config(0, to(bucket))
	sc := run(t, cfg)
	full(t, sc)
	for deltas := 0; deltas < 3; {
		deltas = len(reaches(t, bucket, e.put(3)).Deltas)
	}
	if err := sc.stop(); err != nil {
		t.Fatal(err)
	}
	lineage := look(t, bucket, prefix).Timeline.Lineages[0]
	chain, _ := lineage.NewestChain()
	middle := chain.Deltas[1]
	for _, key := range []string{middle.Key.String(), middle.Key.Manifest().String()} {
		err := bucket.List(t.Context(), prefix, func(o store.Object) error {
			if o.Key != key {
				return nil
			}
			return bucket.Delete(t.Context(), o.Version)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// The deltas that etcd told once more would close the gap.
	if _, err := e.client.Compact(t.Context(), int64(chain.End)); err != nil {
		t.Fatal(err)
	}
	sc = run(t, e.config(0, to(bucket)))
	until(t, "the metrics tell of a gap", func() bool {
		n, shown := sc.metric("etcdbr_protection_chain_gaps")
		return shown && n > 0
	})
}

// Backups of a cluster that was restored from these, and runs beside the one that wrote them.
func TestASurveyTellsOfAnotherClusterThatWritesThere(t *testing.T) {
	t.Parallel()
	theirs, elsewhere := newEtcds(t, 1), memory()
	cfg := theirs.config(0, to(elsewhere))
	cfg.Now = func() time.Time { return time.Now().Add(time.Hour) }
	other := run(t, cfg)
	full(t, other)
	if err := other.stop(); err != nil {
		t.Fatal(err)
	}

	e, bucket := newEtcds(t, 1), memory()
	cfg = e.config(0, to(bucket))
	cfg.SurveyEvery = 20 * time.Millisecond
	sc := run(t, cfg)
	full(t, sc)
	contenders := func(n float64) func() bool {
		return func() bool {
			got, shown := sc.metric("etcdbr_protection_contending_clusters")
			return shown && got == n
		}
	}
	until(t, "the bucket is surveyed, and nobody contends", contenders(0))
	if err := elsewhere.List(t.Context(), prefix, func(o store.Object) error {
		if !strings.Contains(o.Key, "Full-") {
			return nil
		}
		_, err := bucket.Copy(t.Context(), elsewhere, o.Version, o.Key, store.PutOptions{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	until(t, "the metrics tell of another cluster", contenders(1))
	until(t, "the member tells what to do", func() bool {
		return strings.Contains(sc.board.now().Waiting, "writes to the same prefix")
	})
	if _, err := sc.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the own backups are proven", func() bool {
		o := sc.Operations()
		return len(o) == 1 && o[0].Status == agentapi.Success
	})
}

func TestTheNewestChainIsProvenByItself(t *testing.T) {
	t.Parallel()
	e, bucket := newEtcds(t, 1), memory()
	cfg := e.config(0, to(bucket))
	cfg.VerifyEvery = 20 * time.Millisecond
	sc := run(t, cfg)
	e.put(10)
	full(t, sc)
	until(t, "it was proven twice", func() bool {
		n, _ := sc.metric("etcdbr_protection_verify_total", "result=ok")
		took, _ := sc.metric("etcdbr_protection_restore_seconds")
		at, _ := sc.metric("etcdbr_protection_verified_timestamp")
		return n > 1 && took > 0 && at > 0
	})
	until(t, "the member tells of it", func() bool {
		s := sc.board.now().Snapshots
		return s != nil && s.Proof != nil && s.Proof.Result == agentapi.ProofProven && s.Proof.Base == s.LastFull.Name && s.Proof.EndRevision >= 10 && s.Proof.Seconds > 0
	})
}

// A proof reads a whole chain: it must not be repeated as if it were a small request.
func TestProofsAreFarApart(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		fault *storetest.Fault
		want  []time.Duration // the waits longer than any other
	}{
		"it succeeds":               {nil, []time.Duration{soonProof, day}},
		"the chain is broken":       {new(storetest.Garble(100).On(storetest.OpOpen, "Full-").Always()), []time.Duration{soonProof, soonProof, day}}, // a new full begins another chain
		"the store does not answer": {new(storetest.Fail(store.ErrUnreachable).On(storetest.OpOpen, "Full-").Always()), []time.Duration{soonProof, soonProof}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, inner := newEtcds(t, 1), memory()
			bucket := storetest.NewFaulty(inner)
			cfg := e.config(0, to(bucket))
			cfg.VerifyEvery = day
			due, asked := make(chan struct{}), make(chan time.Duration)
			cfg.Wait = func(ctx context.Context, d time.Duration) error {
				if d < soonProof {
					return sleep(ctx, d)
				}
				select {
				case asked <- d:
				case <-ctx.Done():
					return ctx.Err()
				}
				select {
				case <-due:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			sc := run(t, cfg)
			e.put(10)
			full(t, sc)
			before := countFulls(t, inner, prefix)
			if c.fault != nil {
				bucket.Inject(*c.fault)
			}
			for i, want := range c.want {
				select {
				case got := <-asked:
					if got != want {
						t.Fatalf("wait %d is %s, want %s", i, got, want)
					}
				case <-time.After(patience):
					t.Fatalf("there was no wait %d", i)
				}
				if i < len(c.want)-1 {
					due <- struct{}{}
				}
			}
			if n, broken := countFulls(t, inner, prefix), c.want[len(c.want)-1] == day && len(c.want) > 2; broken != (n > before) {
				t.Errorf("%d fulls are there, %d before", n, before)
			}
			took, shown := sc.metric("etcdbr_protection_restore_seconds")
			if good := c.fault == nil; shown != good || good && took <= 0 {
				t.Errorf("the measured time of a restore is %v, shown: %v", took, shown)
			}
		})
	}
}

func TestABackupThatCannotBeRestoredIsTold(t *testing.T) {
	t.Parallel()
	e, bucket := newEtcds(t, 1), memory()
	damaged := storetest.NewFaulty(bucket)
	source := &opener{store: bucket}
	sc := run(t, e.config(0, source.source()))
	e.put(10)
	full(t, sc)
	damaged.Inject(storetest.Garble(100).On(storetest.OpOpen, "Full-").Always())
	source.set(func(o *opener) { o.store, o.changed = damaged, true })
	if _, err := sc.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the proof failed", func() bool { return operation(sc, "verify").Status == agentapi.Failed })
	if n, _ := sc.metric("etcdbr_protection_verify_total", "result=broken"); n != 1 {
		t.Errorf("%v broken proofs are counted, want 1: %+v", n, operation(sc, "verify"))
	}
	until(t, "the member tells of it", func() bool {
		s := sc.board.now().Snapshots
		// Another full may have followed the one that was read.
		return s != nil && s.Proof != nil && s.Proof.Result == agentapi.ProofBroken && strings.HasPrefix(s.Proof.Base, "Full-") &&
			strings.Contains(operation(sc, "verify").Message, s.Proof.Base) && s.Proof.Message != ""
	})
	down := storetest.NewFaulty(bucket)
	down.Inject(storetest.Fail(store.ErrUnreachable).On(storetest.OpOpen, "Full-").Always())
	source.set(func(o *opener) { o.store, o.changed = down, true })
	if _, err := sc.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the proof found no answer", func() bool {
		n, _ := sc.metric("etcdbr_protection_verify_total", "result=error")
		return n == 1
	})
}

func TestALongOperationEndsWithLeadershipAndIsBegunOnce(t *testing.T) {
	t.Parallel()
	e, bucket := newEtcds(t, 1), memory()
	hangs := storetest.NewFaulty(bucket)
	source := &opener{store: bucket}
	sc := run(t, e.config(0, source.source()))
	e.put(10)
	full(t, sc)
	hangs.Inject(storetest.Hang().On(storetest.OpOpen, "Full-").Always())
	source.set(func(o *opener) { o.store, o.changed = hangs, true })
	first, err := sc.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	until(t, "it reads", func() bool {
		return slices.ContainsFunc(hangs.Calls(), func(c storetest.Call) bool { return c.Op == storetest.OpOpen && strings.Contains(c.Key, "Full-") })
	})
	second, err := sc.Verify(t.Context())
	if err != nil || !second.Start.Equal(first.Start) || second.Status != agentapi.InProgress {
		t.Errorf("asked again it is %+v, %v, want the one that goes on", second, err)
	}
	if o, err := sc.Compact(t.Context()); err != nil || o.Phase != "waiting" {
		t.Errorf("another one is %+v, %v, want it to wait", o, err)
	}
	if err := sc.stop(); err != nil {
		t.Fatal(err)
	}
	for _, o := range sc.Operations() {
		if o.Status != agentapi.Failed || o.End == nil || !strings.Contains(o.Message, agentapi.ErrNotLeader.Error()) {
			t.Errorf("after the end it is %+v, want that it failed with leadership", o)
		}
	}
	if n, _ := sc.metric("etcdbr_protection_verify_total", "result=broken"); n != 0 {
		t.Error("a proof that was interrupted counts as one that failed")
	}
}

func TestAConfigurationThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	e := newEtcds(t, 1)
	for name, change := range map[string]func(*Config){
		"no etcd":             func(c *Config) { c.Local = nil },
		"no store":            func(c *Config) { c.Store.Open = nil },
		"no second store":     func(c *Config) { c.Second = &Secondary{} },
		"a negative period":   func(c *Config) { c.LookEvery = -1 },
		"a senseless policy":  func(c *Config) { c.Policy = retention.Policy{Method: retention.LimitBased} },
		"an unknown packing":  func(c *Config) { c.Snapshots.Compression = ".rar" },
		"a negative patience": func(c *Config) { c.Snapshots.Grace = -1 },
	} {
		cfg := e.config(0, to(memory()))
		change(&cfg)
		if _, err := New(cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", name, err)
		}
	}
}

func TestABucketThatWasEmptiedIsFilledAgain(t *testing.T) {
	t.Parallel()
	e, bucket := newEtcds(t, 1), memory()
	cfg := e.config(0, to(bucket))
	cfg.SurveyEvery = shortPeriod
	run(t, cfg)
	// The one full is that of the beginning. One that was asked for could still be on its way, and
	// fill the bucket although nobody looked through it.
	reaches(t, bucket, e.put(3))
	var all []store.Version
	if err := bucket.List(t.Context(), prefix, func(o store.Object) error { all = append(all, o.Version); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		if err := bucket.Delete(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	rev := e.put(3)
	until(t, "the bucket can restore everything again", func() bool {
		for _, l := range look(t, bucket, prefix).Timeline.Lineages {
			if chain, ok := l.NewestChain(); ok && chain.End >= rev {
				return true
			}
		}
		return false
	})
}

// untagging is a bucket of which this identity may not read tags.
type untagging struct{ *storetest.Memory }

func (u untagging) List(ctx context.Context, prefix string, fn func(store.Object) error) error {
	return u.Memory.List(ctx, prefix, func(o store.Object) error { o.Tags = nil; return fn(o) })
}

func (u untagging) Stat(ctx context.Context, v store.Version) (store.Object, error) {
	o, err := u.Memory.Stat(ctx, v)
	o.Tags = nil
	return o, err
}

// lines are of a log that many write and one reads.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// has tells whether a line has all parts.
func (l *lines) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			return true
		}
	}
	return false
}

// TestASurveyWithoutTheRightToReadTagsSaysThatExclusionsAreNotSeen: on Azure by SAS that is how it is.
func TestASurveyWithoutTheRightToReadTagsSaysThatExclusionsAreNotSeen(t *testing.T) {
	t.Parallel()
	e, bucket, log := newEtcds(t, 1), memory(), &lines{}
	cfg := e.config(0, to(untagging{bucket}))
	cfg.SurveyEvery, cfg.Log = 20*time.Millisecond, slog.New(slog.NewTextHandler(log, nil))
	sc := run(t, cfg)
	full(t, sc)
	until(t, "a survey says so", func() bool { return log.has("looked through the bucket", "what might be excluded by the tag") })
}
