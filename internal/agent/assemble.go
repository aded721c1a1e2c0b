package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"druid.internal/druid/internal/agent/backup"
	"druid.internal/druid/internal/agent/bucket"
	"druid.internal/druid/internal/agent/initialize"
	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agent/serve"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/snapshotter"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/etcd/scratchdir"
	"druid.internal/druid/internal/store"
)

// assemble makes everything that runs. Nothing does yet.
func (s *sidecar) assemble() (tasks []task, err error) {
	if s.backup, err = s.backups(); err != nil {
		return nil, err
	}
	s.initializer()
	if tasks, err = s.upkeepers(); err != nil {
		return nil, err
	}
	server, err := s.server()
	if err != nil {
		return nil, err
	}
	follower := &follower{etcd: s.status, list: s.list, board: s.board, machine: s.machine, restart: s.wrapper.restart, healthy: s.forget, restored: s.metrics.Restored, log: s.Log,
		interval: min(s.Config.LeaderElection.ReelectionPeriod.D(), followInterval), timeout: min(s.Config.LeaderElection.EtcdConnectionTimeout.D(), followTimeout)}
	room := s.room()
	room.look()                   // before anybody is told that there is some
	looked := make(chan struct{}) // closed after the last look at etcd
	follow := func(ctx context.Context) error {
		defer close(looked)
		return follower.run(ctx)
	}
	tasks = append(tasks, server.Run, follow, room.run, s.changed, s.outsideChanged, func(ctx context.Context) error {
		_ = s.machine.Run(ctx) // the cause of ctx's end, which everybody knows
		return nil
	})
	if s.backup != nil {
		tasks = append(tasks, s.backup.Run)
	}
	if s.Report != nil {
		tasks = append(tasks, func(ctx context.Context) error {
			told, end := context.WithCancel(context.WithoutCancel(ctx)) // so that it hears of the last look
			defer end()
			defer context.AfterFunc(ctx, func() { <-looked; end() })()
			return s.Report(told, s.board, s.metrics)
		})
	}
	return tasks, nil
}

// room looks after the volume of the data.
func (s *sidecar) room() *room {
	return &room{of: func() (uint64, uint64, error) { return datadir.Room(filepath.Dir(s.templates.get().DataDir())) }, board: s.board, log: s.Log}
}

// initializer makes the machine that prepares the data directory.
func (s *sidecar) initializer() {
	first := s.templates.get()
	dir := first.DataDir()
	s.data = condemnable(initialize.DirectoryOf(dir, s.Guard, time.Now), dir, s.refuted)
	o := initialize.Options{
		Name: s.Member, Template: func() (*memberconf.Template, error) {
			t, err := memberconf.Load(s.Options.Template)
			if err != nil {
				return nil, err
			}
			return t.ServingAs(first, s.Member), nil
		},
		Directory: s.data, Journals: initialize.FileJournal(dir), Others: s.asker, Board: s.board, Log: s.Log, Outside: s.followed.facts, OthersLeave: s.followed.othersLeave,
		Validated: s.metrics.Validated, LearnerAdded: s.metrics.LearnerAdded,
	}
	if s.Store.Open != nil {
		r := restoration{Store: s.Store.Open, Config: s.Config, Known: s.followed.lastKnown, Metrics: s.metrics, Log: s.Log}
		o.Restore = r.run
		o.Backup = func(ctx context.Context, own datadir.Inspection) (initialize.Backup, error) {
			b, err := s.bucket(ctx, dir, own)
			switch {
			case (errors.Is(err, bucket.ErrCrowded) || errors.Is(err, catalog.ErrFlooded)) && max(own.Revision, own.AtMost) >= s.followed.least():
				b = initialize.Backup{State: initialize.BackupCrowded, Why: err.Error(), Reason: backup.Reason(err)}
			case err != nil:
				b = initialize.Backup{State: initialize.BackupUnreachable, Why: err.Error(), Reason: backup.Reason(err)}
			}
			return b, nil
		}
	}
	s.machine = initialize.New(o)
	s.started = startedFile(filepath.Join(filepath.Dir(dir), "druid-started.json"))
	s.board.Update(s.started.read().tell)
}

