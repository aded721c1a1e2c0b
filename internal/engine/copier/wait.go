package copier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/store"
)

// The original's numbers.
const (
	pollEvery   = 15 * time.Second
	latestFulls = 4
)

// Waited is how waiting for a final full ended.
type Waited struct {
	Final    string `json:"final,omitempty"` // its name; empty: none came in time
	TimedOut bool   `json:"timedOut,omitempty"`
	// Note tells what is remarkable about it, for people.
	Note string `json:"note,omitempty"`
}

// WaitForFinal waits until one of the latest 4 fulls of the newest lineage that has fulls is
// final and none of them goes further: one beyond which another goes is of a stop that is over.
// It looks every 15 seconds, and after timeout says that none came; that is no error, the copy is
// made anyway. Without a timeout (0) it waits forever.
//
// A store that cannot be reached for a moment is asked again; one that refuses is an error.
func (c *Copier) WaitForFinal(ctx context.Context, timeout time.Duration) (Waited, error) {
	began := c.opts.Now()
	for {
		w, err := c.final(ctx)
		switch {
		case ctx.Err() != nil:
			return Waited{}, fmt.Errorf("wait for a final full: %w", ctx.Err())
		case errors.Is(err, store.ErrUnreachable), errors.Is(err, store.ErrThrottled):
			c.opts.Log.Warn("waiting for a final full: the source does not answer, asking again", "error", err)
		case err != nil:
			return Waited{}, fmt.Errorf("wait for a final full: %w", err)
		case w.Final != "":
			return w, nil
		}
		pause := pollEvery
		if timeout > 0 {
			left := timeout - c.opts.Now().Sub(began)
			if left <= 0 {
				note := fmt.Sprintf("no final full within %s; what is there is copied all the same", timeout)
				c.opts.Log.Warn(note)
				return Waited{TimedOut: true, Note: note}, nil
			}
			pause = min(pause, left)
		}
		c.opts.Progress("wait for a final full", int64(c.opts.Now().Sub(began)/time.Second), int64(timeout/time.Second))
		if err := c.opts.Wait(ctx, pause); err != nil {
			return Waited{}, fmt.Errorf("wait for a final full: %w", err)
		}
	}
}

// final looks once. The names alone tell that there is none; only where one turns up is it
// worth finding out to which lineage it belongs.
func (c *Copier) final(ctx context.Context) (Waited, error) {
	any := false
	err := c.from.Store.List(ctx, string(c.from.Prefix), func(o store.Object) error {
		if k, err := snapshot.ParseKey(c.from.Prefix, o.Key); err == nil && !o.Marker {
			any = any || k.Object == snapshot.SnapshotObject && k.Name.Kind == snapshot.Full && k.Name.Final
		}
		return nil
	})
	if err != nil || !any {
		return Waited{}, err
	}
	cat, err := catalog.Read(ctx, c.from.Store, c.from.Prefix, catalog.Options{
		Parallel: c.opts.Parallel, SkipDigests: true, Headers: func(snapshot.Name) bool { return false },
	})
	if err != nil {
		return Waited{}, err
	}
	return finalOf(cat.Timeline), nil
}

// finalOf finds a final full among the latest of the newest lineage that has any.
func finalOf(t timeline.Timeline) Waited {
	for _, l := range t.Lineages {
		var latest []timeline.Snapshot // newest first
		for _, s := range slices.Backward(l.Snapshots) {
			if s.Full() && s.Usable() && len(latest) < latestFulls {
				latest = append(latest, s)
			}
		}
		var newest snapshot.Revision // of a full: after a stop that is over, or was given up, one is taken before long
		for _, s := range latest {
			newest = max(newest, s.Last)
		}
		for i, s := range latest {
			if !s.Name().Final && s.Manifest != nil && s.Manifest.CopiedFrom == "" {
				break // ours writes none after the final one before the members stop: that stop is over
			}
			if !s.Name().Final || s.Last < newest {
				continue
			}
			w := Waited{Final: s.Name().String()}
			if i > 0 {
				w.Note = fmt.Sprintf("%s is final, and %d newer fulls of the same revision were written after it", s.Name(), i)
			}
			return w
		}
		if len(latest) > 0 {
			break
		}
	}
	return Waited{}
}
