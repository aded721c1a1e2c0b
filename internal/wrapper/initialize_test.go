package wrapper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/agentapi"
)

// script is a sidecar that answers questions for its status one after the other; the last answer
// stays. An answer that is no state is an error.
type script struct {
	states  []agentapi.InitState
	config  []string // likewise
	refuses int      // so many starts
	waiting string
	calls   []string
}

// nobody is the answer when no sidecar listens.
const nobody agentapi.InitState = "nobody"

func next[T any](answers *[]T) T {
	a := (*answers)[0]
	if len(*answers) > 1 {
		*answers = (*answers)[1:]
	}
	return a
}

func (s *script) InitStatus(context.Context) (agentapi.InitState, error) {
	state := next(&s.states)
	switch {
	case strings.HasPrefix(string(state), "error"):
		return "", errors.New(string(state))
	case state == nobody:
		return "", fmt.Errorf("GET status: %w", syscall.ECONNREFUSED)
	}
	return state, nil
}

func (s *script) InitStart(_ context.Context, mode agentapi.ValidationMode) error {
	s.calls = append(s.calls, "start "+string(mode))
	if s.refuses--; s.refuses >= 0 {
		return errors.New("refused")
	}
	return nil
}

func (s *script) InitAcknowledge(context.Context) error {
	s.calls = append(s.calls, "acknowledge")
	return nil
}

func (s *script) Config(context.Context) ([]byte, error) {
	s.calls = append(s.calls, "config")
	return []byte(next(&s.config)), nil
}

func (s *script) Member(context.Context) (agentapi.Member, error) {
	return agentapi.Member{Waiting: s.waiting}, nil
}

func TestTheWrapperAsksUntilTheDataAreReady(t *testing.T) {
	const (
		fresh    = agentapi.InitNew
		progress = agentapi.InitProgress
		success  = agentapi.InitSuccessful
		failed   = agentapi.InitFailed
	)
	again := []string{"start full", "start full", "config"}
	for name, c := range map[string]struct {
		s    script
		want []string
		took time.Duration
	}{
		"at once":              {script{states: []agentapi.InitState{fresh, success}}, []string{"start full", "config"}, 0},
		"after some questions": {script{states: []agentapi.InitState{fresh, progress, progress, success}}, []string{"start full", "config"}, 100 * time.Millisecond},
		"an outcome of an earlier start is not used": {script{states: []agentapi.InitState{success, progress, success}}, []string{"acknowledge", "start full", "config"}, 50 * time.Millisecond},
		"a failure is acknowledged and tried again":  {script{states: []agentapi.InitState{fresh, failed, failed, success}}, []string{"start full", "acknowledge", "start full", "config"}, time.Second},
		"failures are tried again ever more rarely": {script{states: []agentapi.InitState{fresh, failed, fresh, failed, fresh, failed, fresh, failed, fresh, failed, fresh, failed, fresh, failed, fresh, success}},
			[]string{"start full", "start full", "start full", "start full", "start full", "start full", "start full", "start full", "config"}, (1 + 2 + 4 + 8 + 16 + 30 + 30) * time.Second},
		"the sidecar is not up yet":                 {script{states: []agentapi.InitState{"error 1", "error 2", fresh, success}}, []string{"start full", "config"}, 3 * time.Second},
		"the sidecar is started at the same moment": {script{states: []agentapi.InitState{nobody, fresh, success}}, []string{"start full", "config"}, 100 * time.Millisecond},
		"the sidecar is away for long": {script{states: []agentapi.InitState{nobody, nobody, nobody, nobody, nobody, nobody, nobody, nobody, nobody, nobody, nobody, fresh, success}},
			[]string{"start full", "config"}, (1 + 2 + 4 + 8 + 16 + 32 + 64 + 128 + 256 + 300 + 300) * 100 * time.Millisecond},
		"the sidecar goes away meanwhile": {script{states: []agentapi.InitState{fresh, progress, "error", fresh, success}}, again, 1050 * time.Millisecond},
		"the sidecar was restarted":       {script{states: []agentapi.InitState{fresh, progress, fresh, fresh, success}}, again, 1050 * time.Millisecond},
		"something else answers":          {script{states: []agentapi.InitState{fresh, "<html>", fresh, success}}, again, time.Second},
		"the start is refused":            {script{states: []agentapi.InitState{fresh, fresh, success}, refuses: 1}, again, time.Second},
		"the configuration is none": {script{states: []agentapi.InitState{fresh, success, success, success}, config: []string{"nonsense", someConfig()}},
			[]string{"start full", "config", "acknowledge", "start full", "config"}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if c.s.config == nil {
					c.s.config = []string{someConfig()}
				}
				started := time.Now()
				got, err := initialize(t.Context(), &c.s, agentapi.ValidateFull, newHealth(time.Now), slog.New(slog.DiscardHandler))
				if err != nil || string(got) != someConfig() {
					t.Errorf("%q, %v", got, err)
				}
				if diff := cmp.Diff(c.want, c.s.calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if took := time.Since(started); took != c.took {
					t.Errorf("took %s, want %s", took, c.took)
				}
			})
		})
	}
}

