package serve

import (
	"context"
	"net/http"
	"time"

	"druid.internal/druid/internal/agentapi"
)

// Handlers do what is called. Those that take a context may take as long as they need; it ends when
// the caller is gone. An error becomes an answer of one line, with the code of [agentapi.CodeOf]; it
// must not hold a secret. They are called concurrently.
//
// Without a store Full, Final, Delta, Latest, Timeline, Verify and Compact are nil and answered with 405, as
// in the original. The others must be set.
type Handlers struct {
	InitStart       func(agentapi.ValidationMode) error // begins, and returns at once
	InitStatus      func() agentapi.InitState           // without side effects
	InitAcknowledge func() error
	Config          func(context.Context) ([]byte, error) // YAML, without secrets
	Healthy         func() bool
	Member          func(context.Context) agentapi.Member
	Operations      func() []agentapi.Operation
	Metrics         http.Handler
	// Defragment begins, and returns what it began.
	Defragment func(context.Context) (agentapi.Operation, error)
	// Refuse has etcd refuse clients for so long, or admit them with 0.
	Refuse func(context.Context, time.Duration) (agentapi.Refusal, error)

	Full     func(ctx context.Context, final bool) (agentapi.Snapshot, error)
	Final    func(ctx context.Context, purpose string) (agentapi.Snapshot, error)
	Delta    func(context.Context) (*agentapi.Snapshot, error) // nil: there was nothing to upload
	Latest   func(context.Context) (agentapi.LatestSnapshots, error)
	Timeline func(context.Context) (agentapi.Timeline, error)
	// Verify and Compact begin, and return what they began.
	Verify  func(context.Context) (agentapi.Operation, error)
	Compact func(context.Context) (agentapi.Operation, error)

	// Leader tells where the backup leader's sidecar is, as in "https://etcd-main-0.etcd-main-peer:8080",
	// or that it is this one. An error is told to the caller with 503.
	Leader func(context.Context) (base string, self bool, err error)
}

// check names the first function that is missing.
func (h Handlers) check() string {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"InitStart", h.InitStart != nil}, {"InitStatus", h.InitStatus != nil}, {"InitAcknowledge", h.InitAcknowledge != nil},
		{"Config", h.Config != nil}, {"Healthy", h.Healthy != nil}, {"Member", h.Member != nil}, {"Operations", h.Operations != nil},
		{"Metrics", h.Metrics != nil}, {"Defragment", h.Defragment != nil}, {"Refuse", h.Refuse != nil}, {"Leader", h.Leader != nil},
	} {
		if !f.set {
			return f.name
		}
	}
	return ""
}
