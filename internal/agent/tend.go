package agent

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agent/upkeep"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/member"
)

// upkeepers are the tasks that keep a running cluster in order.
func (s *sidecar) upkeepers() (tasks []task, err error) {
	c := s.Config
	common := upkeep.Common{Log: s.Log, Metrics: s.metrics}
	wanted := func(context.Context) (w []upkeep.Wanted, err error) {
		for _, p := range s.templates.get().Wanted() {
			w = append(w, upkeep.Wanted{Name: p.Name, PeerURLs: p.PeerURLs})
		}
		for _, m := range s.followed.outside().Members {
			w = append(w, upkeep.Wanted{Name: m.Name, PeerURLs: m.PeerURLs, Outside: true})
		}
		return w, nil
	}
	quota := func() int64 { return s.templates.get().QuotaBytes() }
	thresholds := upkeep.DefaultThresholds()
	if c.Defragmentation.QuotaShare == 0 || c.Defragmentation.FreeShare == 0 {
		thresholds = upkeep.Thresholds{}
	} else {
		thresholds.FreeShare, thresholds.QuotaShare = float64(c.Defragmentation.FreeShare)/100, float64(c.Defragmentation.QuotaShare)/100
	}
	s.defragmenter, err = upkeep.NewDefragmenter(s.etcd, upkeep.DefragOptions{
		Schedule: c.Defragmentation.Schedule, NoSchedule: c.Defragmentation.Schedule == "", Thresholds: &thresholds,
		Quota: quota, Timeout: c.Etcd.DefragTimeout.D(), Spare: s.followed.has, Common: common,
		Streams: func() bool { return s.backup != nil && s.backup.Taking() },
		Result: func(p member.Peer, d agentapi.Defragmentation) {
			if p.Name == s.Member {
				s.board.Update(func(m *agentapi.Member) { m.LastDefragmentation = &d })
			}
		},
	})
	if err != nil {
		return nil, err
	}
	healer := upkeep.NewHealer(s.etcd, s.defragmenter, upkeep.HealerOptions{
		Quota: quota, Retention: func() upkeep.Retention { return retentionOf(s.templates.get()) }, Uploaded: s.uploaded, Quarantine: s.quarantine, Waits: s.waits(), Common: common,
	})
	s.promoter = upkeep.NewPromoter(s.etcd, wanted, common)
	return []task{
		s.defragmenter.Run, healer.Run, s.promoter.Run,
		upkeep.NewMover(s.etcd, wanted, s.running, s.wrapper.restart, common).Run,
		upkeep.NewRemover(s.etcd, wanted, common).Run,
		upkeep.NewClaimant(s.etcd, wanted, s.waits(), common).Run,
	}, nil
}

// retentionOf is what etcd's auto-compaction leaves.
func retentionOf(t *memberconf.Template) upkeep.Retention {
	mode, value := t.AutoCompaction()
	if mode == "revision" {
		n, _ := strconv.ParseInt(value, 10, 64) // etcd checks it at its start; 0 is off
		return upkeep.Retention{Revisions: n}
	}
	d, err := time.ParseDuration(value)
	if err != nil { // a bare number is hours
		h, _ := strconv.Atoi(value)
		d = time.Duration(h) * time.Hour
	}
	return upkeep.Retention{Period: d}
}

// uploaded is the newest revision known to be in the bucket; negative: there is no store.
func (s *sidecar) uploaded() snapshot.Revision {
	if s.Store.Open == nil {
		return -1
	}
	var newest int64
	if u := s.board.Get().Snapshots; u != nil {
		for _, x := range []*agentapi.Uploaded{u.LastFull, u.LastDelta} {
			if x != nil {
				newest = max(newest, x.EndRevision)
			}
		}
	}
	return snapshot.Revision(newest)
}

// running is what the members' etcds were started with, as far as their sidecars tell, and the
// authorities with which the own one would be started now.
func (s *sidecar) running(ctx context.Context) (all map[string]upkeep.Running, authorities string, err error) {
	view := s.asker.Look(ctx, s.templates.get().Wanted(), s.Member)
	all = map[string]upkeep.Running{}
	tells := func(name string, m agentapi.Member) {
		if len(m.PeerURLs) > 0 { // else nothing is known of the etcd
			all[name] = upkeep.Running{URLs: m.PeerURLs, Authorities: m.Authorities}
		}
	}
	tells(s.Member, s.board.Get())
	for name, other := range view.Sidecars {
		if other.Err == nil {
			tells(name, other.Member)
		}
	}
	return all, digest(s.started.read().AuthorityFiles), nil
}

// waits publishes what one task waits for, unless another one waits for something.
func (s *sidecar) waits() func(what string) {
	told := ""
	return func(what string) {
		if what == "" && told == "" {
			return
		}
		s.board.Update(func(m *agentapi.Member) {
			if m.Waiting == told || m.Waiting == "" {
				m.Waiting = what
			}
		})
		told = what
	}
}

// quarantine gives the own data up: they are treated as invalid by the next initialization, which
// the restart brings about.
func (s *sidecar) quarantine(ctx context.Context, why string) error {
	s.board.Move(agentapi.New, "", agentapi.Quarantined, why)
	own, err := s.status(ctx)
	if err != nil {
		return fmt.Errorf("give the data up: %w", err)
	}
	if err := s.data.condemn(own.MemberID, why); err != nil {
		return fmt.Errorf("give the data up: %w", err)
	}
	return s.wrapper.restart(ctx)
}
