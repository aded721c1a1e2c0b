package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/rollout"
)

func TestTheOperationThatIsTold(t *testing.T) {
	succeeded := &druidv1alpha1.LastOperation{Type: druidv1alpha1.LastOperationReconcile, State: druidv1alpha1.LastOperationSucceeded, Description: "before", RunID: "before"}
	failed := outcome{failures: []failure{{"ERR_SYNC_CONFIGMAP", errors.New("no room")}}}
	noKind := failure{"ERR_SYNC_SERVICE_ACCOUNT", fmt.Errorf("apply: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "main",
		errors.New("cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion druid.gardener.cloud/v1alpha1 Kind Etcd")))}
	forbidden := failure{"ERR_SYNC_SERVICE_ACCOUNT", apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "main", errors.New("exceeded quota"))}
	done := Plan{Mode: ModeApply, Size: rollout.ScaleStep{Done: true}}
	waiting := Plan{Mode: ModeApply, Size: rollout.ScaleStep{Reason: "from 1 member to 3", Waits: "healthy members"}}
	on := Plan{Mode: ModeApply, Size: rollout.ScaleStep{Reason: "from 1 member to 3"}}
	for phrase, c := range map[string]struct {
		plan   Plan
		out    outcome
		before func(*druidv1alpha1.Etcd)
		want   string
	}{
		"a new one is made": {done, outcome{changed: true}, func(e *druidv1alpha1.Etcd) { e.Status.ObservedGeneration = nil }, "Create Succeeded"},
		"a new one whose creation goes on": {on, outcome{}, func(e *druidv1alpha1.Etcd) {
			e.Status.LastOperation = &druidv1alpha1.LastOperation{Type: druidv1alpha1.LastOperationCreate, State: druidv1alpha1.LastOperationError}
		}, "Create Processing"},
		"an error":                            {done, failed, nil, "Reconcile Error"},
		"the definition is new":               {done, outcome{failures: []failure{noKind}}, nil, "Reconcile Requeue"},
		"it is, and something else fails":     {done, outcome{failures: []failure{noKind, forbidden}}, nil, "Reconcile Error"},
		"something is forbidden":              {done, outcome{failures: []failure{forbidden}}, nil, "Reconcile Error"},
		"it waits":                            {waiting, outcome{}, nil, "Reconcile Requeue"},
		"it goes on":                          {on, outcome{}, nil, "Reconcile Processing"},
		"a refusal":                           {Plan{Mode: ModeApply, Refused: []string{"no"}}, outcome{}, nil, "Reconcile Error"},
		"pods have to follow the StatefulSet": {done, outcome{changed: true, set: true}, func(e *druidv1alpha1.Etcd) { e.Status.LastOperation, e.Generation = succeeded, 2 }, "Reconcile Processing"},
		"the StatefulSet was put back":        {done, outcome{changed: true, set: true}, func(e *druidv1alpha1.Etcd) { e.Status.LastOperation = succeeded }, "before"},
		"something was put back":              {done, outcome{changed: true}, func(e *druidv1alpha1.Etcd) { e.Status.LastOperation = succeeded }, "before"},
		"a new generation":                    {done, outcome{}, func(e *druidv1alpha1.Etcd) { e.Status.LastOperation, e.Generation = succeeded, 2 }, "Reconcile Succeeded"},
		"asked for without a change": {done, outcome{}, func(e *druidv1alpha1.Etcd) {
			e.Status.LastOperation = succeeded
			e.Annotations = map[string]string{druidv1alpha1.AnnotationOperation: "reconcile"}
		}, "Reconcile Succeeded"},
		"suspended":                       {Plan{Mode: ModeWatch, Size: rollout.ScaleStep{Done: true}}, outcome{}, func(e *druidv1alpha1.Etcd) { e.Status.LastOperation, e.Generation = succeeded, 2 }, "before"},
		"a change that nobody asked for":  {Plan{Mode: ModeTend, Size: rollout.ScaleStep{Done: true}}, outcome{}, func(e *druidv1alpha1.Etcd) { e.Status.LastOperation, e.Generation = succeeded, 2 }, "before"},
		"a pod is waited for after scale": {Plan{Mode: ModeApply, Size: rollout.ScaleStep{Done: true}, Pod: rollout.Step{Kind: rollout.Wait, Reason: "main-0 is not ready"}}, outcome{}, nil, "Reconcile Requeue"},
	} {
		o := running(t, 1)
		if c.before != nil {
			c.before(o.Etcd)
		}
		s := statusOf(o, c.plan, c.out, "run", testNow)
		got := "none"
		switch op := s.LastOperation; {
		case op == nil:
		case op.RunID == "before":
			got = "before"
		default:
			got = string(op.Type) + " " + string(op.State)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", phrase, got, c.want)
		}
		if told := len(s.LastErrors) > 0; told != strings.HasSuffix(c.want, "Error") {
			t.Errorf("%s: errors %+v", phrase, s.LastErrors)
		}
		observed := s.ObservedGeneration != nil && *s.ObservedGeneration == o.Etcd.Generation
		if failed := len(c.out.failures)+len(c.plan.Refused) > 0; c.plan.Mode == ModeApply && observed == failed && o.Etcd.Generation == 2 {
			t.Errorf("%s: generation %v was observed", phrase, s.ObservedGeneration)
		}
	}
}

