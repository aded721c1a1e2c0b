package backup

import (
	"context"
	"errors"
	"strings"
	"testing"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/snapshotter"
	"druid.internal/druid/internal/store"
)

// damaged is an etcd whose data have another hash than they should have.
type damaged struct {
	Member
	add uint32
	err error
}

func (d damaged) HashKV(ctx context.Context, rev snapshot.Revision) (snapshot.HashKV, error) {
	if d.err != nil {
		return snapshot.HashKV{}, d.err
	}
	h, err := d.Member.HashKV(ctx, rev)
	h.Hash += d.add
	return h, err
}

// damage has the members of e, whoever asks, tell hashes as damage says, by their number.
func (e *etcds) damage(c *Config, damage map[int]damaged) {
	number := map[uint64]int{}
	for i, s := range e.servers {
		number[uint64(s.Server.MemberID())] = i
	}
	lie := func(m snapshotter.Member, id uint64) damaged {
		d := damage[number[id]]
		d.Member = m.(Member)
		return d
	}
	local, voters := c.Local, c.Voters
	c.Local = func(ctx context.Context) (Member, error) {
		m, err := local(ctx)
		if err != nil {
			return nil, err
		}
		st, err := m.Status(ctx)
		if err != nil {
			return nil, err
		}
		return lie(m, st.MemberID), nil
	}
	c.Voters = func(ctx context.Context) ([]Voter, error) {
		all, err := voters(ctx)
		for i, v := range all {
			all[i].Connect = func(ctx context.Context) (snapshotter.Member, error) {
				m, err := v.Connect(ctx)
				if err != nil {
					return nil, err
				}
				return lie(m, v.ID), nil
			}
		}
		return all, err
	}
}

// manifests are those of the fulls, oldest first.
func manifests(t *testing.T, s store.Reader) []snapshot.Manifest {
	t.Helper()
	var all []snapshot.Manifest
	for _, l := range look(t, s, prefix).Timeline.Lineages {
		for _, x := range l.Snapshots {
			if x.Full() && x.Manifest != nil {
				all = append(all, *x.Manifest)
			}
		}
	}
	return all
}

func TestTheDataOfTheMajorityAreBackedUp(t *testing.T) {
	t.Parallel()
	e, bucket := newEtcds(t, 3), memory()
	const bad = 0
	e.put(10)
	e.hand(bad)
	sidecars := e.all(func(_ int, c *Config) { e.damage(c, map[int]damaged{bad: {add: 1}}) }, to(bucket))
	until(t, "leadership is handed to a member of the majority", func() bool { return e.leader() != bad })
	until(t, "and the backups follow", func() bool { return !sidecars[bad].Leads() && len(manifests(t, bucket)) > 0 })
	wrong := uint64(e.servers[bad].Server.MemberID())
	for _, m := range manifests(t, bucket) {
		if m.MemberID == wrong || m.Suspect != "" {
			t.Errorf("%s is of member %x and says %q, want one of the majority without doubt", m.Snapshot, m.MemberID, m.Suspect)
		}
		if m.HashKV == nil {
			t.Errorf("%s has no hash, want that of the comparison", m.Snapshot)
		}
	}
	if n, _ := sidecars[bad].metric("etcdbr_protection_compare_total", "result=minority"); n == 0 {
		t.Error("the metrics do not tell that this member is in the minority")
	}
	last := e.put(5)
	reaches(t, bucket, last)
	whole(t, bucket, last)
}

func TestAMemberThatDiffersFromTheMajorityIsTold(t *testing.T) {
	t.Parallel()
	e, bucket := newEtcds(t, 3), memory()
	e.put(5)
	e.hand(0)
	cfg := e.config(0, to(bucket))
	e.damage(&cfg, map[int]damaged{2: {add: 1}})
	sc := run(t, cfg)
	asked(t, func(ctx context.Context) (agentapi.Snapshot, error) { return sc.Full(ctx, false) })
	if n, _ := sc.metric("etcdbr_protection_compare_total", "result=dissent"); n == 0 {
		t.Error("the metrics do not tell that a member has other data")
	}
	for _, m := range manifests(t, bucket) {
		if m.Suspect != "" || m.HashKV == nil {
			t.Errorf("%s says %q with hash %v, want no doubt about what the majority has", m.Snapshot, m.Suspect, m.HashKV)
		}
	}
}

func TestAFullWithoutAMajorityIsMarked(t *testing.T) {
	t.Parallel()
	away := errors.New("connection refused")
	for name, c := range map[string]struct {
		damage map[int]damaged
		want   []string
	}{
		"three different hashes": {map[int]damaged{1: {add: 1}, 2: {add: 2}}, []string{"hashes of the 3 members at revision", "etcd-main-0 told", "etcd-main-1 told"}},
		"nobody else tells":      {map[int]damaged{1: {err: away}, 2: {err: away}}, []string{"etcd-main-1 did not tell", "etcd-main-2 did not tell"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, bucket := newEtcds(t, 3), memory()
			e.put(5)
			e.hand(0)
			cfg := e.config(0, to(bucket))
			e.damage(&cfg, c.damage)
			sc := run(t, cfg)
			asked(t, func(ctx context.Context) (agentapi.Snapshot, error) { return sc.Full(ctx, false) })
			last := e.put(5)
			chain := reaches(t, bucket, last)
			m := chain.Base.Manifest
			for _, want := range c.want {
				if m == nil || !strings.Contains(m.Suspect, want) {
					t.Errorf("the manifest is %+v, want %q to be said", m, want)
				}
			}
			found := false
			for _, f := range look(t, bucket, prefix).Timeline.Findings {
				found = found || f.Code == "suspect"
			}
			if !found {
				t.Error("the timeline has no finding about it")
			}
			if n, _ := sc.metric("etcdbr_protection_compare_total", "result=none"); n == 0 {
				t.Error("the metrics do not tell")
			}
		})
	}
}

func TestMembersThatAgreeAreComparedAtOneRevisionInSpiteOfWritesAndCompactions(t *testing.T) {
	t.Parallel()
	e, bucket := newEtcds(t, 3), memory()
	e.put(20)
	e.hand(0)
	sc := run(t, e.config(0, to(bucket)))
	stop := e.load()
	for range 5 {
		rev := e.put(10)
		if _, err := e.client.Compact(t.Context(), int64(rev)-5); err != nil {
			t.Fatal(err)
		}
		asked(t, func(ctx context.Context) (agentapi.Snapshot, error) { return sc.Full(ctx, false) })
	}
	stop()
	for _, m := range manifests(t, bucket) {
		if m.Suspect != "" {
			t.Errorf("%s says %q, want no doubt", m.Snapshot, m.Suspect)
		}
	}
	if n, _ := sc.metric("etcdbr_protection_compare_total", "result=agree"); n < 5 {
		t.Errorf("%v comparisons agreed, want 5", n)
	}
}
