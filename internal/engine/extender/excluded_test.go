package extender_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/excluder"
	"druid.internal/druid/internal/engine/extender"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// meanwhile does something before the first copy, after it was written, and after the first tag is set.
type meanwhile struct {
	*storetest.Memory
	copied, written, tagged func()
}

func (m *meanwhile) Copy(ctx context.Context, from store.Reader, src store.Version, key string, o store.PutOptions) (store.Object, error) {
	if do := m.copied; do != nil {
		m.copied = nil
		do()
	}
	return m.Memory.Copy(ctx, from, src, key, o)
}

func (m *meanwhile) Put(ctx context.Context, key string, body io.Reader, o store.PutOptions) (store.Object, error) {
	got, err := m.Memory.Put(ctx, key, body, o)
	if k, _ := snapshot.ParseKey(prefix, key); m.written != nil && err == nil && k.Object == snapshot.SnapshotObject {
		do := m.written
		m.written = nil
		do()
	}
	return got, err
}

func (m *meanwhile) SetTag(ctx context.Context, v store.Version, key, value string) error {
	err := m.Memory.SetTag(ctx, v, key, value)
	if do := m.tagged; do != nil && err == nil {
		m.tagged = nil
		do()
	}
	return err
}

// What is excluded and copied at the same time stays excluded: its copies are what restores prefer.
func TestWhatIsExcludedWhileItIsCopiedStaysExcluded(t *testing.T) {
	for phrase, run := range map[string]func(sleeper, *meanwhile, func(store.Store)){
		"before the copy is written": func(s sleeper, at *meanwhile, exclude func(store.Store)) {
			at.copied = func() { exclude(s.Memory) }
			if _, err := s.try(at); err == nil || !strings.Contains(err.Error(), "was excluded while it was copied: the copy") {
				t.Errorf("the run tells %v", err)
			}
		},
		"and the run is told to end before it could look": func(s sleeper, at *meanwhile, exclude func(store.Store)) {
			ctx, end := context.WithCancel(t.Context())
			at.copied, at.written = func() { exclude(s.Memory) }, end
			if _, err := extender.Run(ctx, s.request(at)); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "is excluded, too") {
				t.Errorf("the run tells %v", err)
			}
		},
		"while it is written": func(s sleeper, at *meanwhile, exclude func(store.Store)) {
			at.tagged = func() { // as a run does that listed before
				name := enginetest.FullName(10, 60)
				enginetest.Put(t, s.Memory, manifestOf(name), s.copyOf(name).Encode())
				enginetest.Put(t, s.Memory, enginetest.Key(enginetest.MustName(name)), s.body(enginetest.Key(enginetest.MustName(full))))
			}
			exclude(at)
		},
	} {
		t.Run(phrase, func(t *testing.T) {
			older := enginetest.FullName(5, -10)
			s := asleep(t, copying(), older, full)
			s.Clock.Advance(period - time.Hour)
			run(s, &meanwhile{Memory: s.Memory}, func(at store.Store) {
				if _, err := excluder.Run(t.Context(), excluder.Request{Store: at, Prefix: prefix, Names: []snapshot.Name{enginetest.MustName(full)}}); err != nil {
					t.Fatal(err)
				}
			})
			c, err := catalog.Read(t.Context(), s.Memory, prefix, catalog.Options{Tags: catalog.TagsOfAll})
			if err != nil {
				t.Fatal(err)
			}
			copies := 0
			for _, l := range c.Timeline.Lineages {
				for _, f := range l.Snapshots {
					if f.Manifest != nil && f.Manifest.CopiedFrom == full {
						copies++
					}
					if f.Usable() && f.Name().String() != older && (f.Manifest == nil || f.Manifest.CopiedFrom != older) {
						t.Errorf("%s is used", f.Name())
					}
				}
			}
			if copies == 0 {
				t.Errorf("nothing was copied: %q", s.names())
			}
		})
	}
}
