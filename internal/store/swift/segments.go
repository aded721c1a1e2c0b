package swift

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"druid.internal/druid/internal/store"
)

// part is a segment that was sent, as a manifest lists it.
type part struct {
	number int
	Path   string `json:"path"`
	ETag   string `json:"etag"`
	Size   int64  `json:"size_bytes"`
}

// large writes an object of several segments, of which head were read already. The manifest
// comes last; whatever goes wrong before it, the segments are removed and nothing was visible.
func (w *write) large(ctx context.Context, r io.Reader, head ...[]byte) (store.Object, error) {
	limits, err := w.s.limitsOf(ctx, w)
	if err != nil {
		return store.Object{}, err
	}
	u := &upload{w: w, limits: limits, budget: newBudget(w.s.opts.PartSize * int64(w.s.opts.ParallelParts+1))}
	err = u.send(ctx, r, head)
	if err == nil {
		err = w.free(ctx) // it took long enough for others to write the same key
	}
	if err != nil {
		return store.Object{}, u.abandon(ctx, err)
	}
	return u.commit(ctx)
}

// upload is a large object in the making.
type upload struct {
	w      *write
	limits limits
	budget *budget

	mu    sync.Mutex
	parts []part // sent, in any order
	begun int    // segments begun
	size  int64
}

// sizeOf is the size of the segment of that number, from 1. It grows by one PartSize with
// every quarter of the segments that a manifest can list, so that objects of 2500 parts fit.
func (u *upload) sizeOf(number int) int64 {
	return u.w.s.opts.PartSize * int64(1+4*(number-1)/u.limits.segments)
}

// send uploads the stream, several segments at once; one more buffer than requests lets the
// stream be read while all of them are under way. It returns when none is any more. After a
// failure those under way are waited for: a request that is given up when its body has
// arrived makes a segment appear after its removal.
func (u *upload) send(ctx context.Context, r io.Reader, head [][]byte) error {
	going, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	slots := make(chan struct{}, u.w.s.opts.ParallelParts)
	spare := make(chan []byte, u.w.s.opts.ParallelParts+1)
	begin := func(buf []byte, held int64) {
		u.begun++
		number := u.begun
		u.size += int64(len(buf))
		wg.Go(func() {
			defer u.budget.release(held)
			slots <- struct{}{}
			defer func() { <-slots }()
			if going.Err() != nil {
				return
			}
			if err := u.segment(ctx, number, buf); err != nil {
				stop(fmt.Errorf("segment %d: %w", number, err))
				return
			}
			select {
			case spare <- buf:
			default:
			}
		})
	}
	if err := u.cut(going, r, head, spare, begin); err != nil {
		stop(err)
	}
	wg.Wait()
	return context.Cause(going)
}

