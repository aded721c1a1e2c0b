package kube

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"
)

// line is how the requests about one object fare: what was logged of them and when the next one may
// be made.
type line struct {
	object  string
	metrics Metrics
	now     func() time.Time
	log     *slog.Logger
	longest time.Duration // wait after failures

	situation Situation // as it was logged; empty: there was no request yet
	failures  int       // in a row
	notBefore time.Time
}

func newLine(object string, longest time.Duration, o Options) line {
	return line{object: object, metrics: o.Metrics, now: o.Now, log: o.Log, longest: longest}
}

// Waits after failures: they double from the first to the longest, and differ by a fifth, so that
// the sidecars of many clusters do not come back all at once.
const (
	firstWait   = time.Second
	longestWait = 30 * time.Second // also of what the server asks for
)

// open says whether a request may be made now.
func (l *line) open() bool { return !l.now().Before(l.notBefore) }

// note says what became of a request: one log line for each change of the situation.
func (l *line) note(ctx context.Context, err error) {
	if err != nil && ctx.Err() != nil {
		return // the end of this process is no situation
	}
	situation, after := Fine, time.Duration(0)
	if err != nil {
		situation = Failing
		var e *callError
		if errors.As(err, &e) {
			situation, after = e.situation, e.after
		}
	}
	l.metrics.Answered(l.object, string(situation))
	was := l.situation
	l.situation = situation
	if situation == Fine {
		l.failures, l.notBefore = 0, time.Time{}
		l.metrics.Told(l.object, l.now())
		if was != situation {
			l.log.Info("the API server takes what it is told", "object", l.object)
		}
		return
	}
	l.failures++
	l.notBefore = l.now().Add(max(backoff(l.failures, l.longest, rand.Float64()), after))
	if was != situation {
		l.log.Warn("the API server is not told of this member, trying again; etcd and the backups go on", "object", l.object,
			"situation", string(situation), "error", err, "remedy", remedies[situation])
	}
}

// backoff is the wait after so many failures in a row; dice is from 0 to 1.
func backoff(failures int, longest time.Duration, dice float64) time.Duration {
	wait := longest
	if failures < 10 {
		wait = min(firstWait<<(failures-1), longest)
	}
	return time.Duration(float64(wait) * (0.8 + 0.4*dice))
}

var remedies = map[Situation]string{
	Missing:     "the operator makes it; if it does not come, look at the conditions of the Etcd",
	Forbidden:   "the Role of the Etcd's ServiceAccount must name the object, and the pod may write its own member only",
	Denied:      "the token of the pod's ServiceAccount is not accepted; a deleted pod's never is",
	Conflict:    "none is needed",
	Invalid:     "the definitions of the resources may be older than this program: apply those of its release",
	Throttled:   "none is needed",
	Failing:     "look at the API server",
	Unreachable: "look at the API server, and at network policies for this pod",
}
