package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"druid.internal/druid/internal/agent/config"
	"druid.internal/druid/internal/store/open"
)

// serverFlags fill the same configuration as the file of --config-file, by the original's names.
type serverFlags struct {
	file   string
	config config.Config
}

func (f *serverFlags) add(flags *pflag.FlagSet) {
	f.config = config.Defaults()
	c := &f.config
	flags.StringVar(&f.file, "config-file", "", "read the configuration from this YAML file; all other flags but those of logging are ignored then")

	e := &c.Etcd
	flags.StringSliceVarP(&e.Endpoints, "endpoints", "e", e.Endpoints, "client URLs of this member's etcd")
	flags.StringSliceVar(&e.ServiceEndpoints, "service-endpoints", nil, "client URLs of a service in front of the cluster")
	flags.StringVar(&e.Username, "etcd-username", "", "user name")
	flags.StringVar(&e.Password, "etcd-password", "", "password")
	duration(flags, &e.ConnectionTimeout, "etcd-connection-timeout", "bound on connecting and on every short question")
	duration(flags, &e.SnapshotTimeout, "etcd-snapshot-timeout", "end a full snapshot of which nothing moves for so long, from etcd or to the store; one that moves may take any time")
	duration(flags, &e.DefragTimeout, "etcd-defrag-timeout", "bound on defragmenting one member")
	flags.BoolVar(&e.InsecureTransport, "insecure-transport", true, "allow plain text to endpoints with http:// or without a scheme")
	flags.BoolVar(&e.InsecureSkipVerify, "insecure-skip-tls-verify", false, "accept any server certificate")
	flags.StringVar(&e.CertFile, "cert", "", "client certificate, a PEM file")
	flags.StringVar(&e.KeyFile, "key", "", "its key, a PEM file")
	flags.StringVar(&e.CAFile, "cacert", "", "authorities that may sign etcd's certificate, a PEM file")

	s := &c.Server
	flags.StringVar(&s.Address, "server-address", "", "IP address to listen on; default: all")
	flags.IntVarP(&s.Port, "server-port", "p", s.Port, "port to listen on")
	flags.StringVar(&s.CertFile, "server-cert", "", "server certificate, a PEM file")
	flags.StringVar(&s.KeyFile, "server-key", "", "its key, a PEM file")
	flags.StringVar(&s.ClientCAFile, "client-ca", "", "authorities that sign the certificates of callers, a PEM file")
	flags.StringVar(&s.TokenFile, "token-file", "", "file with the bearer token of callers; read again when it changes")
	flags.BoolVar(&s.AllowUnauthenticated, "allow-unauthenticated", false, "let everybody in the network call everything, as the original does; for the time of a migration")
	flags.BoolVar(&s.EnableProfiling, "enable-profiling", false, "serve profiles of Go below /debug/pprof/")
	flags.StringVar(&c.Wrapper.Address, "etcd-wrapper-address", "", "IP address of etcd-wrapper; default: the host of --endpoints")
	flags.IntVar(&c.Wrapper.Port, "etcd-wrapper-port", c.Wrapper.Port, "port of etcd-wrapper")

	addStoreConfig(flags, &c.Store, "", "the store")
	flags.BoolVar(&c.Secondary.BackupSyncEnabled, "secondary-backup-sync-enabled", false, "keep a second store like the first")
	duration(flags, &c.Secondary.SyncPeriod, "secondary-backup-sync-period", "how often")
	addStoreConfig(flags, &c.Secondary.StoreConfig, "secondary-", "the second store")

	n := &c.Snapshotter
	flags.StringVarP(&n.FullSchedule, "schedule", "s", n.FullSchedule, "cron expression for fulls, five fields, in UTC unless it begins with CRON_TZ=ZONE; where clocks change, a run at a skipped time comes at the change, and a run at a repeated time is made once")
	duration(flags, &n.DeltaSnapshotPeriod, "delta-snapshot-period", "longest time between a change and its delta; below 1s: no deltas")
	number(flags, &n.DeltaSnapshotMemoryLimit, "delta-snapshot-memory-limit", "cut a delta earlier when it has as many bytes before packing")
	duration(flags, &n.GarbageCollectionPeriod, "garbage-collection-period", "how often the retention policy is applied; 0: never")
	flags.StringVar(&n.GarbageCollectionPolicy, "garbage-collection-policy", n.GarbageCollectionPolicy, "Exponential or LimitBased")
	flags.IntVarP(&n.MaxBackups, "max-backups", "m", n.MaxBackups, "fulls that LimitBased keeps")
	duration(flags, &n.DeltaSnapshotRetentionPeriod, "delta-snapshot-retention-period", "keep deltas that are younger, and the full they need")
	duration(flags, &n.VerificationPeriod, "verification-period", "how often the newest chain is restored to prove that it can be, which measures the time of a restore; 0: never")
	flags.StringVar(&n.SnapshotFormat, "snapshot-format", n.SnapshotFormat, "encoding of deltas: native, or v2-json, which the original can read")
	flags.BoolVar(&n.TakeOver, "take-over", false, "restore from the prefix, and write there, although another owner has claimed it")
	flags.StringVar(&c.Owner, "owner", "", "who owns the prefix, for example the cluster's UID; default: the lineage of the data")
	flags.BoolVar(&c.Compression.Enabled, "compress-snapshots", true, "pack what is written")
	flags.StringVar(&c.Compression.Policy, "compression-policy", c.Compression.Policy, "how: zstd, gzip, lzw or zlib; the original cannot read zstd")

	r := &c.Restoration
	flags.IntVar(&r.MaxFetchers, "max-fetchers", r.MaxFetchers, "deltas fetched and decoded at the same time while restoring")
	number(flags, &r.EmbeddedEtcdQuotaBytes, "embedded-etcd-quota-bytes", "backend quota, unless etcd's own configuration says it")
	number(flags, &r.MemoryLimit, "memory-limit", "bytes a restore may keep in memory, for example 128Mi")
	flags.StringVar(&r.TempSnapshotsDir, "restoration-temp-snapshots-dir", "", "directory for unpacked and spilled data of a restore; default: beside the data directory")

	duration(flags, &c.LeaderElection.ReelectionPeriod, "reelection-period", "how often is asked who leads the cluster, and with it who makes the backups")
	duration(flags, &c.LeaderElection.EtcdConnectionTimeout, "etcd-connection-timeout-leader-election", "bound on asking it")
	flags.Float64Var(&c.Backoff.Multiplier, "backoff-multiplier", c.Backoff.Multiplier, "how much longer each further wait after a failure is")
	duration(flags, &c.Backoff.ThresholdTime, "backoff-threshold-time", "longest wait after a failure")
	flags.StringVar(&c.Defragmentation.Schedule, "defragmentation-schedule", c.Defragmentation.Schedule, "cron expression, written as --schedule; empty: only by the thresholds and on request")
	flags.IntVar(&c.Defragmentation.FreeShare, "defragmentation-free-share", c.Defragmentation.FreeShare, "defragment a member earlier when so many percent of its database are free, and 100 MiB")
	flags.IntVar(&c.Defragmentation.QuotaShare, "defragmentation-quota-share", c.Defragmentation.QuotaShare, "or when it takes so many percent of its quota and a tenth of that would be freed; either 0: never earlier")

	acceptWithoutEffect(flags, "a sidecar never gives up", "backoff-attempt-limit")
	acceptWithoutEffect(flags, "etcd-wrapper is always used", "use-etcd-wrapper")
	acceptWithoutEffect(flags, "the members and the data directory come from etcd's configuration file (environment ETCD_CONF)",
		"initial-cluster", "initial-cluster-token", "data-dir", "initial-advertise-peer-urls", "name")
	acceptWithoutEffect(flags, "nothing is sent to an etcd while restoring", "max-txn-ops", "max-request-bytes", "max-call-send-message-size")
	acceptWithoutEffect(flags, "a digest that does not match is never a good restore", "skip-hash-check")
	acceptWithoutEffect(flags, "history is compacted at the restored revision", "auto-compaction-mode", "auto-compaction-retention")
	flags.BoolVar(&c.Health.MemberLeaseRenewalEnabled, "enable-member-lease-renewal", false, "in a pod: renew the member's Lease, and write the status of its EtcdMember")
	duration(flags, &c.Health.HeartbeatDuration, "k8s-heartbeat-duration", "how often the Lease is renewed")
	acceptWithoutEffect(flags, "backups are told in the EtcdMember", "enable-snapshot-lease-renewal", "full-snapshot-lease-name", "delta-snapshot-lease-name")
	for _, name := range []string{"use-etcd-wrapper", "skip-hash-check", "enable-snapshot-lease-renewal"} {
		flags.Lookup(name).NoOptDefVal = "true"
	}
}

