// Package snapshot is the type of task that takes a snapshot now.
//
// The backup leader takes it; the task asks, waits and repeats the answer. An answer may be lost with the
// operator that waited for it. Whoever goes on then does no harm: a final full is taken once by the
// sidecar itself, as long as nothing changes; a delta uploads only what is missing; and before another
// full is asked for, one is looked for that was begun since the task was. The clocks of the operator
// and of the member are compared there: if they are apart, a full more may be taken, or one that was begun
// so much before the task may count.
package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/operatortask/task"
)

// The codes of errors, as the original has them.
const (
	codeSnapshot druidv1alpha1.ErrorCode = "ERR_CREATE_SNAPSHOT" // the sidecar refuses or cannot take it
	codeNoStore  druidv1alpha1.ErrorCode = "ERR_BACKUP_NOT_ENABLED"
)

// Type is the row of the registry.
func Type() task.Type {
	return task.Type{
		Name: druidv1alpha1.TaskOnDemandSnapshot,
		Step: "Snapshot",
		Same: func(a, b *task.Task) bool {
			return a.Snapshot != nil && b.Snapshot != nil && a.Snapshot.Type == b.Snapshot.Type
		},
		Checks: []task.Check{task.HasStore},
		Turn:   []task.Check{task.HasQuorum},
		Once:   &task.Once{Timeout: timeout, Do: do},
	}
}

// timeout is that of the specification.
func timeout(t *task.Task) time.Duration {
	seconds, of := int32(900), t.Snapshot.TimeoutSecondsFull
	if t.Snapshot.Type == druidv1alpha1.SnapshotDelta {
		seconds, of = 60, t.Snapshot.TimeoutSecondsDelta
	}
	if of != nil {
		seconds = *of
	}
	return time.Duration(seconds) * time.Second
}

func do(ctx context.Context, c task.Call) (druidv1alpha1.TaskResult, error) {
	final := c.Task.Snapshot.IsFinal != nil && *c.Task.Snapshot.IsFinal
	delta := c.Task.Snapshot.Type == druidv1alpha1.SnapshotDelta
	var found *agentapi.Snapshot // what came of earlier attempts; nil: nothing
	if c.Again || c.Late {
		latest, err := c.Sidecar.Latest(ctx)
		if err != nil {
			return druidv1alpha1.TaskResult{}, judge(err)
		}
		// A delta that was cut before the task was begun may have arrived since, so while there is time
		// another one is asked for: it costs nothing.
		if found = since(latest, c.Task.Status.Initiated, delta, final); found != nil && (!delta || c.Late) {
			return result(found), nil
		}
	}
	if c.Late {
		return druidv1alpha1.TaskResult{}, task.ErrLate
	}
	if delta {
		taken, err := c.Sidecar.Delta(ctx)
		if err != nil {
			return druidv1alpha1.TaskResult{}, judge(err)
		}
		return result(cmp.Or(taken, found)), nil
	}
	taken, err := c.Sidecar.Full(ctx, final)
	if err != nil {
		return druidv1alpha1.TaskResult{}, judge(err)
	}
	return result(&taken), nil
}

// since is the newest snapshot that counts and was begun since a moment; nil: there is none. Names of
// snapshots have whole seconds.
func since(l agentapi.LatestSnapshots, begun time.Time, delta, final bool) *agentapi.Snapshot {
	s := l.FullSnapshot
	if n := len(l.DeltaSnapshots); delta && n > 0 {
		s = l.DeltaSnapshots[n-1]
	}
	if s == nil || s.CreatedOn.Before(begun.Truncate(time.Second)) || final && !s.IsFinal {
		return nil
	}
	return s
}

// judge tells what fails for good from what may succeed with the next attempt: a sidecar that is not
// there, or does not lead any more.
func judge(err error) error {
	var status *agentapi.StatusError
	switch {
	case errors.Is(err, agentapi.ErrNoStore):
		return &task.Failure{Code: codeNoStore, Err: fmt.Errorf("the backup leader has no store yet: %w", err)}
	case !errors.As(err, &status), errors.Is(err, agentapi.ErrUnavailable), errors.Is(err, agentapi.ErrBusy), status.Code == http.StatusBadGateway, status.Code == http.StatusGatewayTimeout:
		return err
	}
	return &task.Failure{Code: codeSnapshot, Err: err}
}

// result of a snapshot; nil: everything was in the bucket already.
func result(s *agentapi.Snapshot) druidv1alpha1.TaskResult {
	if s == nil {
		return druidv1alpha1.TaskResult{}
	}
	taken := druidv1alpha1.TakenSnapshot{Name: s.SnapName, Revision: s.LastRevision, Bytes: s.Size}
	if !s.ImmutableUntil.IsZero() {
		until := metav1.NewTime(s.ImmutableUntil)
		taken.RetainUntil = &until
	}
	return druidv1alpha1.TaskResult{Snapshots: []druidv1alpha1.TakenSnapshot{taken}}
}
