package main

import (
	"context"
	"errors"
	"fmt"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/store"
)

// backup is an opened store with what its prefix holds.
type backup struct {
	store   store.Store
	catalog *catalog.Catalog
}

// openBackup opens the store that f names and reads the catalog of its prefix.
func (a *app) openBackup(ctx context.Context, f storeFlags, o catalog.Options) (*backup, error) {
	s, err := a.openStore(ctx, f)
	if err != nil {
		return nil, err
	}
	p := newProgress(a.sys.err, a.log)
	o.Progress = func(c catalog.Progress) {
		if p.width > 0 && c.Bytes > 0 {
			p.report("measuring doubled objects", c.Bytes, 0)
		}
	}
	c, err := catalog.Read(ctx, s, f.prefix, o)
	p.end()
	if err != nil {
		return nil, err
	}
	for _, n := range c.Notes {
		a.log.Warn(n)
	}
	return &backup{store: s, catalog: c}, nil
}

// withFindings adds to a refusal how many grave findings there are and where to read them.
func (b *backup) withFindings(err error) error {
	err = withRemedy(err)
	var noWay *restoreplan.NoWayError
	var loss *restoreplan.LossError
	if !errors.As(err, &noWay) && !errors.As(err, &loss) {
		return err
	}
	grave := 0
	for _, f := range b.catalog.Timeline.Findings {
		if f.Severity == timeline.Danger {
			grave++
		}
	}
	switch grave {
	case 0:
		return err
	case 1:
		return fmt.Errorf("%w; `etcdbrctl list` shows a grave finding", err)
	}
	return fmt.Errorf("%w; `etcdbrctl list` shows %d grave findings", err, grave)
}
