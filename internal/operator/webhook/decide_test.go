package webhook

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

const (
	operator = "system:serviceaccount:druid:etcd-druid"
	person   = "jane"
	exempt   = "system:serviceaccount:ops:healer"
	member   = "system:serviceaccount:shop:main"
)

// labelled is the head of an object that is part of an Etcd.
func labelled(etcd string) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Labels: map[string]string{druidv1alpha1.LabelManagedBy: druidv1alpha1.ManagedBy, druidv1alpha1.LabelPartOf: etcd}}
}

// owned is one that an Etcd controls, whatever its labels are.
func owned(etcd string) *metav1.ObjectMeta {
	e := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: etcd, UID: "1"}}
	return &metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{e.OwnerReference()}}
}

func bare() *metav1.ObjectMeta { return &metav1.ObjectMeta{} }

func etcd(name string, change ...func(*druidv1alpha1.Etcd)) *druidv1alpha1.Etcd {
	e := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"}}
	for _, c := range change {
		c(e)
	}
	return e
}

func unprotected(e *druidv1alpha1.Etcd) {
	e.Annotations = map[string]string{druidv1alpha1.AnnotationDisableProtection: ""}
}

func unprotectedOld(e *druidv1alpha1.Etcd) {
	e.Annotations = map[string]string{druidv1alpha1.AnnotationDisableProtectionOld: ""}
}

func held(e *druidv1alpha1.Etcd) {
	e.Status.Conditions = []druidv1alpha1.Condition{{Type: druidv1alpha1.ConditionReconcileHeld, Status: druidv1alpha1.ConditionTrue}}
}

func inState(state druidv1alpha1.LastOperationState) func(*druidv1alpha1.Etcd) {
	return func(e *druidv1alpha1.Etcd) { e.Status.LastOperation = &druidv1alpha1.LastOperation{State: state} }
}

func TestWhoMayChangeAProtectedObject(t *testing.T) {
	update := func(resource, user string, before, after *metav1.ObjectMeta) Request {
		return Request{User: user, Update: true, Resource: resource, Kind: "Thing", Namespace: "shop", Name: "it", Old: before, New: after}
	}
	remove := func(resource, user string, before *metav1.ObjectMeta) Request {
		return Request{User: user, Resource: resource, Kind: "Thing", Namespace: "shop", Name: "it", Old: before}
	}
	const refused = "Thing it belongs to Etcd main, so only the operator (" + operator + ") may do this: change the Etcd instead, or annotate it with " +
		"druid.gardener.cloud/disable-etcd-component-protection first"
	whole := []*druidv1alpha1.Etcd{etcd("main", inState(druidv1alpha1.LastOperationSucceeded))}
	for name, c := range map[string]struct {
		request Request
		etcds   []*druidv1alpha1.Etcd
		want    string // why it is refused; empty: it is granted
	}{
		"the operator changes":                   {update("configmaps", operator, labelled("main"), labelled("main")), whole, ""},
		"the operator deletes":                   {remove("configmaps", operator, labelled("main")), whole, ""},
		"a person changes":                       {update("configmaps", person, labelled("main"), labelled("main")), whole, refused},
		"a person deletes":                       {remove("statefulsets", person, labelled("main")), whole, refused},
		"a person scales":                        {update("statefulsets/scale", person, labelled("main"), labelled("main")), whole, refused},
		"a person deletes what is only owned":    {remove("configmaps", person, owned("main")), whole, refused},
		"a person removes the labels":            {update("configmaps", person, labelled("main"), bare()), whole, refused},
		"a person removes owner and labels":      {update("configmaps", person, owned("main"), bare()), whole, refused},
		"a person gives it to another Etcd":      {update("configmaps", person, labelled("main"), labelled("other")), whole, refused},
		"a person gives an Etcd a foreign thing": {update("configmaps", person, bare(), labelled("main")), whole, refused},
		"from an Etcd without protection to one with it": {
			update("configmaps", person, labelled("free"), labelled("main")), []*druidv1alpha1.Etcd{etcd("free", unprotected), whole[0]}, refused},
		"the Etcd is not protected":       {remove("statefulsets", person, labelled("main")), []*druidv1alpha1.Etcd{etcd("main", unprotected)}, ""},
		"the same in the old spelling":    {remove("statefulsets", person, labelled("main")), []*druidv1alpha1.Etcd{etcd("main", unprotectedOld)}, ""},
		"there is no such Etcd":           {remove("persistentvolumeclaims", person, labelled("main")), nil, ""},
		"an exempt account changes":       {update("configmaps", exempt, labelled("main"), labelled("main")), whole, ""},
		"an exempt account deletes":       {remove("persistentvolumeclaims", exempt, labelled("main")), whole, ""},
		"an exempt account, never looked": {remove("configmaps", exempt, labelled("main")), []*druidv1alpha1.Etcd{etcd("main")}, ""},
		"an exempt account while the operator works": {
			update("configmaps", exempt, labelled("main"), labelled("main")), []*druidv1alpha1.Etcd{etcd("main", inState(druidv1alpha1.LastOperationProcessing))},
			"Thing it belongs to Etcd main, on which the operator is working: try again when its status.lastOperation is Succeeded"},
		"an exempt account while reconciliation is held": {update("configmaps", exempt, labelled("main"), labelled("main")), []*druidv1alpha1.Etcd{etcd("main", inState(druidv1alpha1.LastOperationRequeue), held)}, ""},
		"an exempt account while a rollout waits": {
			update("configmaps", exempt, labelled("main"), labelled("main")), []*druidv1alpha1.Etcd{etcd("main", inState(druidv1alpha1.LastOperationRequeue))},
			"Thing it belongs to Etcd main, on which the operator is working: try again when its status.lastOperation is Succeeded"},
		"an exempt account while the operator works unprotected": {
			update("configmaps", exempt, labelled("main"), labelled("main")), []*druidv1alpha1.Etcd{etcd("main", inState(druidv1alpha1.LastOperationProcessing), unprotected)}, ""},
		"the garbage collector":          {remove("configmaps", "system:serviceaccount:kube-system:generic-garbage-collector", labelled("main")), whole, ""},
		"the end of a namespace":         {remove("persistentvolumeclaims", "system:serviceaccount:kube-system:namespace-controller", labelled("main")), whole, ""},
		"the controller of StatefulSets": {remove("persistentvolumeclaims", "system:serviceaccount:kube-system:statefulset-controller", labelled("main")), whole, ""},
		"a namesake of a controller":     {remove("configmaps", "system:serviceaccount:shop:generic-garbage-collector", labelled("main")), whole, refused},
		"a member renews its Lease":      {update("leases", member, labelled("main"), labelled("main")), whole, ""},
		"a member votes":                 {update("etcdmembers", member, labelled("main"), labelled("main")), whole, ""},
		"a member deletes its Lease":     {remove("leases", member, labelled("main")), whole, refused},
		"a member takes its Lease away":  {update("leases", member, labelled("main"), bare()), whole, refused},
		"a member has its Lease owned": {update("leases", member, labelled("main"), func() *metav1.ObjectMeta {
			m := labelled("main")
			m.OwnerReferences = owned("x").OwnerReferences
			return m
		}()), whole, refused},
		"a member changes its configuration":  {update("configmaps", member, labelled("main"), labelled("main")), whole, refused},
		"another Etcd's member":               {update("leases", "system:serviceaccount:shop:other", labelled("main"), labelled("main")), whole, refused},
		"a member of another namespace":       {update("leases", "system:serviceaccount:else:main", labelled("main"), labelled("main")), whole, refused},
		"a person renews the Lease of nobody": {update("leases", person, bare(), bare()), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := Decide(c.request, c.etcds, Policy{Operator: operator, Exempt: []string{exempt}})
			if v.Allowed != (c.want == "") || !v.Allowed && v.Reason != c.want || v.Reason == "" {
				t.Errorf("allowed %t: %q, want %q", v.Allowed, v.Reason, c.want)
			}
		})
	}
}

