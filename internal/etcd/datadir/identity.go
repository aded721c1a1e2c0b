package datadir

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"druid.internal/druid/internal/backup/snapshot"
)

// IdentityFile is where the identity lives, relative to the data directory.
const IdentityFile = "member/druid-lineage.json"

// Identity tells which history a data directory holds and who owns its backups.
type Identity struct {
	Lineage snapshot.Lineage `json:"lineage"`
	Owner   string           `json:"owner,omitempty"` // snapshot.Owner.ID under which backups are written
}

// NewLineageID makes an id that no other history has.
func NewLineageID() snapshot.LineageID {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return snapshot.LineageID(hex.EncodeToString(b[:]))
}

// ErrNoIdentity is returned by ReadIdentity when the directory holds none: it was made by etcd
// alone, or by the original.
var ErrNoIdentity = errors.New("data directory has no lineage file")

// ReadIdentity reads the identity of the data directory dir.
func ReadIdentity(dir string) (Identity, error) {
	path := filepath.Join(dir, filepath.FromSlash(IdentityFile))
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return Identity{}, fmt.Errorf("%w: %s", ErrNoIdentity, path)
	}
	if err != nil {
		return Identity{}, err
	}
	var id Identity
	if err := json.Unmarshal(b, &id); err != nil {
		return Identity{}, fmt.Errorf("%s: %w", path, err)
	}
	if id.Lineage.ID == "" {
		return Identity{}, fmt.Errorf("%s: it names no lineage", path)
	}
	return id, nil
}

// WriteIdentity replaces the identity of dir, atomically and durably.
func WriteIdentity(dir string, id Identity) error {
	if id.Lineage.ID == "" {
		return errors.New("write identity: the lineage has no id")
	}
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(dir, filepath.FromSlash(IdentityFile)), append(b, '\n'))
}
