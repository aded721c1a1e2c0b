package backup

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"druid.internal/druid/internal/agent/metrics"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/copier"
	"druid.internal/druid/internal/engine/snapshotter"
	"druid.internal/druid/internal/etcd/member"
)

// Leader backs up while this member's etcd leads. Run it once; the other methods may be called
// concurrently, before, while and after it runs.
type Leader struct {
	cfg    Config
	log    *slog.Logger
	store  *renewing
	second *renewing // nil: there is none
	record record
	works  works
	// reported is what reports about the bucket need not request again.
	reported catalog.Memory

	mu      sync.Mutex
	current *term // nil: this member does not write
	why     string
	hurry   context.CancelFunc // ends the pause before the next look
	looked  chan struct{}      // closed when the next look was had; nil: Run does not run
}

// New checks cfg. Nothing is opened or connected yet.
func New(cfg Config) (*Leader, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	l := &Leader{cfg: cfg, log: cfg.Log, store: newRenewing(metrics.Primary, cfg.Store, cfg), why: "it was not asked yet whether etcd leads"}
	if cfg.Second != nil {
		l.second = newRenewing(metrics.Secondary, cfg.Second.Source, cfg)
		l.record.path = cfg.Second.Record
	}
	if _, err := snapshotter.New(l.snapshots()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	l.works.init(l)
	cfg.Metrics.Leads(false)
	return l, nil
}

// snapshots is the configuration of the snapshotter of a term.
func (l *Leader) snapshots() snapshotter.Config {
	c := l.cfg.Snapshots
	c.Store, c.Prefix, c.Now, c.Log = l.store, l.cfg.Prefix, l.cfg.Now, l.log
	c.Connect = func(ctx context.Context) (snapshotter.Member, error) {
		if err := l.store.ready(ctx); err != nil {
			return nil, err
		}
		m, err := votes(ctx, l.cfg.Local)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	c.Compare = nil
	if !c.SkipHashKV {
		c.Compare = l.compare
	}
	return c
}

// Run follows the leadership of etcd until ctx ends, which is a nil error: what is buffered then is
// uploaded within the grace of the snapshotter.
func (l *Leader) Run(ctx context.Context) error {
	defer l.works.wait()
	l.expect()
	defer l.answer(false)
	patience := 3 * l.cfg.LookEvery
	var unclearSince time.Time
	for {
		st, err := l.ask(ctx)
		now := l.cfg.Now()
		seen, why := see(st, err)
		if ctx.Err() != nil {
			l.end("the sidecar stops")
			return nil
		}
		if seen != unclear {
			unclearSince = time.Time{}
		} else if unclearSince.IsZero() {
			unclearSince = now
		}
		unclearFor := time.Duration(0)
		if !unclearSince.IsZero() {
			unclearFor = now.Sub(unclearSince)
		}
		current := l.term()
		switch wanted := write(current != nil, seen, unclearFor, patience); {
		case wanted && current == nil:
			l.begin(ctx, why)
		case !wanted && current != nil:
			l.end(why)
		case !wanted:
			l.stay(why)
		}
		if t := l.term(); t != nil {
			t.publish(st.Revision)
		}
		l.answer(true)
		pause, hurry := context.WithCancel(ctx)
		l.mu.Lock()
		l.hurry = hurry
		l.mu.Unlock()
		_ = l.cfg.Wait(pause, l.cfg.LookEvery) // ended by ctx or by who is in a hurry
		hurry()
		if ctx.Err() != nil {
			l.end("the sidecar stops")
			return nil
		}
	}
}

// expect lets others wait for the next look.
func (l *Leader) expect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looked = make(chan struct{})
}

// answer lets those go on who waited for a look.
func (l *Leader) answer(another bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.looked)
	l.looked = nil
	if another {
		l.looked = make(chan struct{})
	}
}

// look has Run look at once, and returns when it did: etcd may lead for almost as long as a pause lasts
// before that is noticed, and who asks for a snapshot then should get one.
func (l *Leader) look(ctx context.Context) {
	l.mu.Lock()
	hurry, looked := l.hurry, l.looked
	l.mu.Unlock()
	if looked == nil {
		return
	}
	if hurry != nil {
		hurry()
	}
	select {
	case <-looked:
	case <-ctx.Done():
	}
}

// ask is one look at this member's etcd.
func (l *Leader) ask(ctx context.Context) (st member.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.LookTimeout)
	defer cancel()
	m, err := l.cfg.Local(ctx)
	if err != nil {
		return st, err
	}
	return m.Status(ctx)
}

// begin begins a term.
func (l *Leader) begin(ctx context.Context, why string) {
	t := newTerm(ctx, l)
	l.mu.Lock()
	l.current, l.why = t, ""
	l.mu.Unlock()
	l.log.Info("this member writes the backups from now on", "reason", why)
	l.cfg.Metrics.Leads(true)
	l.cfg.Update(func(m *agentapi.Member) { m.BackupLeader = true })
}

// end ends the term, if there is one, and returns when nothing of it works any more.
func (l *Leader) end(why string) {
	l.mu.Lock()
	t := l.current
	l.current, l.why = nil, why
	l.mu.Unlock()
	if t == nil {
		return
	}
	l.log.Info("this member does not write the backups any more", "reason", why)
	t.stop()
	l.cfg.Metrics.Leads(false)
	l.cfg.Snapshots.Metrics.Retire()
	t.mu.Lock()
	t.tellTrouble("")
	t.mu.Unlock()
	l.cfg.Update(func(m *agentapi.Member) { m.BackupLeader, m.Snapshots, m.BackupFailure = false, nil, nil })
}

// stay remembers why this member does not write.
func (l *Leader) stay(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kindOf(l.why) != kindOf(why) {
		l.log.Info("this member does not write the backups", "reason", why)
	}
	l.why = why
}

// kindOf is a reason without its details, which may differ each time, as ports do.
func kindOf(why string) string {
	kind, _, _ := strings.Cut(why, ": ")
	return kind
}

func (l *Leader) term() *term {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// leading is the term, or agentapi.ErrNotLeader with the reason.
func (l *Leader) leading() (*term, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		return nil, fmt.Errorf("%w: %s", agentapi.ErrNotLeader, l.why)
	}
	return l.current, nil
}

// Leads reports whether this sidecar writes the backups now.
func (l *Leader) Leads() bool { return l.term() != nil }

// record is the copier's, opened when it is needed first.
type record struct {
	path  string
	state *copier.State
}

func (r *record) open() (*copier.State, error) {
	if r.path == "" || r.state != nil {
		return r.state, nil
	}
	var err error
	r.state, err = copier.OpenState(r.path)
	return r.state, err
}

// uploaded puts a snapshot into the form of the interface.
func uploaded(t *snapshotter.Taken) *agentapi.Uploaded {
	if t == nil {
		return nil
	}
	n, size := t.Key.Name, t.Manifest.ContentSize
	if size == 0 {
		size = t.Manifest.Size
	}
	u := &agentapi.Uploaded{Timestamp: n.CreatedAt(), Name: n.String(), Size: size, StartRevision: int64(n.Start), EndRevision: int64(t.Manifest.LastRevision), Taken: t.Own}
	if n.Kind == snapshot.Full {
		u.StartRevision = 0
	}
	return u
}
