package journeys_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	clientv3 "go.etcd.io/etcd/client/v3"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/writers"
)

// A task copies the backups into another bucket, byte for byte, and another Etcd begins with them.
func copyBackups(t *testing.T, s *site) {
	const namespace, elsewhere, prefix = "copy", "copied", "shop"
	s.namespace(t, namespace)
	from := s.bucket(t, namespace, "copy-from", prefix)
	to := s.bucket(t, namespace, "copy-to", prefix)
	p := s.open(t, namespace, spec(1, backed(from)))
	p.write(t, p.client)
	p.nothingIsLost(t, p.client)
	s.await(t, "all is uploaded", p.uploaded(p.writers.Ledger.Newest()))

	s.apply(t, map[string]any{
		"apiVersion": druidv1alpha1.GroupVersion().String(), "kind": druidv1alpha1.KindEtcdCopyBackupsTask,
		"metadata": map[string]any{"name": "move", "namespace": namespace}, "spec": map[string]any{"sourceStore": from, "targetStore": to},
	})
	s.kubectl(t, "--namespace="+namespace, "wait", "etcdcopybackupstask/move", "--for=condition=Succeeded", "--timeout="+patience.String())
	var task druidv1alpha1.EtcdCopyBackupsTask
	if err := p.read(t.Context(), "etcdcopybackupstasks", "move", &task); err != nil {
		t.Fatal(err)
	}
	c := druidv1alpha1.FindCondition(task.Status.Conditions, "Succeeded")
	if c == nil || c.Reason != druidv1alpha1.ReasonCopySucceeded || task.Status.LastError != nil {
		t.Errorf("Succeeded is %+v, the last error %v", c, task.Status.LastError)
	}
	want, got := s.snapshots(t, "copy-from"), s.snapshots(t, "copy-to")
	if len(want) == 0 || !slices.Equal(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))) {
		t.Fatalf("the target has %q, want %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	for key, content := range want {
		if !bytes.Equal(got[key], content) {
			t.Errorf("%s is not what it was", key)
		}
	}
	s.kubectl(t, "--namespace="+namespace, "delete", "etcdcopybackupstask", "move", "--timeout="+patience.String())
	if left := s.kubectl(t, "--namespace="+namespace, "get", "jobs", "-o", "name"); left != "" {
		t.Errorf("the task is gone and %s is not", left)
	}

	s.namespace(t, elsewhere)
	s.apply(t, secret(elsewhere, storeSecret, s.credentials("copy-to")))
	copied := s.open(t, elsewhere, spec(1, backed(to)))
	all, err := copied.client.Get(t.Context(), writers.Prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, lost := range p.writers.Ledger.AgainstKeys(all.Kvs, all.Header.Revision) {
		t.Error(lost)
	}
}

// uploaded is nil once the backups reach a revision.
func (p *shop) uploaded(rev int64) func(context.Context) error {
	return func(ctx context.Context) error {
		e, err := p.etcd(ctx)
		if err != nil {
			return err
		}
		var reached int64
		for i := range int(e.Spec.Replicas) {
			var m druidv1alpha1.EtcdMember
			if err := p.read(ctx, "etcdmembers", e.MemberName(i), &m); err != nil {
				return err
			}
			if m.Status.Snapshots == nil {
				continue
			}
			for _, s := range []*druidv1alpha1.MemberSnapshot{m.Status.Snapshots.LastFull, m.Status.Snapshots.LastDelta} {
				if s != nil {
					reached = max(reached, s.EndRevision)
				}
			}
		}
		if reached < rev {
			return fmt.Errorf("the backups reach revision %d, want %d", reached, rev)
		}
		return nil
	}
}

// snapshots are the fulls and deltas in a bucket by their keys.
func (s *site) snapshots(t *testing.T, bucket string) map[string][]byte {
	t.Helper()
	c := s.minio.Client(s.minio.Root)
	all, err := c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &bucket})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]byte{}
	for _, o := range all.Contents {
		if !strings.Contains(*o.Key, "/Full-") && !strings.Contains(*o.Key, "/Incr-") {
			continue
		}
		r, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket, Key: o.Key})
		if err != nil {
			t.Fatal(err)
		}
		found[*o.Key], err = io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}
