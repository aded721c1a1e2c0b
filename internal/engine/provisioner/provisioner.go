// Package provisioner makes a bucket what it shall be: it reads it, plans (backup/immutability), carries the
// plan out step by step, and reads back what has come of it.
//
// Nothing is remembered between two steps: after a kill the next run reads the bucket and plans from
// there, and a run over a bucket that is as it shall be changes nothing.
//
// What a bucket is configured to do is no proof that its server does it. Package prober proves it.
package provisioner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/admin"
)

// ErrIneffective: the server accepted a change, and the bucket does not show it.
var ErrIneffective = errors.New("the server accepted the changes, but the bucket does not show them")

// Done is a step that was carried out.
type Done struct {
	immutability.BucketStep
	// Said is what came of it; of an optional step that the server does not know, why.
	Said    string `json:"said,omitempty"`
	Skipped bool   `json:"skipped,omitempty"`
}

// Report is what a bucket was, what was planned and done, and what it is.
type Report struct {
	Provider string                  `json:"provider"`
	Location string                  `json:"location"`
	Before   immutability.Bucket     `json:"before"`
	Plan     immutability.BucketPlan `json:"plan"`
	Done     []Done                  `json:"done,omitempty"`
	// After is what was read back; nil if nothing was carried out.
	After *immutability.Bucket `json:"after,omitempty"`
	// Level is the protection that the bucket is configured to give what asks for none.
	Level immutability.Mode `json:"level"`
}

// Provisioner looks after one bucket.
type Provisioner struct {
	bucket admin.Bucket
}

// New makes one.
func New(b admin.Bucket) *Provisioner { return &Provisioner{b} }

// rounds is how often a bucket is planned anew that is not what it was read as: somebody else may have
// made it a moment before.
const rounds = 3

// Inspect tells what the bucket is like.
func (p *Provisioner) Inspect(ctx context.Context) (Report, error) {
	r, err := p.read(ctx)
	if err != nil {
		return r, err
	}
	r.Level = r.Before.Level()
	if p.bucket.Rules().Advisory {
		r.Plan.Notes = append(r.Plan.Notes, immutability.Advice)
	}
	switch {
	case !r.Before.Exists:
		return r, fmt.Errorf("inspect %s: %w", r.Location, p.missing())
	case r.Before.Owner != "":
		return r, fmt.Errorf("inspect %s: it belongs to %s: %w", r.Location, r.Before.Owner, admin.ErrForeign)
	}
	return r, nil
}

func (p *Provisioner) read(ctx context.Context) (Report, error) {
	r := Report{Provider: p.bucket.Rules().Provider, Location: p.bucket.Location()}
	var err error
	r.Before, err = p.bucket.Read(ctx)
	return r, err
}

// Plan says what Ensure would do.
func (p *Provisioner) Plan(ctx context.Context, w immutability.BucketWish) (Report, error) {
	r, err := p.read(ctx)
	if err != nil {
		return r, err
	}
	r.Plan, err = immutability.PlanBucket(r.Before, w, p.bucket.Rules())
	r.Level = r.Before.Level()
	return r, p.named(err)
}

// Ensure makes the bucket what w asks for. With an error the report says what was done before it.
func (p *Provisioner) Ensure(ctx context.Context, w immutability.BucketWish) (Report, error) {
	r, err := p.Plan(ctx, w)
	if err != nil {
		return r, err
	}
	plan, now := r.Plan, r.Before
	for round := 1; ; round++ {
		if err := p.carryOut(ctx, plan, &r); err != nil {
			p.readBack(ctx, &r)
			return r, err
		}
		if now, err = p.bucket.Read(ctx); err != nil {
			return r, fmt.Errorf("read back: %w", err)
		}
		r.After, r.Level = &now, now.Level()
		if plan, err = immutability.PlanBucket(now, w, p.bucket.Rules()); err != nil {
			return r, p.named(fmt.Errorf("read back: %w", err))
		}
		if plan.Done() {
			r.Plan.Level = plan.Level
			return r, nil
		}
		if round == rounds {
			return r, fmt.Errorf("%w: %s still lacks this: %s", ErrIneffective, r.Location, plan.Steps[0].Text)
		}
	}
}

func (p *Provisioner) carryOut(ctx context.Context, plan immutability.BucketPlan, r *Report) error {
	for i, s := range plan.Steps {
		said, err := p.bucket.Do(ctx, s)
		if s.Optional && errors.Is(err, store.ErrUnsupported) {
			r.Done = append(r.Done, Done{BucketStep: s, Said: err.Error(), Skipped: true})
			continue
		}
		if err != nil {
			return p.takeBack(ctx, plan, i, err, r)
		}
		r.Done = append(r.Done, Done{BucketStep: s, Said: said})
	}
	return nil
}

