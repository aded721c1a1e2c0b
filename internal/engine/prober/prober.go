// Package prober finds out what protection a store really gives, by trying: it writes one
// byte, reads it back with its lock, tries to overwrite it and to delete it.
//
// What a bucket is configured to do is not believed. Only a refusal to delete an object whose
// lock was read back is proof; where this identity merely lacks the permission, nothing is
// proven about anybody else. In a locked bucket the byte stays for one period, so there is a
// [Plan] to print before anything is written.
//
// Besides the collector this is the only package that is handed a store.Deleter, since a
// refusal cannot be had without trying. It deletes nothing but the versions it has just
// written itself: that restriction is the type [ownOnly], through which alone it deletes.
//
// It does not configure buckets, and it does not try what would need more rights than a
// writer or collector has: whether a privileged identity could lift a governance lock is
// known from the mode.
package prober

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/store"
)

// Options say what to try.
type Options struct {
	// Prefix is where the byte is written, below the directory druid-probe; empty: at the root.
	Prefix snapshot.Prefix
	// Lock asks for an explicit lock for Period, as a writer configured to lock would. Empty:
	// none is asked for, so that the bucket's default shows.
	Lock   immutability.Mode
	Period time.Duration
}

// Prober probes one store.
type Prober struct {
	store   store.Store
	deleter *ownOnly
	opts    Options
}

// New makes a prober. d must delete from s.
func New(s store.Store, d store.Deleter, o Options) (*Prober, error) {
	if o.Lock != "" && o.Period <= 0 {
		return nil, fmt.Errorf("probe: a lock of mode %s needs a period", o.Lock)
	}
	if o.Lock != "" && o.Lock != immutability.ModeGovernance && o.Lock != immutability.ModeCompliance {
		return nil, fmt.Errorf("probe: one cannot ask a store for a lock of mode %s", o.Lock)
	}
	return &Prober{store: s, deleter: &ownOnly{deleter: d, wrote: map[store.Version]bool{}}, opts: o}, nil
}

// Plan is what a probe will do, to be shown before it is done.
type Plan struct {
	Location string   `json:"location"`
	Key      string   `json:"key"`
	Notices  []string `json:"notices"` // sentences, the first says what is done and the rest what stays
}

// Plan asks how the bucket is configured and writes nothing.
func (p *Prober) Plan(ctx context.Context) (Plan, error) {
	caps := p.store.Capabilities()
	plan := Plan{Location: caps.Location, Key: p.key()}
	plan.Notices = append(plan.Notices, fmt.Sprintf("one byte will be written to %s in %s, read back, written over and deleted, as far as the store allows", plan.Key, caps.Location))
	mode, period := p.opts.Lock, p.opts.Period
	if mode == "" {
		var err error
		if mode, period, err = p.defaultLock(ctx); err != nil {
			return Plan{}, err
		}
	}
	switch {
	case caps.Advisory:
		plan.Notices = append(plan.Notices, "this store cannot protect anything by itself; the byte can be deleted afterwards")
	case mode == immutability.ModeUnknown:
		plan.Notices = append(plan.Notices, "how long the bucket locks what is written into it is not known to this identity: the byte may stay for as long as that")
	case mode != immutability.ModeNone:
		plan.Notices = append(plan.Notices, fmt.Sprintf("the byte will be locked (%s) and stay for %s; that is the price of the proof", mode, days(period)))
	}
	if caps.Endpoint != "" {
		plan.Notices = append(plan.Notices, "the endpoint is "+caps.Endpoint)
	}
	if mode != immutability.ModeNone && caps.Versions && !caps.ConditionalPut {
		plan.Notices = append(plan.Notices, "this store is not known to refuse an overwrite, so a second version may stay as well")
	}
	return plan, nil
}

// defaultLock is what the bucket is configured to stamp on what asks for nothing.
func (p *Prober) defaultLock(ctx context.Context) (immutability.Mode, time.Duration, error) {
	inspector, ok := store.As[store.Inspector](p.store)
	if !ok {
		return immutability.ModeUnknown, 0, nil
	}
	b, err := inspector.Inspect(ctx)
	if errors.Is(err, store.ErrUnsupported) || errors.Is(err, store.ErrForbidden) {
		return immutability.ModeUnknown, 0, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("plan a probe: %w", err)
	}
	if b.Default == "" {
		return immutability.ModeNone, 0, nil
	}
	return b.Default, b.Period, nil
}

