package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// liar is a bucket that breaks one promise; the functions that are set replace its methods.
type liar struct {
	*storetest.Memory
	put     func(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error)
	open    func(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error)
	stat    func(ctx context.Context, v store.Version) (store.Object, error)
	list    func(ctx context.Context, prefix string, fn func(store.Object) error) error
	remove  func(ctx context.Context, v store.Version) error
	extend  func(ctx context.Context, v store.Version, until time.Time) (immutability.Retention, error)
	setHold func(ctx context.Context, v store.Version, on bool) error
	setTag  func(ctx context.Context, v store.Version, key, value string) error
	copied  func(ctx context.Context, from store.Reader, src store.Version, key string, opts store.PutOptions) (store.Object, error)
}

func (l *liar) Unwrap() store.Reader { return l.Memory }

func (l *liar) Put(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
	if l.put != nil {
		return l.put(ctx, key, body, opts)
	}
	return l.Memory.Put(ctx, key, body, opts)
}

func (l *liar) Open(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	if l.open != nil {
		return l.open(ctx, v, off, n)
	}
	return l.Memory.Open(ctx, v, off, n)
}

func (l *liar) Stat(ctx context.Context, v store.Version) (store.Object, error) {
	if l.stat != nil {
		return l.stat(ctx, v)
	}
	return l.Memory.Stat(ctx, v)
}

func (l *liar) List(ctx context.Context, prefix string, fn func(store.Object) error) error {
	if l.list != nil {
		return l.list(ctx, prefix, fn)
	}
	return l.Memory.List(ctx, prefix, fn)
}

func (l *liar) Delete(ctx context.Context, v store.Version) error {
	if l.remove != nil {
		return l.remove(ctx, v)
	}
	return l.Memory.Delete(ctx, v)
}

func (l *liar) Extend(ctx context.Context, v store.Version, until time.Time) (immutability.Retention, error) {
	if l.extend != nil {
		return l.extend(ctx, v, until)
	}
	return l.Memory.Extend(ctx, v, until)
}

func (l *liar) SetHold(ctx context.Context, v store.Version, on bool) error {
	if l.setHold != nil {
		return l.setHold(ctx, v, on)
	}
	return l.Memory.SetHold(ctx, v, on)
}

func (l *liar) SetTag(ctx context.Context, v store.Version, key, value string) error {
	if l.setTag != nil {
		return l.setTag(ctx, v, key, value)
	}
	return l.Memory.SetTag(ctx, v, key, value)
}

func (l *liar) Copy(ctx context.Context, from store.Reader, src store.Version, key string, opts store.PutOptions) (store.Object, error) {
	if l.copied != nil {
		return l.copied(ctx, from, src, key, opts)
	}
	return l.Memory.Copy(ctx, from, src, key, opts)
}

// leak keeps goroutines of a liar alive for ever.
var leak = make(chan struct{})

