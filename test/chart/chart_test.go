package chart_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"druid.internal/druid/internal/operator"
	"druid.internal/druid/internal/operator/config"
	"druid.internal/druid/test/chart"
)

var update = flag.Bool("update", false, "write the golden files")

// tagged are the least values.
func tagged(more string) string { return "image: {tag: v1}\n" + more }

func render(t *testing.T, text string) (string, error) {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return chart.Render(values)
}

// everything sets each value to something else than its default.
const everything = `
image: {repository: registry.example/druid, tag: v2, pullPolicy: Always}
imagePullSecrets: [{name: registry}]
replicas: 2
config:
  leaderElection: {leaseDuration: 30s, resourceNamespace: garden}
  server: {metrics: {port: 9090}, health: {port: 9091}, profiling: {enabled: true}}
  controllers: {etcd: {concurrentSyncs: 25}, compaction: {eventsThreshold: 3000000}}
  featureGates: {UseEtcdWrapper: true}
  logging: {logLevel: debug}
  images: {sidecar: registry.example/sidecar:v3}
crds: {install: false}
admissionPolicies: {install: false}
webhook: {enabled: true, certificates: secret, secretName: mine, caBundle: PEM, exemptServiceAccounts: ["system:serviceaccount:ops:healer"]}
resources: {requests: {cpu: "1"}, limits: null}
env: [{name: GOMAXPROCS, value: "2"}]
podAnnotations: {prometheus.io/scrape: "true"}
podLabels: {team: storage}
priorityClassName: system-cluster-critical
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: control-plane, operator: Exists}]
affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}
serviceAccount: {annotations: {eks.amazonaws.com/role-arn: none}}
`

// documents are the objects of a manifest, as YAML by "Kind name".
func documents(t *testing.T, manifest string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for text := range strings.SplitSeq("\n"+manifest, "\n---\n") {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		if o.Kind == "" {
			continue
		}
		name := o.Kind + " " + o.Metadata.Name
		if _, twice := all[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		all[name] = text
	}
	return all
}

func object[T any](t *testing.T, objects map[string]string, name string) (o T) {
	t.Helper()
	text, ok := objects[name]
	if !ok {
		t.Fatalf("there is no %s", name)
	}
	if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return o
}

func TestTheChartRendersAsItsGoldenFiles(t *testing.T) {
	byDefault, err := render(t, tagged(""))
	if err != nil {
		t.Fatal(err)
	}
	common := documents(t, byDefault)
	for name, values := range map[string]string{
		"testdata/default.yaml":      tagged(""),
		"testdata/everything.yaml":   everything,
		"testdata/webhook.yaml":      tagged("webhook: {enabled: true}"),
		"testdata/cert-manager.yaml": tagged("webhook: {enabled: true, certificates: cert-manager}"),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := render(t, values)
			if err != nil {
				t.Fatal(err)
			}
			// Definitions and policies are copies that hack/chart makes. What is as by default, and
			// what the operator may do, is not repeated.
			var some []string
			objects := documents(t, got)
			for name := range objects {
				if !strings.HasPrefix(name, "CustomResourceDefinition ") && !strings.HasPrefix(name, "ValidatingAdmissionPolicy") &&
					(values == tagged("") || objects[name] != common[name] && name != "ClusterRole etcd-druid" && name != "Role etcd-druid") {
					some = append(some, name)
				}
			}
			slices.Sort(some)
			var b strings.Builder
			for _, name := range some {
				b.WriteString("---\n" + strings.TrimSpace(objects[name]) + "\n")
			}
			if *update {
				if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), b.String()); d != "" {
				t.Errorf("go test ./chart -update writes it anew; -want +got:\n%s", d)
			}
		})
	}
}

