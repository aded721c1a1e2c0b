package gcs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/storage"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// day is the shortest period of a policy that Google promises to keep to.
const day = 24 * time.Hour

// Inspect implements store.Inspector.
func (s *Store) Inspect(ctx context.Context) (store.Bucket, error) {
	attrs, err := s.bucketAttrs(ctx)
	if errors.Is(err, store.ErrForbidden) {
		return store.Bucket{Default: immutability.ModeUnknown, Notes: []string{
			"how the bucket protects its objects is unknown: this identity lacks storage.buckets.get",
		}}, nil
	}
	if err != nil {
		return store.Bucket{}, fmt.Errorf("inspect %s: %w", s.caps.Location, err)
	}
	b := store.Bucket{Versioned: attrs.VersioningEnabled, Default: immutability.ModeNone}
	if p := attrs.RetentionPolicy; p != nil && p.RetentionPeriod > 0 {
		b.Default, b.Period, b.Locked = immutability.ModeGovernance, p.RetentionPeriod, p.IsLocked
		if p.IsLocked {
			b.Default = immutability.ModeCompliance
		}
	}
	b.Notes = notes(attrs, b)
	return b, nil
}

// notes are what people should know about a bucket's configuration.
func notes(attrs *storage.BucketAttrs, b store.Bucket) []string {
	var all []string
	note := func(text string, args ...any) { all = append(all, fmt.Sprintf(text, args...)) }
	own := attrs.ObjectRetentionMode == objectRetentionEnabled
	switch {
	case b.Period > 0 && b.Locked:
		note("the retention policy is locked: nobody can shorten or remove it, and it can still be made longer, which counts for all objects at once")
	case b.Period > 0:
		note("the retention policy is not locked: whoever holds storage.buckets.update can remove it, and with it the protection of all objects at once")
	case own:
		note("there is no retention policy, but single objects can be locked: only those written with an explicit lock are protected")
	default:
		note("there is neither a retention policy nor retention of single objects: whoever may delete objects can delete backups")
	}
	if b.Period > 0 && b.Period < day {
		note("Google does not promise to keep to periods below one day; locking such a policy has no effect")
	}
	if b.Period > 0 && own {
		note("single objects can also be locked for longer than the policy says")
	}
	if attrs.DefaultEventBasedHold {
		note("new objects get an event-based hold: they stay until it is released, and then for one period of the policy")
	}
	if b.Versioned && b.Period == 0 {
		note("noncurrent versions are kept: a deletion hides an object, which hides nothing here")
	}
	if p := attrs.SoftDeletePolicy; p != nil && p.RetentionDuration > 0 {
		note("soft delete is on: what is deleted is kept, and paid for, for %s more", days(p.RetentionDuration))
	}
	return all
}

// days is a duration as people say it.
func days(d time.Duration) string {
	switch {
	case d == day:
		return "1 day"
	case d%day == 0:
		return fmt.Sprintf("%d days", d/day)
	}
	return d.String()
}
