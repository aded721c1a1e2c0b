package config

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"druid.internal/druid/internal/agentapi/auth"
	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/schedule"
)

// Validate reports the first thing that cannot work, with its remedy. It looks at files and
// directories, because a sidecar that starts without them would fail later and elsewhere.
func (c Config) Validate() error {
	for _, check := range []func() error{c.checkEtcd, c.checkServer, c.checkSnapshotter, c.checkStores, c.checkRest, c.ExistingCluster.Check} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) checkEtcd() error {
	if len(c.Etcd.Endpoints) == 0 {
		return errors.New("etcdConnectionConfig.endpoints is empty: name the client URL of this member's etcd")
	}
	for _, e := range c.Etcd.Endpoints {
		if !isURL(e) {
			return fmt.Errorf("etcdConnectionConfig.endpoints: %q is not a URL like https://127.0.0.1:2379", e)
		}
	}
	for _, d := range []struct {
		key   string
		value Duration
	}{
		{"etcdConnectionConfig.connectionTimeout", c.Etcd.ConnectionTimeout}, {"etcdConnectionConfig.snapshotTimeout", c.Etcd.SnapshotTimeout},
		{"etcdConnectionConfig.defragTimeout", c.Etcd.DefragTimeout}, {"leaderElectionConfig.reelectionPeriod", c.LeaderElection.ReelectionPeriod},
		{"leaderElectionConfig.etcdConnectionTimeout", c.LeaderElection.EtcdConnectionTimeout}, {"exponentialBackoffConfig.thresholdTime", c.Backoff.ThresholdTime},
	} {
		if d.value <= 0 {
			return fmt.Errorf("%s must be above 0, it is %s", d.key, d.value)
		}
	}
	if c.LeaderElection.ReelectionPeriod.D() < 100*time.Millisecond {
		return fmt.Errorf("leaderElectionConfig.reelectionPeriod must be at least 100ms, it is %s", c.LeaderElection.ReelectionPeriod)
	}
	if (c.Etcd.CertFile == "") != (c.Etcd.KeyFile == "") {
		return errors.New("etcdConnectionConfig: certFile and keyFile belong together, one is missing")
	}
	return readable("etcdConnectionConfig", file{"certFile", "cert", c.Etcd.CertFile}, file{"keyFile", "key", c.Etcd.KeyFile}, file{"caFile", "cacert", c.Etcd.CAFile},
		file{"usernameFile", "", c.Etcd.UsernameFile}, file{"passwordFile", "", c.Etcd.PasswordFile})
}

func (c Config) checkServer() error {
	s := c.Server
	if s.Port < 1 || s.Port > 65535 {
		return fmt.Errorf("serverConfig.port %d is not a port", s.Port)
	}
	if s.Address != "" && net.ParseIP(s.Address) == nil {
		return fmt.Errorf("serverConfig.address %q is not an IP address", s.Address)
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		return errors.New("serverConfig: server-cert and server-key belong together, one is missing")
	}
	if (s.ClientCertFile == "") != (s.ClientKeyFile == "") {
		return errors.New("serverConfig: client-cert and client-key belong together, one is missing")
	}
	if s.ClientCAFile != "" && s.CertFile == "" {
		return errors.New("serverConfig.client-ca needs server-cert and server-key: without TLS no client shows a certificate")
	}
	if s.ClientCAFile == "" && s.TokenFile == "" && !s.AllowUnauthenticated {
		return errors.New("serverConfig: nothing says who may call: give token-file (a file with a bearer token) or client-ca; allow-unauthenticated lets everybody in the network take, read and change backups, as the original does")
	}
	if c.Wrapper.Port < 1 || c.Wrapper.Port > 65535 {
		return fmt.Errorf("etcdWrapperConfig.port %d is not a port", c.Wrapper.Port)
	}
	if err := readable("etcdWrapperConfig", file{"ca", "", c.Wrapper.CAFile}); err != nil {
		return err
	}
	return readable("serverConfig", file{"server-cert", "server-cert", s.CertFile}, file{"server-key", "server-key", s.KeyFile}, file{"client-ca", "client-ca", s.ClientCAFile},
		file{"token-file", "token-file", s.TokenFile}, file{"ca", "", s.CAFile}, file{"client-cert", "", s.ClientCertFile}, file{"client-key", "", s.ClientKeyFile})
}

func (c Config) checkSnapshotter() error {
	s := c.Snapshotter
	for _, s := range []struct{ key, value string }{{"snapshotterConfig.schedule", s.FullSchedule}, {"defragmentationSchedule", c.Defragmentation.Schedule}} {
		if s.value == "" {
			continue
		}
		if _, err := schedule.Parse(s.value); err != nil {
			return fmt.Errorf("%s: %w", s.key, err)
		}
	}
	switch s.SnapshotFormat {
	case "native", "v2-json":
	default:
		return fmt.Errorf("snapshotterConfig.snapshotFormat %q is neither native nor v2-json", s.SnapshotFormat)
	}
	switch s.GarbageCollectionPolicy {
	case "Exponential", "LimitBased":
	default:
		return fmt.Errorf("snapshotterConfig.garbageCollectionPolicy %q is neither Exponential nor LimitBased", s.GarbageCollectionPolicy)
	}
	if s.GarbageCollectionPolicy == "LimitBased" && s.MaxBackups < 1 {
		return errors.New("snapshotterConfig.maxBackups must be above 0: the newest full stays in any case")
	}
	if s.DeltaSnapshotPeriod < 0 || s.GarbageCollectionPeriod < 0 || s.DeltaSnapshotRetentionPeriod < 0 {
		return errors.New("snapshotterConfig: no period may be negative")
	}
	if p := s.VerificationPeriod.D(); p < 0 || p > 0 && p < time.Minute {
		return fmt.Errorf("snapshotterConfig.verificationPeriod must be 0 (never) or at least 1m, it is %s: each proof reads a whole chain", s.VerificationPeriod)
	}
	switch c.Compression.Policy {
	case "zstd", "gzip", "lzw", "zlib":
		return nil
	}
	return fmt.Errorf("compressionConfig.policy %q is none of zstd, gzip, lzw, zlib", c.Compression.Policy)
}

