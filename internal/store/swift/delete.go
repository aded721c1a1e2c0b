package swift

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"druid.internal/druid/internal/store"
)

// Delete implements store.Deleter. A large object goes as a whole, in an order in which a
// crash never leaves something that looks like a backup and is none:
//
//	the manifest   from here on there is no object of that name
//	its segments   what a crash leaves of them is listed each on its own and collected later
//
// The other order would leave a dynamic manifest that serves fewer and fewer bytes without an
// error. Only what is directly below the key and named like a segment goes along: whoever may
// write a manifest must not be able to have others' objects deleted by naming them in it.
//
// Deleting again what is gone removes segments that are still there.
func (s *Store) Delete(ctx context.Context, v store.Version) error {
	if v.ID != "" {
		return nil // there are no versions, so it is gone
	}
	if err := s.delete(ctx, v.Key); err != nil {
		return fmt.Errorf("delete %s in %s: %w", v, s.caps.Location, err)
	}
	return nil
}

func (s *Store) delete(ctx context.Context, key string) error {
	if key == "" {
		return nil
	}
	if err := s.deleteOne(ctx, key); err != nil {
		return err
	}
	if _, is := segmentOf(key); is {
		return nil
	}
	var names []string
	err := s.each(ctx, s.opts.Container, key+"/", func(page []entry) error {
		for _, e := range page {
			if owner, is := segmentOf(e.Name); is && owner == key {
				names = append(names, e.Name)
			}
		}
		return nil
	})
	switch {
	case statusOf(err) == http.StatusNotFound:
		return nil // no container, no segments
	case err != nil:
		return fmt.Errorf("it is deleted, but not its segments: look for them: %w", s.classify(ctx, err))
	}
	if err := s.deleteAll(ctx, names); err != nil {
		return fmt.Errorf("it is deleted, but not all of its %d segments: %w", len(names), err)
	}
	return nil
}

// deleteAll deletes single objects, several at once, and goes on after a failure.
func (s *Store) deleteAll(ctx context.Context, names []string) error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	slots := make(chan struct{}, s.opts.ParallelParts)
	for _, name := range names {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := s.deleteOne(ctx, name); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = fmt.Errorf("%s: %w", name, err)
				}
			}
		})
	}
	wg.Wait()
	return first
}

// deleteOne deletes one object; of a large one that is the manifest.
func (s *Store) deleteOne(ctx context.Context, name string) error {
	_, err := s.done(ctx, request{method: http.MethodDelete, container: s.opts.Container, object: name})
	if statusOf(err) == http.StatusNotFound {
		return nil
	}
	return s.classify(ctx, err)
}
