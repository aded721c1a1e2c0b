package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestRightsThatNobodyTookAreNamedWithTheirRule(t *testing.T) {
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "pods/eviction"}, Verbs: []string{"get", "create"}},
		{APIGroups: []string{"apps"}, Resources: []string{"statefulsets"}, Verbs: []string{"patch"}, ResourceNames: []string{"main"}},
	}
	requests := []Request{
		{Verb: "get", Resource: "pods", Name: "a"},
		{Verb: "get", Resource: "pods", Name: "b", Code: 404},
		{Verb: "create", Resource: "pods", Subresource: "eviction"},
		{Verb: "create", Resource: "pods", Code: 403, Forbidden: true},
		{Verb: "patch", Resource: "statefulsets"}, // of another group
		{Verb: "patch", Resource: "pods", Code: 200},
	}
	var got []string
	for _, u := range Unused(rules, requests) {
		right, rule, _ := strings.Cut(u, ": ")
		if !strings.Contains(rule, "Verbs:") {
			t.Errorf("%q does not show the rule", u)
		}
		got = append(got, right)
	}
	want := []string{"create pods, of rule 1", "get pods/eviction, of rule 1", "patch statefulsets.apps, of rule 2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	taken := append(requests[:3:3], Request{Verb: "patch", Resource: "pods", Code: 201}, Request{Verb: "get", Resource: "pods", Subresource: "eviction"},
		Request{Verb: "patch", Group: "apps", Resource: "statefulsets"})
	if u := Unused(rules, taken); len(u) > 0 {
		t.Errorf("all were taken, and unused are %q", u)
	}
}
