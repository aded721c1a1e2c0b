package collector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/store"
)

// Options say what to collect. Prefix and Policy are what matters; the zero policy deletes
// nothing.
type Options struct {
	Prefix snapshot.Prefix
	Policy retention.Policy
	// Only, unless nil, narrows the policy: what belongs to a snapshot for which it returns false is kept.
	// Of what the timeline does not know it gets the key alone.
	Only func(timeline.Snapshot) bool
	// Owner, unless empty, is who must have claimed the prefix: that of another is left alone, as nobody knows
	// what is to be kept there.
	Owner string
	// LocksLast asks about the lock of a version only right before it is deleted, and not for the plan as well,
	// which takes one request for each and lets the plan show as deletable what turns out to be locked. Where
	// several versions must go or stay together, all are asked about before.
	LocksLast bool

	// Proofs are of chains that were read before, see retention.Proof. Prove, unless nil, reads the
	// newest chain of a lineage where Plan could delete more with its proof. Without either nothing is
	// deleted. A proof without ReadAt means that no chain of the lineage can be restored; notes say why,
	// or what is damaged. An error ends Plan.
	Proofs []retention.Proof
	Prove  func(context.Context, timeline.Timeline, snapshot.LineageID) (p retention.Proof, notes []string, err error)

	Now         func() time.Time // the local clock, nil: time.Now
	Parallel    int              // requests at a time while looking, 0: 16; deletions are made one by one
	MaxFailures int              // deletions that may fail before Execute gives up, 0: 5

	// Progress, if set, is told of each stage how many of a total (0: unknown) are done.
	Progress func(stage string, done, total int64)
	Log      *slog.Logger // nil: no log
}

// The numbers on which safety depends.
const (
	// defaultMaxFailures is how many deletions may fail for other reasons than a lock. A store
	// that fails this often is not understood well enough to go on deleting.
	defaultMaxFailures = 5
	// freshness is how old a decision may be when a version is deleted by it. Deleting
	// thousands of versions takes long, and meanwhile the newest full may have been excluded.
	freshness = 5 * time.Minute
	// margin is how long after the end of its lock a version is left alone.
	margin = immutability.DeleteMargin
)

// ErrNotOwner says that the prefix is not that of Options.Owner, so that nothing is deleted.
var ErrNotOwner = errors.New("the prefix is not this owner's")

// Collector applies one policy to one prefix.
type Collector struct {
	store   store.Reader
	deleter store.Deleter
	opts    Options
}

// New returns a collector of what is in s. The deleter may be nil, as for an identity that may
// only read: then Plan works and Execute refuses.
func New(s store.Reader, d store.Deleter, o Options) *Collector {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Parallel <= 0 {
		o.Parallel = 16
	}
	if o.MaxFailures <= 0 {
		o.MaxFailures = defaultMaxFailures
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return &Collector{store: s, deleter: d, opts: o}
}

// Plan decides about everything below the prefix and deletes nothing.
func (c *Collector) Plan(ctx context.Context) (Plan, error) {
	if err := c.opts.Policy.Validate(); err != nil {
		return Plan{}, err
	}
	p, err := c.look(ctx, nil, slices.Clone(c.opts.Proofs), c.opts.Prove)
	if err != nil {
		return Plan{}, fmt.Errorf("plan what to collect: %w", err)
	}
	return p, nil
}