// bucket tells what the own data are to the backups.
func (s *sidecar) bucket(ctx context.Context, dir string, data datadir.Inspection) (initialize.Backup, error) {
	st, err := s.Store.Open(ctx)
	if err != nil {
		return initialize.Backup{}, err
	}
	f, err := look(ctx, st, s.Config.Store.Prefix, dir, data, int64(s.Config.Restoration.MemoryLimit))
	switch {
	case errors.Is(err, catalog.ErrMistaken): // there are backups: a member without data must not begin without them
		return initialize.Backup{State: initialize.BackupExists, Relation: initialize.RelationUnknown, Broken: err.Error()}, nil
	case err != nil:
		return initialize.Backup{}, err
	case f.Empty:
		return short(initialize.Backup{State: initialize.BackupNone}, s.followed.least()), nil
	}
	b := backupOf(f)
	switch err := snapshotter.Restorable(ctx, st, f.Catalog, s.Config.Owner, s.Config.Snapshotter.TakeOver); {
	case errors.Is(err, snapshotter.ErrOwned):
		b.Owned = err.Error()
	case err != nil:
		return initialize.Backup{}, err
	}
	return short(b, s.followed.least()), nil
}

// look reads the bucket, briefly if etcd can serve the data in any case.
func look(ctx context.Context, st store.Reader, prefix snapshot.Prefix, dir string, data datadir.Inspection, memory int64) (bucket.Facts, error) {
	own := ownOf(dir, data, memory)
	if data.State == datadir.Valid {
		return bucket.LookBriefly(ctx, st, prefix, own, time.Now)
	}
	return bucket.Look(ctx, st, prefix, own)
}

// short has backups that do not reach what they are known to have held count as such that cannot be restored:
// something was deleted, left out or damaged, and to begin from what is left would be a loss that nobody is told of.
func short(b initialize.Backup, least snapshot.Revision) initialize.Backup {
	if b.Broken != "" || b.Latest >= least {
		return b
	}
	lack := fmt.Sprintf("they held revision %d (restorationConfig.atLeastRevision), and what can be restored ends at revision %d", least, b.Latest)
	if b.State == initialize.BackupNone {
		lack, b.Relation = fmt.Sprintf("they held revision %d at least (restorationConfig.atLeastRevision), and nothing is there: is it the account, the endpoint and the place where they were made?", least), initialize.RelationUnknown
	}
	b.State, b.Latest = initialize.BackupExists, 0
	b.Broken = lack + "; to accept that, leave it out of the configuration. Of an Etcd: go back to the store that status.lastBackup names, or to the Secret of before; or set spec.hibernation.allowUnprotected to accept it"
	return b
}

// backupOf is what decisions need of what a bucket tells. Latest is not Newest: nothing may be
// replaced by what cannot be restored.
func backupOf(f bucket.Facts) initialize.Backup {
	b := initialize.Backup{State: initialize.BackupExists, Latest: f.Reach, Uploaded: f.Newest, Why: f.Why}
	if f.Broken != nil {
		b.Broken = f.Broken.Error()
	}
	b.Relation = map[bucket.Relation]initialize.Relation{
		bucket.Same: initialize.RelationSame, bucket.Other: initialize.RelationOther, bucket.Unknown: initialize.RelationUnknown,
	}[f.Relation]
	return b
}

// ownOf is what a bucket is compared with; nil: there are no data, or nothing is left that says
// whose they were. The hash of the key space is computed only where nothing beside good data says
// which history they are.
func ownOf(dir string, data datadir.Inspection, memory int64) *bucket.Own {
	if data.State != datadir.Valid && data.State != datadir.Invalid || data.Lineage == nil && data.ClusterID == 0 {
		return nil
	}
	own := &bucket.Own{ClusterID: data.ClusterID}
	if data.Lineage != nil {
		own.Lineage = &data.Lineage.Lineage
		return own
	}
	if data.State == datadir.Invalid {
		return own
	}
	own.HashAt = func(ctx context.Context, at snapshot.Revision) (snapshot.HashKV, error) {
		db, err := datadir.OpenDir(dir)
		if err != nil {
			return snapshot.HashKV{}, err
		}
		defer db.Close()
		h, _, err := db.HashKV(ctx, at, memory, "")
		return h, err
	}
	return own
}