// readBack tells in the report what has come of a plan that was broken off, if that can be told.
func (p *Provisioner) readBack(ctx context.Context, r *Report) {
	if len(r.Done) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackTimeout)
	defer cancel()
	if now, err := p.bucket.Read(ctx); err == nil {
		r.After, r.Level = &now, now.Level()
	}
}

// takeBackTimeout bounds how long after an interruption is worked on what must not stay as it is.
const takeBackTimeout = 30 * time.Second

// takeBack undoes what was done only for the step that has failed: versions that are kept for locks that the server
// refuses, and the guard that was lifted. A plan that cannot be carried out would leave the bucket so for good. It
// returns why the plan has failed.
func (p *Provisioner) takeBack(ctx context.Context, plan immutability.BucketPlan, failed int, why error, r *Report) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackTimeout)
	defer cancel()
	done, left := plan.Steps[:failed], plan.Steps[failed:]
	if left[0].Do == immutability.BucketObjectLock && refused(why) && slices.ContainsFunc(done, func(s immutability.BucketStep) bool { return s.Do == immutability.BucketVersions }) {
		suspend := immutability.BucketStep{Do: immutability.BucketSuspend, Text: "keep versions of what is overwritten no longer, as before"}
		if said, err := p.bucket.Do(ctx, suspend); err != nil {
			why = fmt.Errorf("%w; the bucket keeps versions since, and that cannot be taken back: %w", why, err)
		} else {
			r.Done = append(r.Done, Done{BucketStep: suspend, Said: said})
		}
	}
	if err := p.putBack(ctx, done, left, r); err != nil {
		why = fmt.Errorf("%w; %w", why, err)
	}
	return why
}

// refused: the server has answered, so that the step was not done.
func refused(err error) bool {
	var r *immutability.BucketRefusal
	return errors.As(err, &r) || errors.Is(err, store.ErrForbidden) || errors.Is(err, store.ErrUnsupported)
}

// putBack adds the guard again that was lifted.
func (p *Provisioner) putBack(ctx context.Context, done, left []immutability.BucketStep, r *Report) error {
	for _, add := range left {
		if add.Do != immutability.BucketGuard || !slices.ContainsFunc(done, func(s immutability.BucketStep) bool {
			return s.Do == immutability.BucketLift && s.Guard == add.Guard
		}) {
			continue
		}
		said, err := p.bucket.Do(ctx, add)
		if err != nil {
			return fmt.Errorf("the statement %q was lifted and cannot be put back, run it again: %w", add.Guard, err)
		}
		r.Done = append(r.Done, Done{BucketStep: add, Said: said})
	}
	return nil
}

// named says which bucket is refused.
func (p *Provisioner) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", p.bucket.Location(), err)
}

// PlanLock says what locking the bucket's policy as it is would do. What is locked stays so for ever,
// hence nothing else is done along with it.
func (p *Provisioner) PlanLock(ctx context.Context) (Report, immutability.BucketWish, error) {
	r, err := p.read(ctx)
	if err != nil {
		return r, immutability.BucketWish{}, err
	}
	b, rules := r.Before, p.bucket.Rules()
	r.Level = b.Level()
	switch {
	case !b.Exists:
		return r, immutability.BucketWish{}, p.named(p.missing())
	case b.Owner != "":
		return r, immutability.BucketWish{}, p.named(fmt.Errorf("it belongs to %s: %w", b.Owner, admin.ErrForeign))
	case b.Period == 0:
		return r, immutability.BucketWish{}, p.named(nothingToLock(rules))
	case rules.StampsMode && b.Mode != immutability.ModeCompliance:
		return r, immutability.BucketWish{}, p.named(&immutability.BucketRefusal{Reason: fmt.Sprintf("the bucket's default lock is of mode %s, which privileged identities can lift", b.Mode),
			Remedy: "etcdbrctl bucket ensure --retention-mode=compliance makes it one that nobody can, and then it can be locked"})
	}
	locked := true
	w := immutability.BucketWish{Type: immutability.ByBucket, Period: b.Period, Mode: immutability.ModeCompliance, Locked: &locked}
	r.Plan, err = immutability.PlanBucket(b, w, rules)
	return r, w, p.named(err)
}

