package provisioner_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/engine/provisioner"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/admin"
	"druid.internal/druid/internal/store/storetest"
)

// bucket is a provider's that does what is asked, apart from what a test has it do.
type bucket struct {
	state   immutability.Bucket
	rules   string
	before  func(s immutability.BucketStep) error
	deaf    bool // it accepts everything and does nothing
	deleted bool
	did     []immutability.BucketStepKind
}

func (b *bucket) Rules() immutability.BucketRules {
	r, _ := immutability.RulesOf(b.rules)
	return r
}
func (b *bucket) Location() string                                  { return "bucket b" }
func (b *bucket) Read(context.Context) (immutability.Bucket, error) { return b.state, nil }
func (b *bucket) Delete(context.Context) error                      { b.deleted = true; return nil }

func (b *bucket) Do(ctx context.Context, s immutability.BucketStep) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if b.before != nil {
		if err := b.before(s); err != nil {
			return "", err
		}
	}
	b.did = append(b.did, s.Do)
	if b.deaf {
		return "", nil
	}
	switch s.Do {
	case immutability.BucketCreate:
		b.state = immutability.Bucket{Exists: true, Mode: s.Mode, Period: s.Period}
	case immutability.BucketVersions, immutability.BucketSuspend:
		b.state.Versioned = s.Do == immutability.BucketVersions
	case immutability.BucketPolicy, immutability.BucketExtend:
		b.state.Period = s.Period
	case immutability.BucketLock:
		b.state.Locked, b.state.Mode = true, immutability.ModeCompliance
	}
	return "", nil
}

var locked = true

func wish(d time.Duration) immutability.BucketWish {
	return immutability.BucketWish{Type: immutability.ByBucket, Period: immutability.Period(d), Locked: &locked}
}

func TestABucketThatSomebodyMakesMeanwhileIsPlannedAnew(t *testing.T) {
	b := &bucket{rules: "GCS", deaf: true}
	b.before = func(s immutability.BucketStep) error {
		// Somebody of ours has made it a moment before, without a policy.
		b.state.Exists, b.deaf = true, s.Do == immutability.BucketCreate
		return nil
	}
	w := immutability.BucketWish{Type: immutability.ByBucket, Period: immutability.Period(96 * time.Hour), Mode: immutability.ModeGovernance}
	r, err := provisioner.New(b).Ensure(t.Context(), w)
	if err != nil || b.state.Period != w.Period || len(r.Done) != 2 || r.Done[1].Do != immutability.BucketPolicy {
		t.Errorf("it did %v, %v", b.did, err)
	}
}