func (c Config) checkStores() error {
	if err := c.Store.check("snapstoreConfig"); err != nil {
		return err
	}
	if c.Store.Provider != "" {
		if err := c.checkScratch("snapstoreConfig.tempDir", c.Store.TempDir); err != nil {
			return err
		}
	}
	if !c.Secondary.BackupSyncEnabled {
		return nil
	}
	switch {
	case c.Store.Provider == "":
		return errors.New("secondarySnapstoreConfig.backupSyncEnabled needs snapstoreConfig.provider: there is nothing to copy")
	case c.Secondary.StoreConfig.Provider == "":
		return errors.New("secondarySnapstoreConfig.backupSyncEnabled needs secondarySnapstoreConfig.storeConfig.provider")
	case c.Secondary.SyncPeriod <= 0:
		return errors.New("secondarySnapstoreConfig.syncPeriod must be above 0")
	case samePlace(c.Store, c.Secondary.StoreConfig):
		return errors.New("secondarySnapstoreConfig.storeConfig is the same provider, container and prefix as snapstoreConfig: a second store must be another one")
	}
	const second = "secondarySnapstoreConfig.storeConfig"
	if err := c.Secondary.StoreConfig.check(second); err != nil {
		return err
	}
	return c.checkScratch(second+".tempDir", c.Secondary.StoreConfig.TempDir)
}

func samePlace(a, b Store) bool {
	return strings.EqualFold(a.Provider, b.Provider) && a.Container == b.Container && a.Prefix == b.Prefix && a.EndpointOverride == b.EndpointOverride && a.Container != ""
}

func (s Store) check(where string) error {
	if s.Provider == "" {
		return nil
	}
	if s.MaxParallelChunkUploads < 1 || s.MinChunkSize < 1 {
		return fmt.Errorf("%s: maxParallelChunkUploads and minChunkSize must be above 0", where)
	}
	if p := s.ObjectLock.Period.D(); p < 0 || p > immutability.MaxPeriod {
		return fmt.Errorf("%s.objectLock.period must be from 0 (no lock is asked for) to %s, as a lock cannot be shortened, it is %s", where, Duration(immutability.MaxPeriod), s.ObjectLock.Period)
	}
	switch e := s.ServerSideEncryption; {
	case e.Algorithm == "" && e.KMSKeyID != "":
		return fmt.Errorf("%s.serverSideEncryption.kmsKeyID is given without algorithm: set that to aws:kms", where)
	case !slices.Contains([]string{"", "AES256", "aws:kms", "aws:kms:dsse"}, e.Algorithm):
		return fmt.Errorf("%s.serverSideEncryption.algorithm %q is none of AES256, aws:kms, aws:kms:dsse", where, e.Algorithm)
	}
	switch immutability.Mode(s.ObjectLock.Mode) {
	case immutability.ModeGovernance, immutability.ModeCompliance:
		return nil
	}
	if s.ObjectLock.Period == 0 {
		return nil
	}
	return fmt.Errorf("%s.objectLock.mode %q is neither governance nor compliance", where, s.ObjectLock.Mode)
}

func (c Config) checkRest() error {
	if dir := c.Restoration.TempSnapshotsDir; dir != "" {
		if err := c.checkScratch("restorationConfig.tempSnapshotsDir", dir); err != nil {
			return err
		}
	}
	if c.Restoration.LastKnownRevision < 0 {
		return fmt.Errorf("restorationConfig.lastKnownRevision must be a revision, or 0 if none is known, it is %d", c.Restoration.LastKnownRevision)
	}
	if c.Restoration.AtLeastRevision < 0 {
		return fmt.Errorf("restorationConfig.atLeastRevision must be a revision, or 0 for any, it is %d", c.Restoration.AtLeastRevision)
	}
	if c.Restoration.MaxFetchers < 1 {
		return errors.New("restorationConfig.maxFetchers must be above 0")
	}
	if h := c.Health; h.MemberLeaseRenewalEnabled && h.HeartbeatDuration.D() < time.Second {
		return fmt.Errorf("healthConfig.heartbeatDuration (--k8s-heartbeat-duration) must be at least 1s, it is %s", h.HeartbeatDuration)
	}
	if c.Backoff.Multiplier < 1 {
		return errors.New("exponentialBackoffConfig.multiplier must be at least 1")
	}
	for key, share := range map[string]int{"freeShare": c.Defragmentation.FreeShare, "quotaShare": c.Defragmentation.QuotaShare} {
		if share < 0 || share > 100 {
			return fmt.Errorf("defragmentationConfig.%s is a percentage, 0 to 100, not %d", key, share)
		}
	}
	return nil
}

// file is what a key names, and the flag that does the same; empty: there is none.
type file struct{ key, flag, path string }

func readable(where string, files ...file) error {
	for _, f := range files {
		option := where + "." + f.key
		if f.flag != "" {
			option += " (--" + f.flag + ")"
		}
		if err := auth.Named(option, f.path); err != nil {
			return err
		}
	}
	return nil
}

// writable says whether files can be made in dir, by making one.
func writable(what, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	f, err := os.CreateTemp(dir, ".druid-*")
	if err != nil {
		return fmt.Errorf("%s: nothing can be written into %s: %w", what, filepath.Clean(dir), err)
	}
	f.Close()
	return os.Remove(f.Name())
}
