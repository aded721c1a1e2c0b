package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// Op names an operation of a store.
type Op string

// The operations, of Store, Deleter and the optional capabilities.
const (
	OpPut     Op = "put"
	OpOpen    Op = "open"
	OpStat    Op = "stat"
	OpList    Op = "list"
	OpDelete  Op = "delete"
	OpExtend  Op = "extend"
	OpHold    Op = "hold"
	OpTag     Op = "tag"
	OpCopy    Op = "copy"
	OpInspect Op = "inspect"
)

// Phase is the side of an operation a hook is called on.
type Phase string

// Before: nothing has happened yet. After: it has happened, well or not, and the caller does
// not know yet. For an Open, After is when the stream exists, not when it is read.
const (
	Before Phase = "before"
	After  Phase = "after"
)

// Call is one operation that was asked for.
type Call struct {
	Op  Op
	Key string // for a list: the prefix
}

// ErrDead is what every operation answers once the process it stands for is dead.
var ErrDead = errors.New("the process was killed at this point by its test")

// Faulty wraps a store, in memory or real, to tell a test of every operation and to fail as
// scripted. It offers all optional capabilities, answering store.ErrUnsupported for those its
// store lacks. Safe for concurrent use.
type Faulty struct {
	inner store.Store

	mu     sync.Mutex
	hooks  []func(op Op, key string, phase Phase)
	faults []*armed
	calls  []Call
	steps  int // hooks passed so far: two per operation
	dieAt  int // the step to die at, from 1; 0: never
	dead   bool
}

// armed is a fault and how often its condition was met.
type armed struct {
	Fault
	met int
}

// NewFaulty wraps s.
func NewFaulty(s store.Store) *Faulty { return &Faulty{inner: s} }

// Unwrap is the store behind the faults, for tests that look at the truth.
func (f *Faulty) Unwrap() store.Reader { return f.inner }

// Hook has fn called before and after every operation, from the caller's goroutine. fn may
// kill the process, cancel a context or block.
func (f *Faulty) Hook(fn func(op Op, key string, phase Phase)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks = append(f.hooks, fn)
}

// Inject adds faults to the script. Of several that would strike the same call, the one that
// was added first does.
func (f *Faulty) Inject(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range faults {
		f.faults = append(f.faults, &armed{Fault: fault})
	}
}

// DieAt ends the life of the imagined process at a step, counted from 1, two for every
// operation: at an odd step before the operation, at an even one after it. From then on all
// operations, and the streams already open, answer ErrDead and change nothing.
func (f *Faulty) DieAt(step int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dieAt = step
}

// Steps is how many steps were passed; run once without faults to learn how many there are.
func (f *Faulty) Steps() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.steps
}

// Calls are the operations asked for so far, in order.
func (f *Faulty) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Call(nil), f.calls...)
}

// Count is how many operations of one kind were asked for.
func (f *Faulty) Count(op Op) int {
	n := 0
	for _, c := range f.Calls() {
		if c.Op == op {
			n++
		}
	}
	return n
}

// begin records a call and returns the fault that strikes it, if any.
func (f *Faulty) begin(ctx context.Context, op Op, key string) (Fault, error) {
	f.mu.Lock()
	f.calls = append(f.calls, Call{op, key})
	f.mu.Unlock()
	if err := f.step(op, key, Before); err != nil {
		return Fault{}, err
	}
	fault := f.strike(op, key)
	switch {
	case fault.hang:
		<-ctx.Done()
		return fault, fmt.Errorf("%s %s: %w", op, key, ctx.Err())
	case fault.fail != nil && !fault.after:
		return fault, fmt.Errorf("%s %s: %w", op, key, fault.fail)
	}
	return fault, nil
}

// end passes the step after an operation whose result was err, and loses the response if the
// fault says so.
func (f *Faulty) end(op Op, key string, fault Fault, err error) error {
	if dead := f.step(op, key, After); dead != nil {
		return dead
	}
	if fault.fail != nil && fault.after {
		return fmt.Errorf("%s %s: %w", op, key, fault.fail)
	}
	return err
}

func (f *Faulty) step(op Op, key string, phase Phase) error {
	f.mu.Lock()
	if f.dead {
		f.mu.Unlock()
		return ErrDead
	}
	f.steps++
	if f.steps == f.dieAt {
		f.dead = true
		f.mu.Unlock()
		return ErrDead
	}
	hooks := f.hooks
	f.mu.Unlock()
	for _, fn := range hooks {
		fn(op, key, phase)
	}
	return nil
}

func (f *Faulty) strike(op Op, key string) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	var struck Fault
	for _, a := range f.faults {
		if a.Op != "" && a.Op != op || !strings.Contains(key, a.Key) {
			continue
		}
		a.met++
		if struck.set || a.met <= a.Skip || a.Times >= 0 && a.met > a.Skip+max(a.Times, 1) {
			continue
		}
		struck, struck.set = a.Fault, true
	}
	return struck
}

