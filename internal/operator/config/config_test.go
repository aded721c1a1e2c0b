package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

const header = "apiVersion: " + APIVersion + "\nkind: " + Kind + "\n"

// fromFlags is what a command line makes of the flags.
func fromFlags(t *testing.T, args ...string) (Config, []Notice, error) {
	t.Helper()
	fs := pflag.NewFlagSet("etcd-druid", pflag.ContinueOnError)
	f := NewFlags(fs, "v1")
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f.Config()
}

func fromFile(text string) (Config, []Notice, error) {
	return Parse("druid.yaml", []byte(text), "v1")
}

// problems are the lines of an error.
func problems(t *testing.T, err error) []string {
	t.Helper()
	e, ok := err.(*Error)
	if !ok {
		t.Fatalf("%v (%T) is no *Error", err, err)
	}
	return e.Problems
}

// defaults are Defaults as they are read.
func defaults(change ...func(*Config)) Config {
	c := Defaults("v1")
	for _, f := range change {
		f(&c)
	}
	return c.finish()
}

func TestAFileThatSaysNothingHasTheDocumentedDefaults(t *testing.T) {
	for name, text := range map[string]string{
		"only its kind":            header,
		"empty groups":             header + "server:\ncontrollers: {}\nleaderElection: null\n",
		"a null field":             header + "controllers: {etcd: {concurrentSyncs: null}}\n",
		"as JSON":                  `{"apiVersion":"config.druid.gardener.cloud/v1alpha1","kind":"OperatorConfiguration"}`,
		"as JSON with tabs":        "{\n\t\"apiVersion\": \"config.druid.gardener.cloud/v1alpha1\",\n\t\"kind\": \"OperatorConfiguration\",\n\t\"logging\": {\n\t\t\"logLevel\": \"info\"\n\t}\n}",
		"after dashes":             "---\n" + header,
		"empty words":              header + "logging: {logLevel: '', logFormat: \"\"}\n",
		"what is the default":      Defaults("v1").YAML(),
		"a comment in front of it": "# ours\n" + header,
	} {
		t.Run(name, func(t *testing.T) {
			got, notices, err := fromFile(text)
			if err != nil {
				t.Fatal(err)
			}
			want := defaults()
			if name == "what is the default" {
				want.FeatureGates = map[string]bool{}
				notices = nil
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if len(notices) > 0 {
				t.Errorf("notices %v", notices)
			}
		})
	}
}

func TestWithoutFlagsAndFileTheDefaultsAreThoseOfTheFileButForCopies(t *testing.T) {
	got, notices, err := fromFlags(t)
	if err != nil {
		t.Fatal(err)
	}
	want := defaults(func(c *Config) { c.Controllers.EtcdCopyBackupsTask.Enabled = true })
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if len(notices) > 0 {
		t.Errorf("notices %v", notices)
	}
}

// everything sets each field to something else than its default.
const everything = header + `
clientConnection:
  qps: 250.5
  burst: 500
  contentType: application/json
  acceptContentTypes: application/vnd.kubernetes.protobuf,application/json
leaderElection:
  enabled: true
  leaseDuration: 1m
  renewDeadline: 40s
  retryPeriod: 5s
  resourceLock: leases
  resourceName: ours
  resourceNamespace: garden
server:
  webhooks: {bindAddress: 10.0.0.1, port: 10250, serverCertDir: /certs}
  metrics: {bindAddress: 10.0.0.2, port: 9090}
  health: {bindAddress: "::1", port: 9091}
  profiling: {enabled: true, bindAddress: 10.0.0.4, port: 9092}
controllers:
  disableLeaseCache: true
  etcd:
    concurrentSyncs: 25
    enableEtcdSpecAutoReconcile: true
    disableEtcdServiceAccountAutomount: true
    etcdStatusSyncPeriod: 1m30s
    etcdMember: {notReadyThreshold: 10m, unknownThreshold: 2m}
  compaction:
    enabled: true
    concurrentSyncs: 4
    eventsThreshold: 5
    triggerFullSnapshotThreshold: 6
    activeDeadlineDuration: 1h
    metricsScrapeWaitDuration: 7s
  etcdCopyBackupsTask: {enabled: true, concurrentSyncs: 8}
  secret: {concurrentSyncs: 9}
  etcdOpsTask: {enabled: false, concurrentSyncs: 10, requeueInterval: 11s}
webhooks:
  etcdComponentProtection:
    enabled: true
    serviceAccountInfo: {name: etcd-druid, namespace: garden}
    exemptServiceAccounts: ["system:serviceaccount:kube-system:generic-garbage-collector"]
featureGates: {UseEtcdWrapper: true, UpgradeEtcdVersion: true}
logging: {logLevel: debug, logFormat: text}
images: {all: a/a:1, wrapper: b/b:2, sidecar: "c:5000/c@sha256:0123456789abcdef0123456789abcdef", init: d}
`

func TestEveryFieldOfTheFileIsRead(t *testing.T) {
	got, _, err := fromFile(everything)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		ClientConnection: ClientConnection{250.5, 500, "application/json", "application/vnd.kubernetes.protobuf,application/json"},
		LeaderElection:   LeaderElection{true, time.Minute, 40 * time.Second, 5 * time.Second, "leases", "ours", "garden"},
		Server: Server{
			Webhooks:  TLSListener{Listener{"10.0.0.1", 10250}, "/certs"},
			Metrics:   Listener{"10.0.0.2", 9090},
			Health:    Listener{"::1", 9091},
			Profiling: Profiling{true, Listener{"10.0.0.4", 9092}},
		},
		Controllers: Controllers{
			DisableLeaseCache: true,
			Etcd: EtcdController{
				ConcurrentSyncs: 25, EnableEtcdSpecAutoReconcile: true, DisableEtcdServiceAccountAutomount: true,
				EtcdStatusSyncPeriod: 90 * time.Second, EtcdMember: EtcdMember{10 * time.Minute, 2 * time.Minute},
			},
			Compaction:          CompactionController{true, 4, 5, 6, time.Hour, 7 * time.Second},
			EtcdCopyBackupsTask: EtcdCopyBackupsTaskController{true, 8},
			Secret:              SecretController{9},
			EtcdOpsTask:         EtcdOpsTaskController{false, 10, 11 * time.Second},
		},
		Webhooks: Webhooks{EtcdComponentProtection{
			Enabled: true, ServiceAccountInfo: ServiceAccountInfo{"etcd-druid", "garden"},
			ExemptServiceAccounts: []string{"system:serviceaccount:kube-system:generic-garbage-collector"},
		}},
		FeatureGates: map[string]bool{"UseEtcdWrapper": true, "UpgradeEtcdVersion": true},
		Logging:      Logging{"debug", "text"},
		Images:       Images{"a/a:1", "b/b:2", "c:5000/c@sha256:0123456789abcdef0123456789abcdef", "d"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if got := got.Webhooks.EtcdComponentProtection.Reconciler(); got != "system:serviceaccount:garden:etcd-druid" {
		t.Errorf("the reconciler is %q", got)
	}
	again, _, err := fromFile(got.YAML())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(got, again); d != "" {
		t.Errorf("written and read again:\n%s", d)
	}
	// Nothing in the test is left at its default.
	file, def := settings(&want), Defaults("v1")
	for i, s := range settings(&def) {
		if s.value.text() == file[i].value.text() && s.path != "leaderElection.resourceLock" && s.path != "webhooks.etcdComponentProtection.reconcilerServiceAccountFQDN" {
			t.Errorf("the test leaves %s at its default", s.path)
		}
	}
}

func TestImagesThatAreNotNamedAreTheOneOfTheVersion(t *testing.T) {
	got, _, err := fromFile(header + "images: {sidecar: ours/sidecar:2}\n")
	if err != nil {
		t.Fatal(err)
	}
	want := Images{All: "registry.local/etcd-druid:v1", Wrapper: "registry.local/etcd-druid:v1", Sidecar: "ours/sidecar:2", Init: "registry.local/etcd-druid:v1"}
	if got.Images != want {
		t.Errorf("got %+v, want %+v", got.Images, want)
	}
}

func TestAGateIsSwitchedUnlessItIsUnknownOrLocked(t *testing.T) {
	table := []gate{{name: "New", stage: alpha}, {name: "Usual", stage: beta}, {name: "Old", stage: ga, locked: "it is everywhere"}}
	for name, c := range map[string]struct {
		set     map[string]bool
		wantErr string
	}{
		"nothing said":            {nil, ""},
		"alpha on":                {map[string]bool{"New": true}, ""},
		"beta off":                {map[string]bool{"Usual": false}, ""},
		"GA on":                   {map[string]bool{"Old": true}, ""},
		"GA off":                  {map[string]bool{"Old": false}, "Old is GA and cannot be false: remove it; it is everywhere"},
		"unknown":                 {map[string]bool{"Older": true}, `there is no feature gate "Older": remove it; there are New, Usual, Old`},
		"unknown, even if off":    {map[string]bool{"Older": false}, `there is no feature gate "Older"`},
		"the case of the letters": {map[string]bool{"new": true}, `there is no feature gate "new"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkGates(table, c.set)
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Errorf("error %v, want %s", err, c.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestAFileIsFoundOrTheReasonIsTold(t *testing.T) {
	dir := t.TempDir()
	good, large := filepath.Join(dir, "good"), filepath.Join(dir, "large")
	if err := os.WriteFile(good, []byte(everything), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, []byte(strings.Repeat("#\n", maxFile)), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, _, err := fromFlags(t, "--config", good); err != nil || c.Controllers.Etcd.ConcurrentSyncs != 25 || c.Images.Init != "d" {
		t.Errorf("%v, %+v", err, c)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file",
		dir:                        "is a directory",
		large:                      "larger than 1048576 bytes",
	} {
		_, _, err := fromFlags(t, "--config="+path)
		if p := problems(t, err); len(p) != 1 || !strings.HasPrefix(p[0], "--config: ") || !strings.Contains(p[0], path) || !strings.Contains(p[0], want) {
			t.Errorf("%s: %q, want %s", path, p, want)
		}
	}
}
