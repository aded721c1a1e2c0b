package immutability

import (
	"fmt"
	"time"
)

// RetentionType says what a period is counted for.
type RetentionType string

// The types.
const (
	ByBucket RetentionType = "bucket" // the bucket locks everything that is written into it
	ByObject RetentionType = "object" // whoever writes locks each object; the bucket only has to let them
)

// ParseRetentionType is the inverse of string(t).
func ParseRetentionType(s string) (RetentionType, error) {
	switch t := RetentionType(s); t {
	case ByBucket, ByObject:
		return t, nil
	}
	return "", fmt.Errorf("%q is neither %s nor %s", s, ByBucket, ByObject)
}

// Guard is a statement of a bucket's policy that refuses something to everybody.
type Guard string

// The guards. Two statements and not one keep out what is badly encrypted: plain HTTP has no
// version of TLS, and old TLS is no plain HTTP, so one statement with both conditions denies neither.
const (
	GuardPlainHTTP Guard = "plain-http" // no request without TLS
	GuardOldTLS    Guard = "old-tls"    // no request by TLS before 1.2
	GuardMarkers   Guard = "markers"    // no deletion without a version, which would leave a marker
	GuardSettings  Guard = "settings"   // no change of versioning, default lock and lifecycle, no bypass of governance
)

// Guards are all of them, in the order in which they are made.
func Guards() []Guard { return []Guard{GuardPlainHTTP, GuardOldTLS, GuardMarkers, GuardSettings} }

// BucketWish is the protection that a bucket shall give.
type BucketWish struct {
	Type   RetentionType `json:"retentionType,omitempty"`
	Period Period        `json:"retentionPeriod,omitempty"` // 0: none, the bucket shall only be there
	// Mode is governance or compliance. With ByBucket, compliance is met by the mode of the lock
	// on S3, and elsewhere only once the bucket's policy is locked.
	Mode Mode `json:"mode,omitempty"`
	// Locked: the policy itself shall never be shortened or removed again. nil: it stays as it is.
	Locked *bool `json:"locked,omitempty"`
	// Guards are to be there besides; those of the transport are of every bucket that can have them.
	Guards []Guard `json:"guards,omitempty"`
	// SpendExtension uses up one of a fixed number of extensions for a small gain.
	SpendExtension bool `json:"spendExtension,omitempty"`
}

func (w BucketWish) locks() bool   { return w.Locked != nil && *w.Locked }
func (w BucketWish) unlocks() bool { return w.Locked != nil && !*w.Locked }

// Bucket is what was read of a bucket.
type Bucket struct {
	Exists bool `json:"exists"`
	// Owner is somebody else's name; empty: it is ours, or whose it is could not be asked.
	Owner string `json:"foreignOwner,omitempty"`

	Versioned  bool `json:"versioned"`
	ObjectLock bool `json:"objectLock"` // single objects can be locked

	// Mode and Period are of the default lock or policy, for all that is written; ModeNone without one.
	Mode   Mode   `json:"mode"`
	Period Period `json:"retentionPeriod,omitempty"`
	// Locked: the policy cannot be shortened or removed, whoever tries. See LockedByStatement.
	Locked bool `json:"locked"`
	// Lapses is when a policy that is not locked ends by itself; zero: never.
	Lapses time.Time `json:"lapses,omitzero"`
	// Extensions is how often the period of a locked policy was raised so far.
	Extensions int `json:"extensions,omitempty"`

	Guards []Guard `json:"guards,omitempty"`
	// NoGuards are those that its server cannot or must not have, and why.
	NoGuards map[Guard]string `json:"-"`
	// AbortsUploads: what is left of interrupted uploads is removed, by a lifecycle rule or by the server itself.
	AbortsUploads bool `json:"abortsUploads,omitempty"`
	// Notes are sentences for people, for example what could not be read and why.
	Notes []string `json:"notes,omitempty"`
}

// Level is how strongly the bucket protects what is written into it without a lock of its own.
func (b Bucket) Level() Mode {
	if !b.Exists || b.Period <= 0 {
		return ModeNone
	}
	return modes[b.Mode.rank()]
}

// LockedByStatement: its settings are locked as far as S3 has that, by GuardSettings, which whoever may change the
// bucket's policy can take away.
func (b Bucket) LockedByStatement() bool { return !b.Locked && b.has(GuardSettings) }

func (b Bucket) has(g Guard) bool {
	for _, have := range b.Guards {
		if have == g {
			return true
		}
	}
	return false
}

// Day is what most providers count retention in.
const Day = 24 * time.Hour

// Period is how long something is kept. Its text is a duration like 96h.
type Period time.Duration

// Duration is the period as the standard library has it.
func (p Period) Duration() time.Duration { return time.Duration(p) }

// String is the period for people: 4 days, 1 day, 36h0m0s.
func (p Period) String() string {
	switch d := time.Duration(p); {
	case d == Day:
		return "1 day"
	case d != 0 && d%Day == 0:
		return fmt.Sprintf("%d days", d/Day)
	default:
		return d.String()
	}
}

// MarshalText implements encoding.TextMarshaler: hours where it is whole hours.
func (p Period) MarshalText() ([]byte, error) {
	if d := time.Duration(p); d%time.Hour == 0 {
		return fmt.Appendf(nil, "%dh", d/time.Hour), nil
	}
	return []byte(time.Duration(p).String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Period) UnmarshalText(b []byte) error {
	d, err := time.ParseDuration(string(b))
	*p = Period(d)
	return err
}
