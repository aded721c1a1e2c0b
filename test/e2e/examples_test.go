package e2e

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/test/members"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// exampleSites are the examples whose store speaks what a server of this machine does, and that server.
// Of the others the API server's tests say how far they get: there is no server for an identity that a
// cloud gives to pods.
var exampleSites = map[string]string{
	"s3.yaml": "MinIO", "minio.yaml": "MinIO", "ocs.yaml": "MinIO", "ecs.yaml": "MinIO",
	"ceph.yaml": "Ceph", "gcs.yaml": "GCS", "abs.yaml": "Azure", "local.yaml": "Local",
}

// example is a file of examples/ with a Secret and an Etcd, laid over by a bucket of this machine.
type example struct {
	etcd   *druidv1alpha1.Etcd
	secret map[string]string
}

// readExample lays a bucket over an example: its name, its endpoint, its credentials, and the authority of its
// server's certificate. The keys of the Secret, and everything else, are the example's.
func readExample(t *testing.T, file string, way sites.Way) example {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../examples", file))
	if err != nil {
		t.Fatal(err)
	}
	e := example{etcd: &druidv1alpha1.Etcd{}, secret: map[string]string{}}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var secret corev1.Secret
		into := any(e.etcd)
		if strings.Contains(document, "kind: Secret") {
			into = &secret
		}
		if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		maps.Copy(e.secret, secret.StringData)
	}
	for key, was := range e.secret {
		switch value, known := way.Files[key]; {
		case known:
			e.secret[key] = value
		case key == "endpoint":
			e.secret[key] = way.Endpoint
		default:
			t.Errorf("%s: nothing is laid over the key %s of the Secret, which is %q", file, key, was)
		}
	}
	e.etcd.Namespace = "default"
	e.etcd.SetDefaults()
	store := e.etcd.Spec.Backup.Store
	store.Container = &way.Container
	if e.secret["endpoint"] == "" && way.Endpoint != "" {
		store.EndpointOverride = &way.Endpoint
	}
	return e
}

// environment is that of the sidecar's container as the operator makes it, with the Secret's files in dir.
func (e example) environment(t *testing.T, pod corev1.PodSpec, dir string) (env []string) {
	t.Helper()
	if e.etcd.Spec.Backup.Store.SecretRef == nil {
		return nil
	}
	for key, value := range e.secret {
		if err := os.WriteFile(filepath.Join(dir, key), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sidecar := pod.Containers[slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == desired.ContainerSidecar })]
	mounted := ""
	for _, v := range pod.Volumes {
		if v.Secret == nil || v.Secret.SecretName != e.etcd.Spec.Backup.Store.SecretRef.Name {
			continue
		}
		for _, m := range sidecar.VolumeMounts {
			if m.Name == v.Name {
				mounted = strings.TrimSuffix(m.MountPath, "/")
			}
		}
	}
	for _, v := range sidecar.Env {
		switch {
		case v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil:
			if value, has := e.secret[v.ValueFrom.SecretKeyRef.Key]; has {
				env = append(env, v.Name+"="+value)
			}
		case mounted != "" && strings.HasPrefix(v.Value, mounted):
			env = append(env, v.Name+"="+dir+strings.TrimPrefix(v.Value, mounted))
		}
	}
	if len(env) == 0 {
		t.Fatalf("the container has no credentials: %+v", sidecar.Env)
	}
	return env
}

// place is where the backup of the example lies, seen from here.
func (e example) place(t *testing.T, way sites.Way) place {
	p := told(t, way)
	for i, flag := range p.store {
		if strings.HasPrefix(flag, "--store-prefix=") {
			p.store[i] = "--store-prefix=" + e.etcd.Spec.Backup.Store.Prefix
		}
	}
	return p
}

// TestEachExampleOfACloudMakesABackup runs a member with the configuration of the store, and the environment, that
// the operator makes of an example, against a server of this machine. What it wrote is found by what the
// example says. With PROVIDERS in the environment real accounts are used instead, see askedFor, and with KUBECONFIG
// the operator on that cluster, see clusterAskedFor.
func TestEachExampleOfACloudMakesABackup(t *testing.T) {
	t.Parallel()
	if os.Getenv("PROVIDERS") == "" {
		for _, file := range slices.Sorted(maps.Keys(exampleSites)) {
			t.Run(file, func(t *testing.T) {
				site := fleet.Get(t, exampleSites[file])
				endpoint, ca := site.Reach()
				way, err := site.Way(t.Context(), fleet.Bucket(t, site, site.Kinds()[0]), endpoint, sites.Owner)
				if err != nil {
					t.Fatal(err)
				}
				exampleBacksUp(t, file, way, ca)
			})
		}
		return
	}
	of, steps, err := askedFor(os.Getenv)
	kubeconfig, image, clusterErr := clusterAskedFor(os.Getenv, steps)
	if err := errors.Join(err, clusterErr); err != nil {
		t.Fatal(err)
	}
	backsUp := func(t *testing.T, a account) { exampleBacksUp(t, a.example, a.way, nil) }
	if kubeconfig != "" {
		backsUp = install(t, kubeconfig, image, steps).exampleBacksUp
	}
	for _, provider := range slices.Sorted(maps.Keys(of)) {
		t.Run(provider, func(t *testing.T) {
			a := of[provider]
			if slices.Contains(steps, "setup") {
				if err := a.create(t.Context()); err != nil {
					t.Fatalf("setup: make %s: %v", a.way.Container, err)
				}
			}
			if slices.Contains(steps, "cleanup") {
				t.Cleanup(func() {
					if err := a.remove(context.Background()); err != nil {
						t.Errorf("cleanup: remove %s: %v", a.way.Container, err)
					}
				})
			}
			if slices.Contains(steps, "test") {
				backsUp(t, a)
			}
		})
	}
}

// exampleBacksUp lays a bucket over an example, and has a member back up into it. Without ca the authorities of
// the system are trusted.
func exampleBacksUp(t *testing.T, file string, way sites.Way, ca *stores.CA) {
	t.Helper()
	programs, err := built.Get()
	if err != nil {
		t.Fatal(err)
	}
	e := readExample(t, file, way)
	set, err := desired.Objects(desired.Input{Etcd: e.etcd, Members: 1, Replicas: 1, Owner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	var made map[string]any
	if err := yaml.Unmarshal([]byte(set.ConfigMap.Data[desired.SidecarFile]), &made); err != nil {
		t.Fatal(err)
	}
	made["snapstoreConfig"].(map[string]any)["tempDir"] = t.TempDir()
	environment := e.environment(t, set.StatefulSet.Spec.Template.Spec, t.TempDir())
	if ca != nil {
		authority := filepath.Join(t.TempDir(), "ca.crt")
		if err := os.WriteFile(authority, ca.PEM, 0o600); err != nil {
			t.Fatal(err)
		}
		environment = append(environment, "SSL_CERT_FILE="+authority)
	}
	c := &crew{place: e.place(t, way)}
	c.Cluster = members.Lay(t, members.Options{Programs: programs, Environment: environment, Sidecar: func(_ string, config map[string]any) {
		for _, section := range []string{"snapstoreConfig", "snapshotterConfig", "compressionConfig", "owner"} {
			config[section] = made[section]
		}
	}})
	c.start()
	put, err := c.client.Put(t.Context(), "/example", file)
	c.must(err)
	c.upload(put.Header.Revision)
	c.verifies()
}