// A plan that cannot be carried out leaves no bucket with less than it had.
func TestAGuardThatWasLiftedIsPutBackWhenAStepFails(t *testing.T) {
	refused := errors.New("refused")
	guarded := immutability.Bucket{Exists: true, Versioned: true, ObjectLock: true, AbortsUploads: true, Mode: immutability.ModeGovernance,
		Period: immutability.Period(96 * time.Hour), Guards: []immutability.Guard{immutability.GuardPlainHTTP, immutability.GuardOldTLS, immutability.GuardSettings}}
	w := immutability.BucketWish{Type: immutability.ByBucket, Period: guarded.Period, Mode: immutability.ModeCompliance}
	for phrase, c := range map[string]struct {
		fails []immutability.BucketStepKind
		says  string
		did   []immutability.BucketStepKind
	}{
		"the walk fails":        {[]immutability.BucketStepKind{immutability.BucketLengthen}, "refused", []immutability.BucketStepKind{"lift-guard", "set-policy", "add-guard"}},
		"the default lock does": {[]immutability.BucketStepKind{immutability.BucketPolicy}, "refused", []immutability.BucketStepKind{"lift-guard", "add-guard"}},
		"nothing was lifted":    {[]immutability.BucketStepKind{immutability.BucketLift}, "refused", nil},
		"it cannot be put back": {[]immutability.BucketStepKind{immutability.BucketLengthen, immutability.BucketGuard}, `"settings" was lifted`, []immutability.BucketStepKind{"lift-guard", "set-policy"}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b := &bucket{rules: "S3", state: guarded, before: func(s immutability.BucketStep) error {
			if slices.Contains(c.fails, s.Do) {
				cancel() // as by a signal
				return refused
			}
			return nil
		}}
		r, err := provisioner.New(b).Ensure(ctx, w)
		if !errors.Is(err, refused) || !strings.Contains(err.Error(), c.says) || !slices.Equal(b.did, c.did) || len(r.Done) != len(c.did) {
			t.Errorf("%s: it did %v and tells %d, %v", phrase, b.did, len(r.Done), err)
		}
	}
}

// Versions that a bucket keeps only for locks that it cannot have would stay for good.
func TestVersionsAreKeptNoLongerWhereTheServerRefusesTheLocksThatTheyWereFor(t *testing.T) {
	plain := immutability.Bucket{Exists: true, AbortsUploads: true, Guards: []immutability.Guard{immutability.GuardPlainHTTP, immutability.GuardOldTLS}}
	guarded := plain
	guarded.Guards = immutability.Guards()[:2:2]
	guarded.Guards = append(guarded.Guards, immutability.GuardSettings)
	versioned := plain
	versioned.Versioned = true
	refusal := &immutability.BucketRefusal{Reason: "too late"}
	w := immutability.BucketWish{Type: immutability.ByBucket, Period: immutability.Period(96 * time.Hour), Mode: immutability.ModeCompliance}
	for phrase, c := range map[string]struct {
		state immutability.Bucket
		fails error
		did   []immutability.BucketStepKind
		kept  bool
	}{
		"refused":             {plain, refusal, []immutability.BucketStepKind{"keep-versions", "suspend-versions"}, false},
		"not permitted":       {plain, store.ErrForbidden, []immutability.BucketStepKind{"keep-versions", "suspend-versions"}, false},
		"unknown":             {plain, store.ErrUnsupported, []immutability.BucketStepKind{"keep-versions", "suspend-versions"}, false},
		"it kept them before": {versioned, refusal, nil, true},
		"no answer":           {plain, errors.New("lost"), []immutability.BucketStepKind{"keep-versions"}, true}, // it may have been done
		"behind a guard":      {guarded, refusal, []immutability.BucketStepKind{"lift-guard", "keep-versions", "suspend-versions", "add-guard"}, false},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b := &bucket{rules: "S3", state: c.state, before: func(s immutability.BucketStep) error {
			if s.Do == immutability.BucketObjectLock {
				cancel() // as by a signal
				return c.fails
			}
			return nil
		}}
		r, err := provisioner.New(b).Ensure(ctx, w)
		if !errors.Is(err, c.fails) || !slices.Equal(b.did, c.did) || b.state.Versioned != c.kept {
			t.Errorf("%s: it did %v, versioned %t, %v", phrase, b.did, b.state.Versioned, err)
		}
		if got := r.After; len(c.did) > 0 && (got == nil || got.Versioned != c.kept) {
			t.Errorf("%s: it tells %+v, want what was read back", phrase, got)
		}
	}
}

func TestAServerThatAcceptsEverythingAndDoesNothingIsFoundOut(t *testing.T) {
	b := &bucket{rules: "ABS", state: immutability.Bucket{Exists: true, Mode: immutability.ModeNone}, deaf: true}
	r, err := provisioner.New(b).Ensure(t.Context(), wish(96*time.Hour))
	if !errors.Is(err, provisioner.ErrIneffective) || !strings.Contains(err.Error(), "retention policy of 4 days") || r.Level != immutability.ModeNone {
		t.Errorf("level %s, %v", r.Level, err)
	}
}

func TestWhatAServerLacksIsSaidOnlyWhereItMayBeLeftOut(t *testing.T) {
	lacks := func(s immutability.BucketStep) error {
		if s.Do == immutability.BucketUploads || s.Do == immutability.BucketGuard {
			return store.ErrUnsupported
		}
		return nil
	}
	b := &bucket{rules: "OSS", before: lacks}
	r, err := provisioner.New(b).Ensure(t.Context(), wish(96*time.Hour))
	if last := r.Done[len(r.Done)-1]; err != nil || !last.Skipped || last.Do != immutability.BucketUploads {
		t.Errorf("%+v, %v", r.Done, err)
	}
	b = &bucket{rules: "S3", before: lacks, state: immutability.Bucket{Exists: true, Versioned: true}}
	if _, err := provisioner.New(b).Ensure(t.Context(), immutability.BucketWish{Guards: []immutability.Guard{immutability.GuardMarkers}}); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("a statement that was asked for: %v", err)
	}
}