func TestDefinitionsAndPoliciesComeWithTheChartUnlessTheyAreNotWanted(t *testing.T) {
	for name, c := range map[string]struct {
		values string
		want   map[string]int
	}{
		"by default":        {tagged(""), map[string]int{"CustomResourceDefinition": 5, "ValidatingAdmissionPolicy": 5, "ValidatingAdmissionPolicyBinding": 5}},
		"no definitions":    {tagged("crds: {install: false}"), map[string]int{"ValidatingAdmissionPolicy": 5, "ValidatingAdmissionPolicyBinding": 5}},
		"no policies":       {tagged("admissionPolicies: {install: false}"), map[string]int{"CustomResourceDefinition": 5}},
		"neither of either": {everything, map[string]int{"ValidatingWebhookConfiguration": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			manifest, err := render(t, c.values)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			for name, text := range documents(t, manifest) {
				kind, _, _ := strings.Cut(name, " ")
				if !strings.HasPrefix(kind, "Custom") && !strings.HasPrefix(kind, "Validating") {
					continue
				}
				got[kind]++
				if kind == "CustomResourceDefinition" && !strings.Contains(text, "helm.sh/resource-policy: keep") {
					t.Errorf("%s would be deleted with the release, and all Etcds with it", name)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestTheOperatorMayDoWhatTheCodeSaysAndNothingElse(t *testing.T) {
	manifest, err := render(t, tagged(""))
	if err != nil {
		t.Fatal(err)
	}
	objects := documents(t, manifest)
	if d := cmp.Diff(operator.Access(), object[rbacv1.ClusterRole](t, objects, "ClusterRole etcd-druid").Rules); d != "" {
		t.Errorf("in the cluster (-want +got):\n%s", d)
	}
	if d := cmp.Diff(operator.OwnAccess(), object[rbacv1.Role](t, objects, "Role etcd-druid").Rules); d != "" {
		t.Errorf("in its namespace (-want +got):\n%s", d)
	}
	want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "etcd-druid", Namespace: chart.Namespace}}
	if d := cmp.Diff(want, object[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding etcd-druid").Subjects); d != "" {
		t.Errorf("who may (-want +got):\n%s", d)
	}
	if got := object[appsv1.Deployment](t, objects, "Deployment etcd-druid").Spec.Template.Spec.ServiceAccountName; got != "etcd-druid" {
		t.Errorf("the pods are %q", got)
	}
}

func TestWithItsOwnCertificatesTheOperatorMayWriteThemAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		values      string
		cluster     []rbacv1.PolicyRule
		inNamespace []rbacv1.PolicyRule
	}{
		"its own":        {"webhook: {enabled: true}", operator.ProtectionAccess(), operator.ProtectionOwnAccess()},
		"cert-manager's": {"webhook: {enabled: true, certificates: cert-manager}", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			manifest, err := render(t, tagged(c.values))
			if err != nil {
				t.Fatal(err)
			}
			objects := documents(t, manifest)
			if d := cmp.Diff(slices.Concat(operator.Access(), c.cluster), object[rbacv1.ClusterRole](t, objects, "ClusterRole etcd-druid").Rules); d != "" {
				t.Errorf("in the cluster (-want +got):\n%s", d)
			}
			if d := cmp.Diff(slices.Concat(operator.OwnAccess(), c.inNamespace), object[rbacv1.Role](t, objects, "Role etcd-druid").Rules); d != "" {
				t.Errorf("in its namespace (-want +got):\n%s", d)
			}
		})
	}
}

func TestTheConfigurationIsOneThatTheOperatorTakes(t *testing.T) {
	for name, c := range map[string]struct {
		values string
		want   func(*config.Config)
	}{
		"by default": {tagged(""), func(c *config.Config) {
			c.Controllers.Etcd.EnableEtcdSpecAutoReconcile = true
		}},
		"otherwise": {everything, func(c *config.Config) {
			c.LeaderElection.LeaseDuration, c.LeaderElection.ResourceNamespace = 30e9, "garden"
			c.Server.Metrics.Port, c.Server.Health.Port, c.Server.Profiling.Enabled = 9090, 9091, true
			c.Controllers.Etcd.EnableEtcdSpecAutoReconcile, c.Controllers.Etcd.ConcurrentSyncs = true, 25
			c.Controllers.Compaction.EventsThreshold = 3_000_000
			p := &c.Webhooks.EtcdComponentProtection
			p.Enabled, p.ExemptServiceAccounts = true, []string{"system:serviceaccount:ops:healer"}
			p.ServiceAccountInfo = config.ServiceAccountInfo{Name: "etcd-druid", Namespace: chart.Namespace}
			c.FeatureGates = map[string]bool{"UseEtcdWrapper": true}
			c.Logging.LogLevel = "debug"
			c.Images.All, c.Images.Sidecar = "registry.example/druid:v2", "registry.example/sidecar:v3"
			c.Images.Wrapper, c.Images.Init = c.Images.All, c.Images.All
		}},
	} {
		t.Run(name, func(t *testing.T) {
			manifest, err := render(t, c.values)
			if err != nil {
				t.Fatal(err)
			}
			file := object[corev1.ConfigMap](t, documents(t, manifest), "ConfigMap etcd-druid-config").Data["config.yaml"]
			got, notices, err := config.Parse("config.yaml", []byte(file), "unused")
			if err != nil {
				t.Fatalf("%v\n%s", err, file)
			}
			for _, n := range notices {
				if n.What == config.Deprecated {
					t.Errorf("the operator will complain about %s", n.Setting)
				}
			}
			want := config.Defaults("v1")
			want.Images.Wrapper, want.Images.Sidecar, want.Images.Init = want.Images.All, want.Images.All, want.Images.All
			want.LeaderElection.Enabled, want.Controllers.EtcdCopyBackupsTask.Enabled = true, true
			c.want(&want)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestLeadersAreAlwaysElected(t *testing.T) {
	if _, err := render(t, tagged("config: {leaderElection: {enabled: false}}")); err == nil {
		t.Error("two operators could work at once")
	}
}

func TestAChangedConfigurationReplacesThePods(t *testing.T) {
	sum := func(values string) string {
		manifest, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		return object[appsv1.Deployment](t, documents(t, manifest), "Deployment etcd-druid").Spec.Template.Annotations["checksum/config"]
	}
	before, same, after := sum(tagged("")), sum(tagged("replicas: 3")), sum(tagged("config: {logging: {logLevel: debug}}"))
	if before == "" || before != same || before == after {
		t.Errorf("checksums %q, %q with the same configuration, %q with another", before, same, after)
	}
}

func TestValuesThatNobodyKnowsAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ values, want string }{
		"no tag":                       {"", "image.tag is required"},
		"an unknown value":             {tagged("replica: 2"), "replica"},
		"one in a group":               {tagged("crds: {keep: false}"), "keep"},
		"a field of no configuration":  {tagged("config: {controllers: {etcd: {workers: 3}}}"), "workers"},
		"webhooks, which have a value": {tagged("config: {webhooks: {etcdComponentProtection: {enabled: true}}}"), "webhooks"},
		"an unknown certificate":       {tagged("webhook: {certificates: none}"), "certificates"},
		"an exempt person":             {tagged("webhook: {exemptServiceAccounts: [jane]}"), "exemptServiceAccounts"},
		"a certificate of no Secret":   {tagged("webhook: {enabled: true, certificates: secret}"), "webhook.secretName is required"},
		"a certificate of nobody":      {tagged("webhook: {enabled: true, certificates: secret, secretName: mine}"), "webhook.caBundle is required"},
		"a number in words":            {tagged("replicas: two"), "replicas"},
		"a duration as a number":       {tagged("config: {leaderElection: {leaseDuration: 15}}"), "leaseDuration"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := render(t, c.values)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want it to name %q", err, c.want)
			}
		})
	}
}

// schema is what is read of values.schema.json.
type schema struct {
	Type                 any                `json:"type"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties any                `json:"additionalProperties"`
}

func readSchema(t *testing.T) *schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "charts", "druid", "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	s := &schema{}
	if err := json.Unmarshal(text, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// paths are the fields below a schema that are no groups. A group that takes others is an error.
func (s *schema) paths(t *testing.T, at string) (all []string) {
	if len(s.Properties) == 0 {
		return []string{at}
	}
	if s.AdditionalProperties != false {
		t.Errorf("the schema takes unknown values below %q", at)
	}
	for name, p := range s.Properties {
		all = append(all, p.paths(t, strings.TrimPrefix(at+"."+name, "."))...)
	}
	slices.Sort(all)
	return all
}

func TestTheSchemaHasEveryFieldOfTheConfigurationAndNoOther(t *testing.T) {
	got := readSchema(t).Properties["config"].paths(t, "")
	var all map[string]any
	if err := yaml.Unmarshal([]byte(config.Defaults("v1").YAML()), &all); err != nil {
		t.Fatal(err)
	}
	want := leaves(all, "")
	want = slices.DeleteFunc(want, func(path string) bool {
		switch path {
		case "apiVersion", "kind", "leaderElection.enabled": // the chart's
			return true
		case "images.all": // image
			return true
		}
		return strings.HasPrefix(path, "webhooks.") || strings.HasPrefix(path, "server.webhooks.") // not offered
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func leaves(m map[string]any, at string) (all []string) {
	for name, v := range m {
		path := strings.TrimPrefix(at+"."+name, ".")
		if group, ok := v.(map[string]any); ok && path != "featureGates" {
			all = append(all, leaves(group, path)...)
			continue
		}
		all = append(all, path)
	}
	slices.Sort(all)
	return all
}

func TestEveryValueIsInTheSchemaAndDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "charts", "druid", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for name := range readSchema(t).Properties {
		if name != "global" { // of Helm's own
			got = append(got, name)
		}
	}
	for name := range values {
		want = append(want, name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("values.yaml and the schema differ (-values +schema):\n%s", d)
	}
}
