package member

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ask puts a question to the cluster through one of the configured endpoints: it asks all of
// them for their status at once and takes the members that vote and see a leader, as they
// answer, until one gives an answer other than ErrNoLeader and ErrUnreachable. All of it is
// bounded by the configured timeout and ctx. The error is ErrUnreachable only if no endpoint answers
// at all, and ErrNoLeader if some answer but the cluster decides nothing.
//
// put may run more than once: a member that is lost while it is asked may have done what it
// was told, or not.
func (c *Cluster) ask(ctx context.Context, what string, put func(context.Context, *Member, Status) error) error {
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, c.cfg.timeout())
	type found struct {
		m   *Member
		st  Status
		err error
	}
	answers := make(chan found, len(c.cfg.Endpoints))
	for _, endpoint := range c.cfg.Endpoints {
		go func() {
			m, err := c.At(endpoint)
			if err != nil {
				answers <- found{err: err}
				return
			}
			st, err := m.Status(ctx)
			answers <- found{m, st, err}
		}()
	}
	left := len(c.cfg.Endpoints)
	defer func() {
		cancel()
		for range left {
			<-answers
		}
	}()

	var failures several
	for left > 0 {
		a := <-answers
		left--
		switch {
		case a.err != nil:
			failures = append(failures, a.err)
			continue
		case a.st.Learner:
			failures = append(failures, fmt.Errorf("%s at %s: %w", what, a.m.endpoint, ErrLearner))
			continue
		case a.st.Leader == 0:
			failures = append(failures, fmt.Errorf("%s at %s: %w", what, a.m.endpoint, ErrNoLeader))
			continue
		}
		err := put(ctx, a.m, a.st)
		if err == nil {
			return nil
		}
		if errors.Is(err, context.DeadlineExceeded) { // it does answer, see its status
			err = fmt.Errorf("%s at %s: %w: nothing was decided in time (check that a majority of the members runs)", what, a.m.endpoint, ErrNoLeader)
		}
		if !errors.Is(err, ErrNoLeader) && !errors.Is(err, ErrUnreachable) {
			return err
		}
		failures = append(failures, err)
	}
	if errors.Is(outer.Err(), context.Canceled) {
		return fmt.Errorf("%s: %w", what, outer.Err())
	}
	return failures
}

// several are the reasons of several endpoints, in one line. Is ErrUnreachable only if all of
// them are, so that "nobody answers" and "somebody answers no" are told apart.
type several []error

func (s several) Error() string {
	texts := make([]string, len(s))
	for i, err := range s {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (s several) Unwrap() []error {
	var answered []error
	for _, err := range s {
		if !errors.Is(err, ErrUnreachable) {
			answered = append(answered, err)
		}
	}
	if len(answered) == 0 {
		return s
	}
	return answered
}