// lies are what a bad provider may do, with the case that must catch it.
var lies = map[string]struct {
	caught string
	tell   func(l *liar)
}{
	"an overwrite is accepted": {"an existing key is refused or becomes a further version", func(l *liar) {
		l.put = func(_ context.Context, key string, body io.Reader, _ store.PutOptions) (store.Object, error) {
			b, err := io.ReadAll(body)
			return store.Object{Version: l.Overwrite(key, b), Size: int64(len(b))}, err
		}
	}},
	"two racing writers win": {"concurrent puts of one key lose nothing", func(l *liar) {
		l.put = func(_ context.Context, key string, body io.Reader, _ store.PutOptions) (store.Object, error) {
			b, err := io.ReadAll(body)
			return store.Object{Version: l.Overwrite(key, b), Size: int64(len(b))}, err
		}
	}},
	"half a body is kept": {"a failing body leaves nothing", func(l *liar) {
		l.put = func(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
			b, err := io.ReadAll(body)
			o, perr := l.Memory.Put(ctx, key, bytes.NewReader(b), opts)
			return o, errors.Join(err, perr)
		}
	}},
	"a canceled upload goes on": {"a canceled put leaves nothing", func(l *liar) {
		l.put = func(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
			return l.Memory.Put(context.WithoutCancel(ctx), key, body, opts)
		}
	}},
	"the body is closed": {"the body stays the caller's", func(l *liar) {
		l.put = func(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
			if c, ok := body.(io.Closer); ok {
				defer c.Close()
			}
			return l.Memory.Put(ctx, key, body, opts)
		}
	}},
	"the body is read later": {"the body stays the caller's", func(l *liar) {
		l.put = func(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
			go func() {
				for i := 0; i < 1e6; i++ {
					_, _ = body.Read(make([]byte, 1))
				}
			}()
			return store.Object{}, store.ErrUnreachable
		}
	}},
	"a lock asked for is ignored": {"a lock is read back exactly", func(l *liar) {
		l.put = func(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
			opts.Retention = nil
			return l.Memory.Put(ctx, key, body, opts)
		}
	}},
	"a lock is a second too short": {"a lock is read back exactly", func(l *liar) {
		l.stat = func(ctx context.Context, v store.Version) (store.Object, error) {
			o, err := l.Memory.Stat(ctx, v)
			if o.Retention != nil {
				o.Retention.Until = o.Retention.Until.Add(-time.Second)
			}
			return o, err
		}
	}},
	"locked versions are deleted": {"a locked version cannot be deleted", func(l *liar) {
		l.remove = func(_ context.Context, v store.Version) error { l.Lose(v); return nil }
	}},
	"a refusal is a plain error": {"a locked version cannot be deleted", func(l *liar) {
		l.remove = func(context.Context, store.Version) error { return store.ErrForbidden }
	}},
	"a delete without a version makes a marker": {"deleting without a version makes no marker", func(l *liar) {
		l.remove = func(_ context.Context, v store.Version) error { _, err := l.Hide(v.Key); return err }
	}},
	"a delete takes all versions": {"deleting removes exactly one version", func(l *liar) {
		l.remove = func(_ context.Context, v store.Version) error { l.Lose(store.Version{Key: v.Key}); return nil }
	}},
	"deleting what is gone fails": {"deleting what is gone succeeds", func(l *liar) {
		l.remove = func(ctx context.Context, v store.Version) error {
			if _, err := l.Memory.Stat(ctx, v); err != nil {
				return err
			}
			return l.Memory.Delete(ctx, v)
		}
	}},
	"a lock is shortened": {"a lock is extended in place and never shortened", func(l *liar) {
		l.extend = func(ctx context.Context, v store.Version, until time.Time) (immutability.Retention, error) {
			if r, err := l.Memory.Extend(ctx, v, until); err == nil {
				return r, nil
			}
			return immutability.Retention{Mode: immutability.ModeCompliance, Until: until}, nil
		}
	}},
	"an extension does nothing": {"a lock is extended in place and never shortened", func(l *liar) {
		l.extend = func(_ context.Context, _ store.Version, until time.Time) (immutability.Retention, error) {
			return immutability.Retention{Mode: immutability.ModeGovernance, Until: until}, nil
		}
	}},
	"a hold does nothing": {"a hold protects until it is released", func(l *liar) {
		l.setHold = func(context.Context, store.Version, bool) error { return nil }
	}},
	"a tag replaces the others": {"tags are kept, also on locked versions", func(l *liar) {
		l.setTag = func(ctx context.Context, v store.Version, key, value string) error {
			o, err := l.Memory.Stat(ctx, v)
			for other := range o.Tags {
				err = errors.Join(err, l.Memory.SetTag(ctx, v, other, ""))
			}
			return errors.Join(err, l.Memory.SetTag(ctx, v, key, value))
		}
	}},
	"a copy loses its lock": {"a copy is a new object of its own", func(l *liar) {
		l.copied = func(ctx context.Context, from store.Reader, src store.Version, key string, opts store.PutOptions) (store.Object, error) {
			opts.Retention = nil
			return l.Memory.Copy(ctx, from, src, key, opts)
		}
	}},
	"markers are not listed": {"a marker is listed and hides nothing", func(l *liar) { l.keep(func(o store.Object) bool { return !o.Marker }) }},
	"markers hide content":   {"a marker over a locked version hides nothing", func(l *liar) { l.keep(func(o store.Object) bool { return o.Latest }) }},
	"only the latest version is listed": {"versions are listed newest first and all are readable", func(l *liar) {
		l.keep(func(o store.Object) bool { return o.Latest })
	}},
	"a listing ends after a page": {"more keys than a page are listed completely", func(l *liar) {
		n := 0
		l.keep(func(store.Object) bool { n++; return n <= 1000 })
	}},
	"a prefix is a prefix of letters": {"a prefix ends at a slash", func(l *liar) {
		l.list = func(ctx context.Context, prefix string, fn func(store.Object) error) error {
			return l.Memory.List(ctx, "", func(o store.Object) error {
				if !strings.HasPrefix(o.Key, prefix) {
					return nil
				}
				return fn(o)
			})
		}
	}},
	"the listing is in disorder": {"keys are listed in order of their bytes", func(l *liar) {
		l.list = func(ctx context.Context, prefix string, fn func(store.Object) error) error {
			var all []store.Object
			err := l.Memory.List(ctx, prefix, func(o store.Object) error { all = append(all, o); return nil })
			for i := len(all) - 1; err == nil && i >= 0; i-- {
				err = fn(all[i])
			}
			return err
		}
	}},
	"the callback's error is wrapped": {"an error of the callback ends the listing", func(l *liar) {
		l.list = func(ctx context.Context, prefix string, fn func(store.Object) error) error {
			if err := l.Memory.List(ctx, prefix, fn); err != nil {
				return fmt.Errorf("list: %w", err)
			}
			return nil
		}
	}},
	"a listing that broke off is complete": {"a listing that breaks off is an error", nil},
	"an outage is an empty listing":        {"an outage is an error and never an empty listing", nil},
	"a missing bucket is empty":            {"a missing bucket is said to be missing", nil},
	"what is missing is empty": {"a missing object is not found", func(l *liar) {
		l.open = func(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
			r, err := l.Memory.Open(ctx, v, off, n)
			if errors.Is(err, store.ErrNotFound) {
				return io.NopCloser(strings.NewReader("")), nil
			}
			return r, err
		}
	}},
	"a range beyond the end is cut": {"a range beyond the end is an unexpected EOF", func(l *liar) {
		l.open = func(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
			r, err := l.Memory.Open(ctx, v, off, n)
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return l.Memory.Open(ctx, v, min(off, 10), -1)
			}
			return r, err
		}
	}},
	"a range is off by one": {"ranges are exact", func(l *liar) {
		l.open = func(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
			if n > 1 {
				n--
			}
			return l.Memory.Open(ctx, v, off, n)
		}
	}},
	"a read outlives its context": {"a canceled read ends", func(l *liar) {
		l.open = func(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
			return l.Memory.Open(context.WithoutCancel(ctx), v, off, n)
		}
	}},
	"an open stream leaks": {"closing early leaks nothing", func(l *liar) {
		l.open = func(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
			go func() { <-leak }()
			return l.Memory.Open(ctx, v, off, n)
		}
	}},
	"a broken download is the end": {"a broken download is an unexpected EOF", nil},
	"the clock is an hour off": {"stat tells size and time", func(l *liar) {
		l.stat = func(ctx context.Context, v store.Version) (store.Object, error) {
			o, err := l.Memory.Stat(ctx, v)
			o.ServerTime = o.ServerTime.Add(time.Hour)
			return o, err
		}
	}},
}

