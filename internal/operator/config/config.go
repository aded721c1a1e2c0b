// Package config is the configuration of the operator: the OperatorConfiguration file of the
// original and its flags, read strictly into one Config.
//
// Every setting is one row in settings.go, which says its field in the file, its flag, its bounds
// and its meaning; the parser, the flags and the reference page are made from these rows. The
// package reads one file when asked to. It reads no environment, connects to nothing, logs nothing
// (what a person should know comes back as notices), and is not the place for the settings of a
// single Etcd, which are fields of that resource.
package config

import "time"

// The identity of the file.
const (
	APIVersion = "config.druid.gardener.cloud/v1alpha1"
	Kind       = "OperatorConfiguration"
)

// Config is everything the operator is told. It is made once, by ReadFile or Flags.Config, which
// check it; nobody changes it afterwards. The meaning, bounds and default of each field are in
// settings.go and in docs/reference/operator-configuration.md.
type Config struct {
	ClientConnection ClientConnection
	LeaderElection   LeaderElection
	Server           Server
	Controllers      Controllers
	Webhooks         Webhooks
	// FeatureGates are the gates that were named.
	FeatureGates map[string]bool
	Logging      Logging
	Images       Images
}

// ClientConnection is how the operator speaks to the API server.
type ClientConnection struct {
	QPS                float64 // requests per second; negative: not limited
	Burst              int     // requests at once
	ContentType        string  // empty: protobuf for built-in objects, JSON for others
	AcceptContentTypes string  // empty: as ContentType
}

// LeaderElection says whether several operators agree on which of them works.
type LeaderElection struct {
	Enabled           bool
	LeaseDuration     time.Duration
	RenewDeadline     time.Duration
	RetryPeriod       time.Duration
	ResourceLock      string // always "leases"
	ResourceName      string
	ResourceNamespace string // empty: the namespace the operator runs in
}

// Server is where the operator listens.
type Server struct {
	Webhooks  TLSListener
	Metrics   Listener
	Health    Listener
	Profiling Profiling
}

// Listener is an address and a port.
type Listener struct {
	BindAddress string // IP address; empty: every one of the machine
	Port        int
}

// TLSListener also has a directory with tls.crt and tls.key; empty: the operator makes them itself.
type TLSListener struct {
	Listener
	ServerCertDir string
}

// Profiling is a listener that is there only when asked for.
type Profiling struct {
	Enabled bool
	Listener
}

// Controllers are the settings of each controller.
type Controllers struct {
	DisableLeaseCache   bool
	Etcd                EtcdController
	Compaction          CompactionController
	EtcdCopyBackupsTask EtcdCopyBackupsTaskController
	Secret              SecretController
	EtcdOpsTask         EtcdOpsTaskController
}

// EtcdController looks after Etcds.
type EtcdController struct {
	ConcurrentSyncs                    int
	EnableEtcdSpecAutoReconcile        bool
	DisableEtcdServiceAccountAutomount bool
	EtcdStatusSyncPeriod               time.Duration
	EtcdMember                         EtcdMember
}

// EtcdMember says after how long a silent member is called unknown, and not ready.
type EtcdMember struct {
	NotReadyThreshold time.Duration // after UnknownThreshold has passed
	UnknownThreshold  time.Duration
}

// CompactionController is accepted; nothing reads it yet.
type CompactionController struct {
	Enabled                      bool
	ConcurrentSyncs              int
	EventsThreshold              int64
	TriggerFullSnapshotThreshold int64
	ActiveDeadlineDuration       time.Duration
	MetricsScrapeWaitDuration    time.Duration
}

// EtcdCopyBackupsTaskController copies backups between stores. It runs if Runs says so.
type EtcdCopyBackupsTaskController struct {
	Enabled         bool
	ConcurrentSyncs int
}

// Runs reports whether there is somebody to do the work.
func (c EtcdCopyBackupsTaskController) Runs() bool { return c.Enabled && c.ConcurrentSyncs > 0 }

// SecretController is the original's, which protects Secrets that are in use. Here an admission policy does.
type SecretController struct {
	ConcurrentSyncs int
}