// key is a new name below the prefix that no reader of snapshots takes for one of its own.
func (p *Prober) key() string {
	return snapshot.ProbeKey(p.opts.Prefix, strings.ToLower(rand.Text()))
}

// Run carries out the plan. now is the time an explicit lock is counted from. An error means
// that the probe could not be made; what it found out, however bad, is in the report.
func (p *Prober) Run(ctx context.Context, plan Plan, now time.Time) (Report, error) {
	r := Report{Location: plan.Location, Endpoint: p.store.Capabilities().Endpoint}
	o, err := p.write(ctx, plan.Key, now)
	if err != nil {
		return Report{}, fmt.Errorf("probe %s: write one byte: %w", plan.Location, err)
	}
	r.Version = o.Version
	if err := p.readBack(ctx, o.Version, &r); err != nil {
		return Report{}, fmt.Errorf("probe %s: %w (%s stays)", plan.Location, err, o.Version)
	}
	second, err := p.overwrite(ctx, o.Version, &r)
	if err != nil {
		return Report{}, fmt.Errorf("probe %s: %w (%s stays)", plan.Location, err, o.Version)
	}
	// The byte that was written over is not the one whose lock was read.
	if r.Overwrite.Outcome != Destroyed {
		if err := p.tryDelete(ctx, o.Version, &r); err != nil {
			return Report{}, fmt.Errorf("probe %s: %w (%s stays)", plan.Location, err, o.Version)
		}
	} else {
		r.Deletion = Finding{Allowed, "what was written could be overwritten, which is as good as deleting it"}
		second = o.Version
	}
	if second != (store.Version{}) {
		p.removeSecond(ctx, second, &r)
	}
	r.conclude(p.store.Capabilities())
	return r, nil
}

// The bytes of the first and the second write.
const (
	firstByte  = "1"
	secondByte = "2"
)

func (p *Prober) write(ctx context.Context, key string, now time.Time) (store.Object, error) {
	var opts store.PutOptions
	if p.opts.Lock != "" {
		opts.Retention = &immutability.Retention{Mode: p.opts.Lock, Until: now.Add(p.opts.Period)}
	}
	o, err := p.store.Put(ctx, key, strings.NewReader(firstByte), opts)
	if err != nil {
		return store.Object{}, err
	}
	p.deleter.wrote[o.Version] = true
	return o, nil
}

// readBack reads the byte and its lock.
func (p *Prober) readBack(ctx context.Context, v store.Version, r *Report) error {
	if err := p.wantByte(ctx, v); err != nil {
		return fmt.Errorf("read it back: %w", err)
	}
	o, err := p.store.Stat(ctx, v)
	if err != nil {
		return fmt.Errorf("read its lock: %w", err)
	}
	if o.Retention == nil {
		return nil
	}
	r.Lock = o.Retention
	r.lockHolds = o.Retention.Hold || (locks(o.Retention.Mode) && (o.ServerTime.IsZero() || o.Retention.Until.After(o.ServerTime)))
	return nil
}

func locks(m immutability.Mode) bool {
	return m == immutability.ModeGovernance || m == immutability.ModeCompliance
}

var errChanged = errors.New("what is read is not what was written")

func (p *Prober) wantByte(ctx context.Context, v store.Version) error {
	rc, err := p.store.Open(ctx, v, 0, -1)
	if err != nil {
		return err
	}
	defer rc.Close()
	b, err := io.ReadAll(io.LimitReader(rc, 2))
	if err != nil {
		return err
	}
	if string(b) != firstByte {
		return errChanged
	}
	return nil
}

