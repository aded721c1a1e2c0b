package journeys_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/examples/policies"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// extension is the name of the task that keeps backups locked while the Etcd main sleeps, and of its CronJob.
const extension = name + "-hibernation"

// An Etcd whose clients write on sleeps without volumes. Its members, its collector, its extender and its excluder have
// credentials of their own. Whoever has any of them, or the owner's, does what he can meanwhile, and after that the
// members wake up from the bucket with every write.
func immutability(t *testing.T, s *site) {
	const namespace = "immutability"
	s.namespace(t, namespace)
	store := s.bucket(t, namespace, namespace, "shop")
	store["immutability"] = map[string]any{"retentionType": "bucket"}
	roles := s.roles(t, namespace, "shop")
	store["secretRef"] = map[string]any{"name": string(policies.Writer)}
	store["roles"] = map[string]any{
		"collectorSecretRef": map[string]any{"name": string(policies.Collector)},
		"extenderSecretRef":  map[string]any{"name": string(policies.Extender)},
		"excluderSecretRef":  map[string]any{"name": string(policies.Excluder)},
	}
	// Between two extensions there is time enough under locks of a day.
	settings := map[string]any{
		"backup":      map[string]any{"deltaSnapshotPeriod": "2s", "fullSnapshotSchedule": "0 */6 * * *", "store": store},
		"hibernation": map[string]any{"volumes": "Delete"},
	}
	p := s.open(t, namespace, spec(3, settings))
	// Clients that the Service does not keep away do not stop to write over the connections that they have.
	p.write(t, p.direct(t))
	p.more(t)
	s.await(t, "it is told that nobody has all rights", func(ctx context.Context) error {
		e, err := p.etcd(ctx)
		if err == nil && (e.Status.Backup == nil || e.Status.Backup.Identities != druidv1alpha1.IdentitiesSeparate) {
			err = fmt.Errorf("of the backups is told %+v", e.Status.Backup)
		}
		return err
	})
	p.run(t, name+"-collection", "collect-now")
	s.kubectl(t, "--namespace="+namespace, "delete", "job", "collect-now", "--wait", "--cascade=foreground")
	p.excludes(t)
	p.patch(t, `{replicas: 0}`)
	s.await(t, "it sleeps", p.says(druidv1alpha1.ConditionHibernated, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonHibernated, ""))
	p.writers.Stop()
	t.Logf("before it slept, %d writes were acknowledged", p.writers.EverAcknowledged())
	s.await(t, "its backup is protected", p.says(druidv1alpha1.ConditionHibernationBackupProtected, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonFinalSnapshotProtected, ""))
	t.Log(s.kubectl(t, "--namespace="+namespace, "get", "etcd,etcdoperatortask", "-o", "wide"))
	for _, left := range strings.Fields(s.kubectl(t, "--namespace="+namespace, "get", "pods,persistentvolumeclaims", "-o", "name")) {
		if !strings.HasPrefix(left, "pod/"+extension+"-") { // the run that has looked
			t.Errorf("while it sleeps there is %s", left)
		}
	}
	if ports := s.kubectl(t, "--namespace="+namespace, "get", "service", name+"-client", "-o=jsonpath={.spec.ports[*].port}"); ports != "8080" {
		t.Errorf("while it sleeps the Service of clients has the ports %s", ports)
	}
	asleep, err := p.etcd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := asleep.Status.Hibernation.FinalSnapshot

	raw := s.minio.Raw(s.minio.Root, namespace)
	versions, err := raw.Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(versions, func(v stores.RawVersion) bool { return strings.HasSuffix(v.Key, "/"+before.Name) }) {
		t.Fatalf("the final snapshot %s is not among %+v", before.Name, versions)
	}
	p.attacked(t, roles, versions)
	for _, v := range versions {
		if err := raw.Delete(t.Context(), v); err == nil {
			t.Errorf("the owner of the bucket deletes %+v", v)
		}
		if err := errors.Join(raw.Overwrite(t.Context(), v.Key, []byte("pay")), raw.Hide(t.Context(), v.Key)); err != nil {
			t.Errorf("%s: %v", v.Key, err) // nothing to refuse it, so it must not matter
		}
	}

	// Longer is possible. A lock as long as before would not be worth a request yet.
	if err := s.minio.LockFor(t.Context(), s.minio.Root, namespace, stores.Compliance, 2); err != nil {
		t.Fatal(err)
	}
	p.run(t, extension, "extend-now")
	var after *druidv1alpha1.FinalSnapshot
	s.await(t, "the status has the later end of the locks", func(ctx context.Context) error {
		e, err := p.etcd(ctx)
		if err != nil {
			return err
		}
		after = e.Status.Hibernation.FinalSnapshot
		if after.LookedAt == nil || after.ProtectedUntil.Sub(before.ProtectedUntil.Time) < 20*time.Hour {
			return fmt.Errorf("it is %+v, and was %+v", after, before)
		}
		return nil
	})
	t.Logf("the locks would have ended %s, and end %s", before.ProtectedUntil.Format(time.RFC3339), after.ProtectedUntil.Format(time.RFC3339))

	fleet := s.fleet(t)
	timed, ends := s.sleepForMinutes(t, fleet) // they pass meanwhile
	p.patch(t, `{replicas: 3}`)
	s.await(t, "it is awake, and a new full is in the bucket", p.awake)
	s.await(t, "the extension has gone", func(ctx context.Context) error {
		for _, gone := range []string{"etcdoperatortasks/" + extension, "cronjobs/" + extension} {
			if _, err := s.Kubectl(ctx, "--namespace="+namespace, "get", gone); err == nil || !strings.Contains(err.Error(), string(metav1.StatusReasonNotFound)) {
				return fmt.Errorf("%s is there: %w", gone, err)
			}
		}
		return nil
	})
	s.await(t, "what was done to the bucket is an event", p.told("BackupTampered", ""))
	p.connect(t)
	p.holds(t, p.client)

	p.backToDeletable(t, store)
	p.holds(t, p.client)

	s.sleepPastThePeriod(t, fleet, timed, ends)
}