func TestWhoseAnObjectIsAndWouldBe(t *testing.T) {
	foreign := &metav1.ObjectMeta{Labels: map[string]string{druidv1alpha1.LabelPartOf: "main", druidv1alpha1.LabelManagedBy: "Helm"}}
	namesake := owned("main")
	namesake.OwnerReferences[0].APIVersion = "example.com/v1"
	older := owned("main")
	older.OwnerReferences[0].APIVersion = druidv1alpha1.Group + "/v1alpha0"
	for name, c := range map[string]struct {
		before, after *metav1.ObjectMeta
		want          []string
	}{
		"nobody's":                   {bare(), bare(), nil},
		"by its labels":              {labelled("main"), nil, []string{"main"}},
		"by its owner":               {owned("main"), nil, []string{"main"}},
		"by its owner of an old API": {older, nil, []string{"main"}},
		"part of something else":     {foreign, nil, nil},
		"owned by a namesake":        {namesake, nil, nil},
		"given away":                 {labelled("main"), labelled("a"), []string{"a", "main"}},
		"the same twice":             {labelled("main"), owned("main"), []string{"main"}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, Request{Old: c.before, New: c.after}.Etcds()); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestNobodyIsSentWhoIsGrantedEverything(t *testing.T) {
	for _, w := range Webhooks(operator, reachedNowhere) {
		var all strings.Builder
		for _, c := range w.MatchConditions {
			all.WriteString(c.Expression + "\n")
		}
		for _, user := range append([]string{operator}, controllers...) {
			if !strings.Contains(all.String(), `"`+user+`"`) {
				t.Errorf("%s is asked about what %s does", w.Name, user)
			}
		}
		if w.ObjectSelector == nil && !strings.Contains(all.String(), "managed-by=etcd-druid") {
			t.Errorf("%s is asked about everybody's objects", w.Name)
		}
	}
}