// Whoever tries again at each look says once what hinders it: an operation of each look would be an event and a write of the status every time.
func TestWhatDoesNotEndWellIsToldOnce(t *testing.T) {
	newer := func(e *druidv1alpha1.Etcd) { e.Generation = 2 }
	asked := func(e *druidv1alpha1.Etcd) {
		e.Annotations = map[string]string{druidv1alpha1.AnnotationOperation: druidv1alpha1.OperationReconcile}
	}
	for phrase, c := range map[string]struct {
		plan Plan
		out  outcome
	}{
		"refused": {Plan{Mode: ModeApply, Refused: []string{"no"}}, outcome{}},
		"failed":  {Plan{Mode: ModeApply, Size: rollout.ScaleStep{Done: true}}, outcome{failures: []failure{{"ERR_SYNC_CONFIGMAP", errors.New("no room")}}}},
		"waiting": {Plan{Mode: ModeApply, Size: rollout.ScaleStep{Reason: "from 1 member to 3", Waits: "healthy members"}}, outcome{}},
	} {
		for why, change := range map[string]func(*druidv1alpha1.Etcd){"a newer specification": newer, "somebody asks": asked} {
			o := running(t, 1)
			change(o.Etcd)
			o.Etcd.Status = statusOf(o, c.plan, c.out, "first", testNow)
			if s := statusOf(o, c.plan, c.out, "second", testNow.Add(time.Minute)); s.LastOperation.RunID != "first" || s.LastOperation.State == druidv1alpha1.LastOperationSucceeded {
				t.Errorf("%s, %s: the next look tells %+v", phrase, why, s.LastOperation)
			}
		}
	}
}

func TestErrorsThatAreOverAreNotToldWhileAChangeWaits(t *testing.T) {
	was := []druidv1alpha1.LastError{{Code: codeRefused, Description: "no", ObservedAt: ago(time.Hour)}, {Code: "ERR_REMOUNT_CONFIGMAP", Description: "cannot", ObservedAt: ago(time.Hour)}}
	for phrase, c := range map[string]struct {
		plan Plan
		out  outcome
		want []druidv1alpha1.LastError
	}{
		"all is well":                {Plan{Mode: ModeTend}, outcome{}, nil},
		"one is still refused":       {Plan{Mode: ModeTend, Refused: []string{"no"}}, outcome{}, was[:1]},
		"another is to be":           {Plan{Mode: ModeTend, Refused: []string{"neither"}}, outcome{}, nil},
		"one still fails":            {Plan{Mode: ModeTend}, outcome{failures: []failure{{"ERR_REMOUNT_CONFIGMAP", errors.New("cannot")}}}, was[1:]},
		"nothing at all is done":     {Plan{Mode: ModeWatch}, outcome{}, was},
		"what is asked for, refused": {Plan{Mode: ModeApply, Refused: []string{"neither"}}, outcome{}, []druidv1alpha1.LastError{{Code: codeRefused, Description: "neither", ObservedAt: ago(0)}}},
	} {
		o := running(t, 1, func(o *Observed) { o.Etcd.Status.LastErrors = was })
		if got := statusOf(o, c.plan, c.out, "run", testNow).LastErrors; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", phrase, got, c.want)
		}
	}
}

