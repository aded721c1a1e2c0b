package datadir

import (
	"context"
	"errors"
)

// Target is the data directory to make.
type Target struct {
	Dir       string // final name; its parent must exist
	Overwrite bool   // replace what is there; it is kept aside until the new one is complete
	Member    Membership
	Identity  *Identity // written beside the data; nil: none
}

// Restored is what Restore made.
type Restored struct {
	Report
	ClusterID uint64
	MemberID  uint64
	Replaced  bool // there was data under the name before
}

// Restore rebuilds src into a complete data directory for one member of a new cluster. The
// directory is made as Dir.part and appears as Dir only when complete, verified and synced.
// Whatever happens before that moment, Dir stays as it was; see also [Recover].
//
// Besides the errors of [Rebuild]: [ErrExists], [ErrBusy], [ErrMembership].
func Restore(ctx context.Context, src Source, o Options, t Target) (*Restored, error) {
	return nil, errors.ErrUnsupported
}

// Recover brings dir into a definite state after a restore was interrupted: data set aside is
// put back if dir has none, and left-overs are removed. It does nothing when there is nothing
// to do, and fails with [ErrBusy] while a restore runs. Restore does the same at its beginning.
func Recover(dir string) error { return errors.ErrUnsupported }
