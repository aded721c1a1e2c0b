package backup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/excluder"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func TestASoleMemberIsBackedUpAndAnswers(t *testing.T) {
	t.Parallel()
	e := newEtcds(t, 1)
	locked := storetest.S3Like()
	locked.Default, locked.Period = immutability.ModeCompliance, 48*time.Hour
	s := storetest.NewMemory(locked)
	began := time.Now()
	first := e.put(30)
	sc := run(t, e.config(0, to(s)))
	reaches(t, s, first) // so that the full at the start is not under way any more
	full := asked(t, func(ctx context.Context) (agentapi.Snapshot, error) { return sc.Full(ctx, false) })
	if full.Kind != "Full" || full.LastRevision < 31 || full.Prefix != prefix+"/v2" || full.VersionID == nil || !strings.HasPrefix(full.SnapName, "Full-") {
		t.Errorf("the full is told as %+v", full)
	}
	if full.ImmutableUntil.Before(began.Add(47 * time.Hour)) {
		t.Errorf("it is immutable until %v, want two days from now", full.ImmutableUntil)
	}
	if full.Mode != "compliance" {
		t.Errorf("its lock is of mode %q, want compliance", full.Mode)
	}
	if len(full.Digest) != 64 {
		t.Errorf("its digest is told as %q", full.Digest)
	}
	last := e.put(5)
	if d, err := sc.Delta(t.Context()); err != nil || d != nil && (d.Kind != "Incr" || d.LastRevision != int64(last)) {
		t.Errorf("the delta is told as %+v, %v", d, err)
	}
	if d, err := sc.Delta(t.Context()); err != nil || d != nil {
		t.Errorf("with nothing new the delta is %+v, %v, want none", d, err)
	}
	latest, err := sc.Latest(t.Context())
	if err != nil || latest.FullSnapshot == nil || latest.FullSnapshot.SnapName != full.SnapName || len(latest.DeltaSnapshots) == 0 {
		t.Fatalf("the newest are %+v, %v", latest, err)
	}
	if got := latest.DeltaSnapshots[len(latest.DeltaSnapshots)-1]; got.LastRevision != int64(last) || got.ImmutableUntil.IsZero() {
		t.Errorf("the newest delta is %+v, want one that ends at %d and is locked", got, last)
	}
	if tl, err := sc.Timeline(t.Context()); err != nil || len(tl.Lineages) != 1 || tl.Lineages[0].Chain == nil || tl.Lineages[0].Chain.End != last {
		t.Errorf("the timeline is %+v, %v", tl, err)
	}
	until(t, "the member tells what was uploaded", func() bool {
		m := sc.board.now()
		return m.BackupLeader && m.Snapshots != nil && m.Snapshots.LastDelta != nil && m.Snapshots.LastDelta.EndRevision == int64(last) &&
			m.Snapshots.LastFull.Name == full.SnapName && m.Snapshots.AccumulatedDeltaSize > 0 && m.Snapshots.NothingNew != nil
	})
	until(t, "the metrics tell the protection", func() bool {
		age, shown := sc.metric("etcdbr_protection_newest_snapshot_age_seconds")
		open, known := sc.metric("etcdbr_protection_unprotected_seconds")
		lock, surveyed := sc.metric("etcdbr_protection_retain_until_timestamp")
		gaps, _ := sc.metric("etcdbr_protection_chain_gaps")
		return shown && age < 120 && known && open == 0 && surveyed && lock > float64(began.Unix()) && gaps == 0
	})
	for _, op := range []struct {
		kind  string
		start func(context.Context) (agentapi.Operation, error)
	}{{"verify", sc.Verify}, {"compact", sc.Compact}, {"verify", sc.Verify}} {
		o, err := op.start(t.Context())
		if err != nil || o.Kind != op.kind || o.Status != agentapi.InProgress {
			t.Fatalf("the operation begins as %+v, %v", o, err)
		}
		until(t, "it is over: "+op.kind, func() bool { o = operation(sc, op.kind); return o.Status != agentapi.InProgress })
		if o.Status != agentapi.Success || o.End == nil || o.Message == "" {
			t.Errorf("it ends as %+v", o)
		}
	}
	if n, _ := sc.metric("etcdbr_protection_verify_total", "result=ok"); n != 2 {
		t.Errorf("%v proofs are counted, want 2", n)
	}
	whole(t, s, last)
	if err := sc.stop(); err != nil {
		t.Error(err)
	}
	if m := sc.board.now(); m.BackupLeader || m.Snapshots != nil {
		t.Errorf("after the end it still tells to back up: %+v", m)
	}
	if _, shown := sc.metric("etcdbr_protection_unprotected_seconds"); shown {
		t.Error("after the end it still shows the protection")
	}
}

