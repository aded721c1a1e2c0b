package initialize

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agent/status"
	"druid.internal/druid/internal/etcd/member"
)

// The world below runs real machines against volumes, etcds and a bucket that are simulated. Only
// one goroutine runs at a time, and which one is chosen by chance at every point where a machine
// touches anything outside of it: so all answers may be old when they are used, and a machine may
// be killed between any two things it does. A run is repeated by its seed.

var errKilled = errors.New("the process was killed")

// contents are an etcd's data directory.
type contents struct {
	cluster, id uint64
	writes      int // of clients, that are in them
	damaged     bool
	removed     bool // it learned that it was removed
}

// raftGroup is a cluster of etcds, as its committed log has it.
type raftGroup struct {
	id        uint64
	peers     map[uint64]*member.Peer
	committed int // writes of clients that were acknowledged
}

func (g *raftGroup) voters() int {
	n := 0
	for _, p := range g.peers {
		if !p.Learner {
			n++
		}
	}
	return n
}

// node is a wanted member: a volume, a sidecar and an etcd.
type node struct {
	w    *world
	peer memberconf.Peer

	data    *contents
	journal Journal
	version int // of the data, for Stamp

	sidecar *process // nil: it does not run
	running bool     // etcd
	ready   bool     // it has once had a leader since it runs
	idle    int      // looks without a leader
	mute    bool     // nobody reaches its sidecar
	stalled int      // turns for which it does nothing

	hesitates bool // it stalls while it is about to begin
}

// process is a sidecar.
type process struct {
	n       *node
	machine *Machine
	board   *status.Board
	ctx     context.Context
	cancel  context.CancelFunc
	work    chan func()
	arrived chan bool // true: the work is done
	resume  chan struct{}
	busy    bool // there is work, and it waits at a point
	dead    bool
	again   bool // etcd should be stopped, says the machine
	// launched is what etcd was started with last.
	launched *outcome
}

type world struct {
	rng      *rand.Rand
	nodes    []*node
	template *memberconf.Template
	groups   map[uint64]*raftGroup
	ran      map[[2]uint64]bool // an etcd with this cluster and id ran
	bucket   *int               // writes in it; nil: nothing
	calm     bool               // nothing breaks any more
	rage     int                // how much breaks
	stalls   int                // how often a process does nothing for some time

	backups, disasters bool // clusters are backed up; all volumes are lost at once now and then

	clock  time.Time
	nextID uint64
	trace  []string
	seen   map[Action]int
	broken string // the first violation
}

func newWorld(seed uint64, n int) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, uint64(n))), groups: map[uint64]*raftGroup{}, ran: map[[2]uint64]bool{}, clock: time.Unix(1_700_000_000, 0), seen: map[Action]int{}, nextID: 1000}
	var initial, clients []string
	for i := range n {
		initial = append(initial, nameOf(i)+"="+peerOf(i).PeerURLs[0])
		clients = append(clients, nameOf(i)+": "+clientOf(i))
	}
	var err error
	w.template, err = memberconf.Parse(fmt.Appendf(nil, "data-dir: /d\ninitial-cluster: %s\nadvertise-client-urls: {%s}\n", strings.Join(initial, ","), strings.Join(clients, ", ")))
	if err != nil {
		panic(err)
	}
	for _, p := range w.template.Wanted() {
		w.nodes = append(w.nodes, &node{w: w, peer: p})
	}
	return w
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

// breaks is chance, while things break.
func (w *world) breaks(permille int) bool { return !w.calm && w.rng.IntN(1000) < permille }

// rarely is breaks for what happens in a turn, ten times as fine.
func (w *world) rarely(n int) bool { return !w.calm && w.rng.IntN(10000) < n }

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *world) violated(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
		w.note("VIOLATION: %s", w.broken)
	}
}

// point lets others act. It fails if the process is killed meanwhile.
func (p *process) point() error {
	if p.dead {
		return errKilled
	}
	p.arrived <- false
	<-p.resume
	if p.dead {
		return errKilled
	}
	return nil
}

