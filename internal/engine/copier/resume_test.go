package copier

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/fetch"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func TestACopyKilledAtAnyStepIsRestorableAndContinues(t *testing.T) {
	names := streams[3:]
	for way, wrap := range ways() {
		for _, withState := range []bool{false, true} {
			for title, p := range map[string]storetest.Profile{"versions": storetest.S3Like(), "overwriting allowed": storetest.CephLike(), "no versions": storetest.GCSLike()} {
				t.Run(way+", "+title, func(t *testing.T) {
					attempt := func(from, to bucket, dieAt int, state string) (int, error) {
						f := storetest.NewFaulty(wrap(to))
						f.DieAt(dieAt)
						o := from.options()
						o.Parallel = 1
						if state != "" {
							var err error
							if o.State, err = OpenState(state); err != nil {
								t.Fatal(err)
							}
						}
						_, err := run(t, newCopier(t, from.Memory, f, o))
						return f.Steps(), err
					}
					prepare := func() (bucket, bucket, string) {
						from, to := newBucket(t, p), newBucket(t, p)
						from.fill(oldHome, lineageA, names...)
						from.fill(oldHome, lineageA, final(60, 3000))
						state := ""
						if withState {
							state = filepath.Join(t.TempDir(), "state.json")
						}
						return from, to, state
					}
					from, to, state := prepare()
					steps, err := attempt(from, to, 0, state)
					if err != nil {
						t.Fatal(err)
					}
					for step := 1; step <= steps; step++ {
						from, to, state := prepare()
						if _, err := attempt(from, to, step, state); !errors.Is(err, storetest.ErrDead) {
							t.Fatalf("dead at step %d: %v, want ErrDead", step, err)
						}
						before := len(to.keys(newHome))
						for _, l := range to.timeline(newHome).Lineages {
							for _, s := range l.Snapshots {
								if !s.Usable() {
									t.Errorf("dead at step %d: %s is not usable", step, s.Ref)
								}
							}
						}
						if _, err := attempt(from, to, 0, state); err != nil {
							t.Fatalf("dead at step %d with %d objects copied, and run again: %v", step, before, err)
						}
						if diff := cmp.Diff(enginetest.WithManifests(append(slices.Clone(names), full(60, 3000))...), to.keys(newHome)); diff != "" {
							t.Errorf("dead at step %d and run again, what arrived (-want +got):\n%s", step, diff)
						}
						to.wantCopies(append(slices.Clone(names), full(60, 3000))...)
					}
				})
			}
		}
	}
}

func TestASecondRunCopiesNothing(t *testing.T) {
	for title, lineage := range map[string]string{"with manifests": "a", "without": "-"} {
		t.Run(title, func(t *testing.T) {
			from, to := newBucket(t, storetest.S3Like()), newBucket(t, storetest.S3Like())
			for _, n := range streams {
				from.put(oldHome, n, lineageOf(lineage))
			}
			mustRun(t, newCopier(t, from.Memory, to.Memory, from.options()))
			f := storetest.NewFaulty(to.Memory)
			r := mustRun(t, newCopier(t, from.Memory, f, from.options()))
			if n := f.Count(storetest.OpPut) + f.Count(storetest.OpCopy); n != 0 {
				t.Errorf("the second run wrote %d objects, want none", n)
			}
			want := map[string]Proof{"a": ByManifest, "-": ReadBack}[lineage]
			for _, i := range r.Items {
				if i.State != Copied || i.How != Existing || i.Proof != want {
					t.Errorf("report: %+v, want the proof %q", i, want)
				}
			}
		})
	}
}

