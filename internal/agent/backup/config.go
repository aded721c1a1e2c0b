package backup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"druid.internal/druid/internal/agent/metrics"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/compactor"
	"druid.internal/druid/internal/engine/snapshotter"
)

// Config says what to back up, where to and how. Local, Voters and Store.Open are required.
type Config struct {
	// Local returns the etcd of this member, whatever its state. See LocalOf.
	Local func(context.Context) (Member, error)
	// Voters lists the voting members of the cluster, this one included. It needs a majority. See
	// VotersOf.
	Voters func(context.Context) ([]Voter, error)

	Store  Source
	Prefix snapshot.Prefix
	Second *Secondary // nil: there is no second store

	// Snapshots says how snapshots are taken. Connect, Store, Prefix, Compare, Now, Log and
	// Retry.Attempts are overwritten. Its Retry is how all failures are waited out, its
	// SkipHashKV leaves out comparing the members too.
	Snapshots snapshotter.Config

	// Policy says what collection keeps, in both stores; the zero policy keeps everything.
	// CollectEvery is its period; up to a second: nothing is ever collected.
	Policy       retention.Policy
	CollectEvery time.Duration
	// SurveyEvery is how often the bucket is looked through for gaps and locks; 0 means 10 minutes.
	SurveyEvery time.Duration
	// VerifyEvery is how often the newest chain is proven without being asked to; 0: never. The first
	// proof of a term comes after it or an hour, whichever is shorter.
	VerifyEvery time.Duration

	// LookEvery is how often etcd is asked who leads, and LookTimeout bounds one question; 0 means
	// 1 and 5 seconds. While etcd does not tell, a leader goes on for three times the former.
	LookEvery, LookTimeout time.Duration

	// ScratchDir is an existing directory with room for two databases, for proofs and
	// compactions; empty: the system's. ReplayMemory bounds, in bytes, what they keep in memory;
	// 0 means 64 MiB.
	ScratchDir   string
	ReplayMemory int64
	// KeepFree is how many bytes of the volume of ScratchDir proofs and compactions leave free, and
	// Free how many are: etcd may write there, too. 0 and nil: they fill it.
	KeepFree int64
	Free     func() (int64, error)
	// Room, if set, says why there is not enough room there, for proofs that nobody asked for; nil: there is, as far as is known.
	Room func() error
	// Compacted is how much history stays readable in what a compaction makes.
	Compacted compactor.History

	// Update, if set, changes what the sidecar tells about its member. It must not block.
	Update func(func(*agentapi.Member))
	// Metrics, nil: none. Those of the snapshotter are in Snapshots.
	Metrics *metrics.Catalogue

	Now  func() time.Time                                 // nil: time.Now
	Wait func(ctx context.Context, d time.Duration) error // nil: waits for d or ctx
	Log  *slog.Logger                                     // nil: silence
}

// Secondary is a second store that is kept like the first.
type Secondary struct {
	Source
	Prefix snapshot.Prefix
	Every  time.Duration // 0 means an hour
	// Record is a file that remembers what was proven there, so that a store that keeps no
	// versions need not be read again each time; empty: it is read.
	Record string
}

// ErrConfig is wrapped when a configuration cannot work.
var ErrConfig = errors.New("backups are configured wrongly")

// complete checks c and fills in what was left out.
func (c Config) complete() (Config, error) {
	bad := func(what string) (Config, error) { return Config{}, fmt.Errorf("%w: %s", ErrConfig, what) }
	switch {
	case c.Local == nil, c.Voters == nil, c.Store.Open == nil:
		return bad("an etcd and a store are needed")
	case c.Second != nil && c.Second.Open == nil:
		return bad("the second store cannot be opened")
	case c.LookEvery < 0, c.LookTimeout < 0, c.SurveyEvery < 0, c.VerifyEvery < 0, c.ReplayMemory < 0, c.Second != nil && c.Second.Every < 0:
		return bad("a negative period, time or limit")
	}
	if err := c.Policy.Validate(); err != nil {
		return Config{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	or := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	or(&c.LookEvery, time.Second)
	or(&c.LookTimeout, 5*time.Second)
	or(&c.SurveyEvery, 10*time.Minute)
	if c.Second != nil {
		second := *c.Second
		or(&second.Every, time.Hour)
		c.Second = &second
	}
	if c.ReplayMemory == 0 {
		c.ReplayMemory = 64 << 20
	}
	if c.Update == nil {
		c.Update = func(func(*agentapi.Member)) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Metrics == nil {
		c.Metrics = metrics.New(nil, c.Now)
	}
	if c.Wait == nil {
		c.Wait = sleep
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Snapshots.Metrics == nil {
		c.Snapshots.Metrics = snapshotter.NewMetrics(nil)
	}
	c.Snapshots.Retry.Attempts = 0 // a sidecar never gives up
	return c, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
