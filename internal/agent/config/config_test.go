package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/agent/config"
)

// original is a file as the original's operator and examples write it.
const original = `
etcdConnectionConfig:
  endpoints: ["https://127.0.0.1:2379"]
  connectionTimeout: 5m
  snapshotTimeout: 8m
  insecureTransport: false
  insecureSkipVerify: false
  username: admin
serverConfig:
  port: 8080
  enableProfiling: true
snapshotterConfig:
  schedule: "0 */24 * * *"
  deltaSnapshotPeriod: "300s"
  deltaSnapshotMemoryLimit: 104857600
  garbageCollectionPeriod: 12h
  garbageCollectionPolicy: LimitBased
  maxBackups: 30
  deltaSnapshotRetentionPeriod: 96h
snapstoreConfig:
  provider: S3
  container: backups
  prefix: ns--uid/etcd-main
  maxParallelChunkUploads: 5
  tempDir: /tmp
compressionConfig:
  enabled: true
  policy: gzip
restorationConfig:
  initialCluster: "default=http://localhost:2380"
  dataDir: default.etcd
  embeddedEtcdQuotaBytes: 8589934592
  MaxTxnOps: 10240
  MaxRequestBytes: 10485760
healthConfig:
  memberLeaseRenewalEnabled: true
  heartbeatDuration: 30s
leaderElectionConfig:
  reelectionPeriod: 5s
  etcdConnectionTimeout: 5s
exponentialBackoffConfig:
  multiplier: 2
  attemptLimit: 6
  thresholdTime: 128s
defragmentationSchedule: "0 0 */3 * *"
useEtcdWrapper: true
`

func TestAFileOfTheOriginalIsRead(t *testing.T) {
	got, err := config.Parse([]byte(original))
	if err != nil {
		t.Fatal(err)
	}
	want := config.Defaults()
	want.Etcd.Endpoints = []string{"https://127.0.0.1:2379"}
	want.Etcd.ConnectionTimeout = config.Duration(5 * time.Minute)
	want.Etcd.SnapshotTimeout = config.Duration(8 * time.Minute)
	want.Etcd.InsecureTransport = false
	want.Etcd.Username = "admin"
	want.Server.EnableProfiling = true
	want.Snapshotter.FullSchedule = "0 */24 * * *"
	want.Snapshotter.DeltaSnapshotPeriod = config.Duration(5 * time.Minute)
	want.Snapshotter.DeltaSnapshotMemoryLimit = 100 << 20
	want.Snapshotter.GarbageCollectionPeriod = config.Duration(12 * time.Hour)
	want.Snapshotter.GarbageCollectionPolicy = "LimitBased"
	want.Snapshotter.MaxBackups = 30
	want.Snapshotter.DeltaSnapshotRetentionPeriod = config.Duration(96 * time.Hour)
	want.Store.Provider, want.Store.Container, want.Store.Prefix = "S3", "backups", "ns--uid/etcd-main"
	want.Compression.Policy = "gzip"
	want.Restoration.InitialCluster = "default=http://localhost:2380"
	want.Restoration.DataDir = "default.etcd"
	want.Restoration.MaxTxnOps = 10240
	want.Restoration.MaxRequestBytes = 10 << 20
	want.Health.MemberLeaseRenewalEnabled = true
	want.LeaderElection.ReelectionPeriod = config.Duration(5 * time.Second)
	want.DefragmentationSchedule = "0 0 */3 * *"
	want.UseEtcdWrapper = true
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAMissingFileIsNamedWithItsOption(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.yaml")
	_, err := config.Load(missing, config.Parse)
	if want := "--config-file names " + missing + ": no such file or directory; create or mount it, or correct the path"; err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestAFileThatCannotBeMeantIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"snapshoterConfig: {}":                                    `unknown key "snapshoterConfig"`,
		"serverConfig: {prot: 8080}":                              `unknown key "prot"`,
		"serverConfig: {port: many}":                              "port",
		"snapshotterConfig: {deltaSnapshotPeriod: often}":         `"often" is not a duration like 20s`,
		"snapshotterConfig: {deltaSnapshotPeriod: 5}":             "give it a unit",
		"snapshotterConfig: {deltaSnapshotMemoryLimit: 12 lines}": "not a number of bytes",
		"serverConfig: [1]\n  x":                                  "line",
		"serverConfig: {port: 1}\nserverConfig: {port: 2}":        "already",
	} {
		_, err := config.Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", text, err, want)
		}
	}
}

