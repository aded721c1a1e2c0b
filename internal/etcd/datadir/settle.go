package datadir

import (
	"context"
	"errors"
	"fmt"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/features"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

var (
	// ErrNotSole: the member has others beside it, with which alone its log can be settled.
	ErrNotSole = errors.New("not the only member of its cluster")
	// ErrNotValid: the data directory is not [Valid] or [Blank].
	ErrNotValid = errors.New("data directory is not valid")
)

// Settle applies to the database of dir what is only in its log, and returns the revision reached.
// It runs etcd until it is ready, without any listener, so nobody can write meanwhile; the
// directory is left as that etcd leaves it. This is only possible if the member is the only one
// of its cluster: [ErrNotSole]. Other errors: [ErrNotValid], [ErrBusy], ctx, which should have a
// deadline.
//
// Without a quota, so that no write is refused which was acknowledged.
func Settle(ctx context.Context, dir string) (snapshot.Revision, error) {
	i, err := Inspect(ctx, dir, Sanity, nil)
	if err != nil {
		return 0, err
	}
	if i.State != Valid && i.State != Blank {
		return 0, fmt.Errorf("settle %s: %w: %s: %s", dir, ErrNotValid, i.State, i.Why)
	}
	if len(i.Voters) != 1 || len(i.Learners) > 0 || i.Voters[0] != i.MemberID || i.Removed {
		return 0, fmt.Errorf("settle %s: %w: member %x of voters %x and learners %x", dir, ErrNotSole, i.MemberID, i.Voters, i.Learners)
	}
	s, err := startIsolated(dir, i)
	if err != nil {
		return 0, fmt.Errorf("settle %s: %w", dir, err)
	}
	defer s.HardStop()
	select {
	case <-s.ReadyNotify():
		return snapshot.Revision(s.KV().Rev()), nil
	case <-s.StopNotify():
		return 0, fmt.Errorf("settle %s: etcd stopped by itself", dir)
	case <-ctx.Done():
		return 0, fmt.Errorf("settle %s: etcd did not become ready: %w", dir, context.Cause(ctx))
	}
}

// startIsolated starts etcd as it is inside: what listens is made around it, and is not made here. It
// publishes the name and the addresses that the member has.
func startIsolated(dir string, i Inspection) (s *etcdserver.EtcdServer, err error) {
	// etcd ends the process when its log is not as it expects, which was looked into before; then
	// this is an error.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("etcd refused it: %v", r)
		}
	}()
	log := zap.New(zapcore.NewNopCore(), zap.WithFatalHook(zapcore.WriteThenPanic))
	self, _ := i.Self()
	clients, err := types.NewURLs(self.ClientURLs)
	if err != nil && len(self.ClientURLs) > 0 {
		return nil, fmt.Errorf("client URLs of the member: %w", err)
	}
	peers, err := types.NewURLs(self.PeerURLs)
	if err != nil && len(self.PeerURLs) > 0 {
		return nil, fmt.Errorf("peer URLs of the member: %w", err)
	}
	s, err = etcdserver.NewServer(config.ServerConfig{
		Name: self.Name, ClientURLs: clients, PeerURLs: peers, DataDir: dir,
		InitialPeerURLsMap: types.URLsMap{self.Name: peers}, NewCluster: false,
		TickMs: 100, ElectionTicks: 10, InitialElectionTickAdvance: true, PreVote: true, // etcd's defaults, as the shortest lease depends on them
		QuotaBackendBytes: -1, BackendFreelistType: bolt.FreelistMapType,
		MaxRequestBytes: 1 << 20, MaxLearners: membership.DefaultMaxLearners, AuthToken: "simple", TokenTTL: 300,
		WarningApplyDuration: time.Minute, WarningUnaryRequestDuration: time.Minute,
		V2Deprecation: config.V2DeprDefault, Logger: log,
		ServerFeatureGate: features.NewDefaultServerFeatureGate(self.Name, log),
	})
	if err != nil {
		return nil, err
	}
	s.Start()
	return s, nil
}
