package copier

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/fetch"
	"druid.internal/druid/internal/store"
)

// errGone: the source has it no longer.
var errGone = errors.New("it vanished from the source")

// maxAttempts is how often an object is sent when the store leaves open whether it arrived.
const maxAttempts = 3

// arrive sees to it that the object is at the destination, with a proof, and fills item.
func (x *execution) arrive(ctx context.Context, s Step, item *Item) error {
	switch s.Action {
	case Conflict:
		return fmt.Errorf("%w: %s; %s", ErrConflict, s.Why, leftAlone)
	case Present:
		item.How, item.Version, item.Proof, item.Digest = Existing, s.there[0].ID, s.proof, s.Digest
		item.modified = s.there[0].Modified
		if item.Digest.IsZero() {
			item.Digest = x.c.opts.State.find(s.To).Digest
		}
		return nil
	case Check:
		return x.settle(ctx, s, item, s.there, s.Digest, x.sent)
	}
	for attempt := 1; ; attempt++ {
		err := x.free(ctx, s)
		if err == nil {
			err = x.transfer(ctx, s, item)
		}
		switch {
		case err == nil:
			return x.verify(ctx, s, item)
		case !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrUnknownOutcome):
			return err
		}
		// It may have arrived, now or in an earlier run that nobody remembers.
		o, statErr := x.c.to.Store.Stat(ctx, store.Version{Key: s.To})
		switch {
		case statErr == nil:
			digest := s.Digest
			if digest.IsZero() {
				digest = item.Digest
			}
			return x.settle(ctx, s, item, []store.Object{o}, digest, nil)
		case !errors.Is(statErr, store.ErrNotFound) || attempt == maxAttempts:
			return errors.Join(err, statErr)
		}
	}
}

// free looks once more whether the name is still free, on stores that would not refuse to
// overwrite what came there since the plan was made.
func (x *execution) free(ctx context.Context, s Step) error {
	if x.c.to.Store.Capabilities().ConditionalPut {
		return nil
	}
	_, err := x.c.to.Store.Stat(ctx, store.Version{Key: s.To})
	switch {
	case err == nil:
		return fmt.Errorf("copy to %s: %w", s.To, store.ErrExists)
	case errors.Is(err, store.ErrNotFound):
		return nil
	}
	return fmt.Errorf("copy to %s: is it there already? %w", s.To, err)
}

// transfer sends the object once. The store copies for us where that works and a digest of the
// whole object is recorded, so that reading the copy back proves it. Without one the source
// would have to be read as well, and then streaming it costs no more. It tries the versions that
// may be the snapshot until one has the right digest, which also only reading can tell apart.
func (x *execution) transfer(ctx context.Context, s Step, item *Item) error {
	candidates := s.snap.Candidates()
	if len(candidates) == 1 && !s.Digest.IsZero() && x.serverSide.Load() {
		err := x.inside(ctx, s, candidates[0], item)
		// Who may write to the destination may perhaps not read the source; we may.
		if !errors.Is(err, store.ErrUnsupported) && !errors.Is(err, store.ErrForbidden) {
			return x.named(ctx, candidates[0], err)
		}
		x.serverSide.Store(false)
	}
	err := fmt.Errorf("%s: %w", s.From, errGone)
	for _, o := range candidates {
		err = x.named(ctx, o, x.stream(ctx, s, o, item))
		if err == nil || !errors.Is(err, fetch.ErrDamaged) && !errors.Is(err, errGone) {
			return err
		}
	}
	return err
}

// named turns the error of a source that has the object no longer into errGone.
func (x *execution) named(ctx context.Context, o timeline.Object, err error) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if _, statErr := x.c.from.Store.Stat(ctx, version(o)); errors.Is(statErr, store.ErrNotFound) {
		return fmt.Errorf("%s: %w", o.Ref, errGone)
	}
	return err
}

// inside lets the store copy.
func (x *execution) inside(ctx context.Context, s Step, o timeline.Object, item *Item) error {
	copier, is := store.As[store.Copier](x.c.to.Store)
	if !is {
		return store.ErrUnsupported
	}
	got, err := copier.Copy(ctx, x.c.from.Store, version(o), s.To, store.PutOptions{})
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w", o.Ref, s.To, err)
	}
	return x.received(ctx, s, item, got, o.Size, ServerSide)
}

