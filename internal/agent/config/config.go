// Package config is the sidecar's configuration: the file of the original, with its keys, and what
// is checked before anything is started.
//
// It reads one file when asked to, opens no store, connects to nothing, and knows no flags: the
// program's main fills the same Config from them.
package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"druid.internal/druid/internal/agentapi/auth"
	"druid.internal/druid/internal/backup/snapshot"
)

// Config is everything a sidecar is told. Defaults is its sensible state.
type Config struct {
	Etcd            Etcd            `json:"etcdConnectionConfig"`
	Server          Server          `json:"serverConfig"`
	Snapshotter     Snapshotter     `json:"snapshotterConfig"`
	Store           Store           `json:"snapstoreConfig"`
	Secondary       Secondary       `json:"secondarySnapstoreConfig"`
	Compression     Compression     `json:"compressionConfig"`
	Restoration     Restoration     `json:"restorationConfig"`
	Health          Health          `json:"healthConfig"`
	LeaderElection  LeaderElection  `json:"leaderElectionConfig"`
	Backoff         Backoff         `json:"exponentialBackoffConfig"`
	Defragmentation Defragmentation `json:"defragmentationConfig"`
	// DefragmentationSchedule is the original's key for Defragmentation.Schedule.
	DefragmentationSchedule string `json:"defragmentationSchedule"`
	// UseEtcdWrapper is accepted: there is no other way to run etcd beside this sidecar.
	UseEtcdWrapper bool    `json:"useEtcdWrapper"`
	Wrapper        Wrapper `json:"etcdWrapperConfig"`
	// Owner says whose the bucket's prefix is, for example the UID of the cluster's resource;
	// empty: the identity of the data decides.
	Owner string `json:"owner"`
	// ExistingCluster is a cluster outside that the members join instead of beginning one or restoring
	// one; without members there is none. It is read again when the file changes.
	ExistingCluster ExistingCluster `json:"existingCluster"`
}

// ExistingCluster is a cluster that others run.
type ExistingCluster struct {
	Members   []ExistingMember `json:"members"`   // all of them
	Endpoints []string         `json:"endpoints"` // client URLs, at least one of which must answer
}

// ExistingMember is a member of it, as it lists it.
type ExistingMember struct {
	Name     string   `json:"name"`
	PeerURLs []string `json:"peerUrls"`
}

// Etcd says how to reach the etcd of this member and the cluster.
type Etcd struct {
	Endpoints         []string `json:"endpoints"`        // of this member; client URLs
	ServiceEndpoints  []string `json:"serviceEndpoints"` // of a service in front of the cluster
	Username          string   `json:"username"`
	Password          string   `json:"password"`
	UsernameFile      string   `json:"usernameFile"` // holds it instead, and is read at each login
	PasswordFile      string   `json:"passwordFile"` // the same
	ConnectionTimeout Duration `json:"connectionTimeout"`
	SnapshotTimeout   Duration `json:"snapshotTimeout"`
	DefragTimeout     Duration `json:"defragTimeout"`
	// InsecureTransport allows endpoints without a scheme to be spoken to in plain text.
	InsecureTransport  bool   `json:"insecureTransport"`
	InsecureSkipVerify bool   `json:"insecureSkipVerify"`
	CertFile           string `json:"certFile"`
	KeyFile            string `json:"keyFile"`
	CAFile             string `json:"caFile"`
	MaxCallSendMsgSize Bytes  `json:"maxCallSendMsgSize"`
}

// Server is the HTTP interface of the sidecar.
type Server struct {
	Address         string `json:"address"` // to listen on; empty: all
	Port            int    `json:"port"`
	CertFile        string `json:"server-cert"`
	KeyFile         string `json:"server-key"`
	EnableProfiling bool   `json:"enableProfiling"`
	// ClientCAFile are the authorities that sign the certificates of callers. TokenFile holds a
	// bearer token, read anew when it changes. One of them is needed for calls that change
	// anything or reveal content.
	ClientCAFile string `json:"client-ca"`
	TokenFile    string `json:"token-file"`
	// CAFile, ClientCertFile and ClientKeyFile are for calls to other sidecars and the wrapper;
	// empty: those of the etcd connection.
	CAFile         string `json:"ca"`
	ClientCertFile string `json:"client-cert"`
	ClientKeyFile  string `json:"client-key"`
	// AllowUnauthenticated restores the original's openness: everybody in the network may call
	// everything. For the time of a migration.
	AllowUnauthenticated bool `json:"allow-unauthenticated"`
}

