package operator_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/writers"
)

// On real nodes a cluster falls asleep, loses its volumes and begins anew from its bucket, by operators that all die after their first
// step that changes anything: no volume goes before the final full is in the bucket, and whatever clients were told is there in the end.
func TestOperatorsThatDieAfterEachStepPutAClusterToSleepWithoutVolumes(t *testing.T) {
	together(t, heavy)
	s := onNodes(t)
	store, err := stores.StartMinIO(t.Context(), stores.MinIOOptions{Dir: filepath.Join(t.TempDir(), "minio"), Host: s.Host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := store.CreateBucket(t.Context(), "shop", stores.Compliance, 1); err != nil {
		t.Fatal(err)
	}
	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "store"}, StringData: sites.S3Way(&store.S3, "shop", store.Endpoint, store.Root).Files}
	if _, err := s.Client.CoreV1().Secrets("shop").Create(t.Context(), keys, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	m := s.mortal(t, automatic, "images: {all: "+memberImage+"}")
	s.apply(t, fmt.Sprintf(`
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: main, namespace: shop}
spec:
  labels: {}
  replicas: 3
  storageCapacity: 1Gi
  etcd: {}
  hibernation: {volumes: Delete}
  backup:
    deltaSnapshotPeriod: 2s
    fullSnapshotSchedule: "0 */6 * * *" # locks of a day would end before the next midnight's run is through
    store: {provider: aws, container: shop, prefix: shop, endpointOverride: %q, secretRef: {name: store}, immutability: {retentionType: bucket}}
`, store.Endpoint))
	members := s.condition("shop", "main", "AllMembersReady", "True", "AllMembersReady", "3 of 3")
	m.until(t, 5*time.Minute, members)
	m.until(t, 5*time.Minute, s.condition("shop", "main", "BackupReady", "True", "BackupSucceeded", ""))
	etcd := s.etcdOf(t, "shop")
	w := writing(t, etcd)
	final := func() bool { // what is in the bucket and ends as a final full does
		versions, err := store.Raw(store.Root, "shop").Versions(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Error(err)
		}
		for _, v := range versions {
			if strings.HasSuffix(v.Key, ".final") {
				return true
			}
		}
		return false
	}
	claims := 0
	road := m.g.road("shop")
	road.watch(func(step, _ string) {
		if strings.HasPrefix(step, "DELETE persistentvolumeclaims/") {
			if claims++; !final() {
				t.Errorf("%s, and there is no final full", step)
			}
		}
	})
	road.tell()
	road.shorten(true)
	s.change(t, "Etcd", "shop", "main", replicas(0)) // clients write on
	m.until(t, 8*time.Minute, s.condition("shop", "main", "Hibernated", "True", "Hibernated", ""))
	w.Stop()
	m.until(t, 5*time.Minute, func(ctx context.Context) error {
		all, err := s.Client.CoreV1().PersistentVolumeClaims("shop").List(ctx, metav1.ListOptions{})
		if err == nil && len(all.Items) > 0 {
			err = fmt.Errorf("%d volumes are left", len(all.Items))
		}
		return err
	})
	t.Logf("asleep, by operators of which %d died; %d writes were acknowledged", m.deaths, w.EverAcknowledged())
	if m.deaths < 8 {
		t.Errorf("%d operators died: too few to show anything", m.deaths)
	}
	if claims < 3 {
		t.Errorf("%d deletions of claims were seen", claims)
	}
	m.until(t, 5*time.Minute, s.condition("shop", "main", "HibernationBackupProtected", "True", "FinalSnapshotProtected", ""))

	before := m.deaths
	s.change(t, "Etcd", "shop", "main", replicas(3))
	m.until(t, 8*time.Minute, members)
	m.until(t, 5*time.Minute, func(ctx context.Context) error {
		e, err := s.get(ctx, "Etcd", "shop", "main")
		if err != nil {
			return err
		}
		if status, _ := e.Object["status"].(map[string]any); status["hibernation"] != nil {
			return fmt.Errorf("of the sleep is told %v", status["hibernation"])
		}
		return nil
	})
	t.Logf("awake, by operators of which %d died", m.deaths-before)
	if m.deaths-before < 3 {
		t.Errorf("%d operators died: too few to show anything", m.deaths-before)
	}
	road.shorten(false)
	again := s.etcdOf(t, "shop")
	var all *clientv3.GetResponse
	if err := cluster.Await(t.Context(), time.Minute, func(ctx context.Context) error {
		var err error
		all, err = again.Get(ctx, writers.Prefix, clientv3.WithPrefix())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, lost := range w.Ledger.AgainstKeys(all.Kvs, all.Header.Revision) {
		t.Error(lost)
	}
}
