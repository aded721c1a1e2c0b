package initialize

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/agentapi"
)

// turn lets something happen.
func (w *world) turn() {
	w.clock = w.clock.Add(50 * time.Millisecond)
	w.rafts()
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	w.disturb(n)
	if n.stalled > 0 && !w.calm { // whatever it has asked or read gets old
		n.stalled--
		return
	}
	if w.breaks(w.stalls) {
		n.stalled = w.rng.IntN(150)
	}
	p := n.sidecar
	switch {
	case p == nil:
		if w.calm || w.chance(30) {
			n.boot()
		}
	case p.busy:
		p.step()
		if !p.busy && p.machine.Status() != agentapi.InitProgress {
			w.note("%s: %s", n.peer.Name, p.machine.Status())
		}
	case p.again:
		p.again = false
		if n.running {
			w.note("%s: etcd is stopped to begin anew", n.peer.Name)
			n.running = false
		}
		p.machine.Acknowledge()
	default:
		w.supervise(n, p)
	}
}

// supervise is what the wrapper does.
func (w *world) supervise(n *node, p *process) {
	if n.running {
		if g := w.groups[n.data.cluster]; w.decides(g) {
			n.idle = 0
		} else if n.idle++; n.idle > 20 {
			n.idle = 0
			p.do(func() { _, p.again = p.machine.Reconsider(p.ctx) })
		}
		return
	}
	switch p.machine.Status() {
	case agentapi.InitNew:
		mode := agentapi.ValidateFull
		if w.chance(50) {
			mode = agentapi.ValidateSanity
		}
		p.machine.Start(mode)
		<-p.machine.wake
		p.do(func() { p.machine.once(p.ctx) })
	case agentapi.InitFailed:
		p.machine.Acknowledge()
	case agentapi.InitSuccessful:
		if p.launched == p.machine.outcome { // the wrapper acknowledges before each start
			p.machine.Acknowledge()
			return
		}
		p.launched = p.machine.outcome
		d := p.machine.outcome.decision
		w.seen[d.Action]++
		w.note("%s: may %s by rule %s: %s", n.peer.Name, d.Action, d.Rule, d.Message)
		if w.breaks(50) || !n.launch(p.machine.outcome.start) {
			w.note("%s: etcd did not start", n.peer.Name)
			p.machine.Acknowledge()
		}
	}
}

// disturb breaks something.
func (w *world) disturb(n *node) {
	stop := func(why string) {
		w.note("%s: %s", n.peer.Name, why)
		n.running = false
		if n.sidecar != nil && !n.sidecar.busy {
			n.sidecar.machine.Acknowledge()
		}
	}
	worse := 0
	if slices.ContainsFunc(w.nodes, func(o *node) bool { return o != n && o.hesitates }) {
		worse = 40
	}
	switch {
	case w.rarely(6 * w.rage):
		w.note("%s: sidecar killed", n.peer.Name)
		n.kill()
	case w.rarely(4 * w.rage):
		stop("etcd killed")
	case w.rarely(2*w.rage + worse):
		stop("volume lost")
		n.empty()
	case w.rarely(w.rage):
		stop("data directory removed")
		n.data = nil
		n.version++
	case w.rarely(4) && n.data != nil:
		stop("data damaged")
		n.data.damaged = true
		n.version++
	case w.rarely(3 * w.rage):
		n.mute = !n.mute
		w.note("%s: nobody reaches its sidecar: %t", n.peer.Name, n.mute)
	case w.disasters && w.rarely(6):
		w.note("all volumes are lost")
		for _, n := range w.nodes {
			n.running = false
			n.empty()
		}
		if w.bucket = nil; w.backups && w.chance(50) {
			w.fill()
		}
	case w.backups && w.rarely(4+50*min(1, len(n.journal.Nonce))+worse) && w.bucket == nil && len(w.nodes) > 1: // with one, it would be another history
		w.fill()
	}
}

// empty takes the volume away, and with it the sidecar.
func (n *node) empty() {
	n.kill()
	n.data, n.journal = nil, Journal{}
	n.version++
}

// fill puts a backup into the bucket.
func (w *world) fill() {
	w.note("somebody copies a backup into the bucket")
	writes := 1000
	w.bucket = &writes
}

// rafts lets the etcds agree, as far as they can, and checks what must never happen.
func (w *world) rafts() {
	var deciding []*raftGroup
	for _, id := range sortedIDs(w.groups) {
		if g := w.groups[id]; w.decides(g) {
			deciding = append(deciding, g)
		}
	}
	if len(deciding) > 1 {
		w.violated("clusters %x and %x decide at the same time", deciding[0].id, deciding[1].id)
	}
	for _, g := range deciding {
		var running, voting []*node
		newest := 0
		for _, n := range w.nodes {
			if !n.running || n.data == nil || n.data.cluster != g.id {
				continue
			}
			p := g.peers[n.data.id]
			if p == nil {
				n.running, n.data.removed = false, true
				w.note("%s: etcd stops, it was removed", n.peer.Name)
				if n.sidecar != nil && !n.sidecar.busy {
					n.sidecar.machine.Acknowledge()
				}
				continue
			}
			running = append(running, n)
			if !p.Learner {
				voting = append(voting, n)
				newest = max(newest, n.data.writes)
			}
			if w.chance(10) {
				n.ready = true
				p.Name, p.ClientURLs = n.peer.Name, n.peer.ClientURLs
			}
		}
		if newest < g.committed {
			w.violated("%d of %d acknowledged writes are left in cluster %x", newest, g.committed, g.id)
		}
		for _, n := range running {
			if w.chance(20) {
				n.data.writes = g.committed
				if p := g.peers[n.data.id]; p.Learner && w.chance(30) {
					p.Learner = false
					w.note("%s: promoted", n.peer.Name)
				}
			}
		}
		if quorum := g.voters()/2 + 1; w.chance(10) && len(voting) >= quorum {
			w.first(g)
			g.committed++
			w.rng.Shuffle(len(voting), func(i, j int) { voting[i], voting[j] = voting[j], voting[i] })
			for _, n := range voting[:quorum] {
				n.data.writes = g.committed
			}
		}
		if w.backups && g.committed > 0 && w.chance(3) && (w.bucket == nil || *w.bucket < g.committed) {
			writes := g.committed
			w.bucket = &writes
		}
	}
}