// Wrapper is where etcd's supervisor listens.
type Wrapper struct {
	Address string `json:"address"` // empty: the host of Etcd.Endpoints
	Port    int    `json:"port"`
	CAFile  string `json:"ca"` // authorities of its certificate, which is that of etcd's clients; empty: those of other sidecars
}

// Snapshotter says when to back up and what to keep.
type Snapshotter struct {
	FullSchedule                 string   `json:"schedule"`
	DeltaSnapshotPeriod          Duration `json:"deltaSnapshotPeriod"`
	DeltaSnapshotMemoryLimit     Bytes    `json:"deltaSnapshotMemoryLimit"`
	GarbageCollectionPeriod      Duration `json:"garbageCollectionPeriod"`
	GarbageCollectionPolicy      string   `json:"garbageCollectionPolicy"`
	MaxBackups                   int      `json:"maxBackups"`
	DeltaSnapshotRetentionPeriod Duration `json:"deltaSnapshotRetentionPeriod"`
	// VerificationPeriod is how often the newest chain is restored to prove that it can be; 0: never.
	VerificationPeriod Duration `json:"verificationPeriod"`
	// SnapshotFormat of deltas: native, or v2-json, which the original can read.
	SnapshotFormat string `json:"snapshotFormat"`
	// FullFirst: whoever begins to make backups takes a full first of all, unless he took the newest one himself. It is read again
	// when the file changes.
	FullFirst bool `json:"fullFirst"`
	TakeOver  bool `json:"takeOver"`
}

// Store is an object store.
type Store struct {
	Provider                string          `json:"provider"` // empty: nothing is backed up
	Container               string          `json:"container"`
	Prefix                  snapshot.Prefix `json:"prefix"`
	EndpointOverride        string          `json:"endpointOverride"`
	MaxParallelChunkUploads int             `json:"maxParallelChunkUploads"`
	MinChunkSize            Bytes           `json:"minChunkSize"`
	TempDir                 string          `json:"tempDir"`
	IsSource                bool            `json:"isSource"`
	// ObjectLock asks for a lock with each upload; without a period nothing is asked for, and what the
	// bucket stamps on new objects stands.
	ObjectLock ObjectLock `json:"objectLock"`
	// ServerSideEncryption is requested with each upload to S3. Empty: none is requested, and the
	// bucket's default applies.
	ServerSideEncryption ServerSideEncryption `json:"serverSideEncryption"`
}

// ServerSideEncryption is a server-side encryption of S3.
type ServerSideEncryption struct {
	Algorithm string `json:"algorithm"` // AES256, aws:kms or aws:kms:dsse
	KMSKeyID  string `json:"kmsKeyID"`  // of aws:kms, by ID, ARN or alias; empty: the account's own key
}

// ObjectLock is the lock of each new object.
type ObjectLock struct {
	Period Duration `json:"period"` // from the upload
	Mode   string   `json:"mode"`   // governance or compliance
}

// Secondary is a second store that is kept like the first.
type Secondary struct {
	BackupSyncEnabled bool     `json:"backupSyncEnabled"`
	SyncPeriod        Duration `json:"syncPeriod"`
	StoreConfig       Store    `json:"storeConfig"`
}

// Compression is how what is written is packed.
type Compression struct {
	Enabled bool   `json:"enabled"`
	Policy  string `json:"policy"` // zstd, gzip, lzw or zlib
}