// backups is what is done about backups; nil without a store.
func (s *sidecar) backups() (*backup.Leader, error) {
	if s.Store.Open == nil {
		return nil, nil
	}
	o, err := s.backupConfig()
	if err != nil {
		return nil, err
	}
	return backup.New(o)
}

func (s *sidecar) backupConfig() (backup.Config, error) {
	c, t := s.Config, s.templates.get()
	local := c.Etcd.Endpoints[0]
	snapshots := snapshotter.Config{
		Data: snapshotter.DataDir(t.DataDir()), Format: codec.Format(c.Snapshotter.SnapshotFormat), DeltaPeriod: c.Snapshotter.DeltaSnapshotPeriod.D(),
		DeltaLimit: int64(c.Snapshotter.DeltaSnapshotMemoryLimit), SpillDir: c.Store.TempDir, StreamTimeout: c.Etcd.SnapshotTimeout.D(),
		Owner: c.Owner, OwnerNote: "the sidecar of " + s.Member, TakeOver: c.Snapshotter.TakeOver,
		Retry:  snapshotter.Backoff{Max: c.Backoff.ThresholdTime.D(), Multiply: c.Backoff.Multiplier},
		Writer: s.Writer, Metrics: snapshotter.NewMetrics(s.registry), FullFirst: s.followed.fullFirst,
		Ending: func(ctx context.Context) bool { return s.refusal.tell(ctx).Left() > 0 },
	}
	if snapshots.DeltaPeriod < time.Second {
		snapshots.DeltaPeriod = 0 // as the original: below a second means no deltas
		s.Log.Warn("no deltas are taken: deltaSnapshotPeriod is below one second")
	}
	snapshots.Compression = packing(c.Compression.Enabled, c.Compression.Policy)
	snapshots.DeltaCompression = snapshots.Compression
	if c.Snapshotter.FullSchedule != "" {
		schedule, err := snapshotter.ParseSchedule(c.Snapshotter.FullSchedule)
		if err != nil {
			return backup.Config{}, err
		}
		snapshots.Schedule = schedule
	}
	method, err := retention.ParseMethod(c.Snapshotter.GarbageCollectionPolicy)
	if err != nil {
		return backup.Config{}, err
	}
	policy := retention.Policy{Method: method, DeltaRetention: c.Snapshotter.DeltaSnapshotRetentionPeriod.D()}
	if method == retention.LimitBased {
		policy.MaxBackups = c.Snapshotter.MaxBackups
	}
	if err := scratchdir.Sweep(c.Store.TempDir); err != nil {
		s.Log.Warn("temporary files of processes that ended are not removed", "error", err)
	}
	o := backup.Config{
		Local: backup.LocalOf(s.own, local), Voters: backup.VotersOf(s.own, s.followed.has), Store: s.Store, Prefix: c.Store.Prefix, Snapshots: snapshots,
		Policy: policy, CollectEvery: c.Snapshotter.GarbageCollectionPeriod.D(), VerifyEvery: c.Snapshotter.VerificationPeriod.D(), LookEvery: min(c.LeaderElection.ReelectionPeriod.D(), maxLookEvery), LookTimeout: c.LeaderElection.EtcdConnectionTimeout.D(),
		ScratchDir: c.Store.TempDir, KeepFree: keepFree, Free: func() (int64, error) {
			free, _, err := datadir.Room(c.Store.TempDir)
			return int64(min(free, math.MaxInt64)), err
		}, Room: func() error {
			if err := scratchdir.Sweep(c.Store.TempDir); err != nil {
				s.Log.Warn("temporary files of processes that ended are not removed", "error", err)
			}
			return s.room().forProof(func() (uint64, uint64, error) { return datadir.Room(c.Store.TempDir) })
		}, ReplayMemory: int64(c.Restoration.MemoryLimit), Update: s.board.Update, Metrics: s.metrics, Log: s.Log,
	}
	if s.Second.Open != nil {
		o.Second = &backup.Secondary{Source: s.Second, Prefix: c.Secondary.StoreConfig.Prefix, Every: c.Secondary.SyncPeriod.D(),
			Record: filepath.Join(filepath.Dir(t.DataDir()), "druid-secondary.json")}
	}
	return o, nil
}

// maxLookEvery bounds how long nobody makes backups after another member came to lead, and how old what is told of them gets.
const maxLookEvery = 30 * time.Second

