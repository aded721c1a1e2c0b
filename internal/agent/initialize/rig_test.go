package initialize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agent/neighbours"
	"druid.internal/druid/internal/agent/status"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/etcd/member"
)

// rig is a machine for etcd-0 of n members, everything around which the test sets.
type rig struct {
	*Machine
	t *testing.T

	template *memberconf.Template

	mu       sync.Mutex
	facts    Facts // Volume, Data, View
	stamp    int
	modes    []datadir.Mode // of the inspections
	inspects func(datadir.Mode) error
	journal  Journal
	backup   func() (Backup, error)
	restore  func(RestoreOrder) error
	settles  func(context.Context) error
	did      []string
	kept     []string
	clock    time.Time
	pauses   int
	paused   func(n int) // called with the number of the pause
	listed   member.Membership
	relisted []error // to answer to changes of peer URLs
	added    error
}

func newRig(t *testing.T, n int, changes ...func(*Facts)) *rig {
	t.Helper()
	r := &rig{t: t, facts: facts(n, changes...), clock: time.Unix(1_700_000_000, 0), paused: func(int) {}}
	tm := r.configure("")
	for name, s := range r.facts.View.Sidecars { // they agree with the file
		if s.Member.Bootstrap != nil && s.Member.Bootstrap.Cluster == testDigest {
			s.Member.Bootstrap.Cluster = tm.Bootstrap()
			r.facts.View.Sidecars[name] = s
		}
	}
	o := Options{
		Name: nameOf(0), Template: func() (*memberconf.Template, error) { return r.template, nil }, Directory: r, Journals: r, Others: r,
		Board: status.New(nameOf(0), r.now, nil), Now: r.now, Pause: r.pause, Restore: r.restores,
	}
	o.Backup = func(context.Context, datadir.Inspection) (Backup, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.backup == nil {
			return Backup{State: BackupNone}, nil
		}
		return r.backup()
	}
	r.Machine = New(o)
	return r
}

// configure has the file of the wanted members end with more.
func (r *rig) configure(more string) *memberconf.Template {
	r.t.Helper()
	var initial, clients []string
	for i := range r.facts.Wanted {
		initial = append(initial, nameOf(i)+"="+peerOf(i).PeerURLs[0])
		clients = append(clients, nameOf(i)+": "+clientOf(i))
	}
	tm, err := memberconf.Parse(fmt.Appendf(nil, "data-dir: /d/new.etcd\nquota-backend-bytes: 77\ninitial-cluster: %s\nadvertise-client-urls: {%s}\n%s",
		strings.Join(initial, ","), strings.Join(clients, ", "), more))
	if err != nil {
		r.t.Fatal(err)
	}
	r.template = tm
	return tm
}

// lives lets a cluster of the two other members answer; the lock is held.
func (r *rig) lives() {
	cluster(testCluster, 1, peer(1), peer(2))(&r.facts)
	r.listed = member.Membership{ClusterID: testCluster, Peers: []member.Peer{peer(1), peer(2)}}
}

func (r *rig) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clock
}

func (r *rig) pause(ctx context.Context, d time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock = r.clock.Add(d)
	r.pauses++
	const patience = 1000
	if r.pauses > patience {
		return errors.New("it waits for ever")
	}
	r.paused(r.pauses)
	return ctx.Err()
}

// note records what was done; the lock is held.
func (r *rig) note(format string, args ...any) { r.did = append(r.did, fmt.Sprintf(format, args...)) }

func (r *rig) Volume() (Volume, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.facts.Volume, nil
}

func (r *rig) Stamp() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.facts.Data.State == datadir.Missing {
		return ""
	}
	return fmt.Sprint("stamp ", r.stamp)
}

func (r *rig) Inspect(_ context.Context, mode datadir.Mode, _ func(done, total int64)) (datadir.Inspection, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.modes = append(r.modes, mode)
	if r.inspects != nil {
		if err := r.inspects(mode); err != nil {
			return datadir.Inspection{}, err
		}
	}
	return r.facts.Data, nil
}

func (r *rig) Settle(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settles != nil {
		return r.settles(ctx)
	}
	r.note("settle")
	r.facts.Data.Revision = r.facts.Data.AtMost
	r.stamp++
	return nil
}

func (r *rig) SetAside(keep bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.note("set aside"); keep {
		r.note("keep that")
		r.kept = append(r.kept, "/data/new.etcd.kept-TIME")
	}
	r.facts.Data = datadir.Inspection{State: datadir.Missing}
	return nil
}

func (r *rig) Kept() ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.kept), nil
}

func (r *rig) Load() (Journal, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cloneJournal(r.journal), nil
}

func (r *rig) Save(j Journal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note("save %s", describe(j))
	r.journal = cloneJournal(j)
	return nil
}

func describe(j Journal) string {
	var parts []string
	if j.Nonce != "" {
		parts = append(parts, "nonce")
	}
	if len(j.Saw) > 0 {
		parts = append(parts, fmt.Sprint("saw ", len(j.Saw)))
	}
	if j.Learner != 0 {
		parts = append(parts, fmt.Sprintf("learner %x", j.Learner))
	}
	if j.HandedOut {
		parts = append(parts, "handed out")
	}
	if j.Restoring {
		parts = append(parts, "restoring")
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

func (r *rig) restores(_ context.Context, o RestoreOrder) error {
	r.mu.Lock()
	restore := r.restore
	note := "restore %s into"
	if o.Replace {
		note = "replace %s in"
	}
	r.note(note+" %s with quota %d", o.Member.Name, o.DataDir, o.QuotaBytes)
	r.mu.Unlock()
	o.Progress("replaying", 3, 9)
	return restore(o)
}

func (r *rig) Look(context.Context, []memberconf.Peer, string) neighbours.View {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.facts.View
}

func (r *rig) Members(context.Context, []string) (member.Membership, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.listed, nil
}

func (r *rig) AddLearner(_ context.Context, _, urls []string) (member.Peer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.added; err != nil {
		r.added = nil
		return member.Peer{}, err
	}
	p := member.Peer{ID: 0xe0, PeerURLs: urls, Learner: true}
	r.note("add learner e0")
	r.listed.Peers = append(r.listed.Peers, p)
	return p, nil
}

func (r *rig) Remove(_ context.Context, _ []string, id uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note("remove %x", id)
	r.listed.Peers = slices.DeleteFunc(r.listed.Peers, func(p member.Peer) bool { return p.ID == id })
	return nil
}

func (r *rig) UpdatePeerURLs(_ context.Context, _ []string, id uint64, urls []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note("update %x %s", id, strings.Join(urls, " "))
	if len(r.relisted) > 0 {
		err := r.relisted[0]
		r.relisted = r.relisted[1:]
		return err
	}
	return nil
}

// initialize runs one initialization to its end, without goroutines.
func (r *rig) initialize(mode agentapi.ValidationMode) agentapi.InitState {
	r.t.Helper()
	r.Start(mode)
	select {
	case <-r.wake:
	default:
		r.t.Fatalf("it did not begin, the state is %s", r.Status())
	}
	r.once(r.t.Context())
	return r.Status()
}

func (r *rig) reasons() (out []string) {
	for _, tr := range r.o.Board.Get().Transitions {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", tr.State, tr.SubState, tr.Reason)))
	}
	return out
}

func (r *rig) config() string {
	b, err := r.Config(r.t.Context())
	if err != nil {
		r.t.Error(err)
	}
	return string(b)
}