// Restoration is how a data directory is restored. The membership comes from etcd's own
// configuration file; the keys for it, and those that tuned the original's embedded etcd, are
// accepted without effect.
type Restoration struct {
	InitialCluster           string   `json:"initialCluster"`
	InitialClusterToken      string   `json:"initialClusterToken"`
	DataDir                  string   `json:"dataDir"`
	TempSnapshotsDir         string   `json:"tempSnapshotsDir"`
	InitialAdvertisePeerURLs []string `json:"initialAdvertisePeerURLs"`
	Name                     string   `json:"name"`
	SkipHashCheck            bool     `json:"skipHashCheck"`
	MaxFetchers              int      `json:"maxFetchers"`
	MaxRequestBytes          Bytes    `json:"MaxRequestBytes"`
	MaxTxnOps                int      `json:"MaxTxnOps"`
	MaxCallSendMsgSize       Bytes    `json:"maxCallSendMsgSize"`
	EmbeddedEtcdQuotaBytes   Bytes    `json:"embeddedEtcdQuotaBytes"`
	AutoCompactionMode       string   `json:"autoCompactionMode"`
	AutoCompactionRetention  string   `json:"autoCompactionRetention"`
	// AtLeastRevision is what the backups held when they were looked at last: a member without data begins neither from backups that
	// do not reach it nor without any. It is read again when the file changes. 0: whatever there is.
	AtLeastRevision int64 `json:"atLeastRevision"`
	// LastKnownRevision is one that clients may have seen, whatever the bucket tells: a restore raises revisions beyond it. It is read
	// again when the file changes. 0: not known.
	LastKnownRevision int64 `json:"lastKnownRevision"`
	// OthersLeave: members that are not wanted any more are still of the cluster and have its data. Those that are wanted begin
	// nothing beside them. It is read again when the file changes.
	OthersLeave bool `json:"othersLeave"`
	// MemoryLimit bounds, in bytes, what a restore keeps in memory; 0: 128 MiB.
	MemoryLimit Bytes `json:"memoryLimit"`
}

// Health is what Kubernetes is told. The keys for Leases of snapshots, and those for members that
// are removed, are accepted without effect: backups are told in the EtcdMember.
type Health struct {
	SnapshotLeaseRenewalEnabled bool `json:"snapshotLeaseRenewalEnabled"`
	// MemberLeaseRenewalEnabled: in a pod, the member's Lease is renewed every HeartbeatDuration, and
	// the status of its EtcdMember is written.
	MemberLeaseRenewalEnabled bool     `json:"memberLeaseRenewalEnabled"`
	EtcdMemberGCEnabled       bool     `json:"etcdMemberGCEnabled"`
	HeartbeatDuration         Duration `json:"heartbeatDuration"`
	MemberGCDuration          Duration `json:"memberGCDuration"`
	FullSnapshotLeaseName     string   `json:"fullSnapshotLeaseName"`
	DeltaSnapshotLeaseName    string   `json:"deltaSnapshotLeaseName"`
}

// LeaderElection is how often is asked who leads.
type LeaderElection struct {
	ReelectionPeriod      Duration `json:"reelectionPeriod"`
	EtcdConnectionTimeout Duration `json:"etcdConnectionTimeout"`
}

// Backoff is how failures are waited out.
type Backoff struct {
	Multiplier    float64  `json:"multiplier"`
	AttemptLimit  int      `json:"attemptLimit"` // accepted: a sidecar never gives up
	ThresholdTime Duration `json:"thresholdTime"`
}

// Defragmentation is when databases are defragmented.
type Defragmentation struct {
	Schedule string `json:"schedule"` // cron; empty: only by the thresholds and on request
	// FreeShare and QuotaShare, in percent, defragment earlier: when at least so much of a
	// database is free, and 100 MiB, or when it takes so much of its quota and a tenth of that would
	// be freed. Either 0: never earlier.
	FreeShare  int `json:"freeShare"`
	QuotaShare int `json:"quotaShare"`
}

