package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/chart"
	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/cluster/image"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// clusterAskedFor reads KUBECONFIG, the cluster on which the operator uses the account, and IMAGE, which deploy installs there.
// Without a cluster a member of this machine uses the account, and only who asks for a step of a cluster by its name is refused.
func clusterAskedFor(getenv func(string) string, steps []string) (kubeconfig, image string, err error) {
	var wrong []error
	kubeconfig, image = getenv("KUBECONFIG"), getenv("IMAGE")
	for _, step := range []string{"deploy", "undeploy"} {
		if kubeconfig == "" && slices.Contains(strings.Split(getenv("STEPS"), ","), step) {
			wrong = append(wrong, fmt.Errorf("STEPS asks for %s, and KUBECONFIG is not set", step))
		}
	}
	if kubeconfig != "" && !filepath.IsAbs(kubeconfig) {
		wrong = append(wrong, fmt.Errorf("KUBECONFIG is %q: tests run in a directory of their own, so say it from the root", kubeconfig))
	}
	if kubeconfig != "" && image == "" && slices.Contains(steps, "deploy") {
		wrong = append(wrong, errors.New("STEPS asks for deploy, and IMAGE is not set: the name of an image of make image that the nodes can pull"))
	}
	return kubeconfig, image, errors.Join(wrong...)
}

// installation is the operator on a cluster of somebody else.
type installation struct{ *cluster.Cluster }

// clusterPatience is for clouds, which make volumes and pull images first.
const clusterPatience = 5 * time.Minute

