package datadir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/scratchdir"
)

// Options say what becomes of the source.
type Options struct {
	// TargetRevision is the last revision to keep; 0: all there are. It must be reachable.
	TargetRevision snapshot.Revision
	// TargetTime keeps what was received until then: revisions from the first one received
	// later are dropped. The base is always kept whole: see Source.BaseInTime. Zero: all there are.
	TargetTime time.Time

	// KeepHistory keeps every record, and the compact revision of the base.
	KeepHistory bool
	// CompactAt is the revision below which superseded records are dropped, as etcd's own
	// compaction at that revision would. 0 means the last revision. It is raised to the base's own
	// compact revision if it is lower. Ignored with KeepHistory.
	CompactAt snapshot.Revision
	// BumpRevision raises the last revision by so much after the replay and marks everything
	// before as compacted, so that watchers list again instead of going back in time. It must
	// not lead beyond MaxRevision. 0: no.
	BumpRevision int64

	// LeaseTTL is the time to live, in seconds, of leases that live keys are attached to and no source
	// tells of, if there are deltas and none has records of leases; 0 means DefaultLeaseTTL. Otherwise
	// such leases get snapshot.MaxLeaseTTL, because a shorter one could delete keys that etcd kept.
	LeaseTTL int64
	// QuotaBytes is the etcd's backend quota; a NOSPACE alarm is dropped when the result is
	// smaller. 0 means DefaultQuotaBytes.
	QuotaBytes int64
	// HashBase computes the HashKV of the base, see Report.BaseHashKV.
	HashBase bool

	// MemoryLimit bounds, in bytes, what the rebuild itself keeps in memory: tables, records
	// waiting to be written, decoded batches. What exceeds it is spilled to ScratchDir. Decoders
	// come on top, and the mapped base does not count. 0 means DefaultMemoryLimit.
	MemoryLimit int64
	// Parallel is how many deltas are decoded at the same time; 0 means one per processor.
	Parallel int
	// ScratchDir holds the unpacked base and spilled records while the rebuild runs. It must
	// exist; a private directory is made in it and removed. Empty: beside the result.
	ScratchDir string
	// KeepFree is how many bytes stay free on the volumes of ScratchDir and of the result, for others
	// that write there; 0: none. The rebuild ends with [ErrNoRoom] before it takes them.
	KeepFree int64
	// Progress, if set, is called from one goroutine at a time, often.
	Progress func(Progress)

	unclamped      bool                                            // tests use less memory than MinMemoryLimit
	room           func(dir string) (free, size uint64, err error) // tests have other volumes
	beforeReadBack func()                                          // tests damage the file here
}

// The defaults of Options.
const (
	DefaultLeaseTTL    = 3600
	DefaultQuotaBytes  = 2 << 30 // etcd's own
	DefaultMemoryLimit = 512 << 20
	MinMemoryLimit     = 32 << 20
)

// MaxRevision is how far a bump may go: an etcd counts in an int64, and goes on from there.
const MaxRevision = 1 << 62

// Phase is what a rebuild is doing.
type Phase string

// The phases, in their order.
const (
	ReadingBase   Phase = "reading the full snapshot"
	ScanningBase  Phase = "scanning the full snapshot"
	ReadingDeltas Phase = "replaying deltas"
	Writing       Phase = "writing the database"
	Verifying     Phase = "verifying the database"
)

// Progress is how far a rebuild is.
type Progress struct {
	Phase    Phase
	Deltas   int               // deltas done
	Events   int64             // events of deltas read
	Revision snapshot.Revision // last one reached
	Bytes    int64             // bytes of the base read, or of the database written or verified
	Total    int64             // what Bytes will be at the end of the phase, estimated while writing; 0: unknown
}

