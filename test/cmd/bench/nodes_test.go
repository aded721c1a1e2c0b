package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/members"
)

// buildMembers builds what a member consists of.
func buildMembers(t *testing.T) members.Programs {
	t.Helper()
	p, err := members.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// An Etcd and bare etcds go through all stages on real nodes. How long they take is nobody's business
// here: that everything is right after each of them is checked on the way.
func TestAnEtcdOnNodesIsMeasuredBesideBareEtcds(t *testing.T) {
	t.Parallel()
	p := buildMembers(t)
	operator := filepath.Join(t.TempDir(), "etcd-druid")
	build := exec.Command("go", "build", "-o", operator, "./cmd/etcd-druid")
	build.Dir, build.Env = filepath.Join("..", "..", ".."), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	b := &bench{etcdbrctl: p.Etcdbrctl, wrapper: p.Wrapper, operator: operator, dir: t.TempDir(), quick: true, rounds: 1}
	r, err := measureNodes(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(r.criteria), len(nodesTargets); got != want {
		t.Errorf("%d targets, want %d", got, want)
	}
	if got, want := len(r.programs), 2*len(nodesTargets); got != want {
		t.Errorf("%d programs, want %d", got, want)
	}
	for _, m := range r.programs {
		if m.median(wall) <= 0 {
			t.Errorf("%s took no time", m.name)
		}
	}
}

func TestEveryStageStandsBesideItsLowerBoundAndTheOriginal(t *testing.T) {
	bare, ours := newPace("bare"), newPace("ours")
	for i := range bare {
		bare[i].runs = []run{{wall: time.Duration(i+1) * time.Second}}
		ours[i].runs = []run{{wall: time.Duration(10*(i+1)) * time.Second}}
	}
	r := judgeNodes(bare, ours)
	want := [][]string{
		{"apply to all pods ready", "10.00 s", "1.00 s", "115 s"},
		{"pod of the leader deleted to 3 ready", "20.00 s", "2.00 s", "17 to 18 s"},
		{"replacement of all pods", "30.00 s", "3.00 s", "51 s"},
	}
	if d := cmp.Diff(want, r.tables[0].rows); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	var met []bool
	for _, c := range r.criteria {
		met = append(met, c.met())
	}
	if d := cmp.Diff([]bool{true, false, false}, met); d != "" {
		t.Errorf("met (-want +got):\n%s", d)
	}
}

func TestAnEtcdIsSettledWhenNothingIsLeftToDo(t *testing.T) {
	whole := func() *druidv1alpha1.Etcd {
		generation := int64(2)
		e := &druidv1alpha1.Etcd{}
		e.Generation, e.Status.ObservedGeneration = 2, &generation
		e.Status.LastOperation = &druidv1alpha1.LastOperation{State: druidv1alpha1.LastOperationSucceeded}
		for _, of := range []druidv1alpha1.ConditionType{druidv1alpha1.ConditionReady, druidv1alpha1.ConditionAllMembersReady, druidv1alpha1.ConditionAllMembersUpdated} {
			e.Status.Conditions = append(e.Status.Conditions, druidv1alpha1.Condition{Type: of, Status: druidv1alpha1.ConditionTrue})
		}
		return e
	}
	for phrase, c := range map[string]struct {
		change func(*druidv1alpha1.Etcd)
		want   string // in the error; empty: settled
	}{
		"all is well":                  {func(*druidv1alpha1.Etcd) {}, ""},
		"a new specification":          {func(e *druidv1alpha1.Etcd) { e.Generation = 3 }, "last operation"},
		"the operation goes on":        {func(e *druidv1alpha1.Etcd) { e.Status.LastOperation.State = druidv1alpha1.LastOperationProcessing }, "last operation"},
		"a pod is still to be changed": {func(e *druidv1alpha1.Etcd) { e.Status.Conditions[2].Status = druidv1alpha1.ConditionFalse }, "AllMembersUpdated"},
		"nothing is known of members":  {func(e *druidv1alpha1.Etcd) { e.Status.Conditions = e.Status.Conditions[:1] }, "AllMembersReady"},
	} {
		t.Run(phrase, func(t *testing.T) {
			e := whole()
			c.change(e)
			err := settledEtcd(e)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}
