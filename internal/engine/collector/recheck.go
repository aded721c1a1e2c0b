package collector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/store"
)

// recheck asks the store about a version right before it is deleted. A result other than the
// empty one says why it must stay, or that it is gone. What we may not ask about stays.
func (c *Collector) recheck(ctx context.Context, d retention.Decision, then store.Object) (result Result, why string, until time.Time, err error) {
	result, why, until, err = c.verdict(ctx, d, then)
	if errors.Is(err, store.ErrForbidden) {
		return Blocked, err.Error(), time.Time{}, nil
	}
	return result, why, until, err
}

// verdict is recheck with all errors.
//
// A marker has no content to ask about and no lock. A genuine version must be what its key
// shows, because what is newer has gone before it: anything else that shows up there would
// count as the snapshot once the genuine one is gone.
func (c *Collector) verdict(ctx context.Context, d retention.Decision, then store.Object) (result Result, why string, until time.Time, err error) {
	v := address(d.Ref)
	switch d.Kind {
	case retention.Marker:
		return "", "", time.Time{}, nil
	case retention.Manifest:
		// While there is any version of the snapshot, the manifest tells whether it is genuine.
		o, err := c.store.Stat(ctx, store.Version{Key: d.Snapshot})
		if err == nil {
			return Spared, fmt.Sprintf("%s is there again", o.Version), time.Time{}, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return "", "", time.Time{}, fmt.Errorf("check %s: %w", d.Snapshot, err)
		}
	case retention.Full, retention.Delta:
		if !c.store.Capabilities().Versions {
			break
		}
		shown, err := c.store.Stat(ctx, store.Version{Key: v.Key})
		switch {
		case err == nil && shown.Version != v:
			return Spared, fmt.Sprintf("%s appeared meanwhile", shown.Version), time.Time{}, nil
		case err == nil:
			result, why, until = c.judge(shown, then)
			return result, why, until, nil
		case !errors.Is(err, store.ErrNotFound):
			return "", "", time.Time{}, fmt.Errorf("check %s: %w", v, err)
		}
		if !c.store.Capabilities().Markers {
			break // somebody deleted the key by its name, or we did what was newer: nothing shows up there
		}
		if _, err = c.store.Stat(ctx, v); err == nil {
			return Spared, "a delete marker appeared meanwhile", time.Time{}, nil
		}
		// Gone, or the store does not answer: told below.
	}
	o, err := c.store.Stat(ctx, v)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Gone, "not there any more", time.Time{}, nil
	case err != nil:
		return "", "", time.Time{}, fmt.Errorf("check %s: %w", v, err)
	}
	result, why, until = c.judge(o, then)
	return result, why, until, nil
}

// judge compares what the store tells now with what was planned, and judges its lock by the
// store's clock.
func (c *Collector) judge(is, then store.Object) (Result, string, time.Time) {
	if !same(is, then) {
		return Spared, "changed since it was planned", time.Time{}
	}
	clock := immutability.Clock{Server: is.ServerTime, Local: c.opts.Now()}
	if p := is.Retention.Protected(clock.ForDeletion(), margin); p.Protected {
		why := string(p.Reason)
		if is.Retention == nil {
			why += "; " + needsLocks
		}
		return Blocked, why, p.Until
	}
	return "", "", time.Time{}
}