// Report is what a rebuild did. Everything that a person should know before trusting the result
// stands in it.
type Report struct {
	BaseRevision        snapshot.Revision // last revision found in the base; 1 for the empty store
	BaseCompactRevision snapshot.Revision // -1: never compacted
	BaseHashKVChecked   bool
	// BaseHashKV is the hash of the base at its last revision, and BaseKeys the number of keys alive
	// there; only with Options.HashBase.
	BaseHashKV snapshot.HashKV
	BaseKeys   int64

	Reached         snapshot.Revision // last revision replayed
	Revision        snapshot.Revision // last revision of the result: Reached and the bump
	CompactRevision snapshot.Revision // of the result; -1: never compacted
	LastReceived    time.Time         // receive time of the last revision replayed; zero: not recorded

	DeltasRead     int
	Events         int64 // events replayed
	EventsOverlap  int64 // events skipped because an earlier source has their revision
	EventsBeyond   int64 // events skipped because they are beyond the target; not all are read
	RecordsWritten int64
	RecordsDropped int64 // superseded, or beyond the target in the base
	Keys           int64 // keys alive at Reached
	HashKV         snapshot.HashKV

	DatabaseBytes int64
	SpilledBytes  int64 // records and tables that did not fit into memory

	LeasesFound     []int64 // not in the base, or granted again since, with the time to live recorded in deltas
	LeasesMade      []int64 // live keys are attached to them, and their time to live is AssumedLeaseTTL or longer
	AssumedLeaseTTL int64   // seconds

	AlarmsCleared []string
	AlarmsKept    []string
	AuthEnabled   bool   // changes of users and roles after the base are not in deltas
	DowngradeTo   string // the base was taken during a downgrade to this version
	// AbsentDeletes counts deletions of keys that did not exist. They change nothing, but a
	// healthy etcd does not write them.
	AbsentDeletes int64
	// BaseIrregular counts records of the base that do not continue their key's history, and gaps
	// between its revisions after its compact revision. They are kept as they are.
	BaseIrregular int64
}

// Rebuild writes one new database file at out, which must not exist, from src. Members, raft
// state and cluster version stay those of the base, so the result with [NewSnapshotReader] is a
// full snapshot. The file is synced and verified; on error nothing is left at out.
//
// Errors: what is wrong with the base ([ErrBaseTruncated], [ErrBaseSize], [ErrBaseNoTrailer], [ErrBaseDigest], [ErrBaseBehind],
// [ErrNotEtcd], [ErrHashKV], boltfile.ErrCorrupt), between the sources ([*GapError],
// [*OverlapError], [*OrderError], [*ChainError], [*TargetError], [*LateError]), [ErrNoRoom] and [ErrVerification].
func Rebuild(ctx context.Context, src Source, o Options, out string) (*Report, error) {
	return rebuildWith(ctx, src, o, out, nil)
}

// rebuildWith is Rebuild with the records of a new membership; nil keeps those of the base.
func rebuildWith(ctx context.Context, src Source, o Options, out string, m *membershipRecords) (_ *Report, err error) {
	if o, err = o.complete(out); err != nil {
		return nil, err
	}
	defer func() { err = noRoom(err) }()
	scratch, remove, err := scratchdir.Make(o.ScratchDir, "rebuild")
	if err != nil {
		return nil, fmt.Errorf("make a scratch directory: %w", err)
	}
	defer func() { _ = remove() }()
	f, err := os.OpenFile(out, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	r := newRebuild(src, o, scratch, f, m)
	defer func() {
		r.close()
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			os.Remove(out)
		}
	}()
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	return &r.report, nil
}

// complete fills in the defaults.
func (o Options) complete(out string) (Options, error) {
	if o.TargetRevision < 0 || o.CompactAt < 0 || o.BumpRevision < 0 || o.LeaseTTL < 0 || o.QuotaBytes < 0 || o.MemoryLimit < 0 || o.KeepFree < 0 {
		return o, errors.New("rebuild: negative option")
	}
	if o.LeaseTTL == 0 {
		o.LeaseTTL = DefaultLeaseTTL
	}
	if o.QuotaBytes == 0 {
		o.QuotaBytes = DefaultQuotaBytes
	}
	if o.MemoryLimit == 0 {
		o.MemoryLimit = DefaultMemoryLimit
	}
	if !o.unclamped {
		o.MemoryLimit = max(o.MemoryLimit, MinMemoryLimit)
	}
	if o.Parallel <= 0 {
		o.Parallel = runtime.GOMAXPROCS(0)
	}
	if o.ScratchDir == "" {
		o.ScratchDir = filepath.Dir(out)
	}
	if o.room == nil {
		o.room = Room
	}
	if o.beforeReadBack == nil {
		o.beforeReadBack = func() {}
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return o, nil
}
