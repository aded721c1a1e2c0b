package azure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// protection is what is known of the container. Of its policy the blob service tells only that
// there is one; period and mode come from the management API.
type protection struct {
	known        bool // the container's properties could be read
	policy       bool // it has a policy: of the container, or a default for versions
	hold         bool // it is under a legal hold, with everything in it
	versionLevel bool // versions can be locked one by one

	managed    bool // the management API answered
	versions   bool // the account keeps versions, as far as is known
	mode       immutability.Mode
	period     time.Duration // of the policy; 0: unknown
	extensions int           // of a locked policy so far
	softDelete time.Duration // how long deleted versions are kept; 0: not, or unknown
	why        error         // why the management API did not answer
}

// protection reads it. What this identity may not read stays unknown; only that the container
// is missing or the service does not answer is an error.
func (s *Store) protection(ctx context.Context) (protection, error) {
	var p protection
	props, err := s.client.GetProperties(ctx, nil)
	err = s.classify(ctx, err)
	switch {
	case errors.Is(err, store.ErrForbidden): // a SAS of a container may read its blobs, but not its properties
	case err != nil:
		return p, err
	default:
		p.known = true
		p.policy, p.hold = value(props.HasImmutabilityPolicy), value(props.HasLegalHold)
		p.versionLevel = value(props.IsImmutableStorageWithVersioningEnabled)
	}
	if s.management != nil {
		s.management.read(ctx, &p)
	}
	return p, ctx.Err()
}

// Inspect implements store.Inspector.
func (s *Store) Inspect(ctx context.Context) (store.Bucket, error) {
	p, err := s.protection(ctx)
	if err != nil {
		return store.Bucket{}, fmt.Errorf("inspect %s: %w", s.caps.Location, err)
	}
	b := store.Bucket{Versioned: s.caps.Versions || p.versions || p.versionLevel, Default: immutability.ModeUnknown}
	note := func(format string, args ...any) { b.Notes = append(b.Notes, fmt.Sprintf(format, args...)) }
	if !b.Versioned && !p.managed {
		note("whether the account keeps versions is not told by the blob service; nothing here shows that it does")
	}
	switch {
	case !p.known && !p.managed:
		note("the container's protection is unknown: this identity may not read its properties (a SAS must be of the account, not of the container)")
	case p.policy && p.managed && p.mode.Locks():
		b.Default, b.Period, b.Locked = p.mode, p.period, p.mode == immutability.ModeCompliance
		p.describe(note)
	case p.policy:
		note("the container has an immutability policy, whose period and state only the management API tells (fields subscriptionID and resourceGroup of the credentials)")
	case p.versionLevel && !p.managed:
		note("version-level immutability is on; whether the account gives versions a default lock is told by the management API only (fields subscriptionID and resourceGroup of the credentials)")
	case p.versionLevel:
		b.Default = immutability.ModeNone
		note("version-level immutability is on but has no default: only versions written with an explicit lock are protected")
	default:
		b.Default = immutability.ModeNone
		note("there is no immutability policy: whoever may delete blobs can delete backups")
	}
	if p.hold {
		note("the container is under a legal hold: nothing in it can be deleted until that is cleared, and it can be cleared by whoever manages the container")
	}
	if p.softDelete > 0 {
		note("deleted versions are kept, and paid for, for %d more days (soft delete)", int(p.softDelete/day))
	}
	if p.why != nil {
		note("the management API did not answer: %v", p.why)
	}
	return b, nil
}

const day = 24 * time.Hour

// maxExtensions is how often the period of a locked container policy can be raised at all:
// https://learn.microsoft.com/azure/storage/blobs/immutable-time-based-retention-policy-overview
const maxExtensions = 5

// describe says how firm the policy is.
func (p protection) describe(note func(string, ...any)) {
	switch {
	case p.mode != immutability.ModeCompliance:
		note("the policy is not locked: whoever manages the container can shorten or remove it")
	case p.versionLevel:
		note("the policy is a default: a writer may ask for another lock, and later changes do not touch versions that exist")
	default:
		note("the policy is locked; its period can be raised %d more times, which then counts for every blob", max(maxExtensions-p.extensions, 0))
	}
}
