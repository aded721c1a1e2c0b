package storetest_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func TestTheBucketInMemoryKeepsTheContract(t *testing.T) {
	for name, o := range storetest.MemoryOptions() {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, o(func(s store.Store) store.Store { return s }))
		})
	}
}

func TestAFaultyStoreWithoutFaultsKeepsTheContract(t *testing.T) {
	storetest.Run(t, storetest.MemoryOptions()["like S3"](func(s store.Store) store.Store { return storetest.NewFaulty(s) }))
}

func TestABucketThatHidesItsLocksEnforcesThem(t *testing.T) {
	p := storetest.S3Like()
	p.MuteRetention, p.Default, p.Period = true, immutability.ModeCompliance, time.Hour
	m := storetest.NewMemory(p)
	o, err := m.Put(t.Context(), "a", bytes.NewReader(nil), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if st, err := m.Stat(t.Context(), o.Version); err != nil || st.Retention != nil {
		t.Errorf("Stat = %+v, %v, want no word about retention", st, err)
	}
	var locked *store.ImmutableError
	if err := m.Delete(t.Context(), o.Version); !errors.As(err, &locked) {
		t.Errorf("Delete = %v, want a refusal", err)
	}
}
