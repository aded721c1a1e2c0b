package journeys_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/stores"
)

// backToDeletable goes the way that the documentation names for whoever wants no locks any more: a bucket without
// them, a copy, and the Etcd moved to it. What the locked bucket has stays locked.
func (p *shop) backToDeletable(t *testing.T, locked map[string]any) {
	bucket := p.namespace + "-deletable"
	if err := p.minio.CreateBucket(t.Context(), bucket, stores.Versioned, 0); err != nil {
		t.Fatal(err)
	}
	p.patch(t, `{backup: {store: {immutability: null}}}`)
	p.await(t, "it is told when the locks end", p.says(druidv1alpha1.ConditionBackupsProtected, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonImmutabilityRemoved, ""))

	from := maps.Clone(locked)
	delete(from, "immutability")
	delete(from, "roles")
	from["secretRef"] = map[string]any{"name": storeSecret} // of the owner, as the writer knows the locked bucket alone
	to := maps.Clone(from)
	to["container"] = bucket
	p.apply(t, map[string]any{
		"apiVersion": druidv1alpha1.GroupVersion().String(), "kind": druidv1alpha1.KindEtcdCopyBackupsTask,
		"metadata": map[string]any{"name": "away", "namespace": p.namespace}, "spec": map[string]any{"sourceStore": from, "targetStore": to},
	})
	p.kubectl(t, "--namespace="+p.namespace, "wait", "etcdcopybackupstask/away", "--for=condition=Succeeded", "--timeout="+patience.String())
	raw := p.minio.Raw(p.minio.Root, bucket)
	copied, err := raw.Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	p.patch(t, `{backup: {store: {container: `+bucket+`, secretRef: {name: `+storeSecret+`}, roles: null}}}`)
	p.await(t, "its members are moved", p.whole)
	p.apply(t, map[string]any{
		"apiVersion": druidv1alpha1.GroupVersion().String(), "kind": druidv1alpha1.KindEtcdOperatorTask, "metadata": map[string]any{"name": "there", "namespace": p.namespace},
		"spec": map[string]any{"type": "OnDemandSnapshot", "config": map[string]any{"onDemandSnapshot": map[string]any{"type": "full"}}, "ownerEtcdReference": map[string]any{"name": name}},
	})
	p.kubectl(t, "--namespace="+p.namespace, "wait", "etcdoperatortask/there", "--for=jsonpath={.status.state}=Succeeded", "--timeout="+patience.String())
	p.await(t, "a full is in the bucket without locks", func(ctx context.Context) error {
		known := map[string]bool{}
		for _, v := range copied {
			known[v.Key] = true
		}
		now, err := raw.Versions(ctx)
		if err != nil {
			return err
		}
		for _, v := range now {
			if strings.Contains(v.Key, "/Full-") && !known[v.Key] {
				return nil
			}
		}
		return errors.New("no full snapshot was taken there")
	})
	snapshots := 0
	for _, v := range copied {
		if strings.Contains(v.Key, "/Full-") {
			snapshots++
		}
		if err := raw.Delete(t.Context(), v); err != nil {
			t.Errorf("what was copied cannot be deleted: %s: %v", v.Key, err)
		}
	}
	if snapshots == 0 {
		t.Errorf("no full snapshot was copied: %+v", copied)
	}
	kept, err := p.minio.Raw(p.minio.Root, p.namespace).Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range kept {
		if err := p.minio.Raw(p.minio.Root, p.namespace).Delete(t.Context(), v); err == nil && strings.Contains(v.Key, "/Full-") && v.Size > 0 {
			t.Errorf("the lock of %s was taken off with the specification", v.Key)
		}
	}
}
