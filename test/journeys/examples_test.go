package journeys_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

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
	for file, way := range ways {
		s.apply(t, inNamespace(namespace, laidOver(t, file+".yaml", way))...)
	}
	bare := []string{"minimal", "without-backups"}
	for _, file := range bare {
		objects := read(t, file+".yaml")
		delete(objects[0]["spec"].(map[string]any), "storageClass") // the reader's own
		s.apply(t, inNamespace(namespace, objects)...)
	}
	await := func(name, condition string) {
		s.kubectl(t, "--namespace="+namespace, "wait", "etcd/"+name, "--for=condition="+condition, "--timeout="+patience.String())
	}
	for name := range ways {
		await(name, "Ready")
		await(name, "BackupReady")
	}
	for _, name := range bare {
		await(name, "Ready")
	}
	for file, kind := range map[string]string{"snapshot-task": "etcdoperatortask", "ops-task": "etcdopstask"} { // of the Etcd s3, as they stand
		s.apply(t, inNamespace(namespace, read(t, file+".yaml"))...)
		s.kubectl(t, "--namespace="+namespace, "wait", kind+"/"+file, "--for=jsonpath={.status.state}=Succeeded", "--timeout="+patience.String())
	}
	t.Log(s.kubectl(t, "--namespace="+namespace, "get", "etcd"))
	s.kubectl(t, "--namespace="+namespace, "delete", "etcd", "--all", "--timeout="+patience.String())
	s.kubectl(t, "--namespace="+namespace, "delete", "persistentvolumeclaims", "--all", "--wait=false")
}

func inNamespace(namespace string, objects []map[string]any) (all []any) {
	for _, o := range objects {
		o["metadata"].(map[string]any)["namespace"] = namespace
		all = append(all, o)
	}
	return all
}

// read are the objects of an example.
func read(t *testing.T, file string) (objects []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", file))
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
		store := o["spec"].(map[string]any)["backup"].(map[string]any)["store"].(map[string]any)
		store["container"] = way.Container
		if way.Endpoint != "" {
			store["endpointOverride"] = way.Endpoint
		}
	}
	return objects
}