// A look that only tends leaves the objects that there are as they are, so it does not know that an error with one of them is over.
func TestErrorsThatMayLastAreToldWhileAChangeWaits(t *testing.T) {
	tends := testSettings
	tends.AutoReconcile = false
	fails := func(code druidv1alpha1.ErrorCode) druidv1alpha1.LastError {
		return druidv1alpha1.LastError{Code: code, Description: "cannot", ObservedAt: ago(time.Hour)}
	}
	service, set, configMap, budget, lease := fails("ERR_SYNC_CLIENT_SERVICE"), fails("ERR_SYNC_STATEFULSET"), fails("ERR_SYNC_CONFIGMAP"), fails("ERR_SYNC_POD_DISRUPTION_BUDGET"), fails("ERR_SYNC_MEMBER_LEASE")
	was := []druidv1alpha1.LastError{service, set, budget, configMap, lease, fails("ERR_DELETE_SERVICE")}
	missing := func(o *Observed) { delete(o.Live, Key{kindLease, o.Etcd.MemberLeaseName(0)}) }
	refused := func(o *Observed) {
		o.Etcd.Spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{ServerTLSSecretRef: corev1.SecretReference{Name: "server", Namespace: "elsewhere"}}
	}
	taken := func(o *Observed) { o.TokenTaken = true }
	quiet := func(o *Observed) {
		p := mustDecide(t, o, tends)
		o.Quiet = &Quiet{mode: p.Mode, why: p.Why, size: p.Size, healthy: p.healthy, backedUp: p.safe.backedUp}
	}
	for phrase, c := range map[string]struct {
		change func(*Observed)
		want   []druidv1alpha1.LastError
	}{
		"all that it does works":   {nil, []druidv1alpha1.LastError{service, set, configMap, lease}},
		"a missing object is made": {missing, []druidv1alpha1.LastError{service, set, configMap}},
		"there is nothing to do":   {quiet, []druidv1alpha1.LastError{service, set, configMap, lease}},
		"the change is refused":    {refused, []druidv1alpha1.LastError{service, set, configMap, lease}},
		"a Secret is in the way":   {taken, []druidv1alpha1.LastError{{Code: codeRefused, Description: tokenTaken(newEtcd(1)), ObservedAt: ago(0)}, service, set, configMap, lease}},
	} {
		o := running(t, 1, wants(1), func(o *Observed) { o.Etcd.Status.LastErrors = was })
		if c.change != nil {
			c.change(o)
		}
		p := mustDecide(t, o, tends)
		if p.Mode != ModeTend {
			t.Fatalf("%s: the mode is %s", phrase, p.Mode)
		}
		s := statusOf(o, p, outcome{}, "run", testNow)
		if diff := cmp.Diff(c.want, s.LastErrors); diff != "" {
			t.Errorf("%s (-want +got):\n%s", phrase, diff)
		}
		o.Etcd.Status = s
		if again := statusOf(o, p, outcome{}, "run", testNow.Add(time.Minute)); !reflect.DeepEqual(again.LastErrors, s.LastErrors) {
			t.Errorf("%s: a minute later it tells %+v", phrase, again.LastErrors)
		}
		o.Quiet, o.Etcd.Annotations = nil, map[string]string{druidv1alpha1.AnnotationOperation: druidv1alpha1.OperationReconcile}
		if p := mustDecide(t, o, tends); len(p.Refused) == 0 {
			if got := statusOf(o, p, outcome{}, "run", testNow).LastErrors; len(got) > 0 {
				t.Errorf("%s: once it was applied it tells %+v", phrase, got)
			}
		}
	}
}

func TestAnErrorThatLastsKeepsItsTime(t *testing.T) {
	first := lastErrors(nil, []failure{{"A", errors.New("one")}, {"B", errors.New("two")}}, testNow)
	later := testNow.Add(time.Minute)
	second := lastErrors(first, []failure{{"B", errors.New("two")}, {"A", errors.New("another")}}, later)
	want := []druidv1alpha1.LastError{{Code: "B", Description: "two", ObservedAt: ago(0)}, {Code: "A", Description: "another", ObservedAt: ago(-time.Minute)}}
	if diff := cmp.Diff(want, second); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if third := lastErrors(second, nil, later); len(third) != 0 {
		t.Errorf("errors after success: %v", third)
	}
}

