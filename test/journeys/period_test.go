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

// sleeper is an Etcd that sleeps past the period for which its backups are locked.
type sleeper struct {
	*shop
	raw     stores.Raw
	full    string // the key of its final full snapshot
	kept    bool   // its locks are prolonged; the others are the twins of which nobody takes care
	each    string // the mode in which its sidecar locks each object; empty: the bucket does
	release bool   // what keeps it beyond the period is released when it is awake
}

// fleet are the stores in which Etcds sleep past the period.
func (s *site) fleet(t *testing.T) *sites.Fleet {
	t.Helper()
	fleet := &sites.Fleet{Host: s.Host}
	t.Cleanup(func() {
		if err := fleet.Stop(); err != nil {
			t.Error(err)
		}
	})
	return fleet
}

// minutes is how long the locks of Etcds last whose store has a clock that nobody moves. Within them Kubernetes has to run an extension
// that comes each minute.
const minutes = 150 * time.Second

// lockEach is for how long the sidecars of those Etcds lock each object, and their extensions.
const lockEach = 8 * time.Hour

// sleepForMinutes has two Etcds without volumes fall asleep whose sidecars lock each object, and has their locks end in some minutes, at
// ends, as if the rest had passed: the operator lets nobody fall asleep with shorter ones than half an hour. Of the mode that can be
// lifted the owner may do that, and after it nobody can lift them. The locks of one Kubernetes prolongs meanwhile without being
// asked to, and nobody those of the twin.
func (s *site) sleepForMinutes(t *testing.T, fleet *sites.Fleet) (both []*sleeper, ends time.Time) {
	t.Helper()
	both = s.sleepers(t, fleet, "aws", "MinIO", sites.ObjectGovernance)
	fallAsleep(t, both)
	kept, twin := both[0], both[1]
	twin.patch(t, `{backup: {store: {immutability: null}}}`)
	s.await(t, "nothing prolongs the locks of "+twin.namespace, twin.unattended)
	ends = time.Now().Add(minutes).Truncate(time.Second)
	for _, e := range both {
		versions, err := e.raw.Versions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range versions {
			if err := e.raw.(stores.Settler).Settle(t.Context(), v, ends); err != nil {
				t.Fatal(err)
			}
		}
	}
	kept.patch(t, `{backup: {fullSnapshotSchedule: "* * * * *"}}`)
	return both, ends
}

// sleptForMinutes waits until the locks would be over, and looks when they were prolonged.
func (s *site) sleptForMinutes(t *testing.T, kept *sleeper, ends time.Time) {
	t.Helper()
	s.await(t, "the minutes are over", func(context.Context) error {
		if left := time.Until(ends); left > 0 {
			return fmt.Errorf("%s are left", left)
		}
		return nil
	})
	now, err := kept.etcd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	final := now.Status.Hibernation.FinalSnapshot
	if final.LookedAt == nil {
		t.Errorf("no extension has told of %+v", final)
		return
	}
	// Later runs leave alone what one of them has prolonged.
	prolonged := final.ProtectedUntil.Add(-lockEach)
	t.Logf("the lock that might have ended %s was prolonged %s before", ends.Format(time.RFC3339), ends.Sub(prolonged))
	if prolonged.Before(ends.Add(-minutes)) || !prolonged.Before(ends) {
		t.Errorf("the lock that might have ended %s was prolonged %s: %+v", ends, prolonged, final)
	}
}

