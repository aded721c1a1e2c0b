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

// The modes of an object's own retention, by Google's names.
const (
	locked   = "Locked"   // can only become longer
	unlocked = "Unlocked" // can be lifted with storage.objects.overrideUnlockedRetention
)

// modeOf translates the mode of an object's own retention.
func modeOf(mode string) immutability.Mode {
	switch mode {
	case locked:
		return immutability.ModeCompliance
	case unlocked:
		return immutability.ModeGovernance
	}
	return immutability.ModeUnknown
}

// policyMode is how strong the bucket's retention policy is. One that is not locked can be
// lifted by whoever may update the bucket. Nobody can unlock a locked one, so having seen it
// locked once is enough; not having seen it, or not being allowed to look, is the weaker claim.
func (s *Store) policyMode() immutability.Mode {
	if s.policyLocked.Load() {
		return immutability.ModeCompliance
	}
	return immutability.ModeGovernance
}

// retentionOf is what protects a generation effectively: the object's own retention or the
// bucket's policy, whichever ends later, and holds.
//
// retentionExpirationTime is the end of both as the server computes it. It is missing where
// nothing retains, and also under an event-based hold, where the period only begins when the
// hold is released.
func (s *Store) retentionOf(attrs *storage.ObjectAttrs) *immutability.Retention {
	r := &immutability.Retention{Mode: immutability.ModeNone, Hold: attrs.EventBasedHold || attrs.TemporaryHold}
	if own := attrs.Retention; own != nil && !own.RetainUntil.IsZero() {
		r.Mode, r.Until = modeOf(own.Mode), own.RetainUntil
	}
	if end := attrs.RetentionExpirationTime; end.After(r.Until) {
		r.Mode, r.Until = s.policyMode(), end
	}
	return r
}

// lock is what is asked of a new object.
type lock struct {
	retention      *storage.ObjectRetention
	event, interim bool // the two kinds of holds
}

// lockFor translates what a caller asks for. A lock that the bucket cannot give is refused
// here, not by leaving it away.
func (s *Store) lockFor(r *immutability.Retention) (lock, error) {
	if r == nil {
		return lock{}, nil
	}
	var l lock
	switch r.Mode {
	case immutability.ModeCompliance:
		l.retention = &storage.ObjectRetention{Mode: locked}
	case immutability.ModeGovernance:
		l.retention = &storage.ObjectRetention{Mode: unlocked}
	case immutability.ModeNone, "":
		l.event = r.Hold
		return l, nil
	default:
		return l, fmt.Errorf("a lock of mode %s: %w", r.Mode, store.ErrUnsupported)
	}
	switch {
	case r.Until.IsZero():
		return l, fmt.Errorf("a lock of mode %s needs a date", r.Mode)
	case !s.caps.ObjectLock && !s.unreadable:
		return l, errNoObjectLock
	}
	l.retention.RetainUntil = wholeSecond(r.Until)
	l.interim = r.Hold // an event-based hold and a retention of its own exclude each other
	return l, nil
}

var errNoObjectLock = fmt.Errorf("the bucket was created without object retention: %w", store.ErrUnsupported)

// wholeSecond rounds up: the server keeps seconds, and a lock must not end earlier than asked.
func wholeSecond(t time.Time) time.Time {
	if whole := t.UTC().Truncate(time.Second); !whole.Equal(t) {
		return whole.Add(time.Second)
	}
	return t.UTC()
}

// Extend implements store.Extender by the object's own retention, of the mode that protects it
// already. What only the bucket's policy protects gets one, if the bucket allows that.
func (s *Store) Extend(ctx context.Context, v store.Version, until time.Time) (immutability.Retention, error) {
	r, err := s.extend(ctx, v, wholeSecond(until))
	if err != nil {
		return immutability.Retention{}, fmt.Errorf("extend the lock of %s in %s: %w", v, s.caps.Location, err)
	}
	return r, nil
}

