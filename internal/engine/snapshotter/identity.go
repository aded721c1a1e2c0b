package snapshotter

import (
	"errors"
	"os"

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

// ClusterID reads the write-ahead log, which a running etcd appends to. A log directory of its own is
// not below the data directory.
func (d dataDir) ClusterID() (uint64, error) {
	id, _, err := datadir.WALIdentity(string(d))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	return id, err
}

func (d dataDir) Store(id Identity) error {
	return datadir.WriteIdentity(string(d), datadir.Identity(id))
}