// sleepPastThePeriod has Etcds without volumes sleep for longer than their backups are locked: in stores whose clocks are moved, and
// those besides that sleep for minutes. Where the extension runs the backup cannot be deleted, and wakes them up. That of a twin
// without an extension can be.
func (s *site) sleepPastThePeriod(t *testing.T, fleet *sites.Fleet, timed []*sleeper, ends time.Time) {
	var all []*sleeper
	clocks := map[string]sites.Ahead{}
	for provider, in := range map[string]struct {
		site string
		kind sites.Kind
	}{"gcp": {"GCS", sites.Policy}, "azure": {"Azure", sites.LevelLocked}} {
		clocks[in.site] = fleet.Get(t, in.site).(sites.Ahead)
		both := s.sleepers(t, fleet, provider, in.site, in.kind)
		both[0].release = in.site == "GCS"
		all = append(all, both...)
	}
	fallAsleep(t, all)
	const period = 24 * time.Hour
	for _, at := range clocks {
		at.Advance(period - 4*time.Hour)
	}
	for _, e := range all {
		if e.kept {
			e.run(t, extension, "extend-now")
		}
	}
	for _, at := range clocks {
		at.Advance(8 * time.Hour)
	}
	s.sleptForMinutes(t, timed[0], ends)
	all = append(all, timed...)
	for _, e := range all {
		if err := e.deleted(t); (err != nil) != e.kept {
			t.Errorf("%s, longer asleep than its backup was locked: whoever deletes %s is told: %v", e.namespace, e.full, err)
		}
	}
	for _, e := range all {
		e.destroyed(t)
		e.patch(t, `{replicas: 1}`)
	}
	for _, e := range all {
		if e.kept {
			e.wakes(t)
		} else {
			e.refuses(t)
		}
	}
	for _, at := range clocks {
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

// sleepers makes an Etcd whose backup is kept, and a twin, in a store.
func (s *site) sleepers(t *testing.T, fleet *sites.Fleet, provider, at string, kind sites.Kind) (both []*sleeper) {
	t.Helper()
	for _, kept := range []bool{true, false} {
		where := fleet.Get(t, at)
		both = append(both, s.sleeper(t, where, fleet.Bucket(t, where, kind), kind, provider, kept))
	}
	return both
}

// fallAsleep lets clients write and puts the Etcds to sleep.
func fallAsleep(t *testing.T, all []*sleeper) {
	t.Helper()
	for _, e := range all {
		e.opens(t)
		e.write(t, e.client)
		e.patch(t, `{replicas: 0}`)
	}
	for _, e := range all {
		e.asleep(t)
	}
}

// unattended is nil if no task prolongs the locks of an Etcd that sleeps.
func (e *sleeper) unattended(ctx context.Context) error {
	if err := e.says(druidv1alpha1.ConditionHibernationBackupProtected, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonImmutabilityRemoved, "")(ctx); err != nil {
		return err
	}
	left, err := e.Kubectl(ctx, "--namespace="+e.namespace, "get", "etcdoperatortasks,cronjobs,jobs", "-o=name")
	if err == nil && strings.Contains(left, extension) {
		err = fmt.Errorf("there are %s", strings.Fields(left))
	}
	return err
}

// sleeper makes an Etcd with a bucket and identities of its own.
func (s *site) sleeper(t *testing.T, at sites.Site, bucket string, kind sites.Kind, provider string, kept bool) *sleeper {
	t.Helper()
	namespace := "period-" + provider
	if !kept {
		namespace += "-twin"
	}
	s.namespace(t, namespace)
	endpoint, _ := at.Reach()
	store := map[string]any{"provider": provider, "container": bucket, "prefix": sites.Prefix}
	writer := sites.Writer
	if kind.Each != "" {
		writer = sites.Locker
	}
	for secretName, who := range map[string]sites.Who{storeSecret: writer, "extender": sites.Extender, "collector": sites.Collector} {
		way, err := at.Way(t.Context(), bucket, endpoint, who)
		if err != nil {
			t.Fatal(err)
		}
		store["endpointOverride"] = way.Endpoint
		s.apply(t, secret(namespace, secretName, way.Files))
	}
	store["secretRef"] = map[string]any{"name": storeSecret}
	store["roles"] = map[string]any{"collectorSecretRef": map[string]any{"name": "collector"}}
	switch {
	case kind.Each != "":
		store["immutability"] = map[string]any{"retentionType": "object", "retentionPeriod": lockEach.String(), "mode": kind.Each}
	case kept:
		store["immutability"] = map[string]any{"retentionType": "bucket"}
	}
	if kept {
		store["roles"].(map[string]any)["extenderSecretRef"] = map[string]any{"name": "extender"}
	}
	raw, err := at.Raw(t.Context(), bucket, sites.Owner)
	if err != nil {
		t.Fatal(err)
	}
	return &sleeper{raw: raw, kept: kept, each: kind.Each, shop: s.found(t, namespace, spec(1, map[string]any{
		"backup":      map[string]any{"deltaSnapshotPeriod": "2s", "fullSnapshotSchedule": "0 */6 * * *", "store": store},
		"hibernation": map[string]any{"volumes": "Delete"},
	}))}
}

// asleep waits until the Etcd sleeps, and until its backup is protected if it is to be.
func (e *sleeper) asleep(t *testing.T) {
	t.Helper()
	e.await(t, e.namespace+" sleeps", e.says(druidv1alpha1.ConditionHibernated, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonHibernated, "neither members nor volumes"))
	e.writers.Stop()
	if e.kept || e.each != "" {
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

// destroyed deletes everything in the bucket that the store lets go. Of a twin that is everything.
func (e *sleeper) destroyed(t *testing.T) {
	t.Helper()
	versions, err := e.raw.Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		if err := e.raw.Delete(t.Context(), v); err != nil && !e.kept {
			t.Errorf("%s: %s is still locked: %v", e.namespace, v.Key, err)
		}
	}
}

// wakes waits until the Etcd has woken up from its bucket, with every write, and until nothing is held any more that is to be released.
func (e *sleeper) wakes(t *testing.T) {
	t.Helper()
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

// refuses waits until the member says that it does not begin with nothing, and has it begin so.
func (e *sleeper) refuses(t *testing.T) {
	t.Helper()
	e.await(t, e.namespace+" does not begin empty", func(ctx context.Context) error {
		var m druidv1alpha1.EtcdMember
		if err := e.read(ctx, "etcdmembers", name+"-0", &m); err != nil {
			return err
		}
		if told := fmt.Sprintf("%+v", m.Status); !strings.Contains(told, "nothing is there") {
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
