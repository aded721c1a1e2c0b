package initialize

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agent/status"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/datadir"
)

// The pace of looking, while nothing happens.
const (
	firstPause  = 100 * time.Millisecond
	pauseGrowth = 1.25
	longPause   = 2 * time.Second // others may act any moment
	personPause = 5 * time.Second // a person or a store has to do something
	// backupTrusted is how long an answer of the bucket is used again.
	backupTrusted = 15 * time.Second
	// quorumLostAfter is for how long, at least, each look must tell of a lost quorum before that
	// is decided, logged or published.
	quorumLostAfter = 10 * time.Second
)

// Options are what a Machine works with. All but those marked are required.
type Options struct {
	Name      string                               // of the member
	Template  func() (*memberconf.Template, error) // reads the configuration file
	Directory Directory                            // of Template's data directory
	Journals  Journals                             // beside it
	Others    Neighbours
	Board     *status.Board

	// Backup tells what the bucket holds; an error means that it cannot be told. nil: no bucket is
	// configured.
	Backup func(ctx context.Context, own datadir.Inspection) (Backup, error)
	// Restore restores it. It is not called without Backup.
	Restore func(ctx context.Context, o RestoreOrder) error
	// OthersLeave says whether members that are not wanted any more may still run; nil: never.
	OthersLeave func() bool
	// Outside is the cluster that the wanted members join, as it is configured now; nil, and a nil
	// result: they have one of their own.
	Outside func() *Outside

	// Validated tells how long an examination of data took, and whether etcd can be started with
	// them; LearnerAdded how long an attempt to be added as a learner took. Either may be nil.
	Validated, LearnerAdded func(took time.Duration, succeeded bool)

	Log   *slog.Logger                                     // nil: none
	Now   func() time.Time                                 // nil: the system's
	Pause func(ctx context.Context, d time.Duration) error // nil: a timer; ends with ctx
}

// Machine initializes one member. Its methods may be called concurrently; Run once.
type Machine struct {
	o      Options
	blames bool // the store, on the board; Run's alone

	mu      sync.Mutex
	state   agentapi.InitState
	mode    datadir.Mode
	outcome *outcome // of InitSuccessful, and after it was acknowledged, for Reconsider
	wake    chan struct{}
}

// outcome is how etcd may be started.
type outcome struct {
	decision Decision
	start    memberconf.Start
	data     datadir.Inspection // as etcd finds or makes them
	unread   bool               // they are what etcd makes of them
	reason   agentapi.Reason    // for which the member gets into its next state
}

// New makes a machine. It does nothing before Run.
func New(o Options) *Machine {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Pause == nil {
		o.Pause = pause
	}
	if o.Validated == nil {
		o.Validated = func(time.Duration, bool) {}
	}
	if o.LearnerAdded == nil {
		o.LearnerAdded = func(time.Duration, bool) {}
	}
	if o.OthersLeave == nil {
		o.OthersLeave = func() bool { return false }
	}
	if o.Outside == nil {
		o.Outside = func() *Outside { return nil }
	}
	return &Machine{o: o, state: agentapi.InitNew, wake: make(chan struct{}, 1)}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// Start begins an initialization, if none goes on and the outcome of the last was acknowledged. If
// one goes on that looks less closely than mode, it looks again.
func (m *Machine) Start(mode agentapi.ValidationMode) {
	m.mu.Lock()
	defer m.mu.Unlock()
	want := datadir.Full
	if mode == agentapi.ValidateSanity {
		want = datadir.Sanity
	}
	switch {
	case m.state == agentapi.InitNew:
		m.state, m.mode, m.outcome = agentapi.InitProgress, want, nil
		select {
		case m.wake <- struct{}{}:
		default:
		}
	case m.state == agentapi.InitProgress && want == datadir.Full:
		m.mode = want
	}
}

// Status is where the initialization is. An outcome stays until it is acknowledged.
func (m *Machine) Status() agentapi.InitState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// Acknowledge says that the outcome was seen. It changes nothing while an initialization goes on.
func (m *Machine) Acknowledge() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == agentapi.InitSuccessful || m.state == agentapi.InitFailed {
		m.state = agentapi.InitNew
	}
}

// ErrNotInitialized is wrapped by Config's error until an initialization has succeeded, and from
// the beginning of the next one.
var ErrNotInitialized = errors.New("the member is not initialized")

// Config is the configuration file with which etcd is to be started, or was.
func (m *Machine) Config(context.Context) ([]byte, error) {
	m.mu.Lock()
	state, out := m.state, m.outcome
	m.mu.Unlock()
	if out == nil {
		return nil, fmt.Errorf("%w: the state is %s; start the initialization and wait until it is %s", ErrNotInitialized, state, agentapi.InitSuccessful)
	}
	t, err := m.o.Template()
	if err != nil {
		return nil, err
	}
	return t.For(m.o.Name, out.start)
}

// Entered is the reason for the member's next state, once its etcd runs: how it came to its data.
// Empty: it was never initialized.
func (m *Machine) Entered() agentapi.Reason {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.outcome == nil {
		return ""
	}
	return m.outcome.reason
}

// Run initializes whenever it is told to, until ctx ends; it returns ctx's cause.
func (m *Machine) Run(ctx context.Context) error {
	m.introduce()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-m.wake:
		}
		m.once(ctx)
	}
}

// once is one initialization. It leaves the state as it is when ctx ended.
func (m *Machine) once(ctx context.Context) {
	out, err := newAttempt(m).run(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		m.o.Log.Error("the initialization failed", "error", err)
		m.o.Board.Update(func(b *agentapi.Member) { b.Waiting = err.Error() })
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.state = agentapi.InitFailed
	} else {
		m.state, m.outcome = agentapi.InitSuccessful, out
	}
}

// introduce publishes what the volume remembers, for members that look before this one is
// initialized.
func (m *Machine) introduce() {
	j, err := m.o.Journals.Load()
	if err != nil {
		m.o.Log.Warn("the record of the last initialization cannot be read", "error", err)
		return
	}
	if j.Cluster != "" {
		m.o.Board.Update(func(b *agentapi.Member) { b.Bootstrap = j.Published(j.Cluster) })
	}
}

// wanted is the mode of the initialization that goes on.
func (m *Machine) wanted() datadir.Mode {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mode
}