func TestALostResponseIsSettledByReadingBack(t *testing.T) {
	for way, wrap := range ways() {
		for title, p := range profiles() {
			t.Run(way+", "+title, func(t *testing.T) {
				from, to := source(t, p, lineageA), newBucket(t, p)
				f := storetest.NewFaulty(wrap(to))
				lost := storetest.OpPut
				if way != "streamed" {
					lost = storetest.OpCopy
				}
				f.Inject(storetest.LoseResponse().On(lost, "/v2/"+streams[0]), storetest.LoseResponse().On(storetest.OpPut, "Manifest-"+streams[1]))
				mustRun(t, newCopier(t, from.Memory, f, from.options()))
				to.wantCopies(streams...)
				if diff := cmp.Diff(enginetest.WithManifests(streams...), to.keys(newHome)); diff != "" {
					t.Errorf("what arrived (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestAnUploadThatDidNotHappenIsMadeAgain(t *testing.T) {
	from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
	f := storetest.NewFaulty(apart{to.Memory})
	f.Inject(storetest.Fail(store.ErrUnknownOutcome).On(storetest.OpPut, "/v2/"+streams[0]).For(2))
	mustRun(t, newCopier(t, from.Memory, f, from.options()))
	to.wantCopies(streams...)
}

func TestAThrottledCopyEndsWithoutGapsAndContinues(t *testing.T) {
	from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
	f := storetest.NewFaulty(apart{to.Memory})
	f.Inject(storetest.Fail(store.ErrThrottled).On(storetest.OpPut, "/v2/"+streams[1]))
	o := from.options()
	o.Parallel = 1
	r, err := run(t, newCopier(t, from.Memory, f, o))
	if !errors.Is(err, store.ErrThrottled) {
		t.Errorf("copy = %v, want ErrThrottled", err)
	}
	// The rest of the stream is left out, the next streams are not.
	if diff := cmp.Diff(enginetest.WithManifests(slices.Concat(streams[:1], streams[3:])...), to.keys(newHome)); diff != "" {
		t.Errorf("what arrived (-want +got):\n%s", diff)
	}
	if r.Items[2].State != None || !strings.Contains(r.Items[2].Why, streams[1]) {
		t.Errorf("the delta behind is %+v, want None because of the one before", r.Items[2])
	}
	mustRun(t, newCopier(t, from.Memory, f, o))
	to.wantCopies(streams...)
}

func TestAStoreThatFailsIsGivenUpAfterAFewFailures(t *testing.T) {
	from, to := newBucket(t, storetest.S3Like()), newBucket(t, storetest.S3Like())
	for i := range 40 {
		from.put(oldHome, full(10*(i+1), i), lineageA)
	}
	f := storetest.NewFaulty(apart{to.Memory})
	f.Inject(storetest.Fail(store.ErrUnreachable).On(storetest.OpPut, "").Always())
	o := from.options()
	o.Parallel = 2
	if _, err := run(t, newCopier(t, from.Memory, f, o)); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("copy = %v, want ErrUnreachable", err)
	}
	if n := f.Count(storetest.OpPut); n < 5 || n > 6 {
		t.Errorf("%d uploads were tried, want 5, or 6 with one under way", n)
	}
}

func TestAnOutageOfEitherEndIsAnError(t *testing.T) {
	for title, fault := range map[string]storetest.Fault{
		"the list breaks off":  storetest.BreakList(3, store.ErrUnreachable).On(storetest.OpList, ""),
		"a manifest is unread": storetest.Fail(store.ErrUnreachable).On(storetest.OpOpen, "Manifest-"),
	} {
		for _, end := range []string{"source", "destination"} {
			t.Run(title+" at the "+end, func(t *testing.T) {
				from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
				to.fill(newHome, lineageA, streams[:2]...)
				f, g := storetest.NewFaulty(from.Memory), storetest.NewFaulty(to.Memory)
				map[string]*storetest.Faulty{"source": f, "destination": g}[end].Inject(fault)
				if _, err := newCopier(t, f, g, from.options()).Plan(t.Context()); !errors.Is(err, store.ErrUnreachable) {
					t.Errorf("Plan = %v, want ErrUnreachable", err)
				}
			})
		}
	}
}

func TestWhatVanishesFromTheSourceIsReported(t *testing.T) {
	for title, c := range map[string]struct {
		gone  int // index among the streams
		fatal bool
		left  []int // what does not arrive besides
	}{
		"the full of an old stream":       {0, false, []int{1, 2}},
		"a delta of an old stream":        {1, false, nil},
		"the full of the newest stream":   {5, false, nil}, // the deltas continue the stream before as well
		"a delta of the newest stream":    {6, true, nil},
		"the last delta, with which ends": {7, true, nil},
	} {
		for way, wrap := range ways() {
			t.Run(title+", "+way, func(t *testing.T) {
				from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
				o := from.options()
				o.Parallel = 1
				cop := newCopier(t, from.Memory, wrap(to), o)
				p, err := cop.Plan(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				from.Lose(store.Version{Key: v2(oldHome, streams[c.gone])})
				r, err := cop.Execute(t.Context(), p)
				if errors.Is(err, ErrVanished) != c.fatal || err != nil && !c.fatal {
					t.Errorf("copy = %v, want ErrVanished: %v", err, c.fatal)
				}
				for i, item := range r.Items {
					want := Copied
					if i == c.gone {
						want = NotFound
					} else if slices.Contains(c.left, i) {
						want = None
					}
					if item.State != want {
						t.Errorf("%s is %s (%s), want %s", item.To, item.State, item.Why, want)
					}
				}
			})
		}
	}
}

func TestADamagedSourceNeverArrives(t *testing.T) {
	from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
	from.Flip(from.Versions(v2(oldHome, streams[1]))[0].Version, 17)
	o := from.options()
	o.Parallel = 1
	_, err := run(t, newCopier(t, from.Memory, apart{to.Memory}, o))
	if !errors.Is(err, fetch.ErrDamaged) {
		t.Errorf("copy = %v, want ErrDamaged", err)
	}
	if n := len(to.Versions(v2(newHome, streams[1]))); n != 0 {
		t.Errorf("the damaged object has %d versions at the destination, want none", n)
	}
}

// The store copies what it has, be it what the manifest describes or not.
func TestWhatTheStoreCopiedIsReadBack(t *testing.T) {
	from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
	from.Flip(from.Versions(v2(oldHome, streams[1]))[0].Version, 17)
	if _, err := run(t, newCopier(t, from.Memory, to.Memory, from.options())); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), streams[1]) {
		t.Errorf("copy = %v, want an error that names %s", err, streams[1])
	}
	if n := len(to.Versions(v2(newHome, "Manifest-"+streams[1]))); n != 0 {
		t.Error("it got a manifest all the same")
	}
}

func TestAnythingElseOfThatNameIsNeitherOverwrittenNorTakenForTheCopy(t *testing.T) {
	good := content(streams[1])
	for title, c := range map[string]struct {
		body []byte
		bare bool // the source has no manifests
	}{
		"another size":                  {body: good[1:]},
		"the same size and other bytes": {body: bytes.ToUpper(good)},
		"no manifests, another size":    {body: good[1:], bare: true},
		"no manifests, other bytes":     {body: bytes.ToUpper(good), bare: true},
	} {
		for way, wrap := range ways() {
			t.Run(title+", "+way, func(t *testing.T) {
				lineage := lineageA
				if c.bare {
					lineage = unnamed
				}
				from, to := source(t, storetest.CephLike(), lineage), newBucket(t, storetest.CephLike())
				to.raw(v2(newHome, streams[1]), c.body)
				o := from.options()
				o.Parallel = 1
				_, err := run(t, newCopier(t, from.Memory, wrap(to), o))
				if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), v2(newHome, streams[1])) || !strings.Contains(err.Error(), v2(oldHome, streams[1])) {
					t.Errorf("copy = %v, want ErrConflict naming both", err)
				}
				if n := len(to.Versions(v2(newHome, streams[1]))); n != 1 {
					t.Errorf("there are %d versions, want the 1 that was there", n)
				}
				if n := len(to.Versions(v2(newHome, "Manifest-"+streams[1]))); n != 0 {
					t.Error("it got a manifest all the same")
				}
			})
		}
	}
}

// Running it again meets a conflict again, so only the other failures are to be tried again.
func TestOnlyFailuresThatMayPassAreToBeTriedAgain(t *testing.T) {
	const again, remedy = "run it again", "remove what is wrong, or copy to another prefix"
	for title, c := range map[string]struct {
		conflict, throttled bool
		want, never         []string
	}{
		"a conflict":              {true, false, []string{"1 objects", remedy}, []string{again}},
		"a store that is busy":    {false, true, []string{"1 objects", again}, []string{remedy}},
		"a conflict and the same": {true, true, []string{"2 objects", again, remedy}, nil},
	} {
		t.Run(title, func(t *testing.T) {
			from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
			f := storetest.NewFaulty(apart{to.Memory})
			if c.conflict {
				to.raw(v2(newHome, streams[2]), []byte("something else"))
			}
			if c.throttled {
				f.Inject(storetest.Fail(store.ErrThrottled).On(storetest.OpPut, "/v2/"+streams[7]))
			}
			_, err := run(t, newCopier(t, from.Memory, f, from.options()))
			if errors.Is(err, ErrConflict) != c.conflict || errors.Is(err, store.ErrThrottled) != c.throttled {
				t.Fatalf("copy = %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("copy = %v, want %q in it", err, want)
				}
			}
			for _, never := range c.never {
				if strings.Contains(err.Error(), never) {
					t.Errorf("copy = %v, want no %q in it", err, never)
				}
			}
		})
	}
}

func TestAnInterruptionStopsTheCopy(t *testing.T) {
	from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
	f := storetest.NewFaulty(apart{to.Memory})
	c := newCopier(t, from.Memory, f, from.options())
	p, err := c.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.Hook(func(op storetest.Op, _ string, phase storetest.Phase) {
		if op == storetest.OpPut && phase == storetest.After {
			cancel()
		}
	})
	if _, err := c.Execute(ctx, p); !errors.Is(err, context.Canceled) {
		t.Errorf("copy = %v, want Canceled", err)
	}
	for _, finding := range to.timeline(newHome).Findings {
		if finding.Code == timeline.DigestMismatch {
			t.Error(finding)
		}
	}
}

func TestProgressCountsEveryByteOnce(t *testing.T) {
	for way, wrap := range ways() {
		t.Run(way, func(t *testing.T) {
			from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
			o := from.options()
			o.Parallel = 1
			var last, total int64
			o.Progress = func(stage string, done, of int64) {
				if stage == "copy" {
					if done < last || done > of {
						t.Errorf("progress went from %d to %d of %d", last, done, of)
					}
					last, total = done, of
				}
			}
			mustRun(t, newCopier(t, from.Memory, wrap(to), o))
			want := int64(len(streams) * len(content(streams[0])))
			if last != want || total != want {
				t.Errorf("progress ended at %d of %d, want %d", last, total, want)
			}
		})
	}
}
