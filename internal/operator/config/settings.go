package config

import (
	"math"
	"time"
)

// setting is one thing that can be told the operator.
type setting struct {
	path  string // of the field in the file
	flag  string // empty: in the file only
	value value  // bound to the Config that settings was given
	doc   string // what it does; the default and what may be written stand elsewhere
	// deprecated is what to use instead.
	deprecated string
}

// spelling is a former name of a flag, or one that only the original's documentation has.
type spelling struct {
	flag  string
	paths []string // of the settings it changes
	value flagValue
	doc   string
	use   string // instead
}

// maxWorkers is far above what one process can use, and catches numbers that are meant for
// something else.
const maxWorkers = 1000

// settings are all settings of c, in the order of the file.
func settings(c *Config) []setting {
	port := func(p *int) number[int] { return number[int]{p, 1, 65535} }
	workers := func(p *int, min int) number[int] { return number[int]{p, min, maxWorkers} }
	address := func(p *string) text {
		return text{p, "an IP address, or empty for every one of the machine", isAddress}
	}
	image := func(p *string) text {
		return text{p, "an image reference like registry.example/etcd-druid:v1", isImage}
	}

	le, s, etcd := &c.LeaderElection, &c.Server, &c.Controllers.Etcd
	compaction, copies, tasks := &c.Controllers.Compaction, &c.Controllers.EtcdCopyBackupsTask, &c.Controllers.EtcdOpsTask
	protection := &c.Webhooks.EtcdComponentProtection
	return []setting{
		{path: "clientConnection.qps", flag: "kube-api-qps", value: rate{&c.ClientConnection.QPS},
			doc: "requests per second to the API server, on average"},
		{path: "clientConnection.burst", flag: "kube-api-burst", value: number[int]{&c.ClientConnection.Burst, 0, math.MaxInt32},
			doc: "requests to the API server that may be made at once"},
		{path: "clientConnection.contentType", value: text{&c.ClientConnection.ContentType, "application/json, or empty", isContentType},
			doc: "in which form objects are sent; empty: protobuf where the API server knows it, JSON for custom resources"},
		{path: "clientConnection.acceptContentTypes", value: text{&c.ClientConnection.AcceptContentTypes, "media types with commas between them, or empty", areMediaTypes},
			doc: "in which forms objects are asked for; empty: as they are sent"},

		{path: "leaderElection.enabled", flag: "enable-leader-election", value: toggle{&le.Enabled},
			doc: "several operators agree on one that works; the others wait to take over. Needed for more than one replica"},
		{path: "leaderElection.leaseDuration", value: duration{&le.LeaseDuration, time.Second},
			doc: "others take over when the lease was not renewed for so long"},
		{path: "leaderElection.renewDeadline", value: duration{&le.RenewDeadline, 100 * time.Millisecond},
			doc: "the one that works ends when it could not renew its lease for so long"},
		{path: "leaderElection.retryPeriod", value: duration{&le.RetryPeriod, 100 * time.Millisecond},
			doc: "time between attempts to get or to renew the lease"},
		{path: "leaderElection.resourceLock", flag: "leader-election-resource-lock", deprecated: "leave it out, there is only one kind of lock",
			value: choice{&le.ResourceLock, []string{"leases"}, "Kubernetes has no other kind of lock any more"},
			doc:   "kind of the lock"},
		{path: "leaderElection.resourceName", flag: "leader-election-id", value: text{&le.ResourceName, "the name of a Lease", isName},
			doc: "name of the Lease"},
		{path: "leaderElection.resourceNamespace", flag: "leader-election-namespace", value: text{&le.ResourceNamespace, "the name of a namespace, or empty", isNamespace},
			doc: "namespace of the Lease; empty: that of the operator's pod"},

		{path: "server.webhooks.bindAddress", flag: "webhook-server-bind-address", value: address(&s.Webhooks.BindAddress),
			doc: "where webhooks are served"},
		{path: "server.webhooks.port", flag: "webhook-server-port", value: port(&s.Webhooks.Port),
			doc: "port of the webhooks"},
		{path: "server.webhooks.serverCertDir", flag: "webhook-server-tls-server-cert-dir", value: text{&s.Webhooks.ServerCertDir, "an absolute path, or empty", isAbsoluteOrEmpty},
			doc: "directory with the certificate and key of the webhooks, in the files tls.crt and tls.key; empty: the operator makes and renews them"},
		{path: "server.metrics.bindAddress", flag: "metrics-bind-address", value: address(&s.Metrics.BindAddress),
			doc: "where metrics are served"},
		{path: "server.metrics.port", flag: "metrics-port", value: port(&s.Metrics.Port),
			doc: "port of the metrics"},
		{path: "server.health.bindAddress", flag: "health-bind-address", value: address(&s.Health.BindAddress),
			doc: "where /healthz and /readyz are served"},
		{path: "server.health.port", flag: "health-port", value: port(&s.Health.Port),
			doc: "port of /healthz and /readyz"},
		{path: "server.profiling.enabled", flag: "enable-profiling", value: toggle{&s.Profiling.Enabled},
			doc: "serve profiles of the operator under /debug/pprof/. They show what is in its memory to whoever can connect"},
		{path: "server.profiling.bindAddress", flag: "profiling-bind-address", value: address(&s.Profiling.BindAddress),
			doc: "where profiles are served; reach the default by kubectl port-forward"},
		{path: "server.profiling.port", flag: "profiling-port", value: port(&s.Profiling.Port),
			doc: "port of the profiles"},

		{path: "controllers.disableLeaseCache", flag: "disable-lease-cache", value: toggle{&c.Controllers.DisableLeaseCache}, deprecated: "leave it out, Leases are listed every twenty seconds, and read anew where that counts",
			doc: "read the Leases of an Etcd at each look"},
		{path: "controllers.etcd.concurrentSyncs", flag: "etcd-workers", value: workers(&etcd.ConcurrentSyncs, 1),
			doc: "Etcds that are worked on at once"},
		{path: "controllers.etcd.enableEtcdSpecAutoReconcile", flag: "enable-etcd-spec-auto-reconcile", value: toggle{&etcd.EnableEtcdSpecAutoReconcile},
			doc: "act on every change of an Etcd's spec; false: wait for the annotation druid.gardener.cloud/operation: reconcile"},
		{path: "controllers.etcd.disableEtcdServiceAccountAutomount", flag: "disable-etcd-serviceaccount-automount", value: toggle{&etcd.DisableEtcdServiceAccountAutomount},
			doc: "set automountServiceAccountToken of the clusters' ServiceAccounts to false"},
		{path: "controllers.etcd.etcdStatusSyncPeriod", flag: "etcd-status-sync-period", value: duration{&etcd.EtcdStatusSyncPeriod, time.Second},
			doc: "the status of an Etcd is brought up to date at least so often; an Etcd of which nothing changes with time alone is looked at after four such periods, or after a minute if that is sooner, but not before one, and whenever something happens to it"},
		{path: "controllers.etcd.etcdMember.notReadyThreshold", flag: "etcd-member-notready-threshold", value: duration{&etcd.EtcdMember.NotReadyThreshold, time.Second},
			doc: "a member that has been unknown for so long is not ready"},
		{path: "controllers.etcd.etcdMember.unknownThreshold", flag: "etcd-member-unknown-threshold", value: duration{&etcd.EtcdMember.UnknownThreshold, time.Second},
			doc: "a member that was not heard of for so long is unknown"},

		{path: "controllers.compaction.enabled", flag: "enable-backup-compaction", value: toggle{&compaction.Enabled},
			doc: "compact backups in Jobs" + noCompaction},
		{path: "controllers.compaction.concurrentSyncs", flag: "compaction-workers", value: workers(&compaction.ConcurrentSyncs, 0),
			doc: "Etcds whose backups are looked at at once; at least 1 if enabled" + noCompaction},
		{path: "controllers.compaction.eventsThreshold", flag: "etcd-events-threshold", value: number[int64]{&compaction.EventsThreshold, 1, math.MaxInt64},
			doc: "events in deltas after which backups are compacted" + noCompaction},
		{path: "controllers.compaction.triggerFullSnapshotThreshold", value: number[int64]{&compaction.TriggerFullSnapshotThreshold, 1, math.MaxInt64},
			doc: "events in deltas after which a full snapshot is taken instead" + noCompaction},
		{path: "controllers.compaction.activeDeadlineDuration", flag: "active-deadline-duration", value: duration{&compaction.ActiveDeadlineDuration, time.Second},
			doc: "longest time of a Job" + noCompaction},
		{path: "controllers.compaction.metricsScrapeWaitDuration", flag: "metrics-scrape-wait-duration", value: duration{&compaction.MetricsScrapeWaitDuration, 0},
			doc: "how long a Job stays for its metrics to be read" + noCompaction},

		{path: "controllers.etcdCopyBackupsTask.enabled", flag: "enable-etcd-copy-backups-task", value: toggle{&copies.Enabled},
			doc: "carry out EtcdCopyBackupsTasks"},
		{path: "controllers.etcdCopyBackupsTask.concurrentSyncs", flag: "etcd-copy-backups-task-workers", value: workers(&copies.ConcurrentSyncs, 0),
			doc: "EtcdCopyBackupsTasks that are worked on at once; 0: none"},
		{path: "controllers.secret.concurrentSyncs", flag: "secret-workers", value: workers(&c.Controllers.Secret.ConcurrentSyncs, 1),
			doc: "Secrets that are worked on at once; without effect: an admission policy protects them"},
		{path: "controllers.etcdOpsTask.enabled", flag: "enable-etcd-ops-task", value: toggle{&tasks.Enabled},
			doc: "carry out EtcdOperatorTasks and EtcdOpsTasks"},
		{path: "controllers.etcdOpsTask.concurrentSyncs", flag: "etcd-ops-task-workers", value: workers(&tasks.ConcurrentSyncs, 1),
			doc: "EtcdOperatorTasks, and EtcdOpsTasks, that are looked at at once; a snapshot that is under way takes none of these places"},
		{path: "controllers.etcdOpsTask.requeueInterval", flag: "etcd-ops-task-requeue-interval", value: duration{&tasks.RequeueInterval, time.Second},
			doc: "time between looks at a task that waits, and between attempts of one"},

		{path: "webhooks.etcdComponentProtection.enabled", flag: "enable-etcd-components-webhook", value: toggle{&protection.Enabled},
			doc: "refuse changes of the objects of a cluster by anybody but the operator"},
		{path: "webhooks.etcdComponentProtection.reconcilerServiceAccountFQDN", flag: "reconciler-service-account", deprecated: "leave it out, the API server says who the operator is; or use webhooks.etcdComponentProtection.serviceAccountInfo",
			value: text{&protection.ReconcilerServiceAccountFQDN, "a ServiceAccount like " + serviceAccountPrefix + "NAMESPACE:NAME, or empty", isServiceAccountOrEmpty},
			doc:   "the operator's own account; empty: the one it is logged in with"},
		{path: "webhooks.etcdComponentProtection.serviceAccountInfo.name", value: text{&protection.ServiceAccountInfo.Name, "the name of a ServiceAccount, or empty", isNameOrEmpty},
			doc: "name of the operator's own account; empty: the one it is logged in with"},
		{path: "webhooks.etcdComponentProtection.serviceAccountInfo.namespace", value: text{&protection.ServiceAccountInfo.Namespace, "the name of a namespace, or empty", isNamespace},
			doc: "namespace of that account"},
		{path: "webhooks.etcdComponentProtection.exemptServiceAccounts", flag: "etcd-components-webhook-exempt-service-accounts",
			value: list{&protection.ExemptServiceAccounts, "a ServiceAccount like " + serviceAccountPrefix + "NAMESPACE:NAME", isServiceAccount},
			doc:   "accounts that may change the objects of a cluster while the operator is not working on it"},

		{path: "featureGates", flag: "feature-gates", value: switches{&c.FeatureGates},
			doc: "features that are switched on or off, as NAME=true,NAME=false in the flag"},
		{path: "logging.logLevel", flag: "log-level", value: choice{p: &c.Logging.LogLevel, words: []string{"debug", "info", "error"}},
			doc: "the least that is logged"},
		{path: "logging.logFormat", flag: "log-format", value: choice{p: &c.Logging.LogFormat, words: []string{"json", "text"}},
			doc: "how a line of the log looks"},

		{path: "images.all", flag: "image", value: image(&c.Images.All),
			doc: "image of the wrapper, the sidecar and init containers, which has all programs"},
		{path: "images.wrapper", flag: "wrapper-image", value: image(&c.Images.Wrapper),
			doc: "image that runs etcd; empty: images.all"},
		{path: "images.sidecar", flag: "sidecar-image", value: image(&c.Images.Sidecar),
			doc: "image of the backup sidecar and of Jobs that copy backups; empty: images.all"},
		{path: "images.init", flag: "init-image", value: image(&c.Images.Init),
			doc: "image of init containers; empty: images.all"},
	}
}

// spellings are the other names of flags, all of which warn.
func spellings(c *Config) []spelling {
	return []spelling{
		{flag: "metrics-addr", paths: []string{"server.metrics.bindAddress", "server.metrics.port"}, value: hostPort{&c.Server.Metrics},
			doc: "address and port of the metrics", use: "--metrics-bind-address and --metrics-port"},
		{flag: "ignore-operation-annotation", paths: []string{"controllers.etcd.enableEtcdSpecAutoReconcile"}, value: toggle{&c.Controllers.Etcd.EnableEtcdSpecAutoReconcile},
			doc: "act on every change of an Etcd's spec", use: "--enable-etcd-spec-auto-reconcile"},
		{flag: "etcd-components-exempt-service-accounts", paths: []string{"webhooks.etcdComponentProtection.exemptServiceAccounts"},
			value: list{&c.Webhooks.EtcdComponentProtection.ExemptServiceAccounts, "a ServiceAccount like " + serviceAccountPrefix + "NAMESPACE:NAME", isServiceAccount},
			doc:   "accounts that may change the objects of a cluster", use: "--etcd-components-webhook-exempt-service-accounts"},
	}
}

// What the settings of a controller that does not exist say about themselves.
const noCompaction = "; without effect: this version compacts no backups"
