package process

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhatTakesLongIsLookedAtMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, early, late := time.Now(), 0, 0
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		missing := errors.New("it is not there")
		err := Poll(ctx, nil, func(context.Context) error {
			switch waited := time.Since(began); {
			case waited < time.Second:
				early++
			case waited >= 10*time.Second && waited < 11*time.Second:
				late++
			}
			return missing
		})
		if !errors.Is(err, missing) {
			t.Errorf("the error is %v, want the last answer", err)
		}
		if early < 25 || late < 2 || late > 4 {
			t.Errorf("%d looks in the first second, want at least 25, and %d in the eleventh, want 2 to 4", early, late)
		}
	})
}

func TestNobodyWaitsForWhatHasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, stop, missing := time.Now(), make(chan struct{}), errors.New("it is not there")
		time.AfterFunc(3*time.Second, func() { close(stop) })
		if err := Poll(t.Context(), stop, func(context.Context) error { return missing }); !errors.Is(err, missing) {
			t.Errorf("the error is %v, want the last answer", err)
		}
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("it was waited for %s, want 3s", waited)
		}
	})
}
