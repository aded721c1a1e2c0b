package initialize

import (
	"context"
	"slices"

	"druid.internal/druid/internal/agent/neighbours"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/datadir"
)

// Reconsider tells whether an etcd that was started is of no use where it is, so that it should be
// stopped and the member be initialized again. It is for etcds that have not become ready, or have
// seen no leader, for some time: the cluster may have removed the member meanwhile, or too few
// others may have begun a new cluster together with it. What is done then is decided anew, by what
// is on the volume then.
func (m *Machine) Reconsider(ctx context.Context) (Decision, bool) {
	m.mu.Lock()
	out := m.outcome
	idle := m.state == agentapi.InitSuccessful || m.state == agentapi.InitNew
	m.mu.Unlock()
	if !idle {
		return Decision{}, false
	}
	if out == nil && m.o.Directory.Stamp() == "" {
		return Decision{}, false // without data no etcd was ever started here
	}
	// Who has just begun a cluster does not know its ids, and a sidecar that is younger than its etcd
	// knows nothing of the data. They are taken for what would be given up: the initialization
	// finds out, so at most one etcd too many is stopped, once.
	data, unread := datadir.Inspection{State: datadir.Blank, ClusterID: unknownID}, true
	if out != nil {
		data, unread = out.data, out.unread
	}
	t, err := m.o.Template()
	if err != nil {
		return Decision{}, false
	}
	j, err := m.o.Journals.Load()
	if err != nil {
		return Decision{}, false
	}
	f := Facts{Self: m.o.Name, Wanted: t.Wanted(), Digest: t.Bootstrap(), Journal: j, Data: data, Unread: unread, Backup: Backup{State: BackupNotConfigured}, Outside: m.o.Outside()}
	if _, ok := f.own(); !f.asks() || !ok {
		return Decision{}, false
	}
	f.View = m.o.Others.Look(ctx, f.Wanted, f.Self)
	if ctx.Err() != nil {
		return Decision{}, false
	}
	_, answers := f.View.Etcd(f.Self)
	// The own etcd is no news.
	f.View.Etcds = slices.DeleteFunc(slices.Clone(f.View.Etcds), func(e neighbours.Etcd) bool { return e.Name == f.Self })
	d := Decide(f)
	return d, d.Action == JoinAsLearner || d.Action == GiveUp || out == nil && !answers && f.unheld(d)
}

// unheld: nothing goes on before the data here are examined, which nobody does while an etcd has them that waits for a leader, and nobody
// can ask. The others that are in the same position all tell that they do not know what they have.
func (f Facts) unheld(d Decision) bool {
	others := f.others()
	return d.Action == QuorumLost || d.Action == Wait && count(others, unreachable) == 0 && count(others, unknown) > 0
}