// cut hands the stream segment by segment to begin, each as soon as there is room for it.
func (u *upload) cut(ctx context.Context, r io.Reader, head [][]byte, spare <-chan []byte, begin func([]byte, int64)) error {
	for {
		if u.begun >= u.limits.segments {
			more, err := piecesOf(r, 1, nil)
			if err != nil || len(more)+len(head) == 0 {
				return err
			}
			return fmt.Errorf("the object is larger than %d segments, of which the first have %d bytes: raise --min-chunk-size", u.limits.segments, u.w.s.opts.PartSize)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		size := u.sizeOf(u.begun + 1)
		if len(head) > 0 {
			size = u.w.s.opts.PartSize // by which they were read
		}
		if err := u.budget.acquire(ctx, size); err != nil {
			return err
		}
		if len(head) > 0 {
			buf := head[0]
			head = head[1:]
			begin(buf, size)
			if int64(len(buf)) < size {
				return nil // it was the last
			}
			continue
		}
		var buf []byte
		select {
		case buf = <-spare:
			if int64(cap(buf)) != size {
				buf = nil
			}
		default:
		}
		buf, err := piecesOf(r, int(size), buf)
		if err != nil || len(buf) == 0 {
			u.budget.release(size)
			return err
		}
		begin(buf, size)
		if int64(len(buf)) < size {
			return nil
		}
	}
}

// segment uploads one.
func (u *upload) segment(ctx context.Context, number int, buf []byte) error {
	s := u.w.s
	name, etag := segmentKey(u.w.key, u.w.nonce, number), digestOf(buf)
	h, err := s.done(ctx, request{method: http.MethodPut, container: s.opts.Container, object: name, body: buf,
		header: map[string]string{"Etag": etag, "Content-Type": "application/octet-stream"}})
	if err != nil {
		return s.missingContainer(s.classify(ctx, err))
	}
	if got := etagOf(h); got != "" && got != etag {
		return fmt.Errorf("the server stored something else: its MD5 is %s, sent was %s", got, etag)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.parts = append(u.parts, part{number: number, Path: s.opts.Container + "/" + name, ETag: etag, Size: int64(len(buf))})
	return nil
}

// missingContainer: a write is told "not found" only where there is no container.
func (s *Store) missingContainer(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return s.noContainer(err)
	}
	return err
}

// commit writes the manifest.
func (u *upload) commit(ctx context.Context) (store.Object, error) {
	w := u.w
	slices.SortFunc(u.parts, func(a, b part) int { return a.number - b.number })
	err := w.s.putManifest(ctx, w.key, u.parts, w.header(largeTypeOf(u.size)))
	if err == nil {
		return w.object(u.size), nil
	}
	o, err := w.settle(ctx, u.size, err)
	switch {
	case err == nil:
		return o, nil
	case errors.Is(err, store.ErrUnknownOutcome):
		// The manifest may yet appear, and needs its segments.
		return store.Object{}, fmt.Errorf("%w (its segments are left in place below %s/)", err, w.key)
	}
	return store.Object{}, u.abandon(ctx, err)
}

func (s *Store) putManifest(ctx context.Context, key string, parts []part, header map[string]string) error {
	body, err := json.Marshal(parts)
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	_, err = s.done(ctx, request{method: http.MethodPut, container: s.opts.Container, object: key,
		query: url.Values{"multipart-manifest": {"put"}}, header: header, body: body})
	return err
}

// abandon removes the segments and returns why. It goes on when the caller has given up, so
// that nothing is left behind; should it fail all the same, the message says what remains.
func (u *upload) abandon(ctx context.Context, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	names := make([]string, u.begun) // one whose answer was lost may be there as well
	for i := range names {
		names[i] = segmentKey(u.w.key, u.w.nonce, i+1)
	}
	err := u.w.s.deleteAll(ctx, names)
	if err == nil {
		err = u.latecomers(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w (segments below %s/ remain, are listed each on its own, and can be collected: %v)", why, u.w.key, err)
	}
	return why
}

// latecomers removes what a request that was given up has made after all.
func (u *upload) latecomers(ctx context.Context) error {
	s := u.w.s
	var late []string
	err := s.each(ctx, s.opts.Container, u.w.key+"/"+ownSegment+u.w.nonce, func(page []entry) error {
		for _, e := range page {
			late = append(late, e.Name)
		}
		return nil
	})
	if err != nil && statusOf(err) != http.StatusNotFound {
		return s.classify(ctx, err)
	}
	return s.deleteAll(ctx, late)
}

// limits are what the server says about large objects.
type limits struct{ segments int }

// limitsOf finds out, once, whether the server understands static large objects. One that did
// not would store a manifest as if it were the backup. Most servers tell; one that does not
// is tried with a single byte beside where the segments will be.
func (s *Store) limitsOf(ctx context.Context, w *write) (limits, error) {
	s.limitsMu.Lock()
	defer s.limitsMu.Unlock()
	if s.limits != nil {
		return *s.limits, nil
	}
	l, told, err := s.askLimits(ctx)
	if err == nil && !told {
		l, err = limits{segments: maxSegments}, s.tryManifest(ctx, w)
	}
	if err != nil {
		return limits{}, fmt.Errorf("whether the server can store large objects: %w", err)
	}
	s.limits = &l
	return l, nil
}

// askLimits reads the server's description of itself, which is beside the API.
func (s *Store) askLimits(ctx context.Context) (l limits, told bool, err error) {
	t, err := s.session.token(ctx, "")
	if err != nil {
		return l, false, s.classify(ctx, err)
	}
	i := strings.LastIndex(t.storageURL, "/v1")
	if i < 0 {
		return l, false, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.storageURL[:i]+"/info", nil)
	if err != nil {
		return l, false, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return l, false, s.classify(ctx, err)
	}
	defer resp.Body.Close()
	var info struct {
		Swift *struct{} `json:"swift"`
		SLO   *struct {
			Segments int `json:"max_manifest_segments"`
		} `json:"slo"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&info) != nil || info.Swift == nil {
		return l, false, nil // not every server has it, or lets everyone see it
	}
	if info.SLO == nil {
		return l, true, fmt.Errorf("it does not offer static large objects (slo): %w", store.ErrUnsupported)
	}
	l.segments = maxSegments
	if n := info.SLO.Segments; n > 0 {
		l.segments = n
	}
	return l, true, nil
}

// tryManifest writes a large object of one byte where segments will be, looks what became of
// it, and removes it.
func (s *Store) tryManifest(ctx context.Context, w *write) (err error) {
	name, manifest := segmentKey(w.key, w.nonce, 0), segmentKey(w.key, w.nonce, trialNumber)
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		if derr := s.deleteAll(ctx, []string{manifest, name}); err == nil && derr != nil {
			err = fmt.Errorf("remove what it was tried with: %w", derr)
		}
	}()
	body := []byte("1")
	header := func() map[string]string {
		return map[string]string{"Content-Type": "application/octet-stream"}
	}
	if _, err := s.done(ctx, request{method: http.MethodPut, container: s.opts.Container, object: name, header: header(), body: body}); err != nil {
		return s.missingContainer(s.classify(ctx, err))
	}
	p := part{Path: s.opts.Container + "/" + name, ETag: digestOf(body), Size: 1}
	if err := s.putManifest(ctx, manifest, []part{p}, header()); err != nil {
		return s.classify(ctx, err)
	}
	h, err := s.head(ctx, manifest, true)
	if err != nil {
		return s.classify(ctx, err)
	}
	if h.Get(headerStatic) == "" || h.Get("Content-Length") != "1" {
		return fmt.Errorf("it stores their manifests as plain objects: %w", store.ErrUnsupported)
	}
	return nil
}

// trialNumber is beyond the number of any segment.
const trialNumber = 99_999_999