func packing(on bool, policy string) snapshot.Compression {
	if !on {
		return snapshot.None
	}
	return map[string]snapshot.Compression{"zstd": snapshot.Zstd, "gzip": snapshot.Gzip, "zlib": snapshot.Zlib, "lzw": snapshot.LZW}[policy] // checked with the configuration
}

// server is the HTTP interface.
func (s *sidecar) server() (*serve.Server, error) {
	c := s.Config.Server
	where := whereabouts{etcd: s.status, list: s.own.Members, base: s.asker.Base, outside: s.followed.has}
	h := serve.Handlers{
		InitStart:       func(mode agentapi.ValidationMode) error { s.machine.Start(mode); return nil },
		InitAcknowledge: func() error { s.machine.Acknowledge(); return nil },
		InitStatus:      s.machine.Status, Config: s.configure,
		Healthy: s.healthy, Member: s.member, Operations: s.operations,
		Metrics: promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}),
		Defragment: func(context.Context) (agentapi.Operation, error) {
			return s.defragmenter.Request(), nil
		},
		Refuse: s.refusal.refuse,
		Leader: where.leader,
	}
	if b := s.backup; b != nil {
		h.Final = b.Final
		h.Full, h.Delta, h.Latest, h.Timeline = b.Full, b.Delta, b.Latest, b.Timeline
		h.Verify, h.Compact = b.Verify, b.Compact
	}
	return serve.New(serve.Options{
		Address: net.JoinHostPort(c.Address, strconv.Itoa(c.Port)), CertFile: c.CertFile, KeyFile: c.KeyFile, ClientCAFile: c.ClientCAFile, TokenFile: c.TokenFile,
		OpenToAll: c.AllowUnauthenticated, Profiling: c.EnableProfiling, Leader: s.credentials(), Log: s.Log,
	}, h)
}

// configure hands out the configuration with which etcd is started, and remembers its peer URLs and
// the authorities that it is about to read.
func (s *sidecar) configure(ctx context.Context) ([]byte, error) {
	b, err := s.machine.Config(ctx)
	if err != nil {
		return nil, err
	}
	with, err := startedWith(b)
	if err != nil {
		return nil, err
	}
	if err := s.started.write(with); err != nil {
		return nil, err
	}
	s.board.Update(with.tell)
	s.promoter.Anew()
	return b, nil
}

// member is everything that is known.
func (s *sidecar) member(ctx context.Context) agentapi.Member {
	m := s.board.Get()
	m.Initialization = s.machine.Status()
	m.Refusal = s.refusal.tell(ctx)
	return m
}

// healthy is what probes are told: etcd answers and belongs to a cluster with a leader.
func (s *sidecar) healthy() bool {
	e := s.board.Get().Etcd
	return e != nil && e.Leader != ""
}

func (s *sidecar) operations() []agentapi.Operation {
	var all []agentapi.Operation
	if s.backup != nil {
		all = append(all, s.backup.Operations()...)
	}
	if d := s.defragmenter.Operation(); d != nil {
		all = append(all, *d)
	}
	if r := s.board.Get().LastRestoration; r != nil {
		all = append(all, agentapi.Operation{Kind: "restore", Status: r.Status, Start: r.Start, End: r.End, Phase: r.Phase, Done: r.Done, Total: r.Total, Message: r.Message})
	}
	return all
}

// forget removes data that were set aside: the member is healthy without them.
func (s *sidecar) forget() {
	gone, err := datadir.Forget(s.templates.get().DataDir())
	for _, path := range gone {
		s.Log.Info("removed the data that were set aside: the member is healthy", "path", path)
	}
	if err != nil {
		s.Log.Warn("data that were set aside are still there", "error", err)
	}
}

// changed follows a new etcd configuration file.
func (s *sidecar) changed(ctx context.Context) error {
	return s.templates.run(ctx, s.follow)
}

// outsideChanged follows the cluster outside.
func (s *sidecar) outsideChanged(ctx context.Context) error {
	return s.followed.run(ctx, func() { s.follow(s.templates.get()) })
}

func (s *sidecar) follow(t *memberconf.Template) {
	if err := s.etcd.follow(t); err != nil {
		s.Log.Error("the members of the new configuration cannot be reached", "error", err)
	}
}
