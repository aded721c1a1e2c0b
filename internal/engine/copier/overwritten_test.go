package copier

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// locking is a bucket without versions that locks what is written to it.
func locking(mode immutability.Mode) storetest.Profile {
	p := storetest.GCSLike()
	p.Default, p.Period = mode, 30*24*time.Hour
	return p
}

// A manifest beside an object does not change when the object is overwritten, nor does its size.
func TestWhatWasOverwrittenAfterItWasCopiedIsFound(t *testing.T) {
	for way, wrap := range ways() {
		for title, p := range map[string]storetest.Profile{
			"no versions": storetest.GCSLike(), "bare": storetest.Bare(), "locked, but only now": locking(immutability.ModeCompliance),
			"versions": storetest.S3Like(),
		} {
			for _, record := range []bool{false, true} {
				t.Run(way+", "+title, func(t *testing.T) {
					from, to := source(t, p, lineageA), newBucket(t, p)
					o := from.options()
					if record {
						o.State = openState(t, filepath.Join(t.TempDir(), "copy.json"))
					}
					mustRun(t, newCopier(t, from.Memory, wrap(to), o))
					from.Clock.Advance(time.Hour)
					to.Clock.Advance(time.Hour)
					key := v2(newHome, streams[3])
					before := to.Versions(key)[0]
					forged := store.Object{Version: store.Version{Key: key}, Retention: before.Retention}
					to.Plant(forged, bytes.ToUpper(content(streams[3])))
					if before.ID != "" {
						to.Lose(before.Version)
					}
					r, err := run(t, newCopier(t, from.Memory, wrap(to), o))
					if !errors.Is(err, ErrConflict) {
						t.Errorf("copy = %v, want ErrConflict", err)
					}
					for _, i := range r.Items {
						if i.To == key && i.State == Copied {
							t.Errorf("the overwritten object counts as %s, by %s", i.State, i.Proof)
						}
					}
				})
			}
		}
	}
}

func TestAManifestProvesOnlyWhatCannotHaveBeenOverwritten(t *testing.T) {
	for title, c := range map[string]struct {
		profile storetest.Profile
		later   time.Duration
		want    Action
	}{
		"versions":               {storetest.S3Like(), 0, Present},
		"neither":                {storetest.GCSLike(), 0, Check},
		"bare":                   {storetest.Bare(), 0, Check},
		"a lock":                 {locking(immutability.ModeCompliance), time.Hour, Present},
		"a lock that ended":      {locking(immutability.ModeCompliance), 31 * 24 * time.Hour, Check},
		"a lock of our own only": {locking(immutability.ModeAdvisory), time.Hour, Check},
	} {
		t.Run(title, func(t *testing.T) {
			from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, c.profile)
			mustRun(t, newCopier(t, from.Memory, apart{to.Memory}, to.options()))
			to.Clock.Advance(c.later)
			p, err := newCopier(t, from.Memory, apart{to.Memory}, to.options()).Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range p.Steps {
				if s.Action != c.want {
					t.Errorf("%s: the plan is to %s (%s), want %s", s.To, s.Action, s.Why, c.want)
				}
			}
		})
	}
}

// silent tells no times of what it stored, as some stores do, and rounds them up when asked.
type silent struct{ store.Store }

func (s silent) Put(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
	o, err := s.Store.Put(ctx, key, body, opts)
	o.Modified = time.Time{}
	return o, err
}

func (s silent) Stat(ctx context.Context, v store.Version) (store.Object, error) {
	o, err := s.Store.Stat(ctx, v)
	if err == nil {
		o.Modified = o.Modified.Truncate(time.Second).Add(time.Second)
	}
	return o, err
}

func TestTheRecordSavesReadingAgainWhereThereAreNoVersions(t *testing.T) {
	for way, wrap := range map[string]func(b bucket) store.Store{
		"inside the store": func(b bucket) store.Store { return b.Memory },
		"streamed":         func(b bucket) store.Store { return apart{b.Memory} },
		"times are rounded, and told only when asked": func(b bucket) store.Store { return silent{apart{b.Memory}} },
	} {
		t.Run(way, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "copy.json")
			from, to := source(t, storetest.GCSLike(), lineageA), newBucket(t, storetest.GCSLike())
			to.Clock.Advance(300 * time.Millisecond)
			o := from.options()
			o.State = openState(t, path)
			mustRun(t, newCopier(t, from.Memory, wrap(to), o))
			o.State = openState(t, path)
			for _, i := range mustRun(t, newCopier(t, from.Memory, wrap(to), o)).Items {
				if i.State != Copied || i.Proof != ByRecord {
					t.Errorf("%+v, want the proof %q", i, ByRecord)
				}
			}
			if got := enginetest.Windows(to.timeline(newHome)); len(got) != 1 {
				t.Errorf("restorable: %v, want one lineage", got)
			}
		})
	}
}