func TestTheRevisionNeverFallsAndIsExactBeforeMembersGo(t *testing.T) {
	for phrase, c := range map[string]struct {
		known  *int64
		change func(*Observed)
		want   int64
	}{
		"the first":                          {nil, nil, 1000},
		"little has changed":                 {ptr(int64(990)), nil, 990},
		"much has changed":                   {ptr(int64(990)), func(o *Observed) { o.Members[1].Status.Revision = 990 + revisionStep }, 990 + revisionStep},
		"members are behind what was known":  {ptr(int64(5000)), nil, 5000},
		"the cluster is to sleep":            {ptr(int64(990)), wants(0), 1000},
		"the cluster is to shrink":           {ptr(int64(990)), wants(1), 1000},
		"a sidecar knows more than is told":  {ptr(int64(990)), func(o *Observed) { o.Sidecars[0].Etcd.Revision = 70_000 }, 70_000},
		"a restored member is far behind it": {ptr(int64(1_000_000_000)), func(o *Observed) { o.Members[0].Status.Revision = 1 }, 1_000_000_000},
	} {
		o := running(t, 3)
		o.Etcd.Status.LastKnownRevision = c.known
		if c.change != nil {
			c.change(o)
		}
		if got := revision(o); got == nil || *got != c.want {
			t.Errorf("%s: %v, want %d", phrase, got, c.want)
		}
	}
}

func TestTheNewestLookThroughTheBucketIsTold(t *testing.T) {
	at := func(minutes int) *druidv1alpha1.BackupStatus {
		return &druidv1alpha1.BackupStatus{LookedAt: ago(-time.Duration(minutes) * time.Minute), ProtectionLevel: "none"}
	}
	looked := func(member int, b *druidv1alpha1.BackupStatus) func(*Observed) {
		return func(o *Observed) { o.Members[member].Status.Snapshots = &druidv1alpha1.MemberSnapshots{Bucket: b} }
	}
	before := func(b *druidv1alpha1.BackupStatus) func(*Observed) {
		return func(o *Observed) { o.Etcd.Status.Backup = &druidv1alpha1.EtcdBackupStatus{BackupStatus: *b} }
	}
	for phrase, c := range map[string]struct {
		changes []func(*Observed)
		want    *druidv1alpha1.BackupStatus
	}{
		"nobody looked":                     {nil, nil},
		"one member":                        {[]func(*Observed){looked(1, at(1))}, at(1)},
		"another member, later":             {[]func(*Observed){looked(1, at(1)), looked(2, at(2))}, at(2)},
		"it stays while the cluster sleeps": {[]func(*Observed){before(at(3)), func(o *Observed) { o.Members = nil }}, at(3)},
		"it does not go back":               {[]func(*Observed){before(at(3)), looked(0, at(2))}, at(3)},
		"without a store":                   {[]func(*Observed){before(at(3)), func(o *Observed) { o.Etcd.Spec.Backup.Store = nil }}, nil},
	} {
		o := running(t, 3, c.changes...)
		var want *druidv1alpha1.EtcdBackupStatus
		if c.want != nil {
			want = &druidv1alpha1.EtcdBackupStatus{BackupStatus: *c.want, Identities: "shared"}
		}
		if got := statusOf(o, Plan{Mode: ModeApply}, outcome{}, "run", testNow).Backup; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", phrase, got, want)
		}
	}
}

