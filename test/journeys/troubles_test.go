package journeys_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/stores"
)

// toldWithin is what is promised from what happens to the condition that says so. It holds on two busy cores with the start of a
// pod in it.
const toldWithin = time.Minute

// trouble is one that an Etcd is born with.
type trouble struct {
	namespace       string
	more            map[string]any              // of the specification
	secret          map[string]string           // with the store's credentials; nil: there is none
	bucket          bool                        // is there
	condition       druidv1alpha1.ConditionType // that says so
	reason, message string
	remedy          func(*testing.T, *shop)
}

// Etcds are born with a trouble each, and two get into one later. The status says so within a minute, and goes on by itself after
// the remedy.
func troubles(t *testing.T, s *site) {
	wrong := s.credentials("")
	wrong["secretAccessKey"] = "not-the-secret-of-this-key"
	correct := func(t *testing.T, p *shop) {
		t.Helper()
		s.apply(t, secret(p.namespace, storeSecret, s.credentials("")))
	}
	all := []trouble{
		{namespace: "no-secret", bucket: true,
			condition: druidv1alpha1.ConditionAllMembersReady, reason: druidv1alpha1.ReasonSecretMissing,
			message: "etcd-backup (spec.backup.store.secretRef); make them in the namespace of the Etcd, or correct the fields", remedy: correct},
		{namespace: "bad-credentials", bucket: true, secret: wrong,
			condition: druidv1alpha1.ConditionBackupReady, reason: druidv1alpha1.ReasonStoreAccessDenied,
			message: "correct the credentials in the Secret etcd-backup (spec.backup.store.secretRef)", remedy: correct},
		{namespace: "no-bucket", secret: s.credentials(""),
			condition: druidv1alpha1.ConditionBackupReady, reason: druidv1alpha1.ReasonStoreContainerMissing,
			message: "make the bucket no-bucket, or correct spec.backup.store.container",
			remedy:  func(t *testing.T, p *shop) { t.Helper(); s.container(t, p.namespace) }},
		{namespace: "no-node", bucket: true, secret: s.credentials(""),
			more:      map[string]any{"etcd": map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "1000"}}}},
			condition: druidv1alpha1.ConditionAllMembersReady, reason: druidv1alpha1.ReasonPodUnschedulable,
			message: "main-0: it never reported, its pod cannot be scheduled (0/3 nodes are available: 3 Insufficient cpu",
			remedy:  func(t *testing.T, p *shop) { t.Helper(); p.patch(t, `{etcd: {resources: {requests: {cpu: 50m}}}}`) }},
	}
	shops := map[string]*shop{}
	born := map[string]time.Time{}
	for _, one := range all {
		s.namespace(t, one.namespace)
		if one.bucket {
			s.container(t, one.namespace)
		}
		if one.secret != nil {
			s.apply(t, secret(one.namespace, storeSecret, one.secret))
		}
		settings := backed(map[string]any{
			"provider": "aws", "container": one.namespace, "prefix": "shop", "endpointOverride": s.minio.Endpoint, "secretRef": map[string]any{"name": storeSecret},
		})
		for key, value := range one.more {
			settings[key] = value
		}
		shops[one.namespace] = s.found(t, one.namespace, spec(1, settings))
		born[one.namespace] = time.Now()
	}
	for _, one := range all {
		p := shops[one.namespace]
		p.tells(t, born[one.namespace], one.condition, one.reason, one.message)
		one.remedy(t, p)
	}
	for _, one := range all {
		shops[one.namespace].opens(t)
	}

	// What was good goes bad, while clients write.
	denied, lost := shops["bad-credentials"], shops["no-bucket"]
	for _, p := range []*shop{denied, lost} {
		p.write(t, p.client)
	}
	s.apply(t, secret(denied.namespace, storeSecret, wrong))
	since := time.Now()
	s.await(t, "the bucket is removed", func(ctx context.Context) error { return s.uncontain(ctx, lost.namespace) })
	denied.tells(t, since, druidv1alpha1.ConditionBackupReady, druidv1alpha1.ReasonStoreAccessDenied, "correct the credentials in the Secret etcd-backup")
	lost.tells(t, since, druidv1alpha1.ConditionBackupReady, druidv1alpha1.ReasonStoreContainerMissing, "make the bucket no-bucket")
	correct(t, denied)
	s.container(t, lost.namespace)
	for _, p := range []*shop{denied, lost} {
		s.await(t, "the Etcd is whole", p.whole)
		p.nothingIsLost(t, p.client)
		s.await(t, "all is uploaded", p.uploaded(p.writers.Ledger.Newest()))
	}
}

// container makes a bucket.
func (s *site) container(t *testing.T, name string) {
	t.Helper()
	if err := s.minio.CreateBucket(t.Context(), name, stores.Versioned, 0); err != nil {
		t.Fatal(err)
	}
}

// uncontain removes a bucket with all that is in it, while somebody writes there.
func (s *site) uncontain(ctx context.Context, name string) error {
	raw := s.minio.Raw(s.minio.Root, name)
	versions, err := raw.Versions(ctx)
	if err != nil {
		return err
	}
	for _, v := range versions {
		err = errors.Join(err, raw.Delete(ctx, v))
	}
	if err == nil {
		_, err = s.minio.Client(s.minio.Root).DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &name})
	}
	return err
}

// tells waits until kubectl shows a condition that is False, for a reason and with words, soon enough after what happened.
func (p *shop) tells(t *testing.T, since time.Time, of druidv1alpha1.ConditionType, reason, message string) {
	t.Helper()
	shown := fmt.Sprintf(`-o=jsonpath={range .status.conditions[?(@.type=="%s")]}{.status} {.reason}: {.message}{end}`, of)
	var seen string
	err := cluster.Await(t.Context(), time.Until(since.Add(toldWithin)), func(ctx context.Context) (err error) {
		if seen, err = p.Kubectl(ctx, "--namespace="+p.namespace, "get", "etcd", name, shown); err != nil {
			return err
		}
		if !strings.HasPrefix(seen, "False "+reason+": ") || !strings.Contains(seen, message) {
			return fmt.Errorf("%s is %q, want False, %s with %q", of, seen, reason, message)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: what happened is not told within %s: %v", p.namespace, toldWithin, err)
	}
	t.Logf("%s: after %s %s is %s", p.namespace, time.Since(since).Round(100*time.Millisecond), of, seen)
}
