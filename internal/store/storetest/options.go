package storetest

import (
	"io"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// Options describe a provider to the suite: how to reach it, what it promises, and how to do
// to its bucket what the port has no words for. Every capability that is claimed is proven,
// and where one is not claimed the suite proves what holds instead. What cannot be proven
// because a hook is missing is logged as "not proven here".
type Options struct {
	// New returns a store on an existing, empty bucket of its own, which also implements
	// store.Deleter. It is called once per case, so it should be quick. Required.
	New func(t *testing.T) store.Store

	// Want is what Capabilities must answer. Location is compared only if it is set.
	Want store.Capabilities

	// The optional interfaces that must be found by store.As and work. Where one is not
	// expected, it must either be missing or answer store.ErrUnsupported.
	Extend, Hold, SetTag, Copy, Inspect bool

	// LooksFirst: Put refuses a key that is taken (store.ErrExists) although nothing says that the
	// server would: the provider looks before it writes. That protects against mistakes and not
	// against two who write at the same moment, so Want.ConditionalPut is not claimed.
	LooksFirst bool

	// ServerTime: Stat tells the store's clock.
	ServerTime bool

	// Record, if set, is told what each case came to, when it is over. See Report.Publish.
	Record func(Result)

	// Lock are the modes one may ask for with PutOptions.Retention, and what is read back
	// for each. Needed if Want.ObjectLock.
	Lock []Lock
	// LockPeriod is how long the locks last that the suite expects to outlive the test;
	// 0 means one hour.
	LockPeriod time.Duration
	// ShortLock is a period which the store accepts and for whose end the suite may wait:
	// by Advance if that is set, else in real time. 0: expiry is not proven here.
	ShortLock time.Duration
	// Advance moves the store's clock. nil for stores that live in real time.
	Advance func(t *testing.T, s store.Store, d time.Duration)
	// Now is the store's clock, as far as the test can know it; nil means time.Now.
	Now func() time.Time
	// DefaultLock returns a store on an empty bucket that stamps a lock on objects that
	// ask for none, and what that lock must be. nil: not proven here.
	DefaultLock func(t *testing.T) (store.Store, immutability.Mode, time.Duration)

	// NoBucket returns a store whose bucket or container does not exist. Required.
	NoBucket func(t *testing.T) store.Store
	// Outage returns a store that cannot be reached. Required.
	Outage func(t *testing.T) store.Store
	// OutageError is what its errors must wrap; nil means store.ErrUnreachable.
	OutageError error
	// BrokenList returns a view of s whose listing breaks off after it has begun: the
	// first page arrives, the second does not. nil: not proven here.
	BrokenList func(t *testing.T, s store.Store) store.Reader
	// Cut opens v, which has at least 1 MiB, so that the stream breaks off before its end.
	// nil: not proven here.
	Cut func(t *testing.T, s store.Store, v store.Version) io.ReadCloser

	// Overwrite does what a foreign writer without manners does: it puts body under key,
	// whatever is there. nil: not proven here.
	Overwrite func(t *testing.T, s store.Store, key string, body []byte)
	// Hide deletes key without naming a version, so that a marker hides it. Needed if
	// Want.Versions.
	Hide func(t *testing.T, s store.Store, key string)
	// SparesMarkers: Hide makes no marker where there is nothing to hide, as MinIO does; S3
	// itself makes one all the same.
	SparesMarkers bool
	// NoMarkers: a delete without a version makes no marker. It leaves the versions and makes
	// none of them the latest (Azure, Google), and so does deleting the latest version. Hide
	// must then bear to be refused because of a lock.
	NoMarkers bool
	// TagValue is a tag's value with every kind of character the provider takes; empty means
	// one that fits S3.
	TagValue string
	// OneMarker: Hide makes no second marker over the first, as with Ceph.
	OneMarker bool
	// Leftovers counts what failed uploads left behind that List does not show: parts of
	// uploads, temporary files. nil: not proven here.
	Leftovers func(t *testing.T, s store.Store) int

	// LargeSize is the size of the stream of unknown size; 0 means 24 MiB. It should span
	// several of the provider's upload parts, and not be a multiple of them.
	LargeSize int64
	// ManyKeys is how many keys the pagination case writes; 0 means 1100. It must exceed
	// the provider's page.
	ManyKeys int
	// OddKeys are keys to try beyond the suite's own; NoKeys are keys Put must refuse, even if
	// the suite tries them with others.
	OddKeys, NoKeys []string
	// CloseIdle drops pooled connections before goroutines are counted. nil: nothing pooled.
	CloseIdle func()

	notes *notes // of the case that runs
}

// Lock is a mode asked for and the mode that must be read back.
type Lock struct{ Ask, Want immutability.Mode }