func TestTheStatusSaysHowFarIdentitiesAreApart(t *testing.T) {
	secret := &corev1.SecretReference{Name: "other"}
	for phrase, c := range map[string]struct {
		roles *druidv1alpha1.StoreRoles
		want  druidv1alpha1.BackupIdentities
	}{
		"no roles":    {nil, "shared"},
		"a collector": {&druidv1alpha1.StoreRoles{CollectorSecretRef: secret}, "partly"},
		"an extender": {&druidv1alpha1.StoreRoles{ExtenderSecretRef: secret}, "partly"},
		"an excluder": {&druidv1alpha1.StoreRoles{ExcluderSecretRef: secret}, "partly"},
		"two of them": {&druidv1alpha1.StoreRoles{CollectorSecretRef: secret, ExtenderSecretRef: &corev1.SecretReference{Name: "third"}}, "partly"},
		"all": {&druidv1alpha1.StoreRoles{
			CollectorSecretRef: secret, ExtenderSecretRef: &corev1.SecretReference{Name: "third"}, ExcluderSecretRef: &corev1.SecretReference{Name: "fourth"},
		}, "separate"},
		"roles of no name": {&druidv1alpha1.StoreRoles{CollectorSecretRef: &corev1.SecretReference{}}, "shared"},
	} {
		o := running(t, 1, func(o *Observed) {
			o.Etcd.Spec.Backup.Store.Roles = c.roles
			o.Members[0].Status.Snapshots = &druidv1alpha1.MemberSnapshots{Bucket: &druidv1alpha1.BackupStatus{LookedAt: ago(0)}}
		})
		if got := statusOf(o, Plan{Mode: ModeApply}, outcome{}, "run", testNow).Backup.Identities; got != c.want {
			t.Errorf("%s: %q, want %q", phrase, got, c.want)
		}
	}
}

// As long as the specification is not applied the members' credentials do what they did.
func TestIdentitiesThatAreNotAppliedAreNotTold(t *testing.T) {
	for phrase, c := range map[string]struct {
		plan Plan
		want druidv1alpha1.BackupIdentities
	}{
		"it is applied":      {Plan{Mode: ModeApply}, "partly"},
		"it is only tended":  {Plan{Mode: ModeTend}, "shared"},
		"it is only watched": {Plan{Mode: ModeWatch}, "shared"},
		"it is refused":      {Plan{Mode: ModeApply, Refused: []string{"no"}}, "shared"},
	} {
		o := running(t, 1, collector, func(o *Observed) {
			o.Etcd.Status.Backup = &druidv1alpha1.EtcdBackupStatus{Identities: "shared"}
		})
		if got := statusOf(o, c.plan, outcome{}, "run", testNow).Backup.Identities; got != c.want {
			t.Errorf("%s: %q, want %q", phrase, got, c.want)
		}
	}
}

func TestWhatIsNewInTheBucketIsAnEvent(t *testing.T) {
	marker := druidv1alpha1.TamperFinding{Code: "marker", Message: "Full-1 has a delete marker"}
	foreign := druidv1alpha1.TamperFinding{Code: "foreign", Message: "what is this"}
	b := func(findings []druidv1alpha1.TamperFinding, excluded ...string) *druidv1alpha1.EtcdBackupStatus {
		return &druidv1alpha1.EtcdBackupStatus{BackupStatus: druidv1alpha1.BackupStatus{TamperFindings: findings, ExcludedSnapshots: excluded, ExcludedSnapshotsCount: int32(len(excluded))}}
	}
	more := func(n int32) *druidv1alpha1.EtcdBackupStatus {
		found := b([]druidv1alpha1.TamperFinding{marker})
		found.TamperFindingsCount = n
		return found
	}
	many := b(nil, "Full-2")
	many.ExcludedSnapshotsCount = 11
	for phrase, c := range map[string]struct {
		before, now *druidv1alpha1.EtcdBackupStatus
		want        []string
	}{
		"nothing":              {nil, nil, nil},
		"at first":             {nil, b([]druidv1alpha1.TamperFinding{marker}, "Full-1"), []string{"BackupTampered in the bucket: Full-1 has a delete marker (marker)", "SnapshotExcluded Full-1 is excluded from restores"}},
		"the same":             {b([]druidv1alpha1.TamperFinding{marker}, "Full-1"), b([]druidv1alpha1.TamperFinding{marker}, "Full-1"), nil},
		"one more of each":     {b([]druidv1alpha1.TamperFinding{marker}, "Full-1"), b([]druidv1alpha1.TamperFinding{foreign, marker}, "Full-1", "Full-2"), []string{"BackupTampered in the bucket: what is this (foreign)", "SnapshotExcluded Full-2 is excluded from restores"}},
		"included":             {b(nil, "Full-1", "Full-2"), b(nil, "Full-2"), []string{"SnapshotIncluded Full-1 is not excluded from restores any more"}},
		"one of many":          {b(nil, "Full-1", "Full-2"), many, nil},
		"one that is not told": {more(11), more(12), []string{"BackupTampered in the bucket: 12 findings, and there were 11; status.backup tells the first 1, etcdbrctl list all"}},
		"fewer that are not":   {more(12), more(11), nil},
		"nothing looks there":  {b([]druidv1alpha1.TamperFinding{marker}, "Full-1"), nil, nil},
	} {
		var got []string
		for _, n := range backupNews(c.before, c.now) {
			got = append(got, n.kind.Reason+" "+n.note)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q, want %q", phrase, got, c.want)
		}
	}
}

