package sites

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// Fleet starts sites when they are needed, each once. The zero value is ready.
type Fleet struct {
	// Host is the IP address that servers listen on; empty: 127.0.0.1.
	Host string

	mu      sync.Mutex
	started map[string]*started
	buckets atomic.Int64
}

type started struct {
	once sync.Once
	site Site
	err  error
}

// start finds how a site is started.
func start(name string) func(context.Context, *Fleet) (Site, error) {
	switch name {
	case "MinIO":
		return startMinIO
	case "Ceph":
		return startCeph
	case "GCS":
		return startGCS
	case "Azure":
		return startAzure
	case "Swift":
		return startSwift
	case "OSS":
		return startOSS
	case "Local":
		return startLocal
	}
	return func(context.Context, *Fleet) (Site, error) { return nil, fmt.Errorf("there is no site %q", name) }
}

// Names are all sites. Ceph's gateway is two of them: as S3, and as Swift.
func Names() []string { return []string{"MinIO", "Ceph", "GCS", "Azure", "Swift", "OSS", "Local"} }

// Get starts a site, or fails the test.
func (f *Fleet) Get(tb testing.TB, name string) Site {
	tb.Helper()
	s, err := f.get(name)
	if err != nil {
		tb.Fatalf("start %s: %v", name, err)
	}
	return s
}

func (f *Fleet) get(name string) (Site, error) {
	f.mu.Lock()
	if f.started == nil {
		f.started = map[string]*started{}
	}
	st := f.started[name]
	if st == nil {
		st = &started{err: errors.New("its start was broken off")}
		f.started[name] = st
	}
	f.mu.Unlock()
	st.once.Do(func() {
		st.site, st.err = start(name)(context.Background(), f)
	})
	return st.site, st.err
}

// Bucket makes a bucket that no other test uses and returns its name.
func (f *Fleet) Bucket(tb testing.TB, s Site, k Kind) string {
	tb.Helper()
	name := fmt.Sprintf("%s-%d", k.Name, f.buckets.Add(1))
	if err := s.Create(tb.Context(), name, k); err != nil {
		tb.Fatalf("make a bucket %s in %s: %v", k.Name, s.Name(), err)
	}
	return name
}

// Stop stops whatever was started. No test may be running any more.
func (f *Fleet) Stop() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []error
	for name, st := range f.started {
		if st.site == nil {
			continue
		}
		if err := st.site.stop(); err != nil {
			all = append(all, fmt.Errorf("stop %s: %w", name, err))
		}
	}
	f.started = nil
	return errors.Join(all...)
}
