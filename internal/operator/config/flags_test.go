package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// otherwise gives every flag a value that is not its default.
var otherwise = map[string]string{
	"kube-api-qps": "-1", "kube-api-burst": "7",
	"enable-leader-election": "true", "leader-election-id": "ours", "leader-election-namespace": "garden",
	"webhook-server-bind-address": "10.0.0.1", "webhook-server-port": "10250", "webhook-server-tls-server-cert-dir": "/certs",
	"metrics-bind-address": "10.0.0.2", "metrics-port": "9090", "health-bind-address": "10.0.0.3", "health-port": "9091",
	"enable-profiling": "true", "profiling-bind-address": "::1", "profiling-port": "6061",
	"disable-lease-cache": "true", "etcd-workers": "25", "enable-etcd-spec-auto-reconcile": "true",
	"disable-etcd-serviceaccount-automount": "true", "etcd-status-sync-period": "1m", "etcd-member-notready-threshold": "10m", "etcd-member-unknown-threshold": "2m",
	"enable-backup-compaction": "true", "compaction-workers": "0", "etcd-events-threshold": "5", "active-deadline-duration": "1h", "metrics-scrape-wait-duration": "7s",
	"enable-etcd-copy-backups-task": "false", "etcd-copy-backups-task-workers": "0", "secret-workers": "9",
	"enable-etcd-ops-task": "false", "etcd-ops-task-workers": "8", "etcd-ops-task-requeue-interval": "11s",
	"enable-etcd-components-webhook": "true", "reconciler-service-account": "system:serviceaccount:a:b",
	"etcd-components-webhook-exempt-service-accounts": "system:serviceaccount:a:b,system:serviceaccount:c:d",
	"feature-gates": "UseEtcdWrapper=true", "log-level": "debug", "log-format": "text",
	"image": "a:1", "wrapper-image": "b:2", "sidecar-image": "c:3", "init-image": "d:4",
	"metrics-addr": "10.0.0.2:9090", "ignore-operation-annotation": "true", "etcd-components-exempt-service-accounts": "system:serviceaccount:a:b",
}

// changes are the settings that differ, by path.
func changes(a, b Config) map[string]string {
	got := map[string]string{}
	bs := settings(&b)
	for i, s := range settings(&a) {
		if x := bs[i].value.text(); x != s.value.text() {
			got[s.path] = x
		}
	}
	return got
}