// What became so that somebody has to do something about it is an event, once.
func TestThatAConditionTurnsBadIsAnEvent(t *testing.T) {
	var all []string
	for _, w := range turns() {
		all = append(all, fmt.Sprintf("%s %s: %s, each wording %t", w.of, w.status, w.kind.Reason, w.worded))
	}
	want := []string{
		"ImagesReplaced True: ImagesReplaced, each wording true",
		"SchedulesValid False: ScheduleInvalid, each wording true",
		"BackupReady False: BackupFailing, each wording false",
		"QuorumLost True: QuorumLost, each wording false",
		"ClusterIDMismatch True: ClusterIDMismatch, each wording false",
		"DataVolumesReady False: VolumesNotReady, each wording false",
		"BackupsProtected False: BackupsUnprotected, each wording false",
	}
	if d := cmp.Diff(want, all); d != "" {
		t.Errorf("what turns (-want +got):\n%s", d)
	}
	for _, w := range turns() {
		good := druidv1alpha1.ConditionTrue
		if w.status == good {
			good = druidv1alpha1.ConditionFalse
		}
		says := func(status druidv1alpha1.ConditionStatus, reason string) []druidv1alpha1.Condition {
			return []druidv1alpha1.Condition{{Type: w.of, Status: status, Reason: reason, Message: "because"}}
		}
		for phrase, c := range map[string]struct {
			before, now []druidv1alpha1.Condition
			replicas    int32
			want        bool
		}{
			"it was well":         {says(good, "Well"), says(w.status, "Bad"), 3, true},
			"at first":            {nil, says(w.status, "Bad"), 3, true},
			"nobody knew":         {says("Unknown", "NotKnown"), says(w.status, "Bad"), 3, true},
			"for another reason":  {says(w.status, "Bad"), says(w.status, "Worse"), 3, true},
			"as before":           {says(w.status, "Bad"), says(w.status, "Bad"), 3, false},
			"nobody knows":        {says(good, "Well"), says("Unknown", "NotKnown"), 3, false},
			"it is well again":    {says(w.status, "Bad"), says(good, "Well"), 3, false},
			"nobody asks":         {says(w.status, "Bad"), nil, 3, false},
			"the cluster sleeps":  {says(good, "Well"), says(w.status, "Bad"), 0, w.kind != BackupsUnprotected}, // of which ProtectionEnds tells
			"it fell asleep so":   {says(w.status, "Bad"), says(w.status, druidv1alpha1.ReasonNotChecked), 0, false},
			"it is awake and so":  {says(w.status, druidv1alpha1.ReasonNotChecked), says(w.status, "Bad"), 3, true},
			"it says more of why": {[]druidv1alpha1.Condition{{Type: w.of, Status: w.status, Reason: "Bad", Message: "more or less"}}, says(w.status, "Bad"), 3, w.worded},
		} {
			e := newEtcd(c.replicas)
			e.Status.Conditions = c.before
			got := conditionNews(e, c.now)
			if (len(got) == 1) != c.want || c.want && (got[0].kind != w.kind || got[0].note != "because") {
				t.Errorf("%s, %s: %+v, want an event %t", w.of, phrase, got, c.want)
			}
		}
	}
}

