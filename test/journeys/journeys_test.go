// Package journeys_test goes whole journeys with the operator as it is shipped: installed by its Helm
// chart on a Kubernetes with real nodes, with backups in a real store. Each journey makes an Etcd of its
// own, some at a time, and checks what a stranger would read in its status. At the end, what was asked of the API
// server is compared with the rights that the chart gives.
//
// It is what `make e2e` runs; -focus names the journeys to go, all by default. -kubeconfig takes a
// cluster that is there already. `make test` leaves it out.
package journeys_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	focus      = flag.String("focus", "", "names of journeys, with commas; empty: all")
	kubeconfig = flag.String("kubeconfig", "", "file of a Kubernetes that is there already and whose pods and Services can be reached from here; empty: one of our own")
	host       = flag.String("host", "", "with -kubeconfig: an address of this machine that pods reach; the store listens there")
	firstImage = flag.String("image", "", "with -kubeconfig: the image, which its nodes can pull")
	nextImage  = flag.String("next-image", "", "with -kubeconfig: another name of it, to which is upgraded")
)

// A journey is one way through the operator.
type journey struct {
	name string
	// machines: it does something to the machines or disks, or brings definitions that are another project's, so the cluster must be ours.
	machines bool
	// alone: what it does others would notice, so it goes when they have ended. They go some at a time (-parallel).
	alone bool
	// demonstrated: make demo shows it on a cluster of ours, and make e2e has it do that first. Here it goes by its name.
	demonstrated bool
	do           func(*testing.T, *site)
}

// all are the journeys. Those that go alone keep this order.
var all = []journey{
	{name: "immutability", do: immutability},
	{name: "protection", do: protection},
	{name: "rollout", do: rollout},
	{name: "scale", do: scale},
	{name: "scale-in-loss", do: loseWhoStays},
	{name: "eviction", do: eviction},
	{name: "restore", demonstrated: true, do: restore},
	{name: "probes", machines: true, do: probes},
	{name: "tls", do: switchTLS},
	{name: "troubles", do: troubles},
	{name: "full-volume", machines: true, do: fullVolume},
	{name: "readonly-volume", machines: true, do: readOnlyVolume},
	{name: "copy", do: copyBackups},
	{name: "recovery", do: recovery},
	{name: "examples", do: examples},
	{name: "moving-in", do: moveIn},
	{name: "move-given-up", do: giveTheMoveUp},
	{name: "taking-over", machines: true, do: takeOver},
	{name: "node-loss", machines: true, demonstrated: true, alone: true, do: nodeLoss},
	{name: "cert-manager", machines: true, alone: true, do: certManager},
	{name: "upgrade", alone: true, do: upgrade},
	{name: "without-operator", alone: true, do: withoutOperator},
	{name: "uninstall", alone: true, do: uninstall}, // the last: what an operator watched is known when it ended
}

func TestJourneys(t *testing.T) {
	chosen, err := choose(all, *focus)
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t)
	t.Run("at-once", func(t *testing.T) {
		for _, j := range chosen {
			if !j.alone {
				s.goes(t, j)
			}
		}
	})
	for _, j := range chosen {
		if j.alone {
			s.goes(t, j)
		}
	}
	whole := !t.Failed() && !slices.ContainsFunc(all, func(j journey) bool { return !s.gone[j.name] })
	t.Run("rights", func(t *testing.T) { s.compareRights(t, whole) })
}

// goes has a journey be gone, beside others unless it is one that goes alone.
func (s *site) goes(t *testing.T, j journey) {
	if j.demonstrated && s.ours && *focus == "" {
		t.Logf("%s is what make demo shows; FOCUS=%s goes it here", j.name, j.name)
		s.gone[j.name] = true
		return
	}
	t.Run(j.name, func(t *testing.T) {
		s.gone[j.name] = true // those at once get here one after the other
		if j.machines && !s.ours {
			t.Skip("it takes the machines of the cluster, which are somebody else's")
		}
		if !j.alone {
			t.Parallel()
		}
		begun := time.Now()
		t.Cleanup(func() {
			if t.Failed() {
				s.KeepBundle(t, "")
			}
			t.Logf("%s took %s", j.name, time.Since(begun).Round(time.Second))
		})
		j.do(t, s)
	})
}

// choose takes the journeys of these names, in the order in which they are known.
func choose(from []journey, names string) (chosen []journey, err error) {
	if names == "" {
		return from, nil
	}
	var known []string
	for _, j := range from {
		known = append(known, j.name)
	}
	wanted := strings.Split(names, ",")
	for _, name := range wanted {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no journey %q: FOCUS is one of %s, or several with commas", name, strings.Join(known, ", "))
		}
	}
	for _, j := range from {
		if slices.Contains(wanted, j.name) {
			chosen = append(chosen, j)
		}
	}
	return chosen, nil
}

func TestAFocusChoosesJourneysOrNamesThem(t *testing.T) {
	known := []journey{{name: "a"}, {name: "b"}, {name: "c"}}
	for focus, want := range map[string]string{
		"": "a b c", "b": "b", "c,a": "a c",
		"d":    `there is no journey "d": FOCUS is one of a, b, c, or several with commas`,
		"a, b": `there is no journey " b": FOCUS is one of a, b, c, or several with commas`,
	} {
		chosen, err := choose(known, focus)
		var got []string
		for _, j := range chosen {
			got = append(got, j.name)
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%q chooses %q, want %q", focus, got, want)
		}
	}
}

// patience is how long a fact may take on a machine that has more to do.
const patience = 3 * time.Minute