func operation(s *sidecar, kind string) agentapi.Operation {
	for _, o := range s.Operations() {
		if o.Kind == kind {
			return o
		}
	}
	return agentapi.Operation{}
}

func TestOnlyTheWriterAnswers(t *testing.T) {
	t.Parallel()
	e := newEtcds(t, 1)
	cfg := e.config(0, to(memory()))
	cfg.Local = func(context.Context) (Member, error) { return nil, errors.New("connection refused") }
	sc := run(t, cfg)
	until(t, "it knows why", func() bool {
		_, err := sc.Latest(t.Context())
		return strings.Contains(err.Error(), "connection refused")
	})
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"full":     func() error { _, err := sc.Full(ctx, true); return err },
		"delta":    func() error { _, err := sc.Delta(ctx); return err },
		"latest":   func() error { _, err := sc.Latest(ctx); return err },
		"timeline": func() error { _, err := sc.Timeline(ctx); return err },
		"verify":   func() error { _, err := sc.Verify(t.Context()); return err },
		"compact":  func() error { _, err := sc.Compact(t.Context()); return err },
	} {
		if err := call(); !errors.Is(err, agentapi.ErrNotLeader) {
			t.Errorf("%s ends with %v, want agentapi.ErrNotLeader", name, err)
		}
	}
	if all := sc.Operations(); len(all) != 0 || sc.Leads() {
		t.Errorf("it leads: %v, with operations %v", sc.Leads(), all)
	}
	if n, _ := sc.metric("etcdbr_backup_leader"); n != 0 {
		t.Error("it shows itself as the writer")
	}
}

// TestWhoAsksAnEtcdThatBeganToLeadIsAnswered asks in the pause between two looks, of which there is no second.
func TestWhoAsksAnEtcdThatBeganToLeadIsAnswered(t *testing.T) {
	t.Parallel()
	e := newEtcds(t, 1)
	last := e.put(3)
	cfg := e.config(0, to(memory()))
	local, down := cfg.Local, make(chan struct{})
	cfg.LookEvery = 24 * time.Hour
	cfg.Local = func(ctx context.Context) (Member, error) {
		select {
		case <-down:
			return local(ctx)
		default:
			return nil, errors.New("connection refused")
		}
	}
	sc := run(t, cfg)
	ctx := t.Context()
	until(t, "it refuses while etcd is down, and knows why", func() bool {
		_, err := sc.Full(ctx, false)
		return errors.Is(err, agentapi.ErrNotLeader) && strings.Contains(err.Error(), "connection refused")
	})
	close(down)
	if full, err := sc.Full(ctx, false); err != nil || full.LastRevision < int64(last) {
		t.Errorf("once etcd leads: %+v, %v, want a full up to %d", full, err, last)
	}
	if err := sc.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := sc.Full(ctx, false); !errors.Is(err, agentapi.ErrNotLeader) {
		t.Errorf("after the end: %v, want agentapi.ErrNotLeader", err)
	}
}

