package initialize

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agent/neighbours"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/etcd/member"
)

// The ports of the machine.

func (p *process) Load() (Journal, error) {
	if err := p.point(); err != nil {
		return Journal{}, err
	}
	return cloneJournal(p.n.journal), nil
}

func (p *process) Save(j Journal) error {
	if w := p.n.w; len(j.Saw) > 1 && w.breaks(300) {
		// Of all moments the worst: it is about to begin by what it saw.
		p.n.stalled, p.n.hesitates = 100+w.rng.IntN(400), true
		defer func() { p.n.hesitates = false }()
	}
	if err := p.point(); err != nil {
		return err
	}
	p.n.journal = cloneJournal(j)
	return p.point()
}

func cloneJournal(j Journal) Journal {
	j.Saw = maps.Clone(j.Saw)
	return j
}

func (p *process) Volume() (Volume, error) { return Volume{}, p.point() }

func (p *process) Stamp() string {
	if p.n.data == nil {
		return ""
	}
	return fmt.Sprint(p.n.version)
}

func (p *process) Inspect(context.Context, datadir.Mode, func(done, total int64)) (datadir.Inspection, error) {
	if err := p.point(); err != nil {
		return datadir.Inspection{}, err
	}
	i := p.n.inspection()
	return i, p.point()
}

func (n *node) inspection() datadir.Inspection {
	d := n.data
	if d == nil {
		return datadir.Inspection{State: datadir.Missing, Revision: 1, AtMost: 1}
	}
	i := datadir.Inspection{State: datadir.Valid, ClusterID: d.cluster, MemberID: d.id, Revision: snapshot.Revision(d.writes + 1), AtMost: snapshot.Revision(d.writes + 1), Removed: d.removed}
	switch {
	case d.damaged:
		i.State, i.Why = datadir.Invalid, "damaged"
	case d.writes == 0:
		i.State = datadir.Blank
	}
	return i
}

func (p *process) Settle(context.Context) error { return p.point() }

func (p *process) Kept() ([]string, error) { return nil, p.point() }

func (p *process) SetAside(bool) error {
	if err := p.point(); err != nil {
		return err
	}
	n := p.n
	if d := n.data; d != nil && !d.damaged && d.writes > 0 {
		// Data that count are given up only by a member its cluster has removed.
		if g := n.w.groups[d.cluster]; g.peers[d.id] != nil {
			n.w.violated("%s sets aside data of cluster %x, of which it is a member", n.peer.Name, d.cluster)
		}
	}
	n.w.note("%s: data set aside", n.peer.Name)
	if p.board.State().State == agentapi.New && n.data != nil && !n.data.damaged {
		n.w.seen[GiveUp]++
	}
	n.data = nil
	n.version++
	return p.point()
}

func (p *process) askBucket(context.Context, datadir.Inspection) (Backup, error) {
	if p.n.w.breaks(200) {
		p.n.stalled = p.n.w.rng.IntN(300)
	}
	if err := p.point(); err != nil {
		return Backup{}, err
	}
	switch {
	case p.n.w.breaks(100):
		return Backup{}, errors.New("no answer")
	case p.n.w.bucket == nil:
		return Backup{State: BackupNone}, p.point()
	}
	return Backup{State: BackupExists, Latest: snapshot.Revision(*p.n.w.bucket + 1), Relation: RelationSame}, p.point()
}

func (p *process) restoreFrom(_ context.Context, o RestoreOrder) error {
	if err := p.point(); err != nil {
		return err
	}
	w := p.n.w
	switch {
	case w.breaks(200):
		return errors.New("the restore failed")
	case (p.n.data != nil) != o.Replace:
		w.violated("%s restores over data", p.n.peer.Name)
	case w.bucket == nil:
		return errors.New("nothing is there")
	}
	w.note("%s: restored %d writes", p.n.peer.Name, *w.bucket)
	if len(w.nodes) == 1 {
		w.seen[RestoreSole]++
	} else {
		w.seen[RestoreSeed]++
	}
	cluster, ids := idsOf(o.Member.Token, []memberconf.Peer{p.n.peer})
	w.group(cluster, ids, []memberconf.Peer{p.n.peer}).committed = *w.bucket
	p.n.data = &contents{cluster: cluster, id: ids[0], writes: *w.bucket}
	p.n.version++
	return p.point()
}