// missing is the error for a bucket that is not there. Of a directory that is not, something may not be mounted.
func (p *Provisioner) missing() error {
	if p.bucket.Rules().Advisory {
		return fmt.Errorf("check that the directory is mounted, or create it: %w", store.ErrNoBucket)
	}
	return fmt.Errorf("check its name, or make it with etcdbrctl bucket ensure: %w", store.ErrNoBucket)
}

// nothingToLock refuses to lock a bucket that has no retention.
func nothingToLock(rules immutability.BucketRules) *immutability.BucketRefusal {
	const reason = "the bucket has no retention that could be locked"
	switch {
	case rules.None != "":
		return &immutability.BucketRefusal{Impossible: true, Reason: rules.None}
	case rules.NoDefault != "":
		return &immutability.BucketRefusal{Impossible: true, Reason: reason, Remedy: rules.NoDefault}
	}
	return &immutability.BucketRefusal{Reason: reason, Remedy: "etcdbrctl bucket ensure --retention-period=… gives it one"}
}

// Contents is what a bucket holds.
type Contents struct {
	Versions int `json:"versions"`
	Markers  int `json:"markers,omitempty"`
	// More: there is more than was counted.
	More  bool   `json:"more,omitempty"`
	First string `json:"first,omitempty"` // of the keys
	// Until is the last end of a lock among those that were looked at; zero: none was seen. Held: some
	// are under a hold.
	Until time.Time `json:"until,omitzero"`
	Held  bool      `json:"held,omitempty"`
}

// String is one phrase for people.
func (c Contents) String() string {
	n := fmt.Sprintf("%d versions and %d markers", c.Versions, c.Markers)
	if c.More {
		n = "more than " + n
	}
	s := fmt.Sprintf("%s, the first of %s", n, timeline.OneLine(c.First))
	if !c.Until.IsZero() {
		s += fmt.Sprintf("; locks end at %s or later", c.Until.UTC().Format(time.RFC3339))
	}
	if c.Held {
		s += "; some are held until somebody releases them"
	}
	return s
}

// The bounds of looking into a bucket that is to be deleted.
const (
	maxCounted = 10_000
	maxLooked  = 100 // requests for locks, where a listing does not tell
)

// Count looks what is in the bucket, as far as is needed to say why it is not deleted.
func Count(ctx context.Context, s store.Reader) (Contents, error) {
	var c Contents
	enough := errors.New("enough")
	looked := 0
	err := s.List(ctx, "", func(o store.Object) error {
		if c.Versions+c.Markers == maxCounted {
			c.More = true
			return enough
		}
		if c.First == "" {
			c.First = o.Key
		}
		if o.Marker {
			c.Markers++
			return nil
		}
		c.Versions++
		if o.Retention == nil && looked < maxLooked {
			looked++
			if at, err := s.Stat(ctx, o.Version); err == nil {
				o.Retention = at.Retention
			}
		}
		if r := o.Retention; r != nil {
			c.Held = c.Held || r.Hold
			if r.Until.After(c.Until) {
				c.Until = r.Until
			}
		}
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return c, err
}

// Empty reports whether nothing is there.
func (c Contents) Empty() bool { return c.Versions+c.Markers == 0 }

// Delete removes the bucket if it is ours and empty. What is in a bucket is never deleted here: what
// may go goes by collection. open opens the bucket to look into it. Unless yes it only looks.
func (p *Provisioner) Delete(ctx context.Context, open func(context.Context) (store.Reader, error), yes bool) (Report, error) {
	r, err := p.read(ctx)
	if err != nil {
		return r, err
	}
	r.Level = r.Before.Level()
	switch {
	case r.Before.Owner != "":
		return r, p.named(fmt.Errorf("it belongs to %s: %w", r.Before.Owner, admin.ErrForeign))
	case !r.Before.Exists:
		return r, nil
	}
	s, err := open(ctx)
	if err != nil {
		return r, err
	}
	c, err := Count(ctx, s)
	if err != nil {
		return r, err
	}
	if !c.Empty() {
		return r, p.named(fmt.Errorf("%w: it holds %s; what retention lets go is deleted by etcdbrctl collect, and a bucket only when nothing is left in it", admin.ErrNotEmpty, c))
	}
	if !yes {
		return r, nil
	}
	if err := p.bucket.Delete(ctx); err != nil {
		return r, err
	}
	now, err := p.bucket.Read(ctx)
	if err != nil {
		return r, fmt.Errorf("read back: %w", err)
	}
	r.After, r.Level = &now, immutability.ModeNone // some providers show it for a while yet
	return r, nil
}
