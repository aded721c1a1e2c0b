package backup

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/snapshotter"
	"druid.internal/druid/internal/store"
)

// upTo is the standing of a session that works and has uploaded up to a revision.
func upTo(rev snapshot.Revision, trouble error) snapshotter.Standing {
	return snapshotter.Standing{Active: true, Trouble: trouble, LastFull: &snapshotter.Taken{Manifest: snapshot.Manifest{LastRevision: rev}}}
}

func TestAFailureLastsUntilSomethingIsUploadedOrNothingIsMissing(t *testing.T) {
	start := time.Date(2025, 6, 1, 3, 0, 0, 0, time.UTC)
	denied := fmt.Errorf("put Full-1: %w", store.ErrForbidden)
	failure := func(second int, reason agentapi.BackupReason, err error) *agentapi.BackupFailure {
		return &agentapi.BackupFailure{Since: start.Add(time.Duration(second) * time.Second), Reason: reason, Message: err.Error()}
	}
	type seen struct {
		standing snapshotter.Standing
		ended    error
		rev      snapshot.Revision
	}
	for phrase, c := range map[string]struct {
		seen []seen
		want *agentapi.BackupFailure
	}{
		"nothing fails":                                   {[]seen{{upTo(5, nil), nil, 9}}, nil},
		"an upload fails":                                 {[]seen{{upTo(5, nil), nil, 9}, {upTo(5, denied), nil, 9}}, failure(1, agentapi.StoreAccessDenied, denied)},
		"it fails for another reason":                     {[]seen{{upTo(5, denied), nil, 9}, {upTo(5, store.ErrNoBucket), nil, 9}}, failure(0, agentapi.StoreContainerMissing, store.ErrNoBucket)},
		"the next one succeeds":                           {[]seen{{upTo(5, denied), nil, 9}, {upTo(8, nil), nil, 9}}, nil},
		"nothing is missing any more":                     {[]seen{{upTo(5, denied), nil, 9}, {upTo(5, nil), nil, 5}}, nil},
		"a session begins again and has uploaded nothing": {[]seen{{upTo(5, denied), nil, 9}, {upTo(5, nil), nil, 9}}, failure(0, agentapi.StoreAccessDenied, denied)},
		"the store never answered, and now it does":       {[]seen{{snapshotter.Standing{Err: store.ErrUnreachable}, nil, 9}, {upTo(5, nil), nil, 9}}, failure(0, agentapi.StoreNotReachable, store.ErrUnreachable)},
		"it answers, and takes an upload":                 {[]seen{{snapshotter.Standing{Err: store.ErrUnreachable}, nil, 9}, {upTo(5, nil), nil, 9}, {upTo(8, nil), nil, 9}}, nil},
		"the prefix is another's":                         {[]seen{{snapshotter.Standing{}, snapshotter.ErrOwned, 9}}, failure(0, agentapi.StoreOwnedByAnother, snapshotter.ErrOwned)},
		"a session that works forgets why the last ended": {[]seen{{snapshotter.Standing{Active: true, Err: denied}, denied, 9}}, nil},
		"a failure of another kind":                       {[]seen{{upTo(5, errors.New("no space left")), nil, 9}}, failure(0, agentapi.BackupFailed, errors.New("no space left"))},
	} {
		var f failing
		told := f.tell()
		for i, s := range c.seen {
			changed := f.see(s.standing, s.ended, s.rev, start.Add(time.Duration(i)*time.Second))
			if next := f.tell(); changed != !cmp.Equal(told, next) {
				t.Errorf("%s, look %d: it says that something changed: %t, from %+v to %+v", phrase, i, changed, told, next)
			}
			told = f.tell()
		}
		if diff := cmp.Diff(c.want, told); diff != "" {
			t.Errorf("%s (-want +got):\n%s", phrase, diff)
		}
	}
}