// keep drops objects from listings.
func (l *liar) keep(want func(store.Object) bool) {
	l.list = func(ctx context.Context, prefix string, fn func(store.Object) error) error {
		return l.Memory.List(ctx, prefix, func(o store.Object) error {
			if !want(o) {
				return nil
			}
			return fn(o)
		})
	}
}

const lieVariable = "STORETEST_LIE"

// A suite that catches nothing proves nothing. Each lie is told by another process, whose
// failing case must be the one that is there to catch it.
func TestTheSuiteCatchesLies(t *testing.T) {
	if name := os.Getenv(lieVariable); name != "" {
		runLie(t, name)
		return
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			caught := strings.ReplaceAll(lie.caught, " ", "_")
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheSuiteCatchesLies$/^"+caught+"$")
			c.Env = append(os.Environ(), lieVariable+"="+name)
			out, err := c.CombinedOutput()
			if want := "--- FAIL: TestTheSuiteCatchesLies/" + caught; err == nil || !strings.Contains(string(out), want) {
				t.Errorf("the case %q lets the lie pass: %v\n%s", lie.caught, err, out)
			}
		})
	}
}

func runLie(t *testing.T, name string) {
	lie, ok := lies[name]
	if !ok {
		t.Fatalf("no such lie: %q", name)
	}
	o := storetest.MemoryOptions()["like S3"](func(s store.Store) store.Store {
		m, ok := s.(*storetest.Memory)
		if !ok || lie.tell == nil {
			return s
		}
		l := &liar{Memory: m}
		lie.tell(l)
		return l
	})
	empty := func(*testing.T) store.Store { return storetest.NewMemory(storetest.S3Like()) }
	faulty := func(s store.Store, f storetest.Fault) *storetest.Faulty {
		bad := storetest.NewFaulty(s)
		bad.Inject(f)
		return bad
	}
	switch name {
	case "an outage is an empty listing":
		o.Outage = empty
	case "a missing bucket is empty":
		o.NoBucket = empty
	case "a listing that broke off is complete":
		o.BrokenList = func(_ *testing.T, s store.Store) store.Reader { return faulty(s, storetest.LieInList(1000)) }
	case "a broken download is the end":
		o.Cut = func(t *testing.T, s store.Store, v store.Version) io.ReadCloser {
			r, err := faulty(s, storetest.Shorten(1000)).Open(t.Context(), v, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
	}
	storetest.Run(t, o)
}