// What people do to a bucket is told after the next look, and what it gives before they do anything.
func TestALookThroughTheBucketTellsWhatItGivesAndWhatSomebodyDid(t *testing.T) {
	t.Parallel()
	e := newEtcds(t, 1)
	locked := storetest.S3Like()
	locked.Default, locked.Period = immutability.ModeGovernance, 48*time.Hour
	s := storetest.NewMemory(locked)
	rev := e.put(5)
	cfg := e.config(0, to(s))
	cfg.SurveyEvery = 10 * time.Millisecond
	sc := run(t, cfg)
	chain := reaches(t, s, rev)
	var b agentapi.Bucket
	told := func(what string, is func() bool) {
		t.Helper()
		until(t, what, func() bool {
			if m := sc.board.now(); m.Snapshots != nil && m.Snapshots.Bucket != nil {
				b = *m.Snapshots.Bucket
				return is()
			}
			return false
		})
	}
	told("it tells what can be restored", func() bool { return b.Last != nil && b.Last.Revision >= int64(rev) })
	if b.First == nil || b.First.Revision != int64(chain.Base.Last) || b.First.Time.IsZero() || b.Level != "governance" || b.Until == nil || b.Until.Before(time.Now().Add(47*time.Hour)) || b.TamperingCount+b.ExcludedCount != 0 {
		t.Errorf("it tells %+v, want everything from revision %d on, in governance mode for two days", b, chain.Base.Last)
	}
	if want := int64(48 * time.Hour / time.Second); b.Period != want || b.Inferred {
		t.Errorf("the locks are of %d seconds, want %d; inferred %t, want false", b.Period, want, b.Inferred)
	}
	if _, err := s.Put(t.Context(), prefix+"/v2/what-is-this", strings.NewReader("?"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	told("it tells of the foreign object", func() bool {
		return b.TamperingCount == 1 && b.Tampering[0].Code == "foreign" && strings.Contains(b.Tampering[0].Text, "what-is-this")
	})
	name := chain.Base.Name()
	if _, err := excluder.Run(t.Context(), excluder.Request{Store: s, Prefix: prefix, Names: []snapshot.Name{name}, LeaveNothing: true}); err != nil {
		t.Fatal(err)
	}
	told("it tells of the exclusion", func() bool { return b.ExcludedCount == 1 && b.Excluded[0] == name.String() })
	until(t, "the metrics tell both", func() bool {
		tampered, _ := sc.metric("etcdbr_protection_tamper_findings")
		excluded, _ := sc.metric("etcdbr_protection_excluded_snapshots")
		level, _ := sc.metric("etcdbr_protection_level", "level=governance")
		return tampered == 1 && excluded == 1 && level == 1
	})
	if _, err := s.Put(t.Context(), snapshot.OwnerKey(prefix, 2).String(), strings.NewReader("nonsense"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	e.put(1) // the next upload is refused because of it
	var refused time.Time
	until(t, "the backups are refused", func() bool {
		m := sc.board.now()
		refused = time.Now()
		return m.BackupFailure != nil && m.BackupFailure.Reason == agentapi.StoreOwnedByAnother && strings.Contains(m.BackupFailure.Message, "is no owner record")
	})
	told("it goes on telling what somebody put in the place of the owner record", func() bool {
		return b.LookedAt.After(refused) && b.TamperingCount == 2 && b.Last != nil && b.Level == "governance" &&
			slices.ContainsFunc(b.Tampering, func(f agentapi.Tampering) bool {
				return f.Code == "bad-owner" && strings.Contains(f.Text, "Owner-00000002")
			})
	})
}

func TestAStoreThatIsDownSlowOrDenyingStopsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault storetest.Fault
		opens error // the store cannot even be opened
	}{
		"down":           {fault: storetest.Fail(store.ErrUnreachable).Always()},
		"denying":        {fault: storetest.Fail(store.ErrForbidden).Always()},
		"wrong identity": {fault: storetest.Fail(store.ErrCredentials).Always()},
		"not to open":    {fault: storetest.Fail(store.ErrUnreachable).Always(), opens: store.ErrNoBucket},
	} {
		for _, when := range []string{"from the start", "later"} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				e, bucket := newEtcds(t, 1), memory()
				broken := storetest.NewFaulty(bucket)
				broken.Inject(c.fault)
				o := &opener{store: broken, err: c.opens}
				if when == "later" {
					o.store, o.err = bucket, nil
				}
				e.put(20)
				sc := run(t, e.config(0, o.source()))
				if when == "later" {
					full := asked(t, func(ctx context.Context) (agentapi.Snapshot, error) { return sc.Full(ctx, false) })
					reaches(t, bucket, snapshot.Revision(full.LastRevision))
					o.set(func(o *opener) { o.store, o.err, o.changed = broken, c.opens, true })
				} else {
					until(t, "it takes up its work", func() bool { return sc.Leads() })
				}
				last := e.put(50)
				if c.opens == nil {
					until(t, "the metrics tell that changes wait", func() bool {
						open, known := sc.metric("etcdbr_protection_unprotected_seconds")
						return known && open > 0
					})
				}
				short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if c.opens == nil {
					if _, err := sc.Full(short, false); err == nil {
						t.Error("a full succeeds without a store")
					}
				}
				o.set(func(o *opener) { o.store, o.err, o.changed = bucket, nil, true })
				reaches(t, bucket, last)
				whole(t, bucket, last)
				if !sc.Leads() {
					t.Error("it does not back up any more")
				}
			})
		}
	}
}

