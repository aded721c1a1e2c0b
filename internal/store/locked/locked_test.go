package locked

import (
	"errors"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func bucket(p storetest.Profile) (*storetest.Memory, *storetest.Clock) {
	clock := storetest.NewClock(time.Date(2026, 11, 20, 10, 0, 0, 1, time.UTC))
	p.Now = clock.Now
	return storetest.NewMemory(p), clock
}

func TestWhatIsWrittenIsLocked(t *testing.T) {
	bare, clock := bucket(storetest.S3Like())
	s, err := New(bare, immutability.ModeCompliance, 96*time.Hour, clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	until := time.Date(2026, 11, 24, 10, 0, 1, 0, time.UTC) // up to the next second
	put, err := s.Put(t.Context(), "a/put", strings.NewReader("x"), store.PutOptions{Tags: map[string]string{"k": "v"}})
	if err != nil {
		t.Fatal(err)
	}
	copier, ok := store.As[store.Copier](s)
	if !ok {
		t.Fatal("it cannot copy")
	}
	copied, err := copier.Copy(t.Context(), s, put.Version, "a/copied", store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own := immutability.Retention{Mode: immutability.ModeGovernance, Until: until.Add(-time.Hour)}
	asked, err := s.Put(t.Context(), "a/asked", strings.NewReader("x"), store.PutOptions{Retention: &own})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		of   store.Version
		want immutability.Retention
	}{
		{put.Version, immutability.Retention{Mode: immutability.ModeCompliance, Until: until}},
		{copied.Version, immutability.Retention{Mode: immutability.ModeCompliance, Until: until}},
		{asked.Version, own},
	} {
		o, err := s.Stat(t.Context(), c.of)
		if err != nil {
			t.Fatal(err)
		}
		if o.Retention == nil || *o.Retention != c.want {
			t.Errorf("%s: the lock is %+v, want %+v", c.of, o.Retention, c.want)
		}
	}
	deleter, ok := store.As[store.Deleter](s)
	if !ok {
		t.Fatal("what the store behind it can do is not found")
	}
	var refused *store.ImmutableError
	if err := deleter.Delete(t.Context(), put.Version); !errors.As(err, &refused) {
		t.Errorf("a locked object was deleted: %v", err)
	}
	clock.Advance(97 * time.Hour)
	if err := deleter.Delete(t.Context(), put.Version); err != nil {
		t.Errorf("after the lock's end: %v", err)
	}
}

func TestABucketThatCannotLockTakesNothing(t *testing.T) {
	bare, clock := bucket(storetest.Bare())
	s, err := New(bare, immutability.ModeCompliance, time.Hour, clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "a/put", strings.NewReader("x"), store.PutOptions{}); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("put: %v", err)
	}
	if err := s.List(t.Context(), "", func(o store.Object) error { t.Errorf("%s is there", o.Key); return nil }); err != nil {
		t.Error(err)
	}
}

func TestLocksThatNobodyCanMean(t *testing.T) {
	bare, clock := bucket(storetest.S3Like())
	for _, c := range []struct {
		mode   immutability.Mode
		period time.Duration
		says   string
	}{
		{immutability.ModeNone, time.Hour, "use governance or compliance"},
		{immutability.ModeAdvisory, time.Hour, "use governance or compliance"},
		{"forever", time.Hour, `the mode "forever"`},
		{immutability.ModeCompliance, 0, "above 0"},
		{immutability.ModeCompliance, -time.Hour, "above 0"},
		{immutability.ModeCompliance, immutability.MaxPeriod + 1, "at most 3650 days"},
	} {
		if _, err := New(bare, c.mode, c.period, clock.Now); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s for %s: %v", c.mode, c.period, err)
		}
	}
}