func (f *Faulty) isDead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// Capabilities implements store.Reader and is not an operation.
func (f *Faulty) Capabilities() store.Capabilities { return f.inner.Capabilities() }

// Put implements store.Store.
func (f *Faulty) Put(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
	fault, err := f.begin(ctx, OpPut, key)
	if err != nil {
		return store.Object{}, err
	}
	o, err := f.inner.Put(ctx, key, f.spoil(ctx, body, fault), opts)
	if err = f.end(OpPut, key, fault, err); err != nil {
		return store.Object{}, err
	}
	return o, nil
}

// Open implements store.Reader.
func (f *Faulty) Open(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	fault, err := f.begin(ctx, OpOpen, v.Key)
	if err != nil {
		return nil, err
	}
	r, err := f.inner.Open(ctx, v, off, n)
	if end := f.end(OpOpen, v.Key, fault, err); end != nil {
		if err == nil {
			r.Close()
		}
		return nil, end
	}
	return struct {
		io.Reader
		io.Closer
	}{f.spoil(ctx, r, fault), r}, nil
}

// Stat implements store.Reader.
func (f *Faulty) Stat(ctx context.Context, v store.Version) (store.Object, error) {
	fault, err := f.begin(ctx, OpStat, v.Key)
	if err != nil {
		return store.Object{}, err
	}
	o, err := f.inner.Stat(ctx, v)
	if err = f.end(OpStat, v.Key, fault, err); err != nil {
		return store.Object{}, err
	}
	return o, nil
}

// errEnough stops the store below a listing that a fault ends.
var errEnough = errors.New("the fault has seen enough")

// List implements store.Reader.
func (f *Faulty) List(ctx context.Context, prefix string, fn func(store.Object) error) error {
	fault, err := f.begin(ctx, OpList, prefix)
	if err != nil {
		return err
	}
	told, enough := 0, false
	err = f.inner.List(ctx, prefix, func(o store.Object) error {
		if fault.listing && told >= fault.bytes {
			enough = true
			return errEnough
		}
		told++
		if f.isDead() {
			return ErrDead
		}
		return fn(o)
	})
	if enough {
		err = fault.ending
		if err != nil {
			err = fmt.Errorf("list %s: after %d objects: %w", prefix, told, err)
		}
	}
	return f.end(OpList, prefix, fault, err)
}

// Delete implements store.Deleter.
func (f *Faulty) Delete(ctx context.Context, v store.Version) error {
	return forward(ctx, f, OpDelete, v.Key, func(d store.Deleter) error { return d.Delete(ctx, v) })
}

// Extend implements store.Extender.
func (f *Faulty) Extend(ctx context.Context, v store.Version, until time.Time) (r immutability.Retention, err error) {
	err = forward(ctx, f, OpExtend, v.Key, func(e store.Extender) (err error) {
		r, err = e.Extend(ctx, v, until)
		return err
	})
	return r, err
}

// SetHold implements store.Holder.
func (f *Faulty) SetHold(ctx context.Context, v store.Version, on bool) error {
	return forward(ctx, f, OpHold, v.Key, func(h store.Holder) error { return h.SetHold(ctx, v, on) })
}

// SetTag implements store.Tagger.
func (f *Faulty) SetTag(ctx context.Context, v store.Version, key, value string) error {
	return forward(ctx, f, OpTag, v.Key, func(t store.Tagger) error { return t.SetTag(ctx, v, key, value) })
}

// Copy implements store.Copier; the key of the call is the new one.
func (f *Faulty) Copy(ctx context.Context, from store.Reader, src store.Version, key string, opts store.PutOptions) (o store.Object, err error) {
	err = forward(ctx, f, OpCopy, key, func(c store.Copier) (err error) {
		o, err = c.Copy(ctx, from, src, key, opts)
		return err
	})
	return o, err
}

// Inspect implements store.Inspector.
func (f *Faulty) Inspect(ctx context.Context) (b store.Bucket, err error) {
	err = forward(ctx, f, OpInspect, "", func(i store.Inspector) (err error) {
		b, err = i.Inspect(ctx)
		return err
	})
	return b, err
}

// forward passes an operation on to the capability C of the store behind f.
func forward[C any](ctx context.Context, f *Faulty, op Op, key string, call func(C) error) error {
	fault, err := f.begin(ctx, op, key)
	if err != nil {
		return err
	}
	c, ok := store.As[C](f.inner)
	if !ok {
		return f.end(op, key, fault, fmt.Errorf("%s %s: %w", op, key, store.ErrUnsupported))
	}
	return f.end(op, key, fault, call(c))
}