// lasting is a sidecar whose initialization takes so long.
type lasting struct {
	script
	until time.Time
	asked int
}

func (l *lasting) InitStatus(context.Context) (agentapi.InitState, error) {
	l.asked++
	if time.Now().Before(l.until) {
		return agentapi.InitProgress, nil
	}
	return agentapi.InitSuccessful, nil
}

func TestTheEndOfAnInitializationIsNoticedSoon(t *testing.T) {
	for phrase, c := range map[string]struct{ lasts, wantWithin time.Duration }{
		"of one that takes a moment":      {10 * time.Millisecond, 50 * time.Millisecond},
		"of one that others take part in": {1800 * time.Millisecond, 1980 * time.Millisecond},
		"of a restoration":                {time.Hour, time.Hour + time.Second},
	} {
		t.Run(phrase, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &lasting{until: time.Now().Add(c.lasts)}
				began := time.Now()
				if err := awaitInitialized(t.Context(), s, newHealth(time.Now), slog.New(slog.DiscardHandler)); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < c.lasts || took > c.wantWithin {
					t.Errorf("noticed after %s, want it after %s and within %s", took, c.lasts, c.wantWithin)
				}
				if most := int(c.lasts/time.Second) + 40; s.asked > most {
					t.Errorf("asked %d times, want at most %d", s.asked, most)
				}
			})
		})
	}
}

func TestAnInitializationThatLastsIsWaitedForAndSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := &script{states: []agentapi.InitState{agentapi.InitNew, agentapi.InitProgress}, waiting: "the bucket does not answer"}
		h := newHealth(time.Now)
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() {
			_, err := initialize(ctx, s, agentapi.ValidateSanity, h, slog.New(slog.NewTextHandler(&log, nil)))
			ended <- err
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		if err := h.readiness(); err == nil || !strings.Contains(err.Error(), s.waiting) {
			t.Errorf("not ready because %v", err)
		}
		cancel(Interrupt)
		if err := <-ended; err != Interrupt {
			t.Errorf("%v, want the cause of the end", err)
		}
		if diff := cmp.Diff([]string{"start sanity"}, s.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if n := strings.Count(log.String(), s.waiting); n != 1 {
			t.Errorf("said %d times:\n%s", n, &log)
		}
	})
}

func TestAFailedInitializationIsToldWithItsReason(t *testing.T) {
	s := &script{states: []agentapi.InitState{agentapi.InitFailed}, waiting: "disk full", config: []string{""}}
	_, err := attemptInitialization(t.Context(), s, agentapi.ValidateFull, newHealth(time.Now), slog.New(slog.DiscardHandler))
	if !errors.Is(err, errNotReady) || !strings.Contains(fmt.Sprint(err), "disk full") {
		t.Errorf("%v", err)
	}
}
