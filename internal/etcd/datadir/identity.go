package datadir

import (
	"errors"

	"druid.internal/druid/internal/backup/snapshot"
)

// IdentityFile is where the identity lives, relative to the data directory.
const IdentityFile = "member/druid-lineage.json"

// Identity tells which history a data directory holds and who owns its backups.
type Identity struct {
	Lineage snapshot.Lineage `json:"lineage"`
	Owner   string           `json:"owner,omitempty"` // snapshot.Owner.ID under which backups are written
}

// ErrNoIdentity is returned by ReadIdentity when the directory holds none.
var ErrNoIdentity = errors.New("data directory has no lineage file")

// ReadIdentity reads the identity of the data directory dir.
func ReadIdentity(dir string) (Identity, error) { return Identity{}, errors.ErrUnsupported }

// WriteIdentity replaces the identity of dir, atomically and durably.
func WriteIdentity(dir string, id Identity) error { return errors.ErrUnsupported }