// first checks, when a cluster acknowledges something, that nobody else has anything that counts.
func (w *world) first(g *raftGroup) {
	for _, n := range w.nodes {
		if d := n.data; d != nil && d.cluster != g.id && !d.damaged && d.writes > 0 && g.peers[d.id] == nil && len(g.peers) > 0 {
			if x := w.groups[d.cluster]; x.peers[d.id] != nil {
				w.violated("cluster %x acknowledges writes while %s has those of cluster %x", g.id, n.peer.Name, x.id)
			}
		}
	}
}

// settled says whether everybody belongs to one cluster that decides.
func (w *world) settled() bool {
	for _, n := range w.nodes {
		if !n.running || n.data == nil || n.data.cluster != w.nodes[0].data.cluster {
			return false
		}
		if p := w.groups[n.data.cluster].peers[n.data.id]; p == nil || p.Learner {
			return false
		}
	}
	return true
}

// lost says whether only a person can help: some member has data, and no cluster has enough.
func (w *world) lost() bool {
	any := false
	for _, n := range w.nodes {
		any = any || n.data != nil && (n.data.damaged || n.data.writes > 0)
	}
	for _, g := range w.groups {
		intact := 0
		for _, n := range w.nodes {
			if d := n.data; d != nil && d.cluster == g.id && !d.damaged {
				if p := g.peers[d.id]; p != nil && !p.Learner {
					intact++
				}
			}
		}
		if g.committed > 0 && intact >= g.voters()/2+1 {
			return false
		}
	}
	return any
}

func sortedIDs[V any](m map[uint64]V) []uint64 {
	var ids []uint64
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// simulate breaks things for some turns, and then lets the members find together.
func simulate(seed uint64, n, turns int) (w *world, end string) {
	w = newWorld(seed, n)
	defer func() {
		for _, n := range w.nodes {
			n.kill()
		}
	}()
	w.rage, w.stalls, w.backups, w.disasters = 1+w.rng.IntN(8), w.rng.IntN(15), w.chance(50), w.chance(40)
	if w.backups && w.chance(50) {
		w.fill()
	}
	for range turns {
		if w.turn(); w.broken != "" {
			return w, w.broken
		}
	}
	w.calm = true
	for _, n := range w.nodes {
		n.mute = false
	}
	w.note("--- nothing breaks any more")
	const patience, enough = 60000, 4000
	for i := range patience {
		if w.turn(); w.broken != "" {
			return w, w.broken
		}
		if w.settled() {
			return w, "settled"
		}
		if i > enough && w.lost() {
			return w, "lost"
		}
	}
	return w, "the members never found together"
}

var (
	worlds     = flag.Int("worlds", 150, "how many worlds of three members to simulate")
	firstWorld = flag.Uint64("first-world", 0, "the seed of the first of them")
)

// TestNoClusterIsBegunTwiceAndNoWriteIsLost is the proof by exhaustion of chance. What holds in
// every run: at most one cluster decides; no etcd comes back empty under an id it had; whatever was
// acknowledged is there as long as a majority of the volumes is; no data that count are set
// aside; and when nothing breaks any more, the members find together, unless a person has to help.
func TestNoClusterIsBegunTwiceAndNoWriteIsLost(t *testing.T) {
	runs := map[int]int{1: *worlds / 4, 3: *worlds, 5: *worlds / 3}
	seen := map[Action]int{}
	ends := map[string]int{}
	for _, n := range []int{1, 3, 5} {
		for seed := *firstWorld; seed < *firstWorld+uint64(runs[n]); seed++ {
			w, end := simulate(seed, n, 3000*n)
			for a, k := range w.seen {
				seen[a] += k
			}
			ends[fmt.Sprintf("%d members: %s", n, end)]++
			if end != "settled" && end != "lost" {
				t.Fatalf("seed %d with %d members: %s\n%s", seed, n, end, strings.Join(w.trace, "\n"))
			}
		}
	}
	t.Logf("ends %v, starts %v", ends, seen)
	if *worlds < 150 {
		return // too few for everything to happen
	}
	for _, a := range []Action{Start, BootstrapSole, BootstrapNew, BootstrapLate, JoinAsLearner, RestoreSole, RestoreSeed, GiveUp} {
		if seen[a] == 0 {
			t.Errorf("%s never happened", a)
		}
	}
	for _, n := range []int{3, 5} {
		for _, end := range []string{"settled", "lost"} {
			if key := fmt.Sprintf("%d members: %s", n, end); ends[key] == 0 {
				t.Errorf("no run ended as %q", key)
			}
		}
	}
}