func TestEachFlagChangesExactlyItsField(t *testing.T) {
	base, _, err := fromFlags(t)
	if err != nil {
		t.Fatal(err)
	}
	c := Defaults("")
	check := func(flag string, want map[string]string) {
		t.Run(flag, func(t *testing.T) {
			got, _, err := fromFlags(t, "--"+flag+"="+otherwise[flag])
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, changes(base, got)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	for _, s := range settings(&c) {
		switch s.flag {
		case "", "leader-election-resource-lock": // has one value alone
		case "image":
			check(s.flag, map[string]string{"images.all": "a:1", "images.wrapper": "a:1", "images.sidecar": "a:1", "images.init": "a:1"})
		default:
			check(s.flag, map[string]string{s.path: otherwise[s.flag]})
		}
	}
	check("metrics-addr", map[string]string{"server.metrics.bindAddress": "10.0.0.2", "server.metrics.port": "9090"})
	check("ignore-operation-annotation", map[string]string{"controllers.etcd.enableEtcdSpecAutoReconcile": "true"})
	check("etcd-components-exempt-service-accounts", map[string]string{"webhooks.etcdComponentProtection.exemptServiceAccounts": "system:serviceaccount:a:b"})
}

func TestEachSettingHasItsOwnPlace(t *testing.T) {
	c := Defaults("")
	paths, flags := map[string]bool{}, map[string]bool{}
	for _, s := range settings(&c) {
		if paths[s.path] || s.flag != "" && flags[s.flag] || s.doc == "" {
			t.Errorf("%s, --%s is there twice or says nothing", s.path, s.flag)
		}
		paths[s.path], flags[s.flag] = true, true
	}
	for _, s := range spellings(&c) {
		for _, path := range s.paths {
			if !paths[path] {
				t.Errorf("--%s is about %s, which does not exist", s.flag, path)
			}
		}
	}
	for _, r := range rules {
		for _, path := range r.paths {
			if !paths[path] {
				t.Errorf("a rule is about %s, which does not exist", path)
			}
		}
	}
}

// documented are the flags of the original's documentation and of its latest version.
var documented = []string{
	"feature-gates", "metrics-bind-address", "metrics-port", "metrics-addr", "webhook-server-bind-address", "webhook-server-port",
	"webhook-server-tls-server-cert-dir", "enable-leader-election", "leader-election-id", "leader-election-resource-lock", "disable-lease-cache",
	"etcd-workers", "ignore-operation-annotation", "enable-etcd-spec-auto-reconcile", "disable-etcd-serviceaccount-automount", "etcd-status-sync-period",
	"etcd-member-notready-threshold", "etcd-member-unknown-threshold", "enable-backup-compaction", "compaction-workers", "etcd-events-threshold",
	"active-deadline-duration", "metrics-scrape-wait-duration", "etcd-copy-backups-task-workers", "secret-workers", "enable-etcd-components-webhook",
	"reconciler-service-account", "etcd-components-exempt-service-accounts",
	"config", "enable-etcd-copy-backups-task", "enable-etcd-ops-task", "etcd-ops-task-workers", "etcd-ops-task-requeue-interval", "etcd-components-webhook-exempt-service-accounts",
}

func TestEveryFlagOfTheOriginalIsThere(t *testing.T) {
	fs := pflag.NewFlagSet("etcd-druid", pflag.ContinueOnError)
	NewFlags(fs, "v1")
	for _, name := range documented {
		if fs.Lookup(name) == nil {
			t.Errorf("--%s is missing", name)
		}
	}
}

func TestFlagsAreReadAsUsual(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want map[string]string
	}{
		"a switch without a value": {[]string{"--enable-leader-election"}, map[string]string{"leaderElection.enabled": "true"}},
		"the last of two":          {[]string{"--etcd-workers=4", "--etcd-workers=5"}, map[string]string{"controllers.etcd.concurrentSyncs": "5"}},
		"the value after a space":  {[]string{"--etcd-workers", "4"}, map[string]string{"controllers.etcd.concurrentSyncs": "4"}},
		"lists that add up": {[]string{"--etcd-components-webhook-exempt-service-accounts=system:serviceaccount:a:b", "--etcd-components-webhook-exempt-service-accounts=system:serviceaccount:c:d"},
			map[string]string{"webhooks.etcdComponentProtection.exemptServiceAccounts": "system:serviceaccount:a:b,system:serviceaccount:c:d"}},
		"gates that add up": {[]string{"--feature-gates=UseEtcdWrapper=true", "--feature-gates= UpgradeEtcdVersion = true ,"}, map[string]string{"featureGates": "UpgradeEtcdVersion=true,UseEtcdWrapper=true"}},
		"no gates":          {[]string{"--feature-gates="}, map[string]string{}},
		"no accounts":       {[]string{"--etcd-components-webhook-exempt-service-accounts="}, map[string]string{}},
		"one kind of image": {[]string{"--image=a:1", "--wrapper-image=b:2"}, map[string]string{"images.all": "a:1", "images.wrapper": "b:2", "images.sidecar": "a:1", "images.init": "a:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			base, _, err := fromFlags(t)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := fromFlags(t, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, changes(base, got)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestNoticesAreGivenOfWhatWasSaidAlone(t *testing.T) {
	const noController = "this version has no compaction controller; they are accepted so that a configuration need not be changed"
	for name, c := range map[string]struct {
		args []string
		file string
		want []Notice
	}{
		"the former metrics flag":  {args: []string{"--metrics-addr=:8080"}, want: []Notice{{Deprecated, "--metrics-addr", "use --metrics-bind-address and --metrics-port"}}},
		"the former annotation":    {args: []string{"--ignore-operation-annotation=false"}, want: []Notice{{Deprecated, "--ignore-operation-annotation", "use --enable-etcd-spec-auto-reconcile"}}},
		"the other exempt flag":    {args: []string{"--etcd-components-exempt-service-accounts="}, want: []Notice{{Deprecated, "--etcd-components-exempt-service-accounts", "use --etcd-components-webhook-exempt-service-accounts"}}},
		"the kind of lock":         {args: []string{"--leader-election-resource-lock=leases"}, want: []Notice{{Deprecated, "--leader-election-resource-lock", "leave it out, there is only one kind of lock"}}},
		"the kind of lock, a file": {file: "leaderElection: {resourceLock: leases}", want: []Notice{{Deprecated, "leaderElection.resourceLock", "leave it out, there is only one kind of lock"}}},
		"compaction": {args: []string{"--compaction-workers=3", "--enable-backup-compaction=true"},
			want: []Notice{{NoEffect, "--enable-backup-compaction, --compaction-workers", noController}}},
		"compaction in a file": {file: "controllers: {compaction: {enabled: false, eventsThreshold: 1000}}",
			want: []Notice{{NoEffect, "controllers.compaction.enabled, controllers.compaction.eventsThreshold", noController}}},
		"Secrets": {args: []string{"--secret-workers=3"},
			want: []Notice{{NoEffect, "--secret-workers", "no controller works on Secrets, which an admission policy protects; they are accepted so that a configuration need not be changed"}}},
		"tasks":          {args: []string{"--etcd-ops-task-workers=3"}},
		"something else": {args: []string{"--etcd-workers=3", "--metrics-port=8080"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, got, err := fromFlags(t, c.args...)
			if c.file != "" {
				_, got, err = fromFile(header + c.file)
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}