// EtcdOpsTaskController carries out tasks: EtcdOperatorTasks as well, which the original has under this
// name.
type EtcdOpsTaskController struct {
	Enabled         bool
	ConcurrentSyncs int
	RequeueInterval time.Duration
}

// Webhooks are the settings of each webhook.
type Webhooks struct {
	EtcdComponentProtection EtcdComponentProtection
}

// EtcdComponentProtection refuses changes of managed objects by anybody but the operator.
type EtcdComponentProtection struct {
	Enabled                      bool
	ReconcilerServiceAccountFQDN string
	ServiceAccountInfo           ServiceAccountInfo
	ExemptServiceAccounts        []string // as system:serviceaccount:NAMESPACE:NAME
}

// ServiceAccountInfo is the operator's own account.
type ServiceAccountInfo struct {
	Name      string
	Namespace string
}

// Reconciler is the user name under which the operator itself changes objects; empty: not told,
// the API server knows it.
func (p EtcdComponentProtection) Reconciler() string {
	if p.ServiceAccountInfo.Name != "" {
		return serviceAccountPrefix + p.ServiceAccountInfo.Namespace + ":" + p.ServiceAccountInfo.Name
	}
	return p.ReconcilerServiceAccountFQDN
}

// Logging is how much is logged, and how it looks.
type Logging struct {
	LogLevel  string // debug, info or error
	LogFormat string // json or text
}

// Images are what the containers of the clusters run. All is used where no other is named; the
// other three are never empty in a Config that was read.
type Images struct {
	All     string
	Wrapper string
	Sidecar string
	Init    string
}

// OwnCertificates reports whether webhooks are served with certificates that the operator makes.
func (c Config) OwnCertificates() bool {
	return c.Webhooks.EtcdComponentProtection.Enabled && c.Server.Webhooks.ServerCertDir == ""
}

// Defaults are the settings of an empty file. The one image that has all programs is that of
// version.
func Defaults(version string) Config {
	return Config{
		ClientConnection: ClientConnection{QPS: 100, Burst: 150},
		LeaderElection: LeaderElection{
			LeaseDuration: 15 * time.Second,
			RenewDeadline: 10 * time.Second,
			RetryPeriod:   2 * time.Second,
			ResourceLock:  "leases",
			ResourceName:  "druid-leader-election",
		},
		Server: Server{
			Webhooks:  TLSListener{Listener: Listener{Port: 9443}, ServerCertDir: "/etc/webhook-server-tls"},
			Metrics:   Listener{Port: 8080},
			Health:    Listener{Port: 8081},
			Profiling: Profiling{Listener: Listener{BindAddress: "127.0.0.1", Port: 6060}},
		},
		Controllers: Controllers{
			Etcd: EtcdController{
				ConcurrentSyncs:      3,
				EtcdStatusSyncPeriod: 15 * time.Second,
				EtcdMember:           EtcdMember{NotReadyThreshold: 5 * time.Minute, UnknownThreshold: time.Minute},
			},
			Compaction: CompactionController{
				ConcurrentSyncs:              3,
				EventsThreshold:              1_000_000,
				TriggerFullSnapshotThreshold: 3_000_000,
				ActiveDeadlineDuration:       3 * time.Hour,
			},
			EtcdCopyBackupsTask: EtcdCopyBackupsTaskController{ConcurrentSyncs: 3},
			Secret:              SecretController{ConcurrentSyncs: 10},
			EtcdOpsTask:         EtcdOpsTaskController{Enabled: true, ConcurrentSyncs: 3, RequeueInterval: 15 * time.Second},
		},
		Logging: Logging{LogLevel: "info", LogFormat: "json"},
		Images:  Images{All: "registry.local/etcd-druid:" + version},
	}
}

// flagDefaults are the settings without a file and without flags. Only here the controller of
// copies runs without being asked: the original's flag is on, its field in the file is off.
func flagDefaults(version string) Config {
	c := Defaults(version)
	c.Controllers.EtcdCopyBackupsTask.Enabled = true
	return c
}

// finish fills in what follows from other settings.
func (c Config) finish() Config {
	for _, image := range []*string{&c.Images.Wrapper, &c.Images.Sidecar, &c.Images.Init} {
		if *image == "" {
			*image = c.Images.All
		}
	}
	return c
}
