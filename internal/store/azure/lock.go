package azure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// blobLock is what the service tells about the lock of one version.
type blobLock struct {
	created, until *time.Time
	mode           blob.ImmutabilityPolicyMode
	hold           bool
}

func lockOf(p blob.GetPropertiesResponse) blobLock {
	return blobLock{created: p.CreationTime, until: p.ImmutabilityPolicyExpiresOn, mode: value(p.ImmutabilityPolicyMode), hold: value(p.LegalHold)}
}

// retention joins what is known of a version and of its container. nil: the lock is not told.
func (p protection) retention(l blobLock) *immutability.Retention {
	r := &immutability.Retention{Mode: immutability.ModeUnknown, Hold: l.hold || p.hold}
	switch {
	case l.until != nil:
		r.Until = l.until.UTC()
		if r.Mode = modeOf(string(l.mode)); l.mode == "" {
			// A date without a mode is that of the container's policy. One that is not known to
			// be locked can be removed by whoever manages the container.
			r.Mode = immutability.ModeGovernance
			if p.mode.Locks() {
				r.Mode = p.mode
			}
		}
	case p.known && (!p.policy || p.versionLevel):
		// With version-level immutability a version without a date of its own has none.
		r.Mode = immutability.ModeNone
	case p.period > 0 && p.mode.Locks() && l.created != nil:
		// The container's policy counts from the blob's creation, with the period of today.
		r.Mode, r.Until, r.Inferred = p.mode, l.created.UTC().Add(p.period), true
	case !r.Hold:
		return nil
	}
	return r
}

// modeOf translates the service's word, which it writes in either case. An unlocked policy
// refuses deletion as well, but can be taken away.
func modeOf(mode string) immutability.Mode {
	switch strings.ToLower(mode) {
	case "locked":
		return immutability.ModeCompliance
	case "unlocked":
		return immutability.ModeGovernance
	case "mutable", "":
		return immutability.ModeNone
	}
	return immutability.ModeUnknown
}

// lock is what a new version is to carry. Nil is not sent, so that the default applies.
type lock struct {
	mode  *blob.ImmutabilityPolicySetting
	until *time.Time
	hold  *bool
}

// lockFor translates what a caller asks for. A lock that the container cannot give is refused
// here, not by leaving it away.
func (s *Store) lockFor(r *immutability.Retention) (lock, error) {
	if r == nil {
		return lock{}, nil
	}
	var l lock
	switch r.Mode {
	case immutability.ModeCompliance, immutability.ModeGovernance:
		l.mode = settingOf(r.Mode)
		switch {
		case r.Until.IsZero():
			return l, fmt.Errorf("a lock of mode %s needs a date", r.Mode)
		case !r.Until.After(s.client.clock.now()):
			return l, fmt.Errorf("a lock must end in the future, not at %s", r.Until.UTC().Format(time.RFC3339))
		}
		until := wholeSecond(r.Until)
		l.until = &until
	case immutability.ModeNone, "":
	default:
		return l, fmt.Errorf("a lock of mode %s: %w", r.Mode, store.ErrUnsupported)
	}
	if r.Hold {
		hold := true
		l.hold = &hold
	}
	if l.mode != nil || l.hold != nil {
		return l, s.lockable()
	}
	return l, nil
}

func settingOf(m immutability.Mode) *blob.ImmutabilityPolicySetting {
	setting := blob.ImmutabilityPolicySettingUnlocked
	if m == immutability.ModeCompliance {
		setting = blob.ImmutabilityPolicySettingLocked
	}
	return &setting
}

// lockable is the reason why single versions cannot be locked here, if they cannot.
func (s *Store) lockable() error {
	if s.caps.ObjectLock || s.lockUnknown {
		return nil
	}
	return fmt.Errorf("the container has no version-level immutability: %w", store.ErrUnsupported)
}

// wholeSecond rounds up: the service keeps seconds, and a lock must not end earlier than asked.
func wholeSecond(t time.Time) time.Time {
	if whole := t.UTC().Truncate(time.Second); !whole.Equal(t) {
		return whole.Add(time.Second)
	}
	return t.UTC()
}

// Extend implements store.Extender with a policy of the version; a container's policy cannot be
// lengthened for one blob. It keeps the mode: locking a policy could not be undone.
func (s *Store) Extend(ctx context.Context, v store.Version, until time.Time) (immutability.Retention, error) {
	r, err := s.extend(ctx, v, until)
	if err != nil {
		return immutability.Retention{}, fmt.Errorf("extend the lock of %s in %s: %w", v, s.caps.Location, err)
	}
	return r, nil
}

func (s *Store) extend(ctx context.Context, v store.Version, until time.Time) (immutability.Retention, error) {
	var none immutability.Retention
	if err := s.lockable(); err != nil {
		return none, err
	}
	o, err := s.stat(ctx, v)
	switch {
	case err != nil:
		return none, err
	case o.Retention == nil || o.Retention.Mode == immutability.ModeUnknown:
		return none, fmt.Errorf("its lock cannot be read: %w", store.ErrForbidden)
	case !o.Retention.Mode.Locks():
		return none, fmt.Errorf("it has no lock that could be extended: %w", store.ErrUnsupported)
	}
	current := *o.Retention
	until = wholeSecond(until)
	switch {
	case until.Before(current.Until):
		return none, &store.ImmutableError{Version: v, Until: current.Until, Err: errors.New("a lock can only become longer")}
	case until.Equal(current.Until):
		return current, nil
	}
	c, err := s.blob(o.Version)
	if err != nil {
		return none, err
	}
	if _, err := c.SetImmutabilityPolicy(ctx, until, &blob.SetImmutabilityPolicyOptions{Mode: settingOf(current.Mode)}); err != nil {
		if blamesLock(err) {
			return none, &store.ImmutableError{Version: v, Until: current.Until, Err: errors.New(serverWords(err))}
		}
		return none, s.classifyVersion(ctx, v, err)
	}
	after, err := s.stat(ctx, o.Version)
	if err != nil {
		return none, fmt.Errorf("read back: %w", err)
	}
	got := after.Retention
	if got == nil || got.Mode != current.Mode || got.Until.Before(until) {
		return none, fmt.Errorf("the service accepted it but the lock reads %+v, not %s until %s", value(got), current.Mode, until.Format(time.RFC3339))
	}
	return *got, nil
}

// SetHold implements store.Holder with a legal hold on the version. (One on the container would
// hold every backup in it.)
func (s *Store) SetHold(ctx context.Context, v store.Version, on bool) error {
	err := s.lockable()
	if err == nil {
		var c *blob.Client
		if c, err = s.blob(v); err == nil {
			if _, err = c.SetLegalHold(ctx, on, nil); err != nil {
				err = s.classifyVersion(ctx, v, err)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("hold %s in %s: %w", v, s.caps.Location, err)
	}
	return nil
}