func (p *process) Look(_ context.Context, wanted []memberconf.Peer, self string) neighbours.View {
	w := p.n.w
	v := neighbours.View{Sidecars: map[string]neighbours.Sidecar{}}
	order := w.rng.Perm(len(wanted))
	for _, i := range order {
		o := w.nodes[i]
		if p.point() != nil {
			return v
		}
		if o != p.n {
			s := neighbours.Sidecar{Err: errors.New("no answer")}
			if o.sidecar != nil && !o.mute && !w.breaks(30) {
				s = neighbours.Sidecar{Member: o.sidecar.board.Get()}
				if o.running && o.ready && o.data != nil {
					s.Member.Etcd = &agentapi.Etcd{Revision: int64(o.data.writes + 1)}
				}
			}
			v.Sidecars[o.peer.Name] = s
			if p.point() != nil {
				return v
			}
		}
		e := neighbours.Etcd{Name: o.peer.Name, Endpoint: o.peer.ClientURLs[0], Err: errors.New("no answer")}
		if o.running && o.ready && o.data != nil && !w.breaks(30) {
			g := w.groups[o.data.cluster]
			e.Err = nil
			e.Status = member.Status{ClusterID: g.id, MemberID: o.data.id, Revision: snapshot.Revision(o.data.writes + 1)}
			if listed := g.peers[o.data.id]; w.decides(g) && listed != nil && !listed.Learner {
				m := g.membership()
				e.Members = &m
			}
		}
		v.Etcds = append(v.Etcds, e)
	}
	_ = p.point()
	return v
}

// ask finds the cluster behind the endpoints, if it decides.
func (p *process) ask(endpoints []string) (*raftGroup, error) {
	if err := p.point(); err != nil {
		return nil, err
	}
	w := p.n.w
	for _, n := range w.nodes {
		if !slices.Contains(endpoints, n.peer.ClientURLs[0]) || !n.running || !n.ready || n.data == nil {
			continue
		}
		if g := w.groups[n.data.cluster]; w.decides(g) && g.peers[n.data.id] != nil && !g.peers[n.data.id].Learner {
			return g, nil
		}
	}
	return nil, member.ErrUnreachable
}

// answer is what came of a change: the answer may get lost.
func (p *process) answer() error {
	if err := p.point(); err != nil {
		return err
	}
	if p.n.w.breaks(150) {
		return member.ErrUnreachable
	}
	return nil
}

func (p *process) Members(_ context.Context, endpoints []string) (member.Membership, error) {
	g, err := p.ask(endpoints)
	if err != nil {
		return member.Membership{}, err
	}
	return g.membership(), p.point()
}

func (p *process) AddLearner(_ context.Context, endpoints, urls []string) (member.Peer, error) {
	g, err := p.ask(endpoints)
	if err != nil {
		return member.Peer{}, err
	}
	for _, o := range g.peers {
		if slices.Equal(o.PeerURLs, urls) {
			return member.Peer{}, member.ErrPeerURLExists
		}
		if o.Learner {
			return member.Peer{}, member.ErrTooManyLearners
		}
	}
	p.n.w.nextID++
	added := member.Peer{ID: p.n.w.nextID, PeerURLs: urls, Learner: true}
	g.peers[added.ID] = &added
	p.n.w.note("%s: learner %d of %x", p.n.peer.Name, added.ID, g.id)
	return added, p.answer()
}

func (p *process) Remove(_ context.Context, endpoints []string, id uint64) error {
	g, err := p.ask(endpoints)
	if err != nil {
		return err
	}
	if o := g.peers[id]; o != nil {
		up := 0
		for _, n := range p.n.w.nodes {
			if n.running && n.data != nil && n.data.cluster == g.id && n.data.id != id && g.peers[n.data.id] != nil && !g.peers[n.data.id].Learner {
				up++
			}
		}
		if !o.Learner && up < (g.voters()-1)/2+1 {
			return member.ErrUnhealthy
		}
		delete(g.peers, id)
		p.n.w.note("%s: removed %d from %x", p.n.peer.Name, id, g.id)
	}
	return p.answer()
}

func (p *process) UpdatePeerURLs(_ context.Context, endpoints []string, id uint64, urls []string) error {
	g, err := p.ask(endpoints)
	if err != nil {
		return err
	}
	if o := g.peers[id]; o != nil {
		o.PeerURLs = urls
		p.n.w.note("%s: %d of %x is at %q", p.n.peer.Name, id, g.id, urls)
	}
	return p.answer()
}

func (g *raftGroup) membership() member.Membership {
	m := member.Membership{ClusterID: g.id}
	for _, id := range slices.Sorted(maps.Keys(g.peers)) {
		m.Peers = append(m.Peers, *g.peers[id])
	}
	return m
}