func (s *Store) extend(ctx context.Context, v store.Version, until time.Time) (immutability.Retention, error) {
	if !s.caps.ObjectLock && !s.unreadable {
		return immutability.Retention{}, fmt.Errorf("%w (a hold would keep it as well)", errNoObjectLock)
	}
	var before *immutability.Retention
	attrs, err := s.change(ctx, v, func(attrs *storage.ObjectAttrs) (*storage.ObjectAttrsToUpdate, error) {
		before = s.retentionOf(attrs)
		switch {
		case !before.Mode.Locks() && before.Hold:
			return nil, fmt.Errorf("a hold protects it, which has no end to move: %w", store.ErrUnsupported)
		case !before.Mode.Locks():
			return nil, fmt.Errorf("it has no lock that could be extended: %w", store.ErrUnsupported)
		case until.Before(before.Until):
			return nil, &store.ImmutableError{Version: v, Until: before.Until, Err: errors.New("a lock can only become longer")}
		case until.Equal(before.Until):
			return nil, nil
		}
		mode := locked
		if before.Mode == immutability.ModeGovernance {
			mode = unlocked
		}
		if own := attrs.Retention; own != nil && own.Mode == locked {
			mode = locked // it cannot go back
		}
		return &storage.ObjectAttrsToUpdate{Retention: &storage.ObjectRetention{Mode: mode, RetainUntil: until}}, nil
	})
	if err != nil {
		return immutability.Retention{}, err
	}
	after := s.retentionOf(attrs)
	if immutability.Compare(after.Mode, before.Mode) < 0 || after.Until.Before(until) {
		return *after, fmt.Errorf("the server accepted it but the lock reads %s until %s, not %s until %s",
			after.Mode, after.Until.UTC().Format(time.RFC3339), before.Mode, until.Format(time.RFC3339))
	}
	return *after, nil
}

// SetHold implements store.Holder with an event-based hold. Such a hold and a retention of the
// object's own exclude each other; there it is a temporary one. Where the bucket has a policy,
// the release of an event-based hold starts the policy's period anew.
func (s *Store) SetHold(ctx context.Context, v store.Version, on bool) error {
	_, err := s.change(ctx, v, func(attrs *storage.ObjectAttrs) (*storage.ObjectAttrsToUpdate, error) {
		own := attrs.Retention != nil && attrs.Retention.Mode != ""
		switch {
		case own && attrs.TemporaryHold != on:
			return &storage.ObjectAttrsToUpdate{TemporaryHold: on}, nil
		case !own && attrs.EventBasedHold != on:
			return &storage.ObjectAttrsToUpdate{EventBasedHold: on}, nil
		}
		return nil, nil
	})
	if err != nil {
		return fmt.Errorf("hold %s in %s: %w", v, s.caps.Location, err)
	}
	return nil
}

// change alters the metadata of one generation, in the state that decide has seen. decide may
// return nil for "nothing to do"; it is asked anew when somebody else was faster, and when the
// answer to a change that did happen was lost.
func (s *Store) change(ctx context.Context, v store.Version, decide func(*storage.ObjectAttrs) (*storage.ObjectAttrsToUpdate, error)) (*storage.ObjectAttrs, error) {
	for attempt := 1; ; attempt++ {
		attrs, _, err := s.attrs(ctx, v)
		if err != nil {
			return nil, err
		}
		update, err := decide(attrs)
		if err != nil || update == nil {
			return attrs, err
		}
		h := s.client.Bucket(s.opts.Bucket).Object(v.Key).Generation(attrs.Generation).
			If(storage.Conditions{MetagenerationMatch: attrs.Metageneration})
		changed, err := h.Update(ctx, *update)
		if err == nil {
			return changed, nil
		}
		failed := s.classifyChange(ctx, store.Version{Key: v.Key, ID: s.idOf(attrs)}, attrs, err)
		if !errors.Is(failed, store.ErrExists) || attempt == changeRetries {
			return nil, failed
		}
	}
}

// classifyChange is classify for changes of something that is there: a lock may refuse them,
// and a condition that is not met is no object that exists already.
func (s *Store) classifyChange(ctx context.Context, v store.Version, attrs *storage.ObjectAttrs, err error) error {
	if blamed, hold := blamesLock(err); blamed && ctx.Err() == nil {
		return s.refusal(v, attrs, hold, err)
	}
	return s.whyMissing(ctx, s.classify(ctx, err))
}

// refusal is the lock's, with what was read of it just before.
func (s *Store) refusal(v store.Version, attrs *storage.ObjectAttrs, hold bool, err error) error {
	refused := &store.ImmutableError{Version: v, Hold: hold, Err: err}
	if api := apiError(err); api != nil {
		refused.Err = errors.New(saidBy(api))
	}
	if r := s.retentionOf(attrs); !hold && !r.Hold {
		refused.Until = r.Until
	} else if r.Hold {
		refused.Hold = true
	}
	return refused
}
