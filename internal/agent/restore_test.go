package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/etcd/datadir"
)

// People are told to exclude a backup that cannot be restored, and not one that the machine has no room for.
func TestWhatMakesARestoreFailIsToldApart(t *testing.T) {
	for _, err := range []error{
		&replay.ObjectError{}, &restoreplan.NoWayError{}, &restoreplan.LossError{}, &datadir.GapError{}, &datadir.OverlapError{}, &datadir.OrderError{},
		&datadir.ChainError{}, &datadir.LateError{}, &datadir.TargetError{}, datadir.ErrNotAsNamed,
	} {
		if !ofBackup(fmt.Errorf("apply: %w", err)) {
			t.Errorf("%T is not told of the backup", err)
		}
	}
	for _, err := range []error{datadir.ErrNoRoom, datadir.ErrPlace, datadir.ErrExists, datadir.ErrMembership, datadir.ErrVerification, &fs.PathError{Err: fs.ErrPermission}, errors.New("other")} {
		if ofBackup(fmt.Errorf("apply: %w", err)) {
			t.Errorf("%v is told of the backup", err)
		}
	}
}
