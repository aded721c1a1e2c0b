package ossfake

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"druid.internal/druid/test/stores"
)

// Options say where a fake listens. The zero value is right for tests.
type Options struct {
	Host string // IP address to listen on; empty: 127.0.0.1
	Port string // empty: a free one
	CA   *stores.CA
}

// Running is a fake that listens with TLS.
type Running struct {
	*Server
	Endpoint        string // https://ADDRESS:PORT
	CA              *stores.CA
	AccessKeyID     string
	AccessKeySecret string
	OtherKeyID      string // of somebody with buckets of his own; the secret is the same

	http *http.Server
	done chan error
}

// Start listens. The result is to be stopped.
func Start(o Options) (*Running, error) {
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	if o.Port == "" {
		o.Port = "0"
	}
	if o.CA == nil {
		var err error
		if o.CA, err = stores.NewCA(); err != nil {
			return nil, err
		}
	}
	r := &Running{CA: o.CA, AccessKeyID: "LTAI" + rand.Text(), AccessKeySecret: rand.Text(), done: make(chan error, 1)}
	r.OtherKeyID = "LTAI" + rand.Text()
	r.Server = New(r.AccessKeyID, r.OtherKeyID)
	conf, err := o.CA.ServerTLS(o.Host, "127.0.0.1", "localhost")
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(o.Host, o.Port))
	if err != nil {
		return nil, fmt.Errorf("start the fake of OSS: %w", err)
	}
	r.Endpoint = "https://" + listener.Addr().String()
	r.http = &http.Server{Handler: r.Server, TLSConfig: conf, ReadHeaderTimeout: time.Minute}
	go func() { r.done <- r.http.ServeTLS(listener, "", "") }()
	return r, nil
}

// Stop ends it and waits until it has ended.
func (r *Running) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := r.http.Shutdown(ctx)
	if served := <-r.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// LockedUntil is when the policy of a bucket, if it stands, no longer protects the newest version of a key.
func (s *Server) LockedUntil(name, key string) (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[name]
	if b == nil || len(b.objects[key]) == 0 || !b.worm.stands(s.now()) {
		return time.Time{}, fmt.Errorf("%s in %s is not there, or not locked", key, name)
	}
	return b.objects[key][0].modified.Add(time.Duration(b.worm.days) * day), nil
}

// Lifecycle is what the lifecycle rules of a bucket were set to; SetLifecycle sets them.
func (s *Server) Lifecycle(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.buckets[name].lifecycle)
}

// SetLifecycle sets the lifecycle rules of a bucket.
func (s *Server) SetLifecycle(name, rules string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buckets[name].lifecycle = []byte(rules)
}

// Kind is a kind of bucket.
type Kind string

// The kinds of buckets.
const (
	Plain           Kind = "plain"
	Versioned       Kind = "versioned"
	Begun           Kind = "begun"            // a retention policy that is not completed
	Locked          Kind = "locked"           // a retention policy that is
	VersionedLocked Kind = "versioned-locked" // both
)

// Kinds lists them.
func Kinds() []Kind { return []Kind{Plain, Versioned, Begun, Locked, VersionedLocked} }

// CreateBucket makes a bucket; days are those of its retention policy, if it has one.
func (s *Server) CreateBucket(name string, kind Kind, days int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !slices.Contains(Kinds(), kind):
		return fmt.Errorf("bucket %s: the kind %q is unknown, known are %v", name, kind, Kinds())
	case s.buckets[name] != nil:
		return fmt.Errorf("bucket %s is there already", name)
	case days < 1 || days > 25550:
		return fmt.Errorf("bucket %s: the days of a retention policy are from 1 to 25550", name)
	}
	b := &bucket{owner: s.keys[0], objects: map[string][]*version{}, uploads: map[string]*upload{}}
	if kind == Versioned || kind == VersionedLocked {
		b.versioning = "Enabled"
	}
	if kind == Begun || kind == Locked || kind == VersionedLocked {
		s.serial++
		b.worm = &worm{id: fmt.Sprintf("%019X", s.serial), locked: kind != Begun, days: days, created: s.now()}
	}
	s.buckets[name] = b
	return nil
}
