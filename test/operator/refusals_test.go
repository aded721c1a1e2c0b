package operator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// skew is by how much the clock of a node may be wrong.
const skew = 30 * time.Minute

// Each step of a sleep and of waking up, with the volumes and without, is refused in one namespace: by the API server, as if somebody
// else had been faster, or by the sidecar, as if its store did not answer. Nobody dies, and it ends as if nothing had been. So it does
// where the members' node has a wrong clock.
func TestStepsOfASleepThatAreRefusedAreTakenAgain(t *testing.T) {
	together(t, heavy)
	times := 1
	if *soak {
		times = 3
	}
	tracks := []track{
		{name: "keeps", stages: []stage{
			{name: "sleep", change: replicas(0), steps: []string{
				"PATCH services/main-client", "POST /clients", "POST /snapshot/full", "POST /verify", "PATCH etcds/main/status", "PATCH statefulsets/main", "POST etcdoperatortasks/main-hibernation", "POST cronjobs/main-hibernation",
			}},
			{name: "wake", change: replicas(3), steps: []string{"PATCH etcds/main/status", "PATCH services/main-client", "PATCH statefulsets/main", "DELETE etcdoperatortasks/main-hibernation"}},
		}},
		{name: "deletes", stages: []stage{
			{name: "sleep without volumes", change: func(o map[string]any) { replicas(0)(o); spec("Delete", "hibernation", "volumes")(o) }, steps: []string{
				"POST /snapshot/full", "PATCH statefulsets/main", "DELETE persistentvolumeclaims/main-main-0", "DELETE persistentvolumeclaims/main-main-2",
			}},
			{name: "wake from the bucket", change: replicas(3), steps: []string{"POST etcdmembers/main-0", "PATCH statefulsets/main"}},
		}},
	}
	r := newStory(t)
	for i := range tracks {
		tracks[i].explore(t, r)
	}
	for i := range tracks {
		tracks[i].settle(t, r)
	}
	for stage := range tracks[0].stages {
		began := time.Now()
		for i := range tracks {
			tracks[i].begin(t, r, stage, times)
		}
		for i := range tracks {
			n := tracks[i].end(t, r, stage)
			t.Logf("%s: %d steps were refused, %s", tracks[i].stages[stage].name, n, time.Since(began).Round(100*time.Millisecond))
		}
		if t.Failed() {
			return // what follows would begin from somewhere else
		}
	}
}

// track is a line of stages that go on beside those of other tracks.
type track struct {
	name   string
	stages []stage
	faults [][]fault // by stage
	ends   []string
	towns  []*town // one for each fault, and then those with wrong clocks
}

// explore takes the stages without a fault.
func (k *track) explore(t *testing.T, r *story) {
	t.Helper()
	first := someFrom(t)
	pilot := r.settleLocked(k.name + "-pilot")
	r.gather(t, 3, pilot)
	for _, g := range k.stages {
		steps, end := r.explore(t, pilot, g)
		k.ends = append(k.ends, end)
		faults := places(steps)
		if !*soak {
			faults = oneIn(faults, first)
		}
		k.faults = append(k.faults, faults)
		t.Logf("%s: %d steps: %s", g.name, len(steps), strings.Join(steps, ", "))
	}
}

// settleLocked makes a namespace with a cluster of three whose backups are to be locked.
func (r *story) settleLocked(namespace string) *town {
	w := r.settle(namespace, "grows", 0)
	r.s.apply(r.t, strings.Replace(r.l.etcdIn(namespace, "grows", 3), "prefix: p}", "prefix: p, immutability: {retentionType: bucket}}", 1))
	return w
}

// places are all steps, each by its name and how many of that name came before.
func places(steps []string) (all []fault) {
	seen := map[string]int{}
	for _, s := range steps {
		seen[s]++
		if f := (fault{step: s, nth: seen[s]}); *soak || !f.ofStatus() {
			all = append(all, f)
		}
	}
	return all
}

// settle makes the towns.
func (k *track) settle(t *testing.T, r *story) {
	t.Helper()
	most := 0
	for _, faults := range k.faults {
		most = max(most, len(faults))
	}
	for i := range most {
		k.towns = append(k.towns, r.settleLocked(fmt.Sprintf("%s-%d", k.name, i)))
	}
	for name, ahead := range map[string]time.Duration{"ahead": skew, "late": -skew} {
		w := r.settleLocked(k.name + "-" + name)
		w.mu.Lock()
		w.ahead = ahead
		w.mu.Unlock()
		k.towns = append(k.towns, w)
	}
	r.gather(t, 3, k.towns...)
}

// begin begins a stage in all towns.
func (k *track) begin(t *testing.T, r *story, stage, times int) {
	t.Helper()
	for i, w := range k.towns {
		road := r.g.road(w.namespace)
		road.turn(nil, 0)
		if i < len(k.faults[stage]) {
			road.turn(&k.faults[stage][i], times)
		}
		r.change(t, w, k.stages[stage])
	}
}

// end waits until a stage is over in all towns, and returns in how many a step was refused.
func (k *track) end(t *testing.T, r *story, stage int) (refused int) {
	t.Helper()
	name, faults := k.stages[stage].name, k.faults[stage]
	var missed []string
	for i, w := range k.towns {
		road, fault := r.g.road(w.namespace), "nothing"
		if i < len(faults) {
			fault = fmt.Sprintf("%s #%d", faults[i].step, faults[i].nth)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := r.p.Await(ctx, func(ctx context.Context) error {
			got, err := r.arrived(ctx, w)
			want := k.ends[stage]
			if w.ahead < 0 {
				want = withoutHealth(want)
			}
			if d := cmp.Diff(want, got); err == nil && d != "" {
				err = fmt.Errorf("it ends elsewhere (-without the fault +with it):\n%s", d)
			}
			return err
		})
		cancel()
		if err != nil {
			t.Errorf("%s, refused %s (%s): %v; steps %q", name, fault, w.namespace, brief(err), road.taken())
		}
		for _, text := range w.wrongs() {
			t.Errorf("%s, refused %s (%s): %s", name, fault, w.namespace, text)
		}
		switch {
		case i >= len(faults):
		case road.left() == 0:
			refused++
		default:
			missed = append(missed, fault)
		}
	}
	if refused < enough(len(faults)) {
		t.Errorf("%s: %d of %d steps were refused; not: %q", name, refused, len(faults), missed)
	}
	return refused
}

// withoutHealth is a state without the lines about the health of members, see [story.state].
func withoutHealth(state string) string {
	lines := slices.DeleteFunc(strings.Split(state, "\n"), func(l string) bool {
		return strings.HasPrefix(l, "condition ") || strings.HasPrefix(l, "minAvailable ")
	})
	return strings.Join(lines, "\n")
}
