package swift

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"druid.internal/druid/internal/store"
)

const (
	// pageSize is how many objects are asked for at a time.
	pageSize = 1000
	// parallelHeads is how many objects of a page are asked about at once.
	parallelHeads = 16
)

// entry is one line of a container's listing.
type entry struct {
	Name         string `json:"name"`
	Bytes        int64  `json:"bytes"`
	Hash         string `json:"hash"`
	LastModified string `json:"last_modified"`
	ContentType  string `json:"content_type"`
}

// List implements store.Reader.
func (s *Store) List(ctx context.Context, prefix string, fn func(store.Object) error) error {
	prefix = strings.TrimSuffix(prefix, "/")
	below := prefix
	if below != "" {
		below += "/"
	}
	l := listing{s: s, prefix: prefix}
	var stopped error
	err := s.each(ctx, s.opts.Container, below, func(page []entry) error {
		objects, err := l.objects(ctx, page)
		if err != nil {
			return err
		}
		for _, o := range objects {
			if err := ctx.Err(); err != nil {
				return err
			}
			if stopped = fn(o); stopped != nil {
				return stopped
			}
		}
		return nil
	})
	switch {
	case stopped != nil:
		return stopped
	case statusOf(err) == http.StatusNotFound:
		err = s.noContainer(err)
	case err == nil:
		return nil
	}
	return fmt.Errorf("list %s in %s: %w", quoted(prefix), s.caps.Location, s.classify(ctx, err))
}

// quoted is a prefix for messages.
func quoted(prefix string) string {
	if prefix == "" {
		return "everything"
	}
	return prefix
}

// each calls fn with page after page of what begins with the very characters of prefix. Only
// an empty page ends the listing, because a server may answer with fewer than asked for.
func (s *Store) each(ctx context.Context, container, prefix string, fn func([]entry) error) error {
	last := ""
	for {
		page, err := s.page(ctx, container, prefix, last)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		for _, e := range page {
			if e.Name <= last || !strings.HasPrefix(e.Name, prefix) {
				return fmt.Errorf("the server lists %q after %q, such a listing cannot be trusted to be complete", e.Name, last)
			}
			last = e.Name
		}
		if err := fn(page); err != nil {
			return err
		}
	}
}

// page asks for what comes after marker.
func (s *Store) page(ctx context.Context, container, prefix, marker string) ([]entry, error) {
	resp, err := s.do(ctx, request{method: http.MethodGet, container: container, query: url.Values{
		"format": {"json"}, "limit": {strconv.Itoa(pageSize)}, "prefix": {prefix}, "marker": {marker},
	}, header: map[string]string{"Accept": "application/json"}})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return nil, nil
	}
	var page []entry
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("the server answers a listing by something else, check that the endpoint is Swift's: %w", err)
		}
		return nil, &url.Error{Op: "read the listing of", URL: resp.Request.URL.Redacted(), Err: err} // it broke off
	}
	return page, nil
}

// listing turns entries into objects.
type listing struct {
	s      *Store
	prefix string
	// above are the keys met so far that the next one may begin with, each the beginning of
	// the one after it. Segments follow their object, though not at once: KEY.gz comes
	// between KEY and KEY/0000000001.
	above []string
	// topKnown: it was looked up whether there is an object whose key is the prefix itself.
	topKnown, topThere bool
}

// objects are those of a page without the segments of large objects that are there.
func (l *listing) objects(ctx context.Context, page []entry) ([]store.Object, error) {
	var (
		all   []store.Object
		empty []int // may be manifests of dynamic large objects
	)
	for _, e := range page {
		for len(l.above) > 0 && !strings.HasPrefix(e.Name, l.above[len(l.above)-1]) {
			l.above = l.above[:len(l.above)-1]
		}
		if owner, is := segmentOf(e.Name); is {
			there, err := l.there(ctx, owner)
			if err != nil {
				return nil, err
			}
			if there {
				continue
			}
		}
		l.above = append(l.above, e.Name)
		modified, err := parseTime(e.LastModified)
		if err != nil {
			return nil, fmt.Errorf("the server lists %q: %w", e.Name, err)
		}
		o := store.Object{Version: store.Version{Key: e.Name}, Size: e.Bytes, Modified: modified, Latest: true, Retention: unlocked()}
		if size, told := sizeInType(e.ContentType); told {
			o.Size = size
		} else if e.Bytes == 0 {
			empty = append(empty, len(all))
		}
		all = append(all, o)
	}
	return l.measure(ctx, all, empty)
}

// there says whether the object was listed that a segment belongs to.
func (l *listing) there(ctx context.Context, owner string) (bool, error) {
	if owner != l.prefix {
		return slices.Contains(l.above, owner), nil
	}
	if !l.topKnown {
		_, err := l.s.head(ctx, owner, false)
		if err != nil && statusOf(err) != http.StatusNotFound {
			return false, err
		}
		l.topKnown, l.topThere = true, err == nil
	}
	return l.topThere, nil
}

// measure asks about the objects that seem to be empty, and drops those that are gone.
func (l *listing) measure(ctx context.Context, all []store.Object, empty []int) ([]store.Object, error) {
	if len(empty) == 0 {
		return all, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	gone := make([]bool, len(all))
	slots := make(chan struct{}, parallelHeads)
	for _, i := range empty {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			h, err := l.s.head(ctx, all[i].Key, false)
			if err == nil {
				all[i].Size, err = l.s.sizeOf(ctx, all[i].Key, h)
			} else if statusOf(err) == http.StatusNotFound {
				gone[i], err = true, nil
			}
			if err != nil {
				cancel(fmt.Errorf("ask about %s: %w", all[i].Key, err))
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	kept := all[:0]
	for i, o := range all {
		if !gone[i] {
			kept = append(kept, o)
		}
	}
	return kept, nil
}

// parseTime reads the time of a listing: UTC, with or without saying so.
func parseTime(s string) (time.Time, error) {
	t, err := time.Parse("2006-01-02T15:04:05", strings.TrimSuffix(s, "Z")) // a fraction is accepted
	if err != nil {
		return time.Time{}, fmt.Errorf("the time %q is not understood", s)
	}
	return t, nil
}
