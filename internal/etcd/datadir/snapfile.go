package datadir

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdserver/api/snap/snappb"
	"go.etcd.io/raft/v3/raftpb"
)

// maxSnapFile bounds a raft snapshot file, in bytes: it holds the membership only.
const maxSnapFile = 256 << 20

// chooseSnapshot reads the raft snapshot that an etcd would start from: the newest one that is
// whole and that the log knows; nil: none. Files of snapshots that the log does not know are left
// over from a crash between the two. A file that is not whole is passed over, as etcd does; whether
// the log reaches back far enough for an older one is told elsewhere.
func chooseSnapshot(dir string, l *raftLog) (*raftpb.SnapshotMetadata, error) {
	root := filepath.Join(dir, memberDir, "snap")
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".snap") {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	for _, name := range names {
		s, err := readSnapFile(filepath.Join(root, name))
		var d *damage
		if errors.As(err, &d) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if l.has(s.Metadata) {
			return &s.Metadata, nil
		}
	}
	return nil, nil
}

// readSnapFile reads a raft snapshot, without its data.
func readSnapFile(path string) (*raftpb.Snapshot, error) {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, damaged("%s is a symbolic link to something that does not exist", path)
	}
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > maxSnapFile {
		return nil, damaged("%s is not a snapshot file", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file snappb.Snapshot
	var s raftpb.Snapshot
	if file.Unmarshal(b) != nil || len(file.Data) == 0 || crc32.Checksum(file.Data, castagnoli()) != file.Crc || s.Unmarshal(file.Data) != nil {
		return nil, damaged("%s is damaged", path)
	}
	s.Data = nil
	return &s, nil
}

// receivedPath is where the database lies that a leader sent with the snapshot at the index.
func receivedPath(dir string, index uint64) string {
	return filepath.Join(dir, memberDir, "snap", fmt.Sprintf("%016x.snap.db", index))
}
