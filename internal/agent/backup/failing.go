package backup

import (
	"errors"
	"time"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/snapshotter"
	"druid.internal/druid/internal/store"
)

// failing is why nothing is uploaded, and since when. A session that begins anew is no success yet:
// one is when something newer is in the bucket, or nothing is missing there.
type failing struct {
	err   error // nil: nothing fails
	at    time.Time
	told  string
	had   snapshot.Revision // in the bucket when it began, or as soon as that was known
	known bool
}

// see reports whether what is to be told changed. ended is why the last snapshotter did, rev is
// etcd's revision, 0 if it was not told.
func (f *failing) see(s snapshotter.Standing, ended error, rev snapshot.Revision, now time.Time) bool {
	err := s.Trouble
	if !s.Active {
		if err = s.Err; err == nil {
			err = ended
		}
	}
	end := s.Uploaded()
	switch {
	case err != nil && f.err == nil:
		*f = failing{err: err, at: now, told: err.Error(), had: end, known: s.Active}
		return true
	case err != nil:
		changed := f.told != err.Error()
		f.err, f.told = err, err.Error()
		return changed
	case f.err == nil || !s.Active:
		return false
	case rev > 0 && rev <= end, f.known && end != f.had:
		*f = failing{}
		return true
	}
	f.had, f.known = end, true
	return false
}

// tell is the failure as it is told; nil: there is none.
func (f *failing) tell() *agentapi.BackupFailure {
	if f.err == nil {
		return nil
	}
	return &agentapi.BackupFailure{Since: f.at.UTC(), Reason: Reason(f.err), Message: f.told}
}

// Reason puts any error into one of the operator's words.
func Reason(err error) agentapi.BackupReason {
	for _, known := range []struct {
		err    error
		reason agentapi.BackupReason
	}{
		{snapshotter.ErrOwned, agentapi.StoreOwnedByAnother},
		{store.ErrNoBucket, agentapi.StoreContainerMissing},
		{store.ErrForbidden, agentapi.StoreAccessDenied},
		{store.ErrCredentials, agentapi.StoreAccessDenied},
		{store.ErrUnreachable, agentapi.StoreNotReachable},
		{store.ErrThrottled, agentapi.StoreNotReachable},
	} {
		if errors.Is(err, known.err) {
			return known.reason
		}
	}
	return agentapi.BackupFailed
}
