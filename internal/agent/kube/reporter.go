package kube

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"druid.internal/druid/internal/agentapi"
)

// Options say of whom Kubernetes is told, and how. All fields are required but Metrics, Now and Log.
type Options struct {
	// Server is the URL of the API server, without a slash at the end, and Client shows it the pod's
	// token.
	Server string
	Client *http.Client
	// Namespace of both objects, and Member their name: it is that of the member.
	Namespace, Member string
	// Heartbeat is how often the Lease is renewed.
	Heartbeat time.Duration
	// State is what is known of the member at the moment.
	State   func() agentapi.Member
	Metrics Metrics          // nil: nothing is counted
	Now     func() time.Time // nil: time.Now
	Log     *slog.Logger     // nil: silence
}

// Metrics count what became of the requests. Object is "lease" or "member".
type Metrics interface {
	// Answered tells of one request: a [Situation] as a word.
	Answered(object, situation string)
	// Told tells that an object is as it should be since a time.
	Told(object string, at time.Time)
	// Ahead tells by how much the clock here is ahead of the API server's.
	Ahead(by time.Duration)
}

// look is how often the state is looked at; what changed is told a moment later at the earliest.
const look = time.Second

// Run tells Kubernetes of the member until ctx ends, then once what is new, within seconds, and returns nil: no failure
// of the API server is an error here.
func Run(ctx context.Context, o Options) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = uncounted{}
	}
	a := newAPI(o)
	h := &heartbeat{Options: o, api: a, line: newLine("lease", min(o.Heartbeat, longestWait), o)}
	p := &publisher{Options: o, api: a, line: newLine("member", longestWait, o)}
	o.Log.Info("Kubernetes is told of this member", "server", o.Server, "namespace", o.Namespace, "name", o.Member, "heartbeat", o.Heartbeat)
	var both sync.WaitGroup
	both.Go(func() { repeat(ctx, h.step) })
	both.Go(func() {
		repeat(ctx, p.step)
		p.end(ctx)
	})
	both.Wait()
	return nil
}

// repeat steps at every look until ctx ends.
func repeat(ctx context.Context, step func(context.Context)) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		step(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

type uncounted struct{}

func (uncounted) Answered(string, string) {}
func (uncounted) Told(string, time.Time)  {}
func (uncounted) Ahead(time.Duration)     {}