// roles makes Secrets of identities that may do what the documented policies allow, each named after its role.
func (s *site) roles(t *testing.T, bucket, prefix string) map[policies.Role]stores.Keys {
	t.Helper()
	all := map[policies.Role]stores.Keys{}
	for _, role := range []policies.Role{policies.Writer, policies.Collector, policies.Extender, policies.Excluder} {
		keys, err := s.minio.Assume(t.Context(), policies.S3(role, bucket, prefix))
		if err != nil {
			t.Fatal(err)
		}
		all[role] = keys
		s.apply(t, secret(bucket, string(role), sites.S3Way(&s.minio.S3, bucket, s.minio.Endpoint, keys).Files))
	}
	return all
}

// attacked has whoever has the credentials of a role try what harms. What no right and no lock refuses is harmless: a restore
// reads the versions of before.
func (p *shop) attacked(t *testing.T, roles map[policies.Role]stores.Keys, versions []stores.RawVersion) {
	t.Helper()
	ctx := t.Context()
	owner := p.minio.Raw(p.minio.Root, p.namespace)
	const elsewhere = "another/backup"
	if err := owner.Overwrite(ctx, elsewhere, []byte("another cluster's")); err != nil {
		t.Fatal(err)
	}
	for role, keys := range roles {
		raw := p.minio.Raw(keys, p.namespace)
		allowed := 0
		for _, v := range versions {
			if err := raw.Delete(ctx, v); err == nil {
				t.Errorf("the %s deletes %+v", role, v)
			}
			if err := raw.(stores.Shortener).Shorten(ctx, v); err == nil {
				t.Errorf("the %s shortens the lock of %+v", role, v)
			}
			if _, err := raw.Read(ctx, v); err == nil {
				allowed++
			}
			_ = raw.Overwrite(ctx, v.Key, []byte("pay"))
			_ = raw.Hide(ctx, v.Key)
		}
		if allowed != len(versions) {
			t.Errorf("the %s reads %d of %d versions, so that it is refused proves nothing", role, allowed, len(versions))
		}
		for what, err := range map[string]error{
			"writes": raw.Overwrite(ctx, elsewhere, []byte("pay")), "hides": raw.Hide(ctx, elsewhere),
			"reads": func() error { _, err := raw.Read(ctx, stores.RawVersion{Key: elsewhere}); return err }(),
		} {
			if err == nil {
				t.Errorf("the %s %s what is below another prefix", role, what)
			}
		}
		if err := p.minio.LockFor(ctx, keys, p.namespace, stores.Governance, 1); err == nil {
			t.Errorf("the %s changes the locks of the bucket", role)
		}
	}
}