// overwrite tries to put something else under the same key. It returns the version that this
// made, if any.
func (p *Prober) overwrite(ctx context.Context, v store.Version, r *Report) (second store.Version, err error) {
	o, err := p.store.Put(ctx, v.Key, strings.NewReader(secondByte), store.PutOptions{})
	var immutable *store.ImmutableError
	switch {
	case errors.Is(err, store.ErrExists) && !p.store.Capabilities().ConditionalPut:
		r.Overwrite = Finding{NotProven, "a second write to the same key was refused, but by this program, which looked first, or by a server that refuses some writes and not others"}
		return store.Version{}, nil
	case errors.Is(err, store.ErrExists):
		r.Overwrite = Finding{Refused, "a second write to the same key was refused: it exists already"}
		return store.Version{}, nil
	case errors.As(err, &immutable) && errors.Is(err, store.ErrForbidden), err != nil && errors.Is(err, store.ErrForbidden):
		r.Overwrite = Finding{NotProven, "this identity may not write twice: " + err.Error()}
		return store.Version{}, nil
	case errors.As(err, &immutable):
		r.Overwrite = Finding{Refused, "a second write to the same key was refused because of the lock"}
		return store.Version{}, nil
	case err != nil:
		return store.Version{}, fmt.Errorf("write over it: %w", err)
	}
	p.deleter.wrote[o.Version] = true
	err = p.wantByte(ctx, v)
	switch {
	case o.Version == v, errors.Is(err, errChanged), errors.Is(err, store.ErrNotFound):
		r.Overwrite = Finding{Destroyed, "a second write to the same key replaced what was there"}
	case err != nil:
		return store.Version{}, fmt.Errorf("read the first version after the second was written: %w", err)
	default:
		r.Overwrite = Finding{FurtherVersion, "a second write to the same key made a further version, the first is still readable"}
	}
	return o.Version, nil
}

// tryDelete tries to delete the version that was read back, and only a refusal after which it
// is still there counts.
func (p *Prober) tryDelete(ctx context.Context, v store.Version, r *Report) error {
	err := p.deleter.delete(ctx, v)
	var immutable *store.ImmutableError
	switch {
	case err == nil:
		return p.afterDelete(ctx, v, r)
	case errors.Is(err, store.ErrForbidden):
		why := "this identity may not delete, which says nothing about others: " + err.Error()
		if errors.As(err, &immutable) {
			why = "the store only says that access is denied; whether because of the lock or of a missing permission is open: " + err.Error()
		}
		r.Deletion = Finding{NotProven, why}
	case !errors.As(err, &immutable):
		return fmt.Errorf("delete it: %w", err)
	case !r.lockHolds:
		r.Deletion = Finding{NotProven, "the deletion was refused, but no lock could be read back that would explain it: " + err.Error()}
	default:
		r.Deletion = Finding{Refused, err.Error()}
	}
	if err := p.wantByte(ctx, v); err != nil {
		return fmt.Errorf("read it after its deletion was refused: %w", err)
	}
	r.Remains = append(r.Remains, v)
	return nil
}

// afterDelete makes sure that what was said to be deleted is gone.
func (p *Prober) afterDelete(ctx context.Context, v store.Version, r *Report) error {
	_, err := p.store.Stat(ctx, v)
	switch {
	case errors.Is(err, store.ErrNotFound):
		r.Deletion = Finding{Allowed, "the store deleted what had just been written"}
		return nil
	case err != nil:
		return fmt.Errorf("look whether it is gone: %w", err)
	}
	r.Deletion = Finding{NotProven, "the store said it was deleted, but it is still there"}
	r.Remains = append(r.Remains, v)
	return nil
}

// removeSecond cleans up; what cannot be removed is reported.
func (p *Prober) removeSecond(ctx context.Context, v store.Version, r *Report) {
	if err := p.deleter.delete(ctx, v); err != nil {
		r.Remains = append(r.Remains, v)
	}
}

// ownOnly deletes what this probe has written, and refuses everything else.
type ownOnly struct {
	deleter store.Deleter
	wrote   map[store.Version]bool
}

func (o *ownOnly) delete(ctx context.Context, v store.Version) error {
	if !o.wrote[v] {
		return fmt.Errorf("delete %s: the probe did not write it", v)
	}
	return o.deleter.Delete(ctx, v)
}
