package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/store"
)

// Member is what is asked of an etcd; *member.Member does it. Everything asked of one Member
// is answered by the same member of the cluster.
type Member interface {
	Status(context.Context) (member.Status, error)
	Revision(context.Context) (snapshot.Revision, error)
	Snapshot(context.Context) (body io.ReadCloser, storageVersion string, err error)
	WatchAll(ctx context.Context, from snapshot.Revision, pace member.WatchPace, fn func(member.Batch) error) error
	HashKV(context.Context, snapshot.Revision) (snapshot.HashKV, error)
	Leases(context.Context) ([]int64, error)
	AuthRevision(context.Context) (uint64, error)
	LeaseTTL(ctx context.Context, id int64) (granted, remaining int64, err error)
}

// Identity tells which history the data beside it is, and under which name it is backed up.
type Identity struct {
	Lineage snapshot.Lineage
	Owner   string // snapshot.Owner.ID; empty if not decided yet
}

// IdentityFile keeps the Identity beside the data it is about, so that it shares its fate.
type IdentityFile interface {
	// Load returns found = false, and no error, only if there certainly is none.
	Load() (id Identity, found bool, err error)
	Store(Identity) error
	// ClusterID returns the id of the etcd cluster that the data belong to, 0 if they do not record it.
	ClusterID() (uint64, error)
}

// Config says what to back up, where to and how. Connect and Store are required.
type Config struct {
	// Connect returns a member that answers, another one if need be. It is called whenever
	// something failed.
	Connect func(context.Context) (Member, error)
	Store   store.Store
	Prefix  snapshot.Prefix
	Data    IdentityFile // nil: the data directory is not at hand

	Compression      snapshot.Compression // of fulls
	Format           codec.Format         // of deltas; empty: codec.Native
	DeltaCompression snapshot.Compression // of deltas in codec.V2JSON; the native ones have their own

	// Schedule of fulls; nil: only those that are needed or asked for.
	Schedule *Schedule
	// FullFirst, if set, is asked when a session begins: a full is needed, unless this process took the newest one itself. So it
	// is when a cluster wakes up, as whoever may write can put a full there while nobody looks. It must not block.
	FullFirst func() bool
	// Ending, if set, is asked when a full is due by the schedule, or demanded, and the newest one is final: as long as it says that a planned stop is
	// near none is taken. To whoever looks after the stop, one that is newer than the final one is of somebody else.
	Ending func(context.Context) bool
	// DeltaPeriod is the longest time between an event and the cut of its delta. 0 means no
	// deltas: then only fulls are taken.
	DeltaPeriod time.Duration
	// DeltaLimit cuts a delta of as many bytes before packing earlier; 0 means 10 MiB.
	DeltaLimit int64
	// SpillDir is where deltas grow that do not fit into memory; empty: the system's directory
	// for temporary files. SpillLimit bounds, in bytes before packing, what may wait for its
	// upload; beyond it etcd is made to wait, which keeps its history until it is compacted.
	// 0 means 4 GiB.
	SpillDir   string
	SpillLimit int64

	// StreamTimeout ends a full of which nothing moves for so long, neither from etcd nor to the
	// store, and bounds each question about a hash; 0 means 15 minutes.
	StreamTimeout time.Duration
	// SkipHashKV leaves out etcd's hash of the key space: no manifest records it and no
	// history is recognised by it. It costs etcd one pass over its data per full and session.
	SkipHashKV bool

	// Owner is written into the owner record; empty: the identity of the data decides.
	// OwnerNote tells people who that is. TakeOver replaces another owner.
	Owner, OwnerNote string
	TakeOver         bool

	// Compare, if set, is asked before each full whether the members of the cluster have the same
	// data at revision rev, which m has applied. Its error makes the attempt fail; deltas go on.
	Compare func(ctx context.Context, m Member, rev snapshot.Revision) (Comparison, error)

	Retry Backoff
	// Grace bounds the upload of what is buffered when Run is stopped; 0 means 10 seconds.
	Grace time.Duration
	// Pace of the watch on a quiet etcd.
	Pace member.WatchPace

	Writer  string           // program and version, for manifests
	Now     func() time.Time // nil means time.Now
	Log     *slog.Logger     // nil means silence
	Metrics *Metrics         // nil means none
	// Progress, if set, is told how far a full is. It must not block.
	Progress func(Progress)
	// OnEvent, if set, is told of everything a person should know, beside the log. It must not
	// block.
	OnEvent func(Event)
}

// Comparison is what comparing the members of a cluster showed.
type Comparison struct {
	// Suspect goes into the manifest of the full, see snapshot.Manifest; empty: the majority has
	// what m has.
	Suspect string
	// HashKV is what m told, so that it need not be asked again; nil: it was not asked.
	HashKV *snapshot.HashKV
}

// ErrConfig is wrapped when a configuration cannot work.
var ErrConfig = errors.New("the snapshotter is configured wrongly")

// complete checks c and fills in what was left out.
func (c Config) complete() (Config, error) {
	bad := func(format string, args ...any) (Config, error) {
		return Config{}, fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
	}
	switch {
	case c.Connect == nil, c.Store == nil:
		return bad("an etcd and a store are needed")
	case !c.Compression.Known():
		return bad("fulls cannot be packed with %q", c.Compression)
	case c.DeltaPeriod < 0, c.DeltaLimit < 0, c.SpillLimit < 0, c.StreamTimeout < 0, c.Grace < 0:
		return bad("a negative period or limit")
	}
	switch c.Format {
	case "":
		c.Format = codec.Native
	case codec.Native:
	case codec.V2JSON:
		if !c.DeltaCompression.Known() {
			return bad("deltas cannot be packed with %q", c.DeltaCompression)
		}
	default:
		return bad("deltas have no format %q; use %s or %s", c.Format, codec.Native, codec.V2JSON)
	}
	if c.DeltaLimit == 0 {
		c.DeltaLimit = 10 << 20
	}
	if c.SpillLimit == 0 {
		c.SpillLimit = 4 << 30
	}
	c.SpillLimit = max(c.SpillLimit, 2*c.DeltaLimit) // room for one that waits and one that grows
	if c.StreamTimeout == 0 {
		c.StreamTimeout = 15 * time.Minute
	}
	if c.Grace == 0 {
		c.Grace = 10 * time.Second
	}
	c.Retry = c.Retry.complete()
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	return c, nil
}