// What was observed before the StatefulSet was changed says nothing of pods of the newest template.
func TestAChangedStatefulSetHasNoUpdatedPodsYet(t *testing.T) {
	o := running(t, 3)
	p := mustDecide(t, o, testSettings)
	if c := druidv1alpha1.FindCondition(p.Conditions, druidv1alpha1.ConditionAllMembersUpdated); c.Status != druidv1alpha1.ConditionTrue {
		t.Fatalf("the cluster is not updated to begin with: %s", c.Message)
	}
	updated := func(out outcome, at time.Time) *druidv1alpha1.Condition {
		o.Etcd.Status = statusOf(o, p, out, "run", at)
		return druidv1alpha1.FindCondition(o.Etcd.Status.Conditions, druidv1alpha1.ConditionAllMembersUpdated)
	}
	if c := updated(outcome{changed: true}, testNow); c.Status != druidv1alpha1.ConditionTrue {
		t.Errorf("after another object was changed: %s %s", c.Status, c.Message)
	}
	changed := testNow.Add(time.Minute)
	if c := updated(outcome{changed: true, set: true}, changed); c.Status != druidv1alpha1.ConditionFalse || !c.LastTransitionTime.Time.Equal(changed) {
		t.Errorf("after the StatefulSet was changed: %s since %s: %s", c.Status, c.LastTransitionTime, c.Message)
	}
	if c := updated(outcome{changed: true, set: true}, changed.Add(time.Minute)); !c.LastTransitionTime.Time.Equal(changed) {
		t.Errorf("changed once more it is %s since %s, want %s", c.Status, c.LastTransitionTime, changed)
	}
	o.Etcd.Spec.Replicas = 0
	if c := updated(outcome{changed: true, set: true}, changed); c.Status != druidv1alpha1.ConditionTrue {
		t.Errorf("of a cluster that goes to sleep: %s %s", c.Status, c.Message)
	}
}

func TestWhatNobodyReleasesAnyMoreIsTold(t *testing.T) {
	held := &druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{Store: "gcp former/p", Held: true}}
	left := &druidv1alpha1.HibernationStatus{HoldsLeft: true}
	in := func(store *druidv1alpha1.StoreSpec) *druidv1alpha1.HibernationStatus {
		return &druidv1alpha1.HibernationStatus{HoldsLeft: true, Applied: &druidv1alpha1.AppliedBackup{Store: store}}
	}
	former := in(&druidv1alpha1.StoreSpec{Provider: ptr(druidv1alpha1.StorageProvider("gcp")), Container: ptr("former"), Prefix: "p"})
	other := in(&druidv1alpha1.StoreSpec{Provider: ptr(druidv1alpha1.StorageProvider("local")), Prefix: "p"})
	for phrase, c := range map[string]struct {
		before, now *druidv1alpha1.HibernationStatus
		want        string
	}{
		"it never slept":                   {nil, nil, ""},
		"it sleeps":                        {held, held, ""},
		"it is awake, and it was released": {&druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{}}, nil, ""},
		"it is awake, and it is held":      {held, nil, "in gcp former/p stays held"},
		"of a sleep without a final":       {left, nil, "in the former store stays held"},
		"it sleeps again":                  {held, left, ""},
		"it sleeps again, in its store":    {held, former, ""},
		"it sleeps again, in another":      {held, other, "in gcp former/p stays held"},
		"it sleeps again, without a store": {held, in(nil), "in gcp former/p stays held"},
		"the store becomes another":        {former, other, "in gcp former/p stays held"},
		"it is awake, without a final":     {former, nil, "in gcp former/p stays held"},
	} {
		got := ""
		for _, n := range holdNews(c.before, c.now) {
			got += n.kind.Reason + " " + n.note
		}
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", phrase, got, c.want)
		}
	}
}