// stream moves the bytes through us. The object appears only if they are as many as listed and
// have the digest the manifest, or the header of a delta, tells.
func (x *execution) stream(ctx context.Context, s Step, o timeline.Object, item *Item) error {
	body, err := fetch.Open(ctx, x.c.from.Store, version(o), fetch.Options{Size: o.Size, Digest: s.Digest, Parallel: x.c.opts.Ranges, RangeBytes: x.c.opts.rangeBytes(), OnRead: x.sent})
	if err != nil {
		return err
	}
	defer body.Close()
	content := io.Reader(body)
	if !s.payload.IsZero() {
		content = &headed{r: body, what: o.Ref.String(), want: s.payload}
	}
	sum := sha256.New()
	whole := &wholeness{r: io.TeeReader(content, sum)}
	got, err := x.c.to.Store.Put(ctx, s.To, whole, store.PutOptions{})
	if whole.end {
		item.Digest = snapshot.Digest(sum.Sum(nil))
		item.Proof = AsRead
		if item.Digest == s.Digest || !s.payload.IsZero() {
			item.Proof = OnTheWay
		}
	}
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w", o.Ref, s.To, err)
	}
	return x.received(ctx, s, item, got, o.Size, Streamed)
}

// wholeness notes whether a stream was read to its end.
type wholeness struct {
	r   io.Reader
	end bool
}

func (w *wholeness) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	w.end = w.end || err == io.EOF
	return n, err
}

func (x *execution) received(ctx context.Context, s Step, item *Item, got store.Object, size int64, how How) error {
	item.How, item.Version, item.modified = how, got.ID, got.Modified
	if got.Size != size {
		return fmt.Errorf("%w: of %s arrived %d bytes as %s, %d were sent", fetch.ErrDamaged, s.From, got.Size, got.Version, size)
	}
	if item.modified.IsZero() && x.c.opts.State != nil { // without it the record proves nothing, and that is all
		if o, err := x.c.to.Store.Stat(ctx, store.Version{Key: s.To, ID: got.ID}); err == nil && o.Size == size {
			item.modified = o.Modified
		}
	}
	return nil
}

// sent reports progress.
func (x *execution) sent(n int) {
	x.c.opts.Progress("copy", min(x.copied.Add(int64(n)), x.total), x.total)
}

// verify reads back what the store copied for us, and what we sent if that was asked for.
func (x *execution) verify(ctx context.Context, s Step, item *Item) error {
	if item.How == Streamed && !x.c.opts.Verify {
		return nil
	}
	digest := s.Digest
	if digest.IsZero() {
		digest = item.Digest // computed while streaming
	}
	o := store.Object{Version: store.Version{Key: s.To, ID: item.Version}, Size: item.Size, Modified: item.modified}
	how, seen := item.How, x.sent
	if how == Streamed { // its bytes are counted already
		seen = nil
	}
	err := x.settle(ctx, s, item, []store.Object{o}, digest, seen)
	item.How = how
	return err
}

// settle reads what is at the destination and takes the first that has the digest. Without a
// digest the source is read as well. seen, unless nil, counts what is read at the destination.
func (x *execution) settle(ctx context.Context, s Step, item *Item, there []store.Object, digest snapshot.Digest, seen func(int)) error {
	if digest.IsZero() {
		var err error
		if digest, err = x.measure(ctx, x.c.from.Store, version(s.snap.Object), s.Size, nil); err != nil {
			return x.named(ctx, s.snap.Object, err)
		}
	}
	for _, o := range there {
		if o.Size != s.Size {
			continue
		}
		got, err := x.measure(ctx, x.c.to.Store, o.Version, o.Size, seen)
		if err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		if got == digest {
			item.How, item.Version, item.Digest, item.Proof = Existing, o.ID, got, ReadBack
			item.modified = o.Modified
			return nil
		}
	}
	return fmt.Errorf("%w: %s has not the content of %s (SHA-256 %s, %d bytes); %s",
		ErrConflict, object(x.c.to.Store, s.To), object(x.c.from.Store, s.From), digest, s.Size, leftAlone)
}

// measure reads an object whole and returns its digest.
func (x *execution) measure(ctx context.Context, from store.Reader, v store.Version, size int64, seen func(int)) (snapshot.Digest, error) {
	body, err := fetch.Open(ctx, from, v, fetch.Options{Size: size, Parallel: x.c.opts.Ranges, RangeBytes: x.c.opts.rangeBytes(), OnRead: seen})
	if err != nil {
		return snapshot.Digest{}, err
	}
	defer body.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, body); err != nil {
		return snapshot.Digest{}, err
	}
	return snapshot.Digest(sum.Sum(nil)), nil
}

func version(o timeline.Object) store.Version {
	return store.Version{Key: o.Key.String(), ID: o.Version}
}
