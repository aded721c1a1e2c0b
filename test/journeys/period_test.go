package journeys_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// sleeper is an Etcd that sleeps past the period for which its bucket locks.
type sleeper struct {
	*shop
	at      sites.Ahead
	raw     stores.Raw
	full    string // the key of its final full snapshot
	kept    bool   // its locks are prolonged; the others are the twins of which nobody takes care
	release bool   // what keeps it beyond the period is released when it is awake
}

// sleepPastThePeriod has Etcds without volumes sleep for longer than their buckets lock, in stores whose clocks are moved. Where the
// extension runs the backup cannot be deleted, and wakes them up. That of a twin without an extension can be.
func (s *site) sleepPastThePeriod(t *testing.T) {
	fleet := sites.Fleet{Host: s.Host}
	t.Cleanup(func() {
		if err := fleet.Stop(); err != nil {
			t.Error(err)
		}
	})
	var all []*sleeper
	stores := map[string]sites.Ahead{}
	for provider, in := range map[string]struct {
		site string
		kind sites.Kind
	}{"gcp": {"GCS", sites.Policy}, "azure": {"Azure", sites.LevelLocked}} {
		at := fleet.Get(t, in.site).(sites.Ahead)
		stores[in.site] = at
		for _, kept := range []bool{true, false} {
			e := s.sleeper(t, at, fleet.Bucket(t, at, in.kind), provider, kept)
			e.release = kept && in.site == "GCS"
			all = append(all, e)
		}
	}
	for _, e := range all {
		e.opens(t)
		e.write(t, e.client)
		e.patch(t, `{replicas: 0}`)
	}
	for _, e := range all {
		e.asleep(t)
	}
	const period = 24 * time.Hour
	for _, at := range stores {
		at.Advance(period - 4*time.Hour)
	}
	for _, e := range all {
		if e.kept {
			e.run(t, extension, "extend-now")
		}
	}
	for _, at := range stores {
		at.Advance(8 * time.Hour)
	}
	for _, e := range all {
		if err := e.deleted(t); (err != nil) != e.kept {
			t.Errorf("%s, %s after it went to sleep: whoever deletes %s is told: %v", e.namespace, period+4*time.Hour, e.full, err)
		}
	}
	for _, e := range all {
		if !e.kept {
			e.destroyed(t)
		}
		e.patch(t, `{replicas: 1}`)
	}
	for _, e := range all {
		if !e.kept {
			e.refuses(t)
			continue
		}
		if e.release {
			e.await(t, "the hold on the backup of "+e.namespace+" is to be released", func(ctx context.Context) error {
				args, err := e.Kubectl(ctx, "--namespace="+e.namespace, "get", "cronjob", extension, "-o=jsonpath={.spec.jobTemplate.spec.template.spec.containers[0].args}")
				if err == nil && !strings.Contains(args, "--release-holds") {
					err = fmt.Errorf("the extension is run with %s", args)
				}
				return err
			})
			e.begin(t, extension, "release-now") // it goes with its task, as soon as it has told that nothing is held any more
		}
		e.await(t, e.namespace+" is awake, and a new full is in its bucket", e.awake)
		e.connect(t)
		e.holds(t, e.client)
	}
	for _, at := range stores {
		at.Advance(period + time.Hour)
	}
	for _, e := range all {
		if !e.release {
			continue
		}
		if err := e.deleted(t); err != nil {
			t.Errorf("%s: awake for longer than the period, %s is still kept: %v", e.namespace, e.full, err)
		}
	}
}

