package stores

import (
	"context"
	"time"
)

// Raw is a bucket in the hands of somebody who asks nobody: what attackers, careless operators
// and other programs do to it. It sends plain requests, repeats none, and knows nothing of the
// packages under test. What the server refuses is an error.
type Raw interface {
	// Overwrite puts body under key on no condition.
	Overwrite(ctx context.Context, key string, body []byte) error
	// Hide deletes key without naming a version.
	Hide(ctx context.Context, key string) error
	// Delete removes one version, or marker, for good.
	Delete(ctx context.Context, v RawVersion) error
	// Versions are all versions and markers of all keys, keys in the order of their bytes.
	Versions(ctx context.Context) ([]RawVersion, error)
	// Read is the content of a version; of the current one without an ID.
	Read(ctx context.Context, v RawVersion) ([]byte, error)
}

// RawVersion is a line of a listing. ID is empty where the bucket keeps no versions.
type RawVersion struct {
	Key, ID string
	Size    int64
	Marker  bool
	Current bool // what who knows no versions sees
}

// Shortener is a Raw of a store where locks could be shortened, if nothing refused it.
type Shortener interface {
	// Shorten has the lock of a version, or that of everything in the bucket where objects have none of their own,
	// end in a minute, whatever it is told to override.
	Shorten(ctx context.Context, v RawVersion) error
}

// Locker is a Raw of a store where whoever may can lock single objects, if nothing refused it.
type Locker interface {
	// Prolong locks a version until then, in the mode that it has, in the stronger one if it has none.
	Prolong(ctx context.Context, v RawVersion, until time.Time) error
	// PutLocked puts body under key, locked in the stronger mode until then.
	PutLocked(ctx context.Context, key string, body []byte, until time.Time) error
}

// Weakener is a Raw of a store where the lock of a version could be made one that can be lifted, if nothing refused it.
type Weakener interface {
	// Weaken asks for the weaker mode and for a later end, so that it is not for being shorter that it is refused.
	Weaken(ctx context.Context, v RawVersion) error
}

// Settler is a Raw of a store where who may lift a lock can have it be final and end sooner.
type Settler interface {
	// Settle has the lock of a version that can be lifted become one that nobody can lift, and end then.
	Settle(ctx context.Context, v RawVersion, until time.Time) error
}
