package oss

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	osssdk "github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

const (
	day = 24 * time.Hour
	// unconfirmed is how long a retention policy stands that was not completed.
	unconfirmed = day
)

// policy is the retention policy of the bucket.
type policy struct {
	known   bool // false: we may not ask
	state   osssdk.BucketWormStateType
	period  time.Duration // 0: there is none
	created time.Time
}

// policy reads it. A bucket without one is no error, and neither is an identity that may not ask.
func (s *Store) policy(ctx context.Context) (policy, error) {
	out, err := s.client.GetBucketWorm(ctx, &osssdk.GetBucketWormRequest{Bucket: &s.opts.Bucket})
	if err != nil {
		classified := s.classify(ctx, err)
		switch {
		case codeOf(err) == "NoSuchWORMConfiguration":
			return policy{known: true}, nil
		case errors.Is(classified, store.ErrForbidden):
			return policy{}, nil
		}
		return policy{}, fmt.Errorf("read the retention policy: %w", classified)
	}
	p := policy{known: true}
	if c := out.WormConfiguration; c != nil {
		p.state, p.period = c.State, days(c.RetentionPeriodInDays)
		if p.created, err = parseDate(osssdk.ToString(c.CreationDate)); err != nil && p.state != osssdk.BucketWormStateLocked {
			return policy{}, nil // how long it stands cannot be told
		}
	}
	return p, nil
}

// of is the lock that the policy puts on an object. nil: not known. A policy that is not
// completed can be aborted by whoever may, so it is a lock of the weaker mode, and ends with
// the day in which it must be completed. Words that are not understood are nil, too.
func (p policy) of(modified time.Time) *immutability.Retention {
	switch {
	case !p.known:
		return nil
	case p.period == 0:
		return &immutability.Retention{Mode: immutability.ModeNone}
	}
	until := modified.Add(p.period).UTC()
	switch p.state {
	case osssdk.BucketWormStateLocked:
		return &immutability.Retention{Mode: immutability.ModeCompliance, Until: until, Inferred: true}
	case osssdk.BucketWormStateInProgress:
		if lapses := p.created.Add(unconfirmed).UTC(); lapses.Before(until) {
			until = lapses
		}
		return &immutability.Retention{Mode: immutability.ModeGovernance, Until: until, Inferred: true}
	}
	return nil
}

func days(n *int32) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * day
}

// parseDate reads a time of the protocol's XML: UTC, with or without saying so.
func parseDate(s string) (time.Time, error) {
	t, err := time.Parse("2006-01-02T15:04:05", strings.TrimSuffix(s, "Z")) // a fraction is accepted
	if err != nil {
		return time.Time{}, fmt.Errorf("the time %q is not understood", s)
	}
	return t, nil
}

// Inspect implements store.Inspector.
func (s *Store) Inspect(ctx context.Context) (store.Bucket, error) {
	b := store.Bucket{Default: immutability.ModeUnknown}
	status, err := s.versioning(ctx)
	switch {
	case errors.Is(err, store.ErrForbidden):
		b.Notes = append(b.Notes, "whether versions are kept is unknown: this identity lacks oss:GetBucketVersioning")
	case err != nil:
		return store.Bucket{}, fmt.Errorf("inspect %s: %w", s.caps.Location, err)
	case status == string(osssdk.VersionSuspended):
		b.Notes = append(b.Notes, "versioning is suspended: an overwrite destroys what was there")
	}
	b.Versioned = status == string(osssdk.VersionEnabled)
	p, err := s.policy(ctx)
	switch {
	case err != nil:
		return store.Bucket{}, fmt.Errorf("inspect %s: %w", s.caps.Location, err)
	case !p.known:
		b.Notes = append(b.Notes, "the retention policy is unknown: this identity lacks oss:GetBucketWorm")
		return b, nil
	case p.period == 0:
		b.Default = immutability.ModeNone
		b.Notes = append(b.Notes, "the bucket has no retention policy: whoever may delete can delete backups")
		return b, nil
	}
	r := p.of(time.Time{})
	if r == nil {
		b.Notes = append(b.Notes, fmt.Sprintf("the retention policy is in the state %q, which is not understood", p.state))
		return b, nil
	}
	b.Default, b.Period = r.Mode, p.period
	switch p.state {
	case osssdk.BucketWormStateLocked:
		b.Locked = true
		b.Notes = append(b.Notes, "the retention policy is locked: its period can only become longer, and it protects every object, also those written before")
	case osssdk.BucketWormStateInProgress:
		b.Period = min(p.period, unconfirmed)
		b.Notes = append(b.Notes, fmt.Sprintf("the retention policy of %d days is not locked: it can be aborted, and lapses at %s unless it is completed (CompleteBucketWorm)",
			int(p.period/day), p.created.Add(unconfirmed).UTC().Format(time.RFC3339)))
	}
	return b, nil
}