// sleeper makes an Etcd with a bucket and identities of its own.
func (s *site) sleeper(t *testing.T, at sites.Ahead, bucket, provider string, kept bool) *sleeper {
	t.Helper()
	namespace := "period-" + provider
	if !kept {
		namespace += "-twin"
	}
	s.namespace(t, namespace)
	endpoint, _ := at.Reach()
	store := map[string]any{"provider": provider, "container": bucket, "prefix": sites.Prefix}
	for secretName, who := range map[string]sites.Who{storeSecret: sites.Writer, "extender": sites.Extender, "collector": sites.Collector} {
		way, err := at.Way(t.Context(), bucket, endpoint, who)
		if err != nil {
			t.Fatal(err)
		}
		store["endpointOverride"] = way.Endpoint
		s.apply(t, secret(namespace, secretName, way.Files))
	}
	store["secretRef"] = map[string]any{"name": storeSecret}
	store["roles"] = map[string]any{"collectorSecretRef": map[string]any{"name": "collector"}}
	if kept {
		store["immutability"] = map[string]any{"retentionType": "bucket"}
		store["roles"].(map[string]any)["extenderSecretRef"] = map[string]any{"name": "extender"}
	}
	raw, err := at.Raw(t.Context(), bucket, sites.Owner)
	if err != nil {
		t.Fatal(err)
	}
	return &sleeper{at: at, raw: raw, kept: kept, shop: s.found(t, namespace, spec(1, map[string]any{
		"backup":      map[string]any{"deltaSnapshotPeriod": "2s", "fullSnapshotSchedule": "0 */6 * * *", "store": store},
		"hibernation": map[string]any{"volumes": "Delete"},
	}))}
}

// asleep waits until the Etcd sleeps, and until its backup is protected if it is to be.
func (e *sleeper) asleep(t *testing.T) {
	t.Helper()
	e.await(t, e.namespace+" sleeps", e.says(druidv1alpha1.ConditionHibernated, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonHibernated, "neither members nor volumes"))
	e.writers.Stop()
	if e.kept {
		e.await(t, "the backup of "+e.namespace+" is protected", e.says(druidv1alpha1.ConditionHibernationBackupProtected, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonFinalSnapshotProtected, ""))
	}
	now, err := e.etcd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	versions, err := e.raw.Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		if strings.HasSuffix(v.Key, "/"+now.Status.Hibernation.FinalSnapshot.Name) {
			e.full = v.Key
		}
	}
	if e.full == "" {
		t.Fatalf("the final snapshot %s is not among %+v", now.Status.Hibernation.FinalSnapshot.Name, versions)
	}
	if err := e.deleted(t); err == nil {
		t.Fatalf("%s can be deleted at once, so that nothing locks", e.full)
	}
}

// destroyed deletes everything in the bucket that the store lets go.
func (e *sleeper) destroyed(t *testing.T) {
	t.Helper()
	versions, err := e.raw.Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		if err := e.raw.Delete(t.Context(), v); err != nil {
			t.Errorf("%s: %s is still locked: %v", e.namespace, v.Key, err)
		}
	}
}

// refuses waits until the member says that it does not begin with nothing, and has it begin so.
func (e *sleeper) refuses(t *testing.T) {
	t.Helper()
	e.await(t, e.namespace+" does not begin empty", func(ctx context.Context) error {
		var m druidv1alpha1.EtcdMember
		if err := e.read(ctx, "etcdmembers", name+"-0", &m); err != nil {
			return err
		}
		if told := fmt.Sprintf("%+v", m.Status); !strings.Contains(told, "nothing is left of them") {
			return fmt.Errorf("its member tells %s", told)
		}
		return nil
	})
	t.Log(e.kubectl(t, "--namespace="+e.namespace, "get", "etcdmember", name+"-0", "-o=jsonpath={.status.transitions[-1:].reason}: {.status.transitions[-1:].message}"))
	e.patch(t, `{hibernation: {allowUnprotected: true}}`)
	e.await(t, e.namespace+" begins with nothing, as it was told to, and forgets its sleep", e.awake)
}

// awake is nil if the members serve, and what they fell asleep with is needed no more.
func (p *shop) awake(ctx context.Context) error {
	if err := p.whole(ctx); err != nil {
		return err
	}
	e, err := p.etcd(ctx)
	if err == nil && e.Status.Hibernation != nil {
		err = fmt.Errorf("of the hibernation is told %+v", e.Status.Hibernation)
	}
	return err
}

// deleted deletes every version of the final full snapshot that the store lets go, as the owner of the bucket.
func (e *sleeper) deleted(t *testing.T) (refused error) {
	t.Helper()
	versions, err := e.raw.Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, v := range versions {
		if v.Key == e.full && !v.Marker {
			found = true
			refused = errors.Join(refused, e.raw.Delete(t.Context(), v))
		}
	}
	if !found {
		t.Fatalf("%s is not there", e.full)
	}
	return refused
}
