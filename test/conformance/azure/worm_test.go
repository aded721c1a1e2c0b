package azure

import (
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
	"druid.internal/druid/test/stores/azworm"
)

// protected makes a container with a protection.
func protected(t *testing.T, p azworm.Protection) string {
	t.Helper()
	name := newName()
	if err := worm.Create(t.Context(), name, p); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestAzureKeepsTheContractWithContainersThatAreLocked(t *testing.T) {
	o := locking().suite()
	o.Now = worm.Shim.Now
	o.DefaultLock = func(t *testing.T) (store.Store, immutability.Mode, time.Duration) {
		return open(t, locking().options(protected(t, azworm.Protection{Days: 2, Locked: true}))), immutability.ModeCompliance, 48 * time.Hour
	}
	report("container-level immutability", wormServer).Publish(t, &o, "../results/azure-container.json", *update)
	storetest.Run(t, o)
}

func TestAzureKeepsTheContractWithVersionsThatAreLocked(t *testing.T) {
	o := locking().suite()
	o.New = func(t *testing.T) store.Store {
		return open(t, locking().options(protected(t, azworm.Protection{VersionLevel: true})))
	}
	o.Want.Versions, o.Want.ObjectLock = true, true
	o.Extend, o.Hold = true, true
	o.Lock = []storetest.Lock{
		{Ask: immutability.ModeCompliance, Want: immutability.ModeCompliance},
		{Ask: immutability.ModeGovernance, Want: immutability.ModeGovernance},
	}
	o.Now = worm.Shim.Now
	o.ShortLock = time.Hour
	o.Advance = func(_ *testing.T, _ store.Store, d time.Duration) { worm.Shim.Advance(d) }
	o.DefaultLock = func(t *testing.T) (store.Store, immutability.Mode, time.Duration) {
		return open(t, locking().options(protected(t, azworm.Protection{VersionLevel: true, Days: 1}))), immutability.ModeGovernance, 24 * time.Hour
	}
	report("version-level immutability", wormServer).Publish(t, &o, "../results/azure-versions.json", *update)
	storetest.Run(t, o)
}