// Defaults are the original's, but for what protects: nothing is skipped, compression is zstd.
func Defaults() Config {
	store := Store{MaxParallelChunkUploads: 5, MinChunkSize: 5 << 20, TempDir: "/tmp", ObjectLock: ObjectLock{Mode: "compliance"}}
	return Config{
		Etcd: Etcd{Endpoints: []string{"http://127.0.0.1:2379"}, ConnectionTimeout: Duration(30 * time.Second),
			SnapshotTimeout: Duration(15 * time.Minute), DefragTimeout: Duration(8 * time.Minute), InsecureTransport: true},
		Server: Server{Port: 8080},
		Snapshotter: Snapshotter{FullSchedule: "0 */1 * * *", DeltaSnapshotPeriod: Duration(20 * time.Second), DeltaSnapshotMemoryLimit: 10 << 20,
			GarbageCollectionPeriod: Duration(time.Minute), GarbageCollectionPolicy: "Exponential", MaxBackups: 7, SnapshotFormat: "native",
			VerificationPeriod: Duration(24 * time.Hour)},
		Store:           store,
		Secondary:       Secondary{SyncPeriod: Duration(time.Hour), StoreConfig: store},
		Compression:     Compression{Enabled: true, Policy: "zstd"},
		Restoration:     Restoration{MaxFetchers: 6, EmbeddedEtcdQuotaBytes: 8 << 30, MemoryLimit: 128 << 20},
		Health:          Health{HeartbeatDuration: Duration(30 * time.Second)},
		LeaderElection:  LeaderElection{ReelectionPeriod: Duration(time.Second), EtcdConnectionTimeout: Duration(5 * time.Second)},
		Backoff:         Backoff{Multiplier: 2, AttemptLimit: 6, ThresholdTime: Duration(128 * time.Second)},
		Defragmentation: Defragmentation{Schedule: "0 0 */3 * *", FreeShare: 45, QuotaShare: 80},
		Wrapper:         Wrapper{Port: 9095},
	}
}

// Parser reads the content of a file over the defaults: [Parse], or what [Lenient] returns.
type Parser func([]byte) (Config, error)

// Load reads a file. The error names the file, the key and what may stand there.
func Load(path string, parse Parser) (Config, error) {
	if err := auth.Named("--config-file", path); err != nil {
		return Config{}, err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("--config-file: %w", err)
	}
	c, err := parse(b)
	if err != nil {
		return Config{}, fmt.Errorf("configuration file %s: %w", path, err)
	}
	return c, nil
}

// Lenient goes without keys that are not known, of which unknown is told, instead of refusing the file. It is for files that no
// person writes, but an operator that may be of a newer version: a member that does not start, because of a key that it does not
// need, is worse than one that goes without.
func Lenient(unknown func(what string)) Parser {
	return func(b []byte) (Config, error) {
		c, err := Parse(b)
		if err == nil || !strings.HasPrefix(err.Error(), unknownKey) {
			return c, err
		}
		unknown(err.Error())
		return read(b, yaml.Unmarshal)
	}
}

// Parse refuses keys that are not known, as a person who mistypes one means something by it.
func Parse(b []byte) (Config, error) { return read(b, yaml.UnmarshalStrict) }

func read(b []byte, unmarshal func([]byte, any, ...yaml.JSONOpt) error) (Config, error) {
	c := Defaults()
	if err := unmarshal(b, &c); err != nil {
		return Config{}, errors.New(plain(err))
	}
	if c.DefragmentationSchedule != "" {
		c.Defragmentation.Schedule = c.DefragmentationSchedule
	}
	return c, nil
}

// unknownKey is what the error about a key that is not known begins with.
const unknownKey = "unknown key "

// plain takes the words of two libraries off an error.
func plain(err error) string {
	s := err.Error()
	for _, prefix := range []string{"error unmarshaling JSON: ", "error converting YAML to JSON: ", "while decoding JSON: ", "json: ", "yaml: "} {
		s = strings.TrimPrefix(s, prefix)
	}
	s = strings.Join(strings.Fields(s), " ")
	if name, unknown := strings.CutPrefix(s, "unknown field "); unknown {
		return fmt.Sprintf(unknownKey+"%s; docs/reference/sidecar.md lists the keys", name)
	}
	return s
}