// excludes has a delta left out of restores and takes that back, by tasks whose Jobs have the excluder's credentials, and
// tries to leave out everything.
func (p *shop) excludes(t *testing.T) {
	t.Helper()
	fulls, deltas := p.uploads(t)
	if len(fulls) == 0 || len(deltas) == 0 {
		t.Fatalf("there are the fulls %v and the deltas %v", fulls, deltas)
	}
	for _, c := range []struct {
		task        string
		what        map[string]any
		state, says string
	}{
		{"leave-out", map[string]any{"names": deltas[:1], "reason": "a journey"}, "Succeeded", "left out of restores: " + deltas[0]},
		{"take-back", map[string]any{"names": deltas[:1], "include": true}, "Succeeded", "used by restores again: " + deltas[0]},
		{"leave-nothing", map[string]any{}, "Failed", "nothing could be restored"},
	} {
		if c.what["names"] == nil {
			c.what["names"], _ = p.uploads(t) // there may be another full by now
		}
		p.apply(t, map[string]any{
			"apiVersion": druidv1alpha1.GroupVersion().String(), "kind": druidv1alpha1.KindEtcdOperatorTask,
			"metadata": map[string]any{"name": c.task, "namespace": p.namespace},
			"spec":     map[string]any{"type": "ExcludeSnapshots", "ownerEtcdReference": map[string]any{"name": name}, "config": map[string]any{"excludeSnapshots": c.what}},
		})
		p.await(t, c.task+" is "+c.state, func(ctx context.Context) error {
			told, err := p.Kubectl(ctx, "--namespace="+p.namespace, "get", "etcdoperatortask", c.task, "-o=jsonpath={.status.state}: {.status.lastOperation.reason}")
			if err == nil && (!strings.HasPrefix(told, c.state+": ") || !strings.Contains(told, c.says)) {
				err = fmt.Errorf("it is %s, want %s with %q", told, c.state, c.says)
			}
			return err
		})
	}
	p.kubectl(t, "--namespace="+p.namespace, "delete", "etcdoperatortask", "leave-out", "take-back", "leave-nothing")
	p.await(t, "their pods are gone", func(ctx context.Context) error {
		pods, err := p.Kubectl(ctx, "--namespace="+p.namespace, "get", "pods", "-o=name")
		if err == nil && (strings.Contains(pods, "/leave-") || strings.Contains(pods, "/take-")) {
			err = fmt.Errorf("there are %s", strings.Fields(pods))
		}
		return err
	})
}

// uploads are the names of the snapshots in the bucket.
func (p *shop) uploads(t *testing.T) (fulls, deltas []string) {
	t.Helper()
	versions, err := p.minio.Raw(p.minio.Root, p.namespace).Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		switch n, err := snapshot.ParseName(path.Base(v.Key)); {
		case err != nil:
		case n.Kind == snapshot.Full:
			fulls = append(fulls, path.Base(v.Key))
		default:
			deltas = append(deltas, path.Base(v.Key))
		}
	}
	return fulls, deltas
}

// run runs what a CronJob does, now, and waits until it has succeeded.
func (p *shop) run(t *testing.T, cronJob, job string) {
	t.Helper()
	p.begin(t, cronJob, job)
	p.await(t, job+" has succeeded", func(ctx context.Context) error {
		j, err := p.Client.BatchV1().Jobs(p.namespace).Get(ctx, job, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
		}) {
			return fmt.Errorf("it is %+v", j.Status)
		}
		return nil
	})
}

// begin makes a Job of a CronJob.
func (p *shop) begin(t *testing.T, cronJob, job string) {
	t.Helper()
	p.await(t, "there is "+cronJob, func(ctx context.Context) error {
		_, err := p.Client.BatchV1().CronJobs(p.namespace).Get(ctx, cronJob, metav1.GetOptions{})
		return err
	})
	p.kubectl(t, "--namespace="+p.namespace, "create", "job", job, "--from=cronjob/"+cronJob)
}
