package journeys_test

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"druid.internal/druid/test/chart"
	"druid.internal/druid/test/cluster"
)

// shownElsewhere are rights that no journey takes, each with the reason.
var shownElsewhere = map[string]string{
	// Nobody asks for these: the API server looks whether an owner's finalizers may be changed by who names it
	// as one that blocks its deletion.
	"update etcds/finalizers.druid.gardener.cloud":                "make objects with an owner, where that is checked, as it is here",
	"update etcdcopybackupstasks/finalizers.druid.gardener.cloud": "the same for Jobs",

	"update etcdoperatortasks/finalizers.druid.gardener.cloud": "the same for CronJobs",

	// Tasks that have ended; those of the journeys go with their Etcds.
	"delete cronjobs.batch":                    "TestTasksAreCarriedOut of test/operator",
	"delete etcdopstasks.druid.gardener.cloud": "the same",

	// Granted to sidecars of the original while they are taken over, and nobody can grant what he has not got.
	"get pods":                         "TestAClusterOfTheOriginalIsTakenOverWhileClientsWrite of test/operator",
	"watch leases.coordination.k8s.io": "the same; the operator itself lists them",

	"patch jobs.batch": "TestTasksCopyBackups of test/operator edits a Job that runs; here it is over too soon",
	"patch secrets":    "TestTheOriginalsFinalizersOnSecretsGo of test/operator",
	"update secrets":   "TestCertificatesAreRenewedWhileTheAPIServerAsks of test/operator; here it takes 60 days",
	"list events":      "TestTroublesAreToldWithinAMinute of test/operator; here every claim may be bound before anybody asks",
	"patch events":     "an event of the election that repeats within minutes is counted",
}

// compareRights finds what the operator or a member was not allowed to do, and, if all journeys were
// gone, what they are allowed to do and did not.
func (s *site) compareRights(t *testing.T, whole bool) {
	if !s.ours {
		t.Skip("the audit log is somebody else's")
	}
	own := func(user string) bool { return user == operatorUser }
	member := func(user string) bool { return s.members[user] }
	requests, err := s.Requests(func(r cluster.Request) bool {
		return r.Name != ownedByNobody && (own(r.User) || member(r.User))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		if r.Forbidden && !s.expected(r) {
			t.Errorf("nothing allows the request: %s", r)
		}
	}
	var roles = map[string][]rbacv1.PolicyRule{}
	text, err := chart.Render(s.values(s.image))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(text, "\n---\n") {
		var role rbacv1.ClusterRole // a Role has the same fields
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		if role.Kind == "ClusterRole" || role.Kind == "Role" {
			roles[role.Kind] = append(roles[role.Kind], role.Rules...)
		}
	}
	if len(roles) != 2 {
		t.Fatalf("the chart gives the rights %v, want a ClusterRole and a Role", roles)
	}
	asked := func(want func(cluster.Request) bool) (some []cluster.Request) {
		for _, r := range requests {
			if want(r) {
				some = append(some, r)
			}
		}
		return some
	}
	// Nobody can grant what he has not got, so what members got the operator has used.
	operators := asked(func(r cluster.Request) bool { return own(r.User) })
	operators = append(operators, implied(operators)...)
	for _, right := range cluster.Rights(s.granted) {
		resource, subresource, _ := strings.Cut(right.Resource, "/")
		operators = append(operators, cluster.Request{Group: right.Group, Resource: resource, Subresource: subresource, Verb: right.Verb})
	}
	t.Run("of the operator in all namespaces", func(t *testing.T) { areUsed(t, roles["ClusterRole"], operators, whole) })
	t.Run("of the operator in its own namespace", func(t *testing.T) {
		areUsed(t, roles["Role"], asked(func(r cluster.Request) bool { return own(r.User) && r.Namespace == chart.Namespace }), whole)
	})
	t.Run("of members", func(t *testing.T) {
		areUsed(t, s.granted, asked(func(r cluster.Request) bool { return member(r.User) }), whole)
	})
}

// implied are the requests that follow from others: what is watched is listed where an API server does
// not stream it, and what was made is read before it is changed for the first time.
func implied(requests []cluster.Request) (more []cluster.Request) {
	for _, r := range requests {
		for _, right := range r.Took() {
			another := cluster.Request{Group: r.Group, Resource: r.Resource, Subresource: r.Subresource}
			switch right.Verb {
			case "watch":
				another.Verb = "list"
			case "create":
				another.Verb = "get"
			default:
				continue
			}
			more = append(more, another)
		}
	}
	return more
}

// expected tells whether somebody was refused who was about to end: Helm takes the rights of an operator away
// before it ends, and a member's go with its Etcd, or when it has left the cluster.
func (s *site) expected(r cluster.Request) bool {
	if r.User == operatorUser {
		return slices.ContainsFunc(s.ends, func(p period) bool { return r.At.After(p.from) && r.At.Before(p.to) })
	}
	refused := r
	refused.Forbidden = false
	return slices.Contains(cluster.Rights(s.granted), refused.Took()[0])
}

// areUsed tells which rights that are shown elsewhere were used here as well, and, if all journeys were gone, which of the
// others were not.
func areUsed(t *testing.T, rules []rbacv1.PolicyRule, requests []cluster.Request, whole bool) {
	t.Helper()
	unused := map[string]bool{}
	for _, text := range cluster.Unused(rules, requests) {
		right, _, _ := strings.Cut(text, ", of rule")
		if unused[right] = true; whole && shownElsewhere[right] == "" {
			t.Errorf("nothing used the right to %s", text)
		}
	}
	for _, right := range cluster.Rights(rules) {
		if why := shownElsewhere[right.String()]; why != "" && !unused[right.String()] {
			t.Logf("used here as well is the right to %s (%s)", right, why)
		}
	}
}