// install deploys the operator, and undeploys it when the test ends, as far as the steps ask for it.
func install(t *testing.T, kubeconfig, image string, steps []string) *installation {
	t.Helper()
	c, err := cluster.Use(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	o := &installation{c}
	deploys := slices.Contains(steps, "deploy")
	if deploys {
		if there := o.remains(t); len(there) > 0 {
			t.Fatalf("deploy: an operator is or was there, which is not ours to take away, by %s. Take deploy and undeploy out of STEPS to use it", strings.Join(there, ", "))
		}
	}
	if slices.Contains(steps, "undeploy") {
		t.Cleanup(func() { o.undeploy(t) })
	}
	if deploys {
		values := map[string]any{
			"image":  chart.Image(image),
			"config": map[string]any{"controllers": map[string]any{"etcd": map[string]any{"etcdStatusSyncPeriod": "5s"}}}, // tests wait for it
		}
		if err := chart.Install(t.Context(), kubeconfig, values, clusterPatience, slog.New(slog.DiscardHandler)); err != nil {
			o.KeepBundle(t, "")
			t.Fatalf("deploy: %v", err)
		}
	}
	return o
}

// undeploy takes away all that deploy brought, with the definitions that Helm leaves.
func (o *installation) undeploy(t *testing.T) {
	t.Helper()
	remains := o.remains(t)
	for _, kind := range remains {
		kind, defines := strings.CutPrefix(kind, definition)
		if !defines {
			continue
		}
		if left := strings.Fields(o.kubectl(t, "get", kind, "--all-namespaces", "-o", "name")); len(left) > 0 {
			t.Fatalf("undeploy: there are still %s, which would go with their definition: delete them first", strings.Join(left, ", "))
		}
	}
	if _, err := chart.Uninstall(context.WithoutCancel(t.Context()), o.Kubeconfig, clusterPatience, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatalf("undeploy: %v", err)
	}
	if len(remains) > 0 {
		o.kubectl(t, append([]string{"delete", "--timeout=" + clusterPatience.String()}, remains...)...)
	}
}

const definition = "customresourcedefinition.apiextensions.k8s.io/"

// remains are what helm uninstall leaves: the definitions and the namespace.
func (o *installation) remains(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(strings.Fields(o.kubectl(t, "get", "customresourcedefinitions,namespaces", "-o", "name")), func(name string) bool {
		return !strings.HasSuffix(name, "."+druidv1alpha1.Group) && name != "namespace/"+chart.Namespace
	})
}

// kubectl does what a person does, also at the end of a test.
func (o *installation) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := o.Kubectl(context.WithoutCancel(t.Context()), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// exampleBacksUp applies an example with the account's bucket laid over, in a namespace of its own. What its members wrote is found by
// what the example says, from here.
func (o *installation) exampleBacksUp(t *testing.T, a account) {
	t.Helper()
	e := readExample(t, a.example, a.way)
	e.etcd.Namespace = os.Getenv("TEST_ID") + "-" + e.etcd.Name
	if ca, given := a.way.Files[sites.CAFile]; given {
		e.secret[sites.CAFile] = ca
	}
	o.kubectl(t, "create", "namespace", e.etcd.Namespace) // it is deleted, so one that is there already is an error
	in, patience := "--namespace="+e.etcd.Namespace, "--timeout="+clusterPatience.String()
	t.Cleanup(func() {
		if t.Failed() {
			o.KeepBundle(t, "")
		}
		o.kubectl(t, in, "delete", "etcds", "--all", patience)
		o.kubectl(t, "delete", "namespace", e.etcd.Namespace, patience)
	})
	objects := []any{e.etcd}
	if ref := e.etcd.Spec.Backup.Store.SecretRef; ref != nil {
		objects = append(objects, corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Name: ref.Name, Namespace: e.etcd.Namespace}, StringData: e.secret,
		})
	}
	for _, object := range objects {
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.KubectlWith(t.Context(), string(text), "apply", "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	for _, condition := range []druidv1alpha1.ConditionType{druidv1alpha1.ConditionReady, druidv1alpha1.ConditionBackupReady} {
		o.kubectl(t, in, "wait", "etcd/"+e.etcd.Name, "--for=condition="+string(condition), patience)
	}
	t.Log(o.kubectl(t, in, "get", "etcds", "-o", "wide"))
	if a.way.Provider == "Local" {
		t.Logf("the backup is in the directory %s of a node, where it stays: nobody here can look at it", a.way.Container)
		return
	}
	p := e.place(t, a.way)
	if fulls := p.list().all("Full"); len(fulls) == 0 {
		t.Errorf("there is no full snapshot below %s in %s", e.etcd.Spec.Backup.Store.Prefix, a.way.Container)
	}
	p.verifies()
}

const operatorImage = "registry.local/etcd-druid:account"

// TestTheStepsDriveTheClusterAndTheAccountThatTheEnvironmentNames runs this program again, with a cluster and a server of this machine
// as somebody's: each step does what it says, and in the end nothing is there that was not before.
func TestTheStepsDriveTheClusterAndTheAccountThatTheEnvironmentNames(t *testing.T) {
	t.Parallel()
	if os.Getenv("PROVIDERS") != "" {
		t.Skip("there is a real one")
	}
	tar := filepath.Join(t.TempDir(), "operator.tar")
	if err := image.WriteOurs(tar, operatorImage, filepath.Join("..", "..", "bin")); err != nil {
		t.Fatalf("%v; make build makes the programs", err)
	}
	theirs := cluster.Run(t, cluster.Options{Nodes: 1, Images: []string{tar}, Sync: 5 * time.Second, Progress: t.Output()})
	server, err := stores.StartMinIO(t.Context(), stores.MinIOOptions{Host: theirs.Host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	const bucket = "run-1"
	env := append(os.Environ(), "KUBECONFIG="+theirs.Kubeconfig, "IMAGE="+operatorImage, "PROVIDERS=aws", "TEST_ID="+bucket, "SSL_CERT_FILE="+server.CAFile,
		"AWS_ACCESS_KEY_ID="+server.Root.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+server.Root.SecretAccessKey, "AWS_REGION="+server.Region, "AWS_ENDPOINT_URL_S3="+server.Endpoint)
	run := func(steps string) (string, error) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestEachExampleOfACloudMakesABackup$", "-test.v", "-test.count=1")
		cmd.Env = append(env, "STEPS="+steps)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	does := func(steps string) {
		t.Helper()
		begun := time.Now()
		out, err := run(steps)
		if err != nil {
			t.Fatalf("%s: %v\n%s", steps, err, out)
		}
		t.Logf("%s took %s\n%s", steps, time.Since(begun).Round(time.Second), out)
	}
	// What is of no namespace, without volumes: whose class keeps them is nothing of the operator's.
	objects := func() string {
		out, err := theirs.Kubectl(t.Context(), "get", "-o", "name", "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,"+
			"validatingadmissionpolicies,validatingadmissionpolicybindings,validatingwebhookconfigurations,mutatingwebhookconfigurations")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	buckets := func() (names []string) {
		all, err := server.Client(server.Root).ListBuckets(t.Context(), &s3.ListBucketsInput{})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range all.Buckets {
			names = append(names, *b.Name)
		}
		return names
	}
	before := objects()

	does("setup,deploy")
	operator, err := theirs.Client.AppsV1().Deployments(chart.Namespace).Get(t.Context(), "etcd-druid", metav1.GetOptions{})
	if err != nil || operator.Status.AvailableReplicas == 0 {
		t.Fatalf("after deploy no operator is available: %v", err)
	}
	if got := buckets(); !slices.Equal(got, []string{bucket}) {
		t.Errorf("after setup the buckets are %q", got)
	}
	if out, err := run("deploy,undeploy"); err == nil || !strings.Contains(out, "an operator is or was there") {
		t.Errorf("deploy where an operator is: %v\n%s", err, out)
	}

	does("test")
	kept, err := server.Raw(server.Root, bucket).Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(kept, func(v stores.RawVersion) bool {
		return strings.HasPrefix(v.Key, "default/s3/") && strings.Contains(v.Key, "/Full-")
	}) {
		t.Errorf("after test the bucket has %+v", kept)
	}

	does("undeploy,cleanup")
	if after := objects(); after != before {
		t.Errorf("after undeploy there are\n%s\nand before deploy there were\n%s", after, before)
	}
	if got := buckets(); len(got) > 0 {
		t.Errorf("after cleanup there are the buckets %q", got)
	}
}
