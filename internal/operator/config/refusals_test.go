package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsWrongInAFileIsToldWithItsPlaceAndRemedy(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string // the problems
	}{
		"nothing in it":          {"", []string{"druid.yaml: apiVersion is missing: write apiVersion: " + APIVersion, "druid.yaml: kind is missing: write kind: " + Kind}},
		"another version":        {"apiVersion: config.druid.gardener.cloud/v2\nkind: " + Kind, []string{`druid.yaml:1: apiVersion: "config.druid.gardener.cloud/v2" is not ` + APIVersion + `, and nothing else is read here`}},
		"another kind":           {"apiVersion: " + APIVersion + "\nkind: Deployment\nspec: {}", []string{`druid.yaml:2: kind: "Deployment" is not OperatorConfiguration, and nothing else is read here`}},
		"a list":                 {"- a", []string{"druid.yaml: a list where the fields of an OperatorConfiguration belong"}},
		"a word":                 {"config", []string{`druid.yaml: "config" where the fields of an OperatorConfiguration belong`}},
		"no YAML":                {"a: b: c", []string{"druid.yaml: it is neither YAML nor JSON: mapping values are not allowed in this context"}},
		"two documents":          {header + "---\n" + header, []string{"druid.yaml: there is a second document after a line of three dashes: keep one"}},
		"an unknown field":       {header + "spec: {}", []string{"druid.yaml:3: spec: there is no such field: remove it; there are clientConnection, leaderElection, server, controllers, webhooks, featureGates, logging, images"}},
		"a misspelt field":       {header + "controllers:\n  etcd:\n    concurentSyncs: 3", []string{"druid.yaml:5: controllers.etcd.concurentSyncs: there is no such field: call it concurrentSyncs"}},
		"a field in wrong case":  {header + "clientConnection: {QPS: 3}", []string{"druid.yaml:3: clientConnection.QPS: there is no such field: call it qps"}},
		"a former name":          {header + "logConfiguration: {logLevel: info}", []string{"druid.yaml:3: logConfiguration: there is no such field: call it logging"}},
		"a field twice":          {header + "logging: {logLevel: info, logLevel: debug}", []string{"druid.yaml:3: logging.logLevel: it is there twice: remove one"}},
		"a group twice":          {header + "logging: {}\nlogging: {}", []string{"druid.yaml:4: logging: it is there twice: remove one"}},
		"its kind twice":         {header + "kind: " + Kind, []string{"druid.yaml:3: kind: it is there twice: remove one"}},
		"a merge":                {header + "<<: {logging: {}}", []string{"druid.yaml:3: <<: there is no such field: remove it; there are clientConnection, leaderElection, server, controllers, webhooks, featureGates, logging, images"}},
		"a value for a group":    {header + "server: 8080", []string{"druid.yaml:3: server: 8080 where a group of fields belongs: there are webhooks, metrics, health, profiling"}},
		"a group for a value":    {header + "controllers: {etcd: {concurrentSyncs: {}}}", []string{"druid.yaml:3: controllers.etcd.concurrentSyncs: a group of fields where a whole number from 1 to 1000 belongs"}},
		"a number in quotes":     {header + "server: {metrics: {port: '8080'}}", []string{`druid.yaml:3: server.metrics.port: "8080" where a whole number from 1 to 65535 belongs: remove the quotes`}},
		"a fraction":             {header + "server: {metrics: {port: 80.5}}", []string{`druid.yaml:3: server.metrics.port: 80.5 where a whole number from 1 to 65535 belongs`}},
		"an octal number":        {header + "server: {metrics: {port: 0o17}}", []string{`druid.yaml:3: server.metrics.port: "0o17" is not a whole number from 1 to 65535`}},
		"a port out of bounds":   {header + "server: {metrics: {port: 65536}}", []string{`druid.yaml:3: server.metrics.port: 65536 is not a whole number from 1 to 65535`}},
		"a number for a switch":  {header + "leaderElection: {enabled: 1}", []string{`druid.yaml:3: leaderElection.enabled: 1 where true or false belongs`}},
		"yes for a switch":       {header + "leaderElection: {enabled: yes}", []string{`druid.yaml:3: leaderElection.enabled: "yes" where true or false belongs`}},
		"a number for a name":    {header + "leaderElection: {resourceName: 12}", []string{`druid.yaml:3: leaderElection.resourceName: 12 where the name of a Lease belongs: put it in quotes`}},
		"no name of a Lease":     {header + "leaderElection: {enabled: true, resourceName: ''}", []string{`druid.yaml:3: leaderElection.resourceName: "" is not the name of a Lease: use a-z, 0-9, '-' and '.', at most 253 of them`}},
		"no workers":             {header + "controllers: {etcd: {concurrentSyncs: 0}}", []string{`druid.yaml:3: controllers.etcd.concurrentSyncs: 0 is not a whole number from 1 to 1000`}},
		"a duration, no unit":    {header + "controllers: {etcd: {etcdStatusSyncPeriod: 15}}", []string{`druid.yaml:3: controllers.etcd.etcdStatusSyncPeriod: 15 has no unit: write a duration like 90s, 5m or 1h30m of at least 1s`}},
		"a duration of days":     {header + "controllers: {etcd: {etcdStatusSyncPeriod: 1d}}", []string{`druid.yaml:3: controllers.etcd.etcdStatusSyncPeriod: "1d" is not a duration like 90s, 5m or 1h30m of at least 1s`}},
		"a duration too short":   {header + "controllers: {etcd: {etcdMember: {unknownThreshold: 0s}}}", []string{`druid.yaml:3: controllers.etcd.etcdMember.unknownThreshold: 0s is not a duration like 90s, 5m or 1h30m of at least 1s`}},
		"no rate":                {header + "clientConnection: {qps: 0}", []string{`druid.yaml:3: clientConnection.qps: 0 is not a number above 0, or -1 for no limit`}},
		"an endless rate":        {header + "clientConnection: {qps: .inf}", []string{`druid.yaml:3: clientConnection.qps: ".inf" is not a number above 0, or -1 for no limit`}},
		"no burst":               {header + "clientConnection: {burst: 0}", []string{`druid.yaml:3: clientConnection.burst: 0 allows no request at all: give at least 1, or -1 to clientConnection.qps for no limit`}},
		"protobuf for all":       {header + "clientConnection: {contentType: application/vnd.kubernetes.protobuf}", []string{`druid.yaml:3: clientConnection.contentType: "application/vnd.kubernetes.protobuf" is not application/json, or empty: custom resources have no such form; leave it empty and built-in objects are sent so`}},
		"no media types":         {header + "clientConnection: {acceptContentTypes: json}", []string{`druid.yaml:3: clientConnection.acceptContentTypes: "json" is not media types with commas between them, or empty: write them like application/vnd.kubernetes.protobuf,application/json`}},
		"a former lock":          {header + "leaderElection: {resourceLock: configmapsleases}", []string{`druid.yaml:3: leaderElection.resourceLock: "configmapsleases" is not leases: Kubernetes has no other kind of lock any more`}},
		"no address":             {header + "server: {health: {bindAddress: localhost}}", []string{`druid.yaml:3: server.health.bindAddress: "localhost" is not an IP address, or empty for every one of the machine: write it like 127.0.0.1 or ::1`}},
		"no place":               {header + "server: {webhooks: {serverCertDir: certs}}", []string{`druid.yaml:3: server.webhooks.serverCertDir: "certs" is not an absolute path, or empty: begin it with /`}},
		"an unknown level":       {header + "logging: {logLevel: warning}", []string{`druid.yaml:3: logging.logLevel: "warning" is not debug, info or error`}},
		"a list of all kinds":    {header + "webhooks: {etcdComponentProtection: {exemptServiceAccounts: [1, gc, 'system:serviceaccount:a:b']}}", []string{`druid.yaml:3: webhooks.etcdComponentProtection.exemptServiceAccounts: 1 where a ServiceAccount like system:serviceaccount:NAMESPACE:NAME belongs: put it in quotes`}},
		"no account":             {header + "webhooks: {etcdComponentProtection: {exemptServiceAccounts: [gc, 'system:serviceaccount:a:']}}", []string{`druid.yaml:3: webhooks.etcdComponentProtection.exemptServiceAccounts: "gc" is not a ServiceAccount like system:serviceaccount:NAMESPACE:NAME: write it like system:serviceaccount:garden:etcd-druid`, `druid.yaml:3: webhooks.etcdComponentProtection.exemptServiceAccounts: "system:serviceaccount:a:" is not a ServiceAccount like system:serviceaccount:NAMESPACE:NAME: write it like system:serviceaccount:garden:etcd-druid`}},
		"an account, no list":    {header + "webhooks: {etcdComponentProtection: {exemptServiceAccounts: 'a,b'}}", []string{`druid.yaml:3: webhooks.etcdComponentProtection.exemptServiceAccounts: "a,b" where a list, each a ServiceAccount like system:serviceaccount:NAMESPACE:NAME belongs`}},
		"half an account":        {header + "webhooks: {etcdComponentProtection: {serviceAccountInfo: {name: druid}}}", []string{`druid.yaml:3: webhooks.etcdComponentProtection.serviceAccountInfo.name: belongs together with webhooks.etcdComponentProtection.serviceAccountInfo.namespace: give both or none`}},
		"an account twice":       {header + "webhooks: {etcdComponentProtection: {reconcilerServiceAccountFQDN: 'system:serviceaccount:a:b', serviceAccountInfo: {name: b, namespace: a}}}", []string{`druid.yaml:3: webhooks.etcdComponentProtection.reconcilerServiceAccountFQDN: the operator's account is given twice: keep webhooks.etcdComponentProtection.serviceAccountInfo.name and its namespace alone`}},
		"gates as the flag":      {header + "featureGates: UseEtcdWrapper=true", []string{`druid.yaml:3: featureGates: "UseEtcdWrapper=true" where feature gates with true or false belong`}},
		"an unknown gate":        {header + "featureGates: {UseDruid: true}", []string{`druid.yaml:3: featureGates: there is no feature gate "UseDruid": remove it; there are UpgradeEtcdVersion, UseEtcdWrapper`}},
		"a locked gate":          {header + "featureGates: {UseEtcdWrapper: false}", []string{`druid.yaml:3: featureGates: UseEtcdWrapper is GA and cannot be false: remove it; there is no other way to run etcd here`}},
		"a gate in quotes":       {header + "featureGates: {UseEtcdWrapper: 'true'}", []string{`druid.yaml:3: featureGates: "UseEtcdWrapper": "true" where true or false belongs: remove the quotes`}},
		"a gate twice":           {header + "featureGates: {UseEtcdWrapper: true, UseEtcdWrapper: true}", []string{`druid.yaml:3: featureGates: "UseEtcdWrapper" is there twice: remove one`}},
		"no image":               {header + "images: {all: Etcd Druid}", []string{`druid.yaml:3: images.all: "Etcd Druid" is not an image reference like registry.example/etcd-druid:v1: it is [HOST[:PORT]/]PATH[:TAG][@DIGEST]`}},
		"no image for some":      {header + "images: {all: '', wrapper: a, sidecar: b}", []string{`druid.yaml:3: images.all: no image is named for some containers: give it, or each of the three others`}},
		"a short lease":          {header + "leaderElection: {enabled: true, leaseDuration: 10s}", []string{`druid.yaml:3: leaderElection.leaseDuration: 10s is not longer than leaderElection.renewDeadline, 10s: two operators could work at once; give more`}},
		"a slow attempt":         {header + "leaderElection:\n  enabled: true\n  retryPeriod: 9s", []string{`druid.yaml: leaderElection.renewDeadline: 10s leaves no time for a second attempt: give more than 10.8s, which is 1.2 times leaderElection.retryPeriod`}},
		"nobody to compact":      {header + "controllers: {compaction: {enabled: true, concurrentSyncs: 0}}", []string{`druid.yaml:3: controllers.compaction.concurrentSyncs: 0 leaves nobody to do what controllers.compaction.enabled asks for: give at least 1`}},
		"one port for two":       {header + "server: {metrics: {port: 8081, bindAddress: 10.0.0.1}}", []string{`druid.yaml:3: server.metrics.port: 8081 is also server.health.port: give another port`}},
		"the port of profiles":   {header + "server: {profiling: {enabled: true, port: 8080}}", []string{`druid.yaml:3: server.profiling.port: 8080 is also server.metrics.port: give another port`}},
		"the port of webhooks":   {header + "server: {webhooks: {port: 8080}}\nwebhooks: {etcdComponentProtection: {enabled: true}}", []string{`druid.yaml: server.metrics.port: 8080 is also server.webhooks.port: give another port`}},
		"all that is wrong":      {header + "servers: {}\nserver: {metrics: {port: a}, health: {port: 0}}\nlogging: {logFormat: xml}", []string{`druid.yaml:3: servers: there is no such field: call it server`, `druid.yaml:4: server.metrics.port: "a" where a whole number from 1 to 65535 belongs`, `druid.yaml:4: server.health.port: 0 is not a whole number from 1 to 65535`, `druid.yaml:5: logging.logFormat: "xml" is not json or text`}},
		"a wrong alias":          {header + "leaderElection: {enabled: &x 5}\nserver: {metrics: {port: *x}, health: {port: *x}}", []string{`druid.yaml:3: leaderElection.enabled: 5 where true or false belongs`, `druid.yaml:3: server.metrics.port: 5 is also server.health.port: give another port`}},
		"something large":        {header + "logging: {logLevel: [" + strings.Repeat("a,", 1000) + "]}", []string{`druid.yaml:3: logging.logLevel: a list where debug, info or error belongs`}},
		"a key that is no word":  {header + "? [a]\n: b", []string{"druid.yaml:3: : there is no such field: remove it; there are clientConnection, leaderElection, server, controllers, webhooks, featureGates, logging, images"}},
		"a very long wrong word": {header + "leaderElection: {enabled: " + strings.Repeat("a", 100) + "}", []string{`druid.yaml:3: leaderElection.enabled: "` + strings.Repeat("a", 40) + `..." where true or false belongs`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := fromFile(c.text)
			if err == nil {
				t.Fatal("accepted")
			}
			if d := cmp.Diff(c.want, problems(t, err)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestPortsMayBeTheSameWhereNothingIsServedOrTheAddressesDiffer(t *testing.T) {
	for name, text := range map[string]string{
		"profiles are not served":  "server: {profiling: {port: 8080}}",
		"webhooks are not served":  "server: {webhooks: {port: 8080}}",
		"the addresses are others": "server: {metrics: {port: 8081, bindAddress: 10.0.0.1}, health: {bindAddress: 10.0.0.2}}",
	} {
		if _, _, err := fromFile(header + text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsWrongInFlagsIsToldAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"a word for a number":  {[]string{"--etcd-workers=three"}, []string{`--etcd-workers: "three" is not a whole number from 1 to 1000`}},
		"no workers":           {[]string{"--etcd-workers=0"}, []string{`--etcd-workers: 0 is not a whole number from 1 to 1000`}},
		"a word for a switch":  {[]string{"--enable-leader-election=yes"}, []string{`--enable-leader-election: "yes" is not true or false`}},
		"no unit":              {[]string{"--etcd-status-sync-period=15"}, []string{`--etcd-status-sync-period: "15" is not a duration like 90s, 5m or 1h30m of at least 1s`}},
		"a former lock":        {[]string{"--leader-election-resource-lock=endpoints"}, []string{`--leader-election-resource-lock: "endpoints" is not leases: Kubernetes has no other kind of lock any more`}},
		"an unknown gate":      {[]string{"--feature-gates=UseDruid=true"}, []string{`--feature-gates: there is no feature gate "UseDruid": remove it; there are UpgradeEtcdVersion, UseEtcdWrapper`}},
		"locked gates":         {[]string{"--feature-gates=UseEtcdWrapper=false,UpgradeEtcdVersion=false"}, []string{"--feature-gates: UpgradeEtcdVersion is GA and cannot be false: remove it; this operator has no older etcd; a cluster on etcd 3.4 is brought to 3.5 by the original, or moved through its bucket, before it is taken over", "--feature-gates: UseEtcdWrapper is GA and cannot be false: remove it; there is no other way to run etcd here"}},
		"no switch of a gate":  {[]string{"--feature-gates=UseEtcdWrapper"}, []string{`--feature-gates: "UseEtcdWrapper" does not switch a feature gate: write it like UseEtcdWrapper=true`}},
		"a gate on and off":    {[]string{"--feature-gates=UseEtcdWrapper=true,UseEtcdWrapper=false"}, []string{`--feature-gates: feature gate UseEtcdWrapper is given as true and as false: decide for one`}},
		"metrics nowhere":      {[]string{"--metrics-addr=8080"}, []string{`--metrics-addr: "8080" is not an address and a port like :8080 or 127.0.0.1:8080`}},
		"metrics switched off": {[]string{"--metrics-addr=:0"}, []string{`--metrics-addr: 0 is not a whole number from 1 to 65535`}},
		"both ways to metrics": {[]string{"--metrics-addr=:8080", "--metrics-port=8080"}, []string{"--metrics-addr: it is given together with --metrics-port, which means the same: drop --metrics-addr"}},
		"both annotations":     {[]string{"--ignore-operation-annotation", "--enable-etcd-spec-auto-reconcile=false"}, []string{"--ignore-operation-annotation: it is given together with --enable-etcd-spec-auto-reconcile, which means the same: drop --ignore-operation-annotation"}},
		"one port for two":     {[]string{"--metrics-addr=:8081"}, []string{"--metrics-addr: 8081 is also --health-port: give another port"}},
		"all that is wrong":    {[]string{"--log-level=x", "--etcd-workers=0", "--image=A"}, []string{`--etcd-workers: 0 is not a whole number from 1 to 1000`, `--log-level: "x" is not debug, info or error`, `--image: "A" is not an image reference like registry.example/etcd-druid:v1: it is [HOST[:PORT]/]PATH[:TAG][@DIGEST]`}},
		"flags and a file": {[]string{"--config=/etc/druid.yaml", "--etcd-workers=3", "--metrics-addr=:8080", "--image="}, []string{
			"--etcd-workers: it does not go together with --config, which is the whole configuration: write controllers.etcd.concurrentSyncs into /etc/druid.yaml and drop the flag",
			"--image: it does not go together with --config, which is the whole configuration: write images.all into /etc/druid.yaml and drop the flag",
			"--metrics-addr: it does not go together with --config, which is the whole configuration: write server.metrics.bindAddress and server.metrics.port into /etc/druid.yaml and drop the flag",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := fromFlags(t, c.args...)
			if err == nil {
				t.Fatal("accepted")
			}
			if d := cmp.Diff(c.want, problems(t, err)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}