func addStoreConfig(flags *pflag.FlagSet, s *config.Store, set, what string) {
	flags.StringVar(&s.Provider, set+"storage-provider", "", "kind of "+what+": "+open.Supported()+"; empty: none")
	flags.StringVar(&s.Container, set+"store-container", "", "bucket, or directory of a Local store; default: environment "+(&storeFlags{set: set}).containerVariable())
	flags.StringVar(&s.EndpointOverride, set+"store-endpoint-override", "", "URL of the service, when it is not the provider's own")
	addEncryption(flags, (*open.Encryption)(&s.ServerSideEncryption), set)
	addPrefix(flags, &s.Prefix, set+"store-prefix")
	flags.IntVar(&s.MaxParallelChunkUploads, set+"max-parallel-chunk-uploads", s.MaxParallelChunkUploads, "parts of one object sent at the same time")
	number(flags, &s.MinChunkSize, set+"min-chunk-size", "smallest part of a multi-part upload, in bytes")
	flags.StringVar(&s.TempDir, set+"snapstore-temp-directory", s.TempDir, "where deltas are spilled that outgrow memory")
	duration(flags, &s.ObjectLock.Period, set+"object-lock-period", objectLockPeriod)
	flags.StringVar(&s.ObjectLock.Mode, set+"object-lock-mode", s.ObjectLock.Mode, objectLockMode)
}

// load is the configuration, from the file or the flags, checked.
func (f *serverFlags) load(given *pflag.FlagSet, parse config.Parser, warn func(flag string)) (config.Config, error) {
	c := f.config
	if f.file != "" {
		var err error
		if c, err = config.Load(f.file, parse); err != nil {
			return c, &usageError{err}
		}
		given.Visit(func(g *pflag.Flag) {
			switch g.Name {
			case "config-file", "log-level", "log-json":
			default:
				warn("--" + g.Name)
			}
		})
	}
	if err := c.Validate(); err != nil {
		return c, &usageError{err}
	}
	for key, s := range map[string]config.Store{"snapstoreConfig": c.Store, "secondarySnapstoreConfig.storeConfig": c.Secondary.StoreConfig} {
		if s.Provider == "" {
			continue
		}
		if _, err := open.ParseProvider(s.Provider); err != nil {
			return c, &usageError{fmt.Errorf("%s.provider: %w", key, err)}
		}
	}
	return c, nil
}

func duration(flags *pflag.FlagSet, d *config.Duration, name, usage string) {
	flags.DurationVar((*time.Duration)(d), name, d.D(), usage)
}

// number is a flag of bytes, with units.
func number(flags *pflag.FlagSet, n *config.Bytes, name, usage string) {
	flags.Var((*bytesFlag)(n), name, usage)
}