func TestOnlyWhatIsThereIsLocked(t *testing.T) {
	for phrase, c := range map[string]struct {
		rules string
		state immutability.Bucket
		says  string
	}{
		"nothing":      {"GCS", immutability.Bucket{}, "no such bucket"},
		"no retention": {"GCS", immutability.Bucket{Exists: true}, "no retention that could be locked"},
		"governance":   {"S3", immutability.Bucket{Exists: true, Versioned: true, ObjectLock: true, Mode: immutability.ModeGovernance, Period: immutability.Period(96 * time.Hour)}, "--retention-mode=compliance"},
		"Swift":        {"Swift", immutability.Bucket{Exists: true}, "Swift has no immutability"},
		"foreign":      {"GCS", immutability.Bucket{Exists: true, Owner: "mallory"}, "belongs to mallory"},
	} {
		if _, _, err := provisioner.New(&bucket{rules: c.rules, state: c.state}).PlanLock(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", phrase, err, c.says)
		}
	}
	b := &bucket{rules: "ABS", state: immutability.Bucket{Exists: true, Mode: immutability.ModeGovernance, Period: immutability.Period(96 * time.Hour)}}
	r, w, err := provisioner.New(b).PlanLock(t.Context())
	if err != nil || len(r.Plan.Steps) != 1 || r.Plan.Steps[0].Do != immutability.BucketLock || w.Period != b.state.Period || len(b.did) > 0 {
		t.Errorf("%+v, %v", r.Plan, err)
	}
}

func TestOnlyAnEmptyBucketOfOursIsDeleted(t *testing.T) {
	empty := storetest.NewMemory(storetest.S3Like())
	full := storetest.NewMemory(storetest.S3Like())
	if _, err := full.Put(t.Context(), "ns/etcd/Full-1", strings.NewReader("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for phrase, c := range map[string]struct {
		state   immutability.Bucket
		in      store.Reader
		yes     bool
		deleted bool
		fails   error
	}{
		"empty":            {immutability.Bucket{Exists: true}, empty, true, true, nil},
		"empty, not asked": {immutability.Bucket{Exists: true}, empty, false, false, nil},
		"full":             {immutability.Bucket{Exists: true}, full, true, false, admin.ErrNotEmpty},
		"somebody else's":  {immutability.Bucket{Exists: true, Owner: "mallory"}, empty, true, false, admin.ErrForeign},
		"gone":             {immutability.Bucket{}, nil, true, false, nil},
	} {
		b := &bucket{rules: "S3", state: c.state}
		_, err := provisioner.New(b).Delete(t.Context(), func(context.Context) (store.Reader, error) { return c.in, nil }, c.yes)
		if !errors.Is(err, c.fails) || b.deleted != c.deleted {
			t.Errorf("%s: deleted %v, %v", phrase, b.deleted, err)
		}
		if c.fails == admin.ErrNotEmpty && !strings.Contains(err.Error(), "ns/etcd/Full-1") {
			t.Errorf("%v does not say what it holds", err)
		}
	}
}

// Whoever may write names objects as he likes, also to deceive whoever is told what is in the way.
func TestWhatIsInTheWayIsOneLineWhateverItIsNamed(t *testing.T) {
	c := provisioner.Contents{Versions: 1, First: "ns/\x1b[2Jall is well\nnothing"}
	if got, want := c.String(), `1 versions and 0 markers, the first of ns/\x1b[2Jall is well\nnothing`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
