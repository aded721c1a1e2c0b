// Package status holds what a sidecar knows about its member, for everybody who asks: the
// endpoint /member, the other sidecars, the operator.
//
// It derives nothing and asks nobody. Whoever learns something writes it here.
package status

import (
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"druid.internal/druid/internal/agentapi"
)

// Board is the state of one member. Its methods may be called concurrently.
type Board struct {
	now func() time.Time
	log *slog.Logger

	mu     sync.Mutex
	member agentapi.Member
}

// New is the board of a member that nothing is known about yet. log may be nil.
func New(name string, now func() time.Time, log *slog.Logger) *Board {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Board{now: now, log: log, member: agentapi.Member{Name: name, Transitions: []agentapi.Transition{}}}
}

// Move records that the member is in a state, and why. The same state for the same reason again
// is no transition: it only replaces the message. It reports whether it was one.
func (b *Board) Move(state agentapi.State, sub agentapi.SubState, reason agentapi.Reason, message string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.member.Transitions
	if n := len(all); n > 0 {
		if last := &all[n-1]; last.State == state && last.SubState == sub && last.Reason == reason {
			last.Message = message
			return false
		}
	}
	if len(all) >= agentapi.MaxTransitions {
		all = append(all[:0], all[len(all)-agentapi.MaxTransitions+1:]...)
	}
	b.member.Transitions = append(all, agentapi.Transition{State: state, SubState: sub, Reason: reason, Time: b.now().UTC(), Message: message})
	b.log.Info("the member changed its state", "state", state, "subState", sub, "reason", reason, "message", message)
	return true
}

// Update lets change write any part of the state. Others wait meanwhile, so it must not ask
// anybody anything. What it is given must not be kept.
func (b *Board) Update(change func(*agentapi.Member)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.member)
	if n := len(b.member.Transitions); n > agentapi.MaxTransitions {
		b.member.Transitions = b.member.Transitions[n-agentapi.MaxTransitions:]
	}
}

// Get returns a copy of the state that nobody else changes, within the limits of what a sidecar reports.
func (b *Board) Get() agentapi.Member {
	b.mu.Lock()
	defer b.mu.Unlock()
	// The state is what it is as JSON, so that is a complete copy, also of fields added later.
	text, err := json.Marshal(b.member)
	if err != nil {
		panic(err) // only times beyond the year 9999
	}
	var out agentapi.Member
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out.Bounded()
}

// State is the newest transition; the zero value if there was none.
func (b *Board) State() agentapi.Transition {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.member.Transitions); n > 0 {
		return b.member.Transitions[n-1]
	}
	return agentapi.Transition{}
}