// boot starts a sidecar.
func (n *node) boot() {
	w := n.w
	p := &process{n: n, work: make(chan func()), arrived: make(chan bool), resume: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.board = status.New(n.peer.Name, func() time.Time { return w.clock }, nil)
	p.machine = New(Options{
		Name: n.peer.Name, Template: func() (*memberconf.Template, error) { return w.template, p.point() },
		Directory: p, Journals: p, Others: p, Board: p.board, Backup: p.askBucket, Restore: p.restoreFrom,
		Now: func() time.Time { return w.clock }, Pause: func(context.Context, time.Duration) error { return p.point() },
	})
	n.sidecar = p
	go func() {
		for work := range p.work {
			work()
			p.arrived <- true
		}
	}()
	p.do(p.machine.introduce)
	w.note("%s: sidecar runs", n.peer.Name)
}

// do begins work and runs it up to its first point.
func (p *process) do(work func()) {
	p.work <- work
	p.busy = !<-p.arrived
}

// step runs the work up to its next point.
func (p *process) step() {
	p.resume <- struct{}{}
	p.busy = !<-p.arrived
}

// kill ends the sidecar at whatever point it is.
func (n *node) kill() {
	p := n.sidecar
	if p == nil {
		return
	}
	n.sidecar = nil
	p.dead = true
	p.cancel()
	for p.busy {
		p.step()
	}
	close(p.work)
}

// idsOf computes ids as etcd does: from the peer URLs and the token.
func idsOf(token string, peers []memberconf.Peer) (cluster uint64, ids []uint64) {
	sum := func(s string) uint64 {
		h := fnv.New64a()
		h.Write([]byte(s))
		return h.Sum64()
	}
	all := token
	for _, p := range peers {
		ids = append(ids, sum(token+strings.Join(p.PeerURLs, ",")))
		all += fmt.Sprint(ids[len(ids)-1])
	}
	return sum(all), ids
}

// group is the cluster of that id, begun by peers if there is none.
func (w *world) group(id uint64, ids []uint64, peers []memberconf.Peer) *raftGroup {
	if g := w.groups[id]; g != nil {
		return g
	}
	g := &raftGroup{id: id, peers: map[uint64]*member.Peer{}}
	for i, p := range peers {
		g.peers[ids[i]] = &member.Peer{ID: ids[i], Name: p.Name, PeerURLs: p.PeerURLs}
	}
	w.groups[id] = g
	return g
}

// launch starts etcd as the machine said. It reports whether etcd runs.
func (n *node) launch(s memberconf.Start) bool {
	w := n.w
	switch {
	case n.data != nil && n.data.damaged:
		return false
	case n.data != nil:
		g := w.groups[n.data.cluster]
		if g.peers[n.data.id] == nil && w.decides(g) {
			n.data.removed = true // the others tell it
			return false
		}
	case s.State == memberconf.StateNew:
		cluster, ids := idsOf(s.Token, s.Initial)
		w.group(cluster, ids, s.Initial)
		i := slices.IndexFunc(s.Initial, func(p memberconf.Peer) bool { return p.Name == n.peer.Name })
		if w.ran[[2]uint64{cluster, ids[i]}] {
			w.violated("%s came back empty as %x of cluster %x", n.peer.Name, ids[i], cluster)
		}
		n.data = &contents{cluster: cluster, id: ids[i]}
	default: // the cluster must be there and list just these
		for _, g := range w.groups {
			if !w.decides(g) || len(g.peers) != len(s.Initial) {
				continue
			}
			var own uint64
			matched := 0
			for id, p := range g.peers {
				for _, o := range s.Initial {
					if slices.Equal(o.PeerURLs, p.PeerURLs) {
						matched++
						if o.Name == n.peer.Name {
							own = id
						}
					}
				}
			}
			if matched != len(g.peers) || own == 0 {
				continue
			}
			if w.ran[[2]uint64{g.id, own}] {
				w.violated("%s came back empty as %x of cluster %x", n.peer.Name, own, g.id)
			}
			n.data = &contents{cluster: g.id, id: own}
			break
		}
		if n.data == nil {
			return false
		}
	}
	n.version++
	w.ran[[2]uint64{n.data.cluster, n.data.id}] = true
	n.running, n.ready, n.idle = true, false, 0
	w.note("%s: etcd runs as %x of %x with %d writes", n.peer.Name, n.data.id, n.data.cluster, n.data.writes)
	return true
}

// decides says whether a majority of the voting members runs.
func (w *world) decides(g *raftGroup) bool {
	up := 0
	for _, n := range w.nodes {
		if n.running && n.data != nil && n.data.cluster == g.id {
			if p := g.peers[n.data.id]; p != nil && !p.Learner {
				up++
			}
		}
	}
	return up >= g.voters()/2+1
}
