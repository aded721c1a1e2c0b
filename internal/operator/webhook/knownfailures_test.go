package webhook

import (
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// What happened elsewhere: docs/reference/known-failures.md names this test. There the webhook looked at the labels
// that an object would have: whoever took one away first could then delete it.
func TestAnObjectThatLosesItsLabelsKeepsItsProtection(t *testing.T) {
	const mine, free = "main", "free"
	etcds := map[string]*druidv1alpha1.Etcd{mine: etcd(mine), free: etcd(free, unprotected)}
	judge := func(r Request) bool {
		var named []*druidv1alpha1.Etcd
		for _, name := range r.Etcds() {
			named = append(named, etcds[name])
		}
		return Decide(r, named, Policy{Operator: operator, Exempt: []string{exempt}}).Allowed
	}
	heads := map[string]*metav1.ObjectMeta{
		"labels and owner":              {Labels: labelled(mine).Labels, OwnerReferences: owned(mine).OwnerReferences},
		"labels":                        labelled(mine),
		"owner":                         owned(mine),
		"owner, labels of another":      {Labels: labelled(free).Labels, OwnerReferences: owned(mine).OwnerReferences},
		"labels, another owner":         {Labels: labelled(mine).Labels, OwnerReferences: owned(free).OwnerReferences},
		"one label":                     {Labels: map[string]string{druidv1alpha1.LabelPartOf: mine}},
		"the other label":               {Labels: map[string]string{druidv1alpha1.LabelManagedBy: druidv1alpha1.ManagedBy}},
		"labels of another":             labelled(free),
		"another owner":                 owned(free),
		"nothing that tells whose":      bare(),
		"labels, managed by a stranger": {Labels: map[string]string{druidv1alpha1.LabelPartOf: mine, druidv1alpha1.LabelManagedBy: "somebody"}},
	}
	for _, user := range []string{person, member} {
		for _, resource := range []string{"configmaps", "statefulsets", "leases", "etcdmembers", "persistentvolumeclaims"} {
			request := func(update bool, before, after string) Request {
				r := Request{User: user, Update: update, Resource: resource, Kind: "Thing", Namespace: "shop", Name: "it", Old: heads[before]}
				if update {
					r.New = heads[after]
				}
				return r
			}
			for _, begin := range []string{"labels and owner", "labels", "owner", "owner, labels of another", "labels, another owner"} {
				reached := []string{begin} // one edit after the other
				for i := 0; i < len(reached); i++ {
					if judge(request(false, reached[i], "")) {
						t.Errorf("%s may delete one of the %s with %s, by way of %q", user, resource, begin, reached[:i+1])
					}
					for _, next := range slices.Sorted(maps.Keys(heads)) {
						if !slices.Contains(reached, next) && judge(request(true, reached[i], next)) {
							reached = append(reached, next)
						}
					}
				}
			}
		}
	}
}
