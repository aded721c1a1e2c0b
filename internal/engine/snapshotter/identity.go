package snapshotter

import (
	"errors"

	"druid.internal/druid/internal/etcd/datadir"
)

// DataDir keeps the identity in an etcd data directory. It may be used while etcd runs there.
func DataDir(dir string) IdentityFile { return dataDir(dir) }

type dataDir string

func (d dataDir) Load() (Identity, bool, error) {
	id, err := datadir.ReadIdentity(string(d))
	if errors.Is(err, datadir.ErrNoIdentity) {
		return Identity{}, false, nil
	}
	return Identity(id), err == nil, err
}

func (d dataDir) Store(id Identity) error {
	return datadir.WriteIdentity(string(d), datadir.Identity(id))
}
