package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/copier"
)

// copies is how many objects are copied to the second store at a time.
const copies = 2

// sync makes the second store like the first: what is missing there is copied, and what the policy
// lets go and the first has no more is deleted. What the first still has stays, for whatever reason
// it does, or it would be copied again each time.
func (t *term) sync(ctx context.Context) error {
	if _, err := t.ours(); err != nil {
		return err
	}
	began := t.cfg.Now()
	report, err := t.mirror(ctx)
	if ctx.Err() != nil || errors.Is(err, errNotYet) {
		return err
	}
	t.cfg.Metrics.Synced(t.cfg.Now(), err == nil)
	if err != nil {
		return fmt.Errorf("copy to the second store: %w", err)
	}
	t.log.Info("the second store is like the first", "copied", copied(report), "there", report.Count(copier.Copied), "vanished", report.Count(copier.NotFound), "took", t.cfg.Now().Sub(began).Round(time.Millisecond))
	if t.cfg.CollectEvery <= time.Second || t.cfg.Policy.IsZero() {
		return nil
	}
	there, err := names(ctx, t.store, t.cfg.Prefix)
	if err != nil {
		return err
	}
	return t.letGo(ctx, t.second, t.cfg.Second.Prefix, func(n snapshot.Name) bool { return there[bare(n)] })
}

// copied is how many snapshots were not there before.
func copied(r copier.Report) int {
	n := 0
	for _, i := range r.Items {
		if i.State == copier.Copied && i.How != copier.Existing {
			n++
		}
	}
	return n
}

// mirror copies what is missing.
func (t *term) mirror(ctx context.Context) (copier.Report, error) {
	for _, s := range []*renewing{t.store, t.second} {
		if err := s.ready(ctx); err != nil {
			return copier.Report{}, err
		}
	}
	state, err := t.record.open()
	if err != nil {
		t.log.Warn("what was copied before is not remembered", "error", err)
	}
	c, err := copier.New(copier.Source{Store: t.store, Prefix: t.cfg.Prefix}, copier.Destination{Store: t.second, Prefix: t.cfg.Second.Prefix}, copier.Options{
		MaxBackups: copier.All, MaxAge: copier.All, Parallel: copies, State: state, Now: t.cfg.Now, Wait: t.cfg.Wait, Log: t.log,
	})
	if err != nil {
		return copier.Report{}, err
	}
	plan, err := c.Plan(ctx)
	if errors.Is(err, copier.ErrNothing) {
		return copier.Report{}, errNotYet
	}
	if err != nil {
		return copier.Report{}, err
	}
	for _, w := range plan.Warnings {
		t.log.Warn("copying to the second store", "warning", w)
	}
	return c.Execute(ctx, plan)
}
