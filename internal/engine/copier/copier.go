package copier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/fetch"
	"druid.internal/druid/internal/store"
)

// All is the value of Options.MaxBackups and Options.MaxAge that leaves nothing out.
const All = -1

// Source is where snapshots are copied from. Its Store should be the plain one, not wrapped
// read-only: behind the wrapper no store recognises its own objects, so nothing could be copied
// without moving the bytes.
type Source struct {
	Store  store.Reader
	Prefix snapshot.Prefix
}

// Destination is where they are copied to.
type Destination struct {
	Store  store.Store
	Prefix snapshot.Prefix
}

// Options say what to copy and how.
type Options struct {
	// MaxBackups is how many of the newest fulls are copied, each with its deltas; negative
	// (All): every full. They are counted from the newest lineage backwards.
	MaxBackups int
	// MaxAge leaves out fulls created earlier than that, with their deltas; negative (All): none.
	MaxAge time.Duration
	// Verify reads back also what was streamed, and what is there already and proven. What the
	// store copied for us is always read back.
	Verify bool
	// TakeOver copies even into a prefix that holds another history or has another owner.
	TakeOver bool
	// State records what was done; nil: nowhere.
	State *State

	Parallel int // objects at a time, 0: 10
	Ranges   int // ranged requests per large object that is streamed, below 2: one stream

	Now  func() time.Time                                 // nil: time.Now
	Wait func(ctx context.Context, d time.Duration) error // nil: waits for d or ctx
	Log  *slog.Logger                                     // nil: no log
	// Progress, if set, is told of each stage how much of a total (0: unknown) is done, from
	// several goroutines. The stage "copy" counts bytes.
	Progress func(stage string, done, total int64)
}

const (
	// defaultParallel is the original's.
	defaultParallel = 10
	// streamMemory is what all ranged requests of all streamed objects may hold together, in
	// bytes. What the store needs for its uploads comes on top.
	streamMemory = 128 << 20
)

// rangeBytes is the size of one ranged request within streamMemory.
func (o Options) rangeBytes() int64 {
	n := int64(streamMemory / (max(o.Parallel, 1) * max(o.Ranges, 1)))
	return min(max(n, 256<<10), fetch.DefaultRangeBytes)
}

// The errors a caller branches on.
var (
	// ErrForeign: the destination holds what does not come from this source.
	ErrForeign = errors.New("the destination belongs to another history")
	// ErrConflict: an object of that name is at the destination with other content.
	ErrConflict = errors.New("the destination has another object of that name")
	// ErrNothing: below the source's prefix is no full that could be restored.
	ErrNothing = errors.New("the source holds no backup")
	// ErrVanished: something without which the newest chain ends earlier vanished from the
	// source while it was copied.
	ErrVanished = errors.New("objects vanished from the source while they were copied")
)

// leftAlone ends every error about a conflict: what was not done, and what helps.
const leftAlone = "nothing was overwritten: remove what is wrong, or copy to another prefix"

// Copier copies from one place to another.
type Copier struct {
	from Source
	to   Destination
	opts Options
}

// New returns a copier. It fails if the options would copy nothing, or everything onto itself.
func New(from Source, to Destination, o Options) (*Copier, error) {
	switch {
	case o.MaxBackups == 0:
		return nil, errors.New("copy: a maximum of 0 backups copies nothing; -1 means all")
	case o.MaxAge == 0:
		return nil, errors.New("copy: a maximum age of 0 copies nothing; -1 means any age")
	case from.Prefix == to.Prefix && from.Store.Capabilities().Location == to.Store.Capabilities().Location &&
		from.Store.Capabilities().Provider == to.Store.Capabilities().Provider:
		return nil, fmt.Errorf("copy: source and destination are the same: %s", place(from.Store, from.Prefix))
	}
	if o.Parallel <= 0 {
		o.Parallel = defaultParallel
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Wait == nil {
		o.Wait = sleep
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	return &Copier{from: from, to: to, opts: o}, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// place names one end for people.
func place(s store.Reader, prefix snapshot.Prefix) string {
	c := s.Capabilities()
	text := c.Provider + " " + c.Location
	if prefix != "" {
		text += " below " + string(prefix)
	}
	return text
}

// object names an object at one end.
func object(s store.Reader, key string) string {
	c := s.Capabilities()
	return fmt.Sprintf("%s in %s %s", key, c.Provider, c.Location)
}

func (c *Copier) read(ctx context.Context, stage string, s store.Reader, prefix snapshot.Prefix) (*catalog.Catalog, error) {
	return catalog.Read(ctx, s, prefix, catalog.Options{
		Parallel: max(c.opts.Parallel, 16), Tags: catalog.TagsOfAll,
		Progress: func(p catalog.Progress) { c.opts.Progress(stage, int64(p.Read), int64(p.ToRead)) },
	})
}