func TestOfAnOperatorsFileWhatIsNotKnownIsLeftOut(t *testing.T) {
	for text, want := range map[string]struct{ told, err string }{
		"serverConfig: {port: 1}":                          {"", ""},
		"serverConfig: {port: 1}\nnew: {}":                 {`unknown key "new"`, ""},
		"serverConfig: {port: 1, new: [1], newer: 2}":      {`unknown key "new"`, ""},
		"serverConfig: {port: many}":                       {"", "port"},
		"serverConfig: {port: many, new: 1}":               {`unknown key "new"`, "port"},
		"serverConfig: {port: 1}\nserverConfig: {port: 2}": {"", "already"},
	} {
		told := ""
		c, err := config.Lenient(func(what string) { told += what })([]byte(text))
		switch {
		case want.told == "" && told != "" || !strings.Contains(told, want.told):
			t.Errorf("%s: told %q, want %q", text, told, want.told)
		case want.err != "" && (err == nil || !strings.Contains(err.Error(), want.err)):
			t.Errorf("%s: %v, want %q", text, err, want.err)
		case want.err == "" && (err != nil || c.Server.Port != 1):
			t.Errorf("%s: port %d, %v", text, c.Server.Port, err)
		}
	}
}

func TestWhatCannotWorkIsNamedBeforeTheStart(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := func() config.Config {
		c := config.Defaults()
		c.Server.TokenFile = token
		c.Store = config.Store{Provider: "Local", MaxParallelChunkUploads: 5, MinChunkSize: 1, TempDir: dir}
		return c
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*config.Config){
		"snapshotterConfig.schedule: schedule \"every day\"": func(c *config.Config) { c.Snapshotter.FullSchedule = "every day" },
		"defragmentationSchedule: schedule \"1 2\"":          func(c *config.Config) { c.Defragmentation.Schedule = "1 2" },
		"endpoints is empty":                                 func(c *config.Config) { c.Etcd.Endpoints = nil },
		"\"localhost:2379\" is not a URL":                    func(c *config.Config) { c.Etcd.Endpoints = []string{"localhost:2379"} },
		"connectionTimeout must be above 0":                  func(c *config.Config) { c.Etcd.ConnectionTimeout = 0 },
		"certFile and keyFile belong together":               func(c *config.Config) { c.Etcd.CertFile = token },
		"etcdConnectionConfig.caFile (--cacert) names":       func(c *config.Config) { c.Etcd.CAFile = filepath.Join(dir, "none") },
		"serverConfig.port 0":                                func(c *config.Config) { c.Server.Port = 0 },
		"\"etcd\" is not an IP address":                      func(c *config.Config) { c.Server.Address = "etcd" },
		"server-cert and server-key belong together":         func(c *config.Config) { c.Server.CertFile = token },
		"client-cert and client-key belong together":         func(c *config.Config) { c.Server.ClientCertFile = token },
		"client-ca needs server-cert":                        func(c *config.Config) { c.Server.ClientCAFile = token },
		"nothing says who may call":                          func(c *config.Config) { c.Server.TokenFile = "" },
		"etcdWrapperConfig.port":                             func(c *config.Config) { c.Wrapper.Port = -1 },
		"snapshotFormat \"json\" is neither":                 func(c *config.Config) { c.Snapshotter.SnapshotFormat = "json" },
		"garbageCollectionPolicy \"None\" is neither":        func(c *config.Config) { c.Snapshotter.GarbageCollectionPolicy = "None" },
		"maxBackups must be above 0": func(c *config.Config) {
			c.Snapshotter.GarbageCollectionPolicy, c.Snapshotter.MaxBackups = "LimitBased", 0
		},
		"no period may be negative":                                                 func(c *config.Config) { c.Snapshotter.DeltaSnapshotPeriod = -1 },
		"verificationPeriod must be 0 (never) or at":                                func(c *config.Config) { c.Snapshotter.VerificationPeriod = config.Duration(time.Second) },
		"compressionConfig.policy \"rar\" is none of":                               func(c *config.Config) { c.Compression.Policy = "rar" },
		"snapstoreConfig: maxParallelChunkUploads":                                  func(c *config.Config) { c.Store.MaxParallelChunkUploads = 0 },
		"objectLock.period must be from 0 (no lock is asked for) to 87600h0m0s, as": func(c *config.Config) { c.Store.ObjectLock.Period = config.Duration(87601 * time.Hour) },
		"storeConfig.objectLock.mode \"forever\" is neither governance nor": func(c *config.Config) {
			c.Secondary = config.Secondary{BackupSyncEnabled: true, SyncPeriod: config.Duration(time.Hour), StoreConfig: c.Store}
			c.Secondary.StoreConfig.Container, c.Secondary.StoreConfig.ObjectLock = "another", config.ObjectLock{Period: 1, Mode: "forever"}
		},
		"algorithm \"AES\" is none of AES256":                 func(c *config.Config) { c.Store.ServerSideEncryption.Algorithm = "AES" },
		"kmsKeyID is given without algorithm":                 func(c *config.Config) { c.Store.ServerSideEncryption.KMSKeyID = "k" },
		"snapstoreConfig.tempDir":                             func(c *config.Config) { c.Store.TempDir = filepath.Join(token, "below a file") },
		"needs secondarySnapstoreConfig.storeConfig":          func(c *config.Config) { c.Secondary.BackupSyncEnabled = true },
		"needs snapstoreConfig.provider":                      func(c *config.Config) { c.Secondary.BackupSyncEnabled, c.Store.Provider = true, "" },
		"restorationConfig.maxFetchers must be above 0":       func(c *config.Config) { c.Restoration.MaxFetchers = 0 },
		"exponentialBackoffConfig.multiplier":                 func(c *config.Config) { c.Backoff.Multiplier = 0 },
		"defragmentationConfig.freeShare":                     func(c *config.Config) { c.Defragmentation.FreeShare = 101 },
		"none: no such file or directory; create or mount it": func(c *config.Config) { c.Etcd.CAFile = filepath.Join(dir, "none") },
		"serverConfig.token-file (--token-file) names ":       func(c *config.Config) { c.Server.TokenFile = filepath.Join(dir, "none") },
		"secondarySnapstoreConfig.syncPeriod must be":         func(c *config.Config) { c.Secondary = config.Secondary{BackupSyncEnabled: true, StoreConfig: c.Store} },
		"reelectionPeriod must be at least 100ms":             func(c *config.Config) { c.LeaderElection.ReelectionPeriod = 1 },
		"must be another one": func(c *config.Config) {
			c.Store.Container = "b"
			c.Secondary = config.Secondary{BackupSyncEnabled: true, SyncPeriod: 1, StoreConfig: c.Store}
		},
		"restorationConfig.tempSnapshotsDir":             func(c *config.Config) { c.Restoration.TempSnapshotsDir = filepath.Join(token, "below a file") },
		"exponentialBackoffConfig.thresholdTime must be": func(c *config.Config) { c.Backoff.ThresholdTime = 0 },
	} {
		c := good()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want one line with %q", err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(original))
	f.Add([]byte("serverConfig: {port: 8080}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := config.Parse(b)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%q is not one line", err)
			}
			return
		}
		_ = c.Etcd.ConnectionTimeout.String()
	})
}
