package snapshot

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/operatortask/task"
)

var begun = time.Date(2026, 6, 1, 3, 0, 0, 500, time.UTC)

// sidecar answers, and notes what it was asked.
type sidecar struct {
	latest agentapi.LatestSnapshots
	delta  *agentapi.Snapshot
	err    error
	asked  []string
}

func (s *sidecar) Full(_ context.Context, final bool) (agentapi.Snapshot, error) {
	s.asked = append(s.asked, map[bool]string{false: "full", true: "final"}[final])
	return agentapi.Snapshot{SnapName: "Full-new", LastRevision: 9, Size: 4096, ImmutableUntil: begun}, s.err
}

func (s *sidecar) Delta(context.Context) (*agentapi.Snapshot, error) {
	s.asked = append(s.asked, "delta")
	return s.delta, s.err
}

func (s *sidecar) Latest(context.Context) (agentapi.LatestSnapshots, error) {
	s.asked = append(s.asked, "latest")
	return s.latest, s.err
}

func TestASnapshotIsTakenOnceAlsoByOperatorsThatDie(t *testing.T) {
	of := func(name string, at time.Duration, final bool) *agentapi.Snapshot {
		return &agentapi.Snapshot{SnapName: name, CreatedOn: begun.Truncate(time.Second).Add(at), IsFinal: final, LastRevision: 5}
	}
	since := agentapi.LatestSnapshots{FullSnapshot: of("Full-since", 0, false)}
	before := agentapi.LatestSnapshots{FullSnapshot: of("Full-before", -time.Second, true)}
	finally := agentapi.LatestSnapshots{FullSnapshot: of("Full-final", time.Second, true)}
	increment := agentapi.LatestSnapshots{FullSnapshot: of("Full-before", -time.Second, false), DeltaSnapshots: []*agentapi.Snapshot{of("Incr-since", time.Second, false)}}
	for name, c := range map[string]struct {
		config      druidv1alpha1.OnDemandSnapshotConfig
		again, late bool
		latest      agentapi.LatestSnapshots
		asked, got  string
		late2       bool // it says that the time is over
		nothing     bool // is left to upload
	}{
		"a full":                                {config: druidv1alpha1.OnDemandSnapshotConfig{Type: "full"}, asked: "full", got: "Full-new"},
		"a final full":                          {config: druidv1alpha1.OnDemandSnapshotConfig{Type: "full", IsFinal: ptr(true)}, asked: "final", got: "Full-new"},
		"a delta":                               {config: druidv1alpha1.OnDemandSnapshotConfig{Type: "delta"}, asked: "delta", got: "Incr-new"},
		"again, and it was taken":               {config: druidv1alpha1.OnDemandSnapshotConfig{Type: "full"}, again: true, latest: since, asked: "latest", got: "Full-since"},
		"again, and it was not":                 {config: druidv1alpha1.OnDemandSnapshotConfig{Type: "full"}, again: true, latest: before, asked: "latest full", got: "Full-new"},
		"again, with an empty bucket":           {config: druidv1alpha1.OnDemandSnapshotConfig{Type: "full"}, again: true, asked: "latest full", got: "Full-new"},
		"again, and the final one was taken":    {config: druidv1alpha1.OnDemandSnapshotConfig{Type: "full", IsFinal: ptr(true)}, again: true, latest: finally, asked: "latest", got: "Full-final"},
		"again, and another full was taken":     {config: druidv1alpha1.OnDemandSnapshotConfig{Type: "full", IsFinal: ptr(true)}, again: true, latest: since, asked: "latest final", got: "Full-new"},
		"a delta again is asked for":            {config: druidv1alpha1.OnDemandSnapshotConfig{Type: "delta"}, again: true, latest: increment, asked: "latest delta", got: "Incr-new"},
		"a delta again, and it arrived before":  {config: druidv1alpha1.OnDemandSnapshotConfig{Type: "delta"}, again: true, latest: increment, nothing: true, asked: "latest delta", got: "Incr-since"},
		"a delta again, and there was nothing":  {config: druidv1alpha1.OnDemandSnapshotConfig{Type: "delta"}, again: true, latest: before, nothing: true, asked: "latest delta"},
		"too late, and it was taken":            {config: druidv1alpha1.OnDemandSnapshotConfig{Type: "full"}, late: true, latest: since, asked: "latest", got: "Full-since"},
		"too late, and it was not":              {config: druidv1alpha1.OnDemandSnapshotConfig{Type: "full"}, late: true, latest: before, asked: "latest", late2: true},
		"too late for a delta, and it is there": {config: druidv1alpha1.OnDemandSnapshotConfig{Type: "delta"}, late: true, latest: increment, asked: "latest", got: "Incr-since"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sidecar{latest: c.latest, delta: of("Incr-new", time.Second, false)}
			if c.nothing {
				s.delta = nil
			}
			got, err := do(t.Context(), task.Call{Task: &task.Task{Snapshot: &c.config, Status: task.Status{Initiated: begun}}, Sidecar: s, Again: c.again, Late: c.late})
			if errors.Is(err, task.ErrLate) != c.late2 || err != nil && !c.late2 {
				t.Fatal(err)
			}
			var names []string
			for _, one := range got.Snapshots {
				names = append(names, one.Name)
			}
			if strings.Join(s.asked, " ") != c.asked || strings.Join(names, " ") != c.got {
				t.Errorf("it asked for %q and has %q, want %q and %q", s.asked, names, c.asked, c.got)
			}
		})
	}
}

func TestTheResultIsWhatTheSidecarSays(t *testing.T) {
	got, err := do(t.Context(), task.Call{Task: &task.Task{Snapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: "full"}}, Sidecar: &sidecar{}})
	if err != nil || len(got.Snapshots) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if s := got.Snapshots[0]; s.Name != "Full-new" || s.Revision != 9 || s.Bytes != 4096 || !s.RetainUntil.Time.Equal(begun) {
		t.Errorf("it is %+v", s)
	}
	if got, err := do(t.Context(), task.Call{Task: &task.Task{Snapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: "delta"}}, Sidecar: &sidecar{}}); err != nil || len(got.Snapshots) != 0 {
		t.Errorf("with nothing to upload: %+v, %v", got, err)
	}
}

func TestErrorsThatAnotherAttemptMendsAreToldFromOthers(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code druidv1alpha1.ErrorCode // empty: it is tried again
	}{
		"nobody listens":        {errors.New("connection refused"), ""},
		"not now":               {&agentapi.StatusError{Code: 503}, ""},
		"another goes on":       {&agentapi.StatusError{Code: 409}, ""},
		"a leader that is gone": {&agentapi.StatusError{Code: 502}, ""},
		"no store":              {&agentapi.StatusError{Code: 405, NoStore: true}, "ERR_BACKUP_NOT_ENABLED"},
		"refused":               {&agentapi.StatusError{Code: 422}, "ERR_CREATE_SNAPSHOT"},
		"denied":                {&agentapi.StatusError{Code: 401}, "ERR_CREATE_SNAPSHOT"},
		"failed":                {&agentapi.StatusError{Code: 500}, "ERR_CREATE_SNAPSHOT"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, again := range []bool{false, true} {
				_, err := do(t.Context(), task.Call{Task: &task.Task{Snapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: "full"}}, Sidecar: &sidecar{err: c.err}, Again: again})
				var failure *task.Failure
				if is := errors.As(err, &failure); !errors.Is(err, c.err) || is != (c.code != "") || is && failure.Code != c.code {
					t.Errorf("again %t: %v, want code %q", again, err, c.code)
				}
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }
