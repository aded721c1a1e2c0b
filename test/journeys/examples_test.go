package journeys_test

import (
	"context"
	"crypto/rand"
	cryptotls "crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/examples/policies"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// Examples are applied as they stand, but for what is the reader's: the bucket, the endpoint, the keys and the authority that is
// trusted, which are those of servers of this machine. Each becomes ready and backs up.
func examples(t *testing.T, s *site) {
	const namespace = "examples"
	s.namespace(t, namespace)
	fleet := &sites.Fleet{Host: s.Host}
	t.Cleanup(func() {
		if err := fleet.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := s.minio.CreateBucket(t.Context(), namespace, stores.Versioned, 0); err != nil {
		t.Fatal(err)
	}
	ways := map[string]sites.Way{}
	for _, file := range []string{"s3", "minio", "ocs", "ecs", "ceph"} { // each below a prefix of its own
		ways[file] = sites.S3Way(&s.minio.S3, namespace, s.minio.Endpoint, s.minio.Root)
	}
	for file, of := range map[string]string{"gcs": "GCS", "abs": "Azure"} {
		server := fleet.Get(t, of)
		endpoint, _ := server.Reach()
		way, err := server.Way(t.Context(), fleet.Bucket(t, server, server.Kinds()[0]), endpoint, sites.Owner)
		if err != nil {
			t.Fatal(err)
		}
		ways[file] = way
	}
	// The directory is one of the node, and nodes of ours are in this machine.
	local := "journey-" + strings.ToLower(rand.Text())
	ways["local"] = sites.Way{Container: local}
	t.Cleanup(func() {
		if s.ours {
			if err := os.RemoveAll(filepath.Join(desired.DefaultHostPath, local)); err != nil {
				t.Error(err)
			}
		}
	})
	in := func(file string) (objects []any) {
		if way, is := ways[file]; is {
			return inNamespace(namespace, laidOver(t, file+".yaml", way))
		}
		own := read(t, file+".yaml")
		delete(own[0]["spec"].(map[string]any), "storageClass") // the reader's
		return inNamespace(namespace, own)
	}
	await := func(kind, name, namespace, condition string) {
		t.Helper()
		s.kubectl(t, "--namespace="+namespace, "wait", kind+"/"+name, "--for="+condition, "--timeout="+patience.String())
	}
	// Nine members at a time are as many as two cores take.
	rounds := [][]string{{"s3", "local", "minimal", "without-backups"}, {"minio", "ceph", "ocs"}, {"gcs", "abs", "ecs"}}
	for i, files := range rounds {
		for _, file := range files {
			s.apply(t, in(file)...)
		}
		for _, name := range files {
			await("etcd", name, namespace, "condition=Ready")
			if _, is := ways[name]; is {
				await("etcd", name, namespace, "condition=BackupReady")
			}
		}
		if i == 0 {
			s.tasksOfExamples(t, namespace, ways["s3"], await)
		}
		s.clear(t, namespace)
	}
	s.apply(t, inNamespace(namespace, s.withRoles(t, namespace+"-roles"))...)
	certificates := s.withCertificates(t)
	await("etcd", "s3-roles", namespace, "condition=Ready")
	await("etcd", "s3-roles", namespace, "condition=BackupReady")
	s.standingExamples(t, namespace, await)
	await("etcd", "tls", metav1.NamespaceDefault, "condition=Ready")
	s.onlyWithCertificate(t, certificates)
	s.clear(t, namespace)
	// There may be others in this one.
	s.kubectl(t, "--namespace="+metav1.NamespaceDefault, "delete", "etcd", "tls", "--timeout="+patience.String())
	s.kubectl(t, "--namespace="+metav1.NamespaceDefault, "delete", "persistentvolumeclaims", "--selector=app.kubernetes.io/part-of=tls", "--wait=false")
	s.kubectl(t, "--namespace="+metav1.NamespaceDefault, "delete", "secrets", "tls-ca", "tls-server", "tls-client")
}

// clear shows the Etcds of a namespace and deletes them with their volumes.
func (s *site) clear(t *testing.T, namespace string) {
	t.Helper()
	t.Log("\n" + s.kubectl(t, "--namespace="+namespace, "get", "etcd"))
	s.kubectl(t, "--namespace="+namespace, "delete", "etcd", "--all", "--timeout="+patience.String())
	s.kubectl(t, "--namespace="+namespace, "delete", "persistentvolumeclaims", "--all", "--wait=false")
}

// tasksOfExamples are those of the Etcd s3, as they stand, and the copy of its backups.
func (s *site) tasksOfExamples(t *testing.T, namespace string, way sites.Way, await func(kind, name, namespace, condition string)) {
	t.Helper()
	for file, kind := range map[string]string{"snapshot-task": "etcdoperatortask", "ops-task": "etcdopstask"} {
		s.apply(t, inNamespace(namespace, read(t, file+".yaml"))...)
		await(kind, file, namespace, "jsonpath={.status.state}=Succeeded")
	}
	const copies = "copies"
	if err := s.minio.CreateBucket(t.Context(), copies, stores.Versioned, 0); err != nil {
		t.Fatal(err)
	}
	task := laidOver(t, "copy.yaml", way)
	task[len(task)-1]["spec"].(map[string]any)["targetStore"].(map[string]any)["container"] = copies
	s.apply(t, inNamespace(namespace, task)...)
	await("etcdcopybackupstask", "copy", namespace, "condition=Succeeded")
	if len(s.snapshots(t, copies)) == 0 {
		t.Error("the copy has no snapshot")
	}
	s.kubectl(t, "--namespace="+namespace, "delete", "etcdcopybackupstask", "copy", "--timeout="+patience.String())
	var fulls []string
	for key := range s.snapshots(t, copies) {
		if strings.Contains(key, "/Full-") {
			fulls = append(fulls, key)
		}
	}
	exclusion := read(t, "exclusion-task.yaml")
	what := exclusion[0]["spec"].(map[string]any)["config"].(map[string]any)["excludeSnapshots"].(map[string]any)
	what["names"] = []any{path.Base(slices.Min(fulls))} // of which snapshot-task has taken another one
	s.apply(t, inNamespace(namespace, exclusion)...)
	await("etcdoperatortask", "exclusion-task", namespace, "jsonpath={.status.state}=Succeeded")
}

// standingExamples are the tasks that go on, for the Etcd s3-roles: its collection, and, while it sleeps, the extension of its locks. It
// is to have neither by itself.
func (s *site) standingExamples(t *testing.T, namespace string, await func(kind, name, namespace, condition string)) {
	t.Helper()
	begin := func(file string) {
		t.Helper()
		task := read(t, file+".yaml")
		task[0]["spec"].(map[string]any)["ownerEtcdReference"] = map[string]any{"name": "s3-roles"}
		s.apply(t, inNamespace(namespace, task)...)
		await("etcdoperatortask", file, namespace, "jsonpath={.status.state}=InProgress")
		// It is not waited for the time of its schedule.
		of := s.kubectl(t, "--namespace="+namespace, "get", "cronjobs", `--output=jsonpath={.items[?(@.metadata.ownerReferences[0].name=="`+file+`")].metadata.name}`)
		s.kubectl(t, "--namespace="+namespace, "create", "job", file, "--from=cronjob/"+of)
		await("job", file, namespace, "condition=Complete")
		t.Log("\n" + s.kubectl(t, "--namespace="+namespace, "logs", "job/"+file))
	}
	s.kubectl(t, "--namespace="+namespace, "patch", "etcd", "s3-roles", "--type=merge", `--patch={"spec":{"backup":{"garbageCollectionPeriod":"0s","store":{"immutability":null}}}}`)
	begin("collection-task")
	s.kubectl(t, "--namespace="+namespace, "scale", "etcd", "s3-roles", "--replicas=0")
	await("etcd", "s3-roles", namespace, "condition=Hibernated")
	begin("extension-task")
	t.Log("\n" + s.kubectl(t, "--namespace="+namespace, "get", "etcdoperatortasks,cronjobs"))
}

// withRoles are the objects of s3-roles.yaml, with a bucket that locks and with identities that may do what the policies say.
func (s *site) withRoles(t *testing.T, bucket string) []map[string]any {
	t.Helper()
	if err := s.minio.CreateBucket(t.Context(), bucket, stores.Compliance, 4); err != nil {
		t.Fatal(err)
	}
	objects := laidOver(t, "s3-roles.yaml", sites.S3Way(&s.minio.S3, bucket, s.minio.Endpoint, s.minio.Root))
	for _, o := range objects {
		if o["kind"] != "Secret" {
			continue
		}
		role := policies.Role(strings.TrimPrefix(o["metadata"].(map[string]any)["name"].(string), "s3-roles-"))
		keys, err := s.minio.Assume(t.Context(), policies.S3(role, bucket, "default/s3-roles"))
		if err != nil {
			t.Fatal(err)
		}
		o["stringData"] = sites.S3Way(&s.minio.S3, bucket, s.minio.Endpoint, keys).Files
	}
	return objects
}

// withCertificates makes the authority and the certificates by the commands in tls.yaml, and the Etcd, where they are for: in the
// namespace default. It returns the directory with the files.
func (s *site) withCertificates(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(example("tls.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var commands strings.Builder
	for line := range strings.Lines(string(text)) {
		if command, is := strings.CutPrefix(line, "#   "); is {
			commands.WriteString(command)
		}
	}
	dir := t.TempDir()
	if out, err := s.Shell(t.Context(), dir, commands.String()); err != nil {
		t.Fatalf("the commands in tls.yaml: %v\n%s", err, out)
	}
	objects := read(t, "tls.yaml")
	s.apply(t, inNamespace(metav1.NamespaceDefault, objects[len(objects)-1:])...)
	return dir
}

// onlyWithCertificate writes to the Etcd tls with the files in a directory, and without those of the client.
func (s *site) onlyWithCertificate(t *testing.T, dir string) {
	t.Helper()
	service, err := s.Client.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "tls-client", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := cryptotls.LoadX509KeyPair(filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	for _, certificates := range [][]cryptotls.Certificate{nil, {pair}} {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{"https://tls-client.default.svc:2379"}, Logger: zap.NewNop(),
			TLS: &cryptotls.Config{RootCAs: roots, Certificates: certificates},
			DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(service.Spec.ClusterIP, "2379"))
			})},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err = client.Put(ctx, "a", "b")
		cancel()
		if (err == nil) != (certificates != nil) {
			t.Errorf("with %d certificates a write to the Etcd tls gives the error %v", len(certificates), err)
		}
	}
}

func inNamespace(namespace string, objects []map[string]any) (all []any) {
	for _, o := range objects {
		o["metadata"].(map[string]any)["namespace"] = namespace
		all = append(all, o)
	}
	return all
}

func example(file string) string { return filepath.Join("..", "..", "examples", file) }

// read are the objects of an example.
func read(t *testing.T, file string) (objects []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(example(file))
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var o map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	return objects
}

// laidOver are the objects of an example with a way to a bucket.
func laidOver(t *testing.T, file string, way sites.Way) (objects []map[string]any) {
	t.Helper()
	for _, o := range read(t, file) {
		objects = append(objects, o)
		if o["kind"] == "Secret" {
			data := o["stringData"].(map[string]any)
			for key := range data {
				value, known := way.Files[key]
				if key == "endpoint" {
					value, known = way.Endpoint, true
				}
				if !known {
					t.Errorf("%s: nothing is laid over the key %s of the Secret", file, key)
				}
				data[key] = value
			}
			data[sites.CAFile] = way.Files[sites.CAFile]
			continue
		}
		spec := o["spec"].(map[string]any)
		places := []any{spec["sourceStore"], spec["targetStore"]}
		if o["kind"] == druidv1alpha1.KindEtcd {
			places = []any{spec["backup"].(map[string]any)["store"]}
		}
		for _, place := range places {
			store := place.(map[string]any)
			store["container"] = way.Container
			if way.Endpoint != "" {
				store["endpointOverride"] = way.Endpoint
			}
		}
	}
	return objects
}