func TestStepsOfAHibernationAreToldOnce(t *testing.T) {
	condition := func(of druidv1alpha1.ConditionType, status druidv1alpha1.ConditionStatus, reason, message string) []druidv1alpha1.Condition {
		return []druidv1alpha1.Condition{{Type: of, Status: status, Reason: reason, Message: message}}
	}
	step := func(reason, message string) []druidv1alpha1.Condition {
		return condition(druidv1alpha1.ConditionHibernated, druidv1alpha1.ConditionFalse, reason, message)
	}
	protected := func(status druidv1alpha1.ConditionStatus, reason string) []druidv1alpha1.Condition {
		return condition(druidv1alpha1.ConditionHibernationBackupProtected, status, reason, "until then")
	}
	for phrase, c := range map[string]struct {
		before, now []druidv1alpha1.Condition
		want        string
	}{
		"awake":                    {nil, nil, ""},
		"the first step":           {nil, step("TakingFinalSnapshot", "a"), "Hibernating"},
		"the same, said otherwise": {step("TakingFinalSnapshot", "a"), step("TakingFinalSnapshot", "b"), ""},
		"it is blocked":            {step("TakingFinalSnapshot", "a"), step("FinalSnapshotFailed", "b"), "HibernationHeld"},
		"the store is another":     {nil, step("StoreChanged", "a"), "HibernationHeld"},
		"the lock is about to end": {protected("True", "FinalSnapshotProtected"), protected("False", "ProtectionEnds"), "ProtectionEnds"},
		"it has ended":             {protected("False", "ProtectionEnds"), protected("False", "ProtectionEnded"), "ProtectionEnds"},
		"it is prolonged":          {protected("False", "ProtectionEnds"), protected("True", "FinalSnapshotProtected"), ""},
		"nobody knows":             {nil, protected("Unknown", "FinalSnapshotDateNotKnown"), ""},
		"nobody releases it":       {nil, protected("False", "HoldNotReleased"), "HoldsStay"},
	} {
		got := ""
		for _, n := range hibernationNews(c.before, c.now) {
			got += n.kind.Reason
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", phrase, got, c.want)
		}
	}
}

// TestWhatReadersOfTheOriginalReadIsWritten: nobody here reads it.
//
//nolint:staticcheck // as it says
func TestWhatReadersOfTheOriginalReadIsWritten(t *testing.T) {
	o := running(t, 3, former(1))
	p := mustDecide(t, o, testSettings)
	out := outcome{}
	out.fail(codeDecide, errors.New("it rains"))
	s := statusOf(o, p, out, "run", testNow)
	switch {
	case s.ClusterSize == nil || *s.ClusterSize != 3:
		t.Errorf("clusterSize is %v", s.ClusterSize)
	case s.ServiceName == nil || *s.ServiceName != "main-client":
		t.Errorf("serviceName is %v", s.ServiceName)
	case s.LastError == nil || !strings.Contains(*s.LastError, "it rains"):
		t.Errorf("lastError is %v", s.LastError)
	case s.Replicas != 3 || s.ReadyReplicas != 3 || s.UpdatedReplicas != 2 || s.CurrentReplicas != 2:
		t.Errorf("replicas %d, ready %d, updated %d, current %d; want 3, 3, 2, 2", s.Replicas, s.ReadyReplicas, s.UpdatedReplicas, s.CurrentReplicas)
	case len(s.Members) != 3 || s.LabelSelector == nil || len(s.LabelSelector.MatchLabels) == 0:
		t.Errorf("members %v, selector %v", s.Members, s.LabelSelector)
	}
}

// The library that sends events keeps the first text alone of several that are about the same version of an Etcd and of the same kind.
func TestWhatIsToldAtOnceIsOneEventForEachKind(t *testing.T) {
	r := &Reconciler{recorder: events.NewFakeRecorder(10), now: func() time.Time { return testNow }, logger: slog.New(slog.DiscardHandler)}
	o := running(t, 3)
	s := *o.Etcd.Status.DeepCopy()
	s.Backup = &druidv1alpha1.EtcdBackupStatus{BackupStatus: druidv1alpha1.BackupStatus{ExcludedSnapshots: []string{"Full-1"}, TamperFindings: []druidv1alpha1.TamperFinding{{Code: "hidden", Message: "first"}, {Code: "marker", Message: "second"}}}}
	r.undone = map[types.UID][]string{}
	for _, what := range []string{"PersistentVolumeClaim main-0: somebody took its labels off", "Role main was set back: a had changed it", "Service main was set back: b had changed it"} {
		r.undid(o.Etcd, what)
	}
	r.tell(t.Context(), o, Plan{}, outcome{}, s)
	var got []string
	for len(r.recorder.(*events.FakeRecorder).Events) > 0 {
		got = append(got, <-r.recorder.(*events.FakeRecorder).Events)
	}
	want := []string{
		"Warning ChangeUndone PersistentVolumeClaim main-0: somebody took its labels off; Role main was set back: a had changed it; Service main was set back: b had changed it",
		"Warning BackupTampered in the bucket: first (hidden); in the bucket: second (marker)",
		"Warning SnapshotExcluded Full-1 is excluded from restores",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
