package initialize

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agent/neighbours"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/etcd/member"
)

// Directory is the data directory and the volume it lies on.
type Directory interface {
	// Volume tells what is wrong with the volume. It is asked before every look at the data.
	Volume() (Volume, error)
	// Stamp changes whenever somebody but this package may have changed the data; it is cheap. Empty:
	// there is nothing at all.
	Stamp() string
	// Inspect is [datadir.Inspect], after [datadir.Recover].
	Inspect(ctx context.Context, mode datadir.Mode, progress func(done, total int64)) (datadir.Inspection, error)
	// Settle is [datadir.Settle].
	Settle(ctx context.Context) error
	// SetAside is [datadir.SetAside], or [datadir.Keep]; it has been done already if there is nothing.
	SetAside(keep bool) error
	// Kept is [datadir.Kept].
	Kept() ([]string, error)
}

// Neighbours are the other members; [neighbours.Asker] is one.
type Neighbours interface {
	Look(ctx context.Context, wanted []memberconf.Peer, self string) neighbours.View
	Members(ctx context.Context, endpoints []string) (member.Membership, error)
	AddLearner(ctx context.Context, endpoints, peerURLs []string) (member.Peer, error)
	Remove(ctx context.Context, endpoints []string, id uint64) error
	UpdatePeerURLs(ctx context.Context, endpoints []string, id uint64, peerURLs []string) error
}

// What errors of Restore wrap.
var (
	// ErrUnavailable: it passes by itself when the store answers again.
	ErrUnavailable = errors.New("the store does not answer")
	// ErrChanged: the bucket is another one than the order was made by, and is to be looked at again.
	ErrChanged = errors.New("the bucket has changed since")
	// ErrBackup: it is the backup that cannot be restored, and not this machine that cannot do it.
	ErrBackup = errors.New("the backup is not what it claims")
)

// RestoreOrder says what to restore the newest backup into. The restored cluster has this one member,
// its revision is raised so that watchers list again, and it begins a history of its own, a child of
// the restored one.
type RestoreOrder struct {
	DataDir string
	Replace bool // data that are there, which stay until the new ones are complete and verified
	// AtLeast is the revision to which the backup must reach, as it did when it was looked at; 0: wherever it ends.
	AtLeast    snapshot.Revision
	Member     datadir.Membership
	QuotaBytes int64 // 0: etcd's default
	// Progress is called now and then, from any goroutine; total 0: not known.
	Progress func(phase string, done, total int64)
}

// DirectoryOf is the directory dir on the volume of owner; an empty owner is not checked.
func DirectoryOf(dir, owner string, now func() time.Time) Directory {
	return directory{filepath.Clean(dir), owner, now}
}

type directory struct {
	dir, owner string
	now        func() time.Time
}

func (d directory) Volume() (Volume, error) {
	err := datadir.Guard(d.dir, d.owner)
	if err == nil {
		err = datadir.Writable(filepath.Dir(d.dir))
	}
	var other *datadir.OtherVolumeError
	switch {
	case errors.As(err, &other):
		return Volume{Reason: agentapi.VolumeMismatch, Why: err.Error(), Owner: other.Found}, nil
	case errors.Is(err, datadir.ErrReadOnly):
		return Volume{Reason: agentapi.VolumeReadOnly, Why: err.Error()}, nil
	case errors.Is(err, datadir.ErrNoRoom):
		return Volume{}, nil // etcd may still be able to run, and to be told to free some
	}
	return Volume{}, err
}

// Stamp is made of what changes when data are removed, put there or written.
func (d directory) Stamp() string {
	var b strings.Builder
	for _, name := range []string{".", "member", "member/wal", "member/snap", "member/snap/db"} {
		st, err := os.Stat(filepath.Join(d.dir, filepath.FromSlash(name)))
		switch {
		case err == nil && name != ".": // the directory itself may be a mount point
			fmt.Fprintf(&b, "%s %d %d;", name, st.ModTime().UnixNano(), st.Size())
		case err != nil && !errors.Is(err, os.ErrNotExist):
			fmt.Fprintf(&b, "%s %v;", name, err)
		}
	}
	return b.String()
}

func (d directory) Inspect(ctx context.Context, mode datadir.Mode, progress func(done, total int64)) (datadir.Inspection, error) {
	if err := datadir.Recover(d.dir); err != nil {
		return datadir.Inspection{}, err
	}
	return datadir.Inspect(ctx, d.dir, mode, progress)
}

func (d directory) Settle(ctx context.Context) error {
	_, err := datadir.Settle(ctx, d.dir)
	return err
}

func (d directory) Kept() ([]string, error) { return datadir.Kept(d.dir) }

func (d directory) SetAside(keep bool) error {
	away := datadir.SetAside
	if keep {
		away = datadir.Keep
	}
	_, err := away(d.dir, d.now())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
