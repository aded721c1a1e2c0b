package cluster

import (
	"fmt"
	"net/http"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Right is one verb on one kind of objects: what the rules of RBAC are made of, and what requests need.
type Right struct {
	Group    string // of the API; empty: core
	Resource string // with /SUBRESOURCE, if it is one
	Verb     string
}

// String is as in a question to kubectl auth can-i.
func (r Right) String() string {
	if r.Group == "" {
		return r.Verb + " " + r.Resource
	}
	return r.Verb + " " + r.Resource + "." + r.Group
}

// Took are the rights that the request took. What is applied and not there yet takes the right to make it, too.
func (r Request) Took() []Right {
	if r.Forbidden {
		return nil
	}
	right := Right{r.Group, r.Resource, r.Verb}
	if r.Subresource != "" {
		right.Resource += "/" + r.Subresource
	}
	if r.Verb != "patch" || r.Code != http.StatusCreated {
		return []Right{right}
	}
	create := right
	create.Verb = "create"
	return []Right{right, create}
}

// Rights are all that rules give, in their order and each once. Names of objects and wildcards stay
// what they are written as.
func Rights(rules []rbacv1.PolicyRule) (all []Right) {
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					if r := (Right{group, resource, verb}); !slices.Contains(all, r) {
						all = append(all, r)
					}
				}
			}
		}
	}
	return all
}

// Unused are the rights that no request took, each with the rule that gives it.
func Unused(rules []rbacv1.PolicyRule, requests []Request) (unused []string) {
	taken := map[Right]bool{}
	for _, r := range requests {
		for _, right := range r.Took() {
			taken[right] = true
		}
	}
	for i, rule := range rules {
		for _, right := range Rights([]rbacv1.PolicyRule{rule}) {
			if !taken[right] {
				unused = append(unused, fmt.Sprintf("%s, of rule %d: %s", right, i+1, rule.String()))
			}
		}
	}
	return unused
}