func TestNothingIsLostWhenCredentialsChangeUnderLoad(t *testing.T) {
	t.Parallel()
	e, bucket := newEtcds(t, 1), memory()
	o := &opener{store: bucket}
	sc := run(t, e.config(0, o.source()))
	asked(t, func(ctx context.Context) (agentapi.Snapshot, error) { return sc.Full(ctx, false) })
	for range 10 {
		e.put(20)
		revoked := storetest.NewFaulty(bucket) // what was open is worth nothing any more
		revoked.Inject(storetest.Fail(store.ErrCredentials).Always())
		o.set(func(o *opener) { o.store, o.changed = revoked, true })
		e.put(5)
		o.set(func(o *opener) { o.store, o.changed = bucket, true })
	}
	last := e.put(1)
	chain := reaches(t, bucket, last)
	if len(chain.Deltas) == 0 {
		t.Error("the changes are not in deltas")
	}
	whole(t, bucket, last)
	if fulls := countFulls(t, bucket, prefix); fulls > 2 {
		t.Errorf("%d fulls were taken, want that deltas simply went on", fulls)
	}
}

func countFulls(t *testing.T, s store.Reader, prefix snapshot.Prefix) int {
	t.Helper()
	n := 0
	if err := s.List(t.Context(), prefix.String(), func(o store.Object) error { // names alone, as a collection may run
		if key, err := snapshot.ParseKey(prefix, o.Version.Key); err == nil && key.Object == snapshot.SnapshotObject && key.Name.Kind == snapshot.Full && !o.Marker {
			n++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAPrefixOfAnotherOwnerIsWaitedFor(t *testing.T) {
	t.Parallel()
	e, bucket := newEtcds(t, 1), memory()
	cfg := e.config(0, to(bucket))
	cfg.Snapshots.Owner = "another cluster"
	first := run(t, cfg)
	for range 3 {
		e.put(1)
		asked(t, func(ctx context.Context) (agentapi.Snapshot, error) { return first.Full(ctx, false) })
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	before := look(t, bucket, prefix).Objects.Len()
	cfg = e.config(0, to(bucket))
	cfg.Snapshots.Owner = "this cluster"
	cfg.CollectEvery, cfg.Policy = time.Hour, retention.Policy{Method: retention.LimitBased, MaxBackups: 1}
	cfg.Wait = func(ctx context.Context, d time.Duration) error { return sleep(ctx, min(d, 10*time.Millisecond)) } // an hour is over soon
	second := run(t, cfg)
	until(t, "it is refused many times", func() bool {
		n, _ := second.metric("etcdbr_snapshotter_failure", "error=owned")
		return n > 30
	})
	if got := look(t, bucket, prefix).Objects.Len(); got != before {
		t.Errorf("there were %d objects and are %d, want nothing to be touched", before, got)
	}
	until(t, "the member tells why", func() bool {
		f := second.board.now().BackupFailure
		return f != nil && f.Reason == agentapi.StoreOwnedByAnother && strings.Contains(f.Message, "another cluster")
	})
	told, _ := second.metric("etcdbr_snapshotter_failure", "error=owned")
	until(t, "it is refused many times more, and goes on telling why", func() bool {
		if f := second.board.now().BackupFailure; f == nil || f.Reason != agentapi.StoreOwnedByAnother || !strings.Contains(f.Message, "another cluster") {
			t.Fatalf("it tells %+v after it told why", f)
		}
		n, _ := second.metric("etcdbr_snapshotter_failure", "error=owned")
		return n > told+30
	})
	if _, err := second.Full(t.Context(), false); !errors.Is(err, agentapi.ErrRefused) {
		t.Errorf("a full to a prefix of another owner ends with %v, want ErrRefused", err)
	}
}
