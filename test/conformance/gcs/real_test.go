package gcs_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/prober"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/gcs"
	storeopen "druid.internal/druid/internal/store/open"
	"druid.internal/druid/test/stores"
)

// real asks for the probes to be made in a bucket of Google as well, with
//
//	DRUID_TEST_GCS_BUCKET                  its name; what is written below druid-conformance/ stays as long as it is locked
//	GOOGLE_APPLICATION_CREDENTIALS         who asks, as etcdbrctl takes it
//
// Without them it fails, for who asks for a proof must not get none in silence.
var real = flag.Bool("real", false, "make the probes in the bucket DRUID_TEST_GCS_BUCKET of Google, too")

const realBucket = "DRUID_TEST_GCS_BUCKET"

// The shim encodes what Google documents. These probes ask the shim and, on request, Google
// the same questions: where the answers differ, the shim is wrong.
func TestTheProbesAreAnsweredAlike(t *testing.T) {
	for name, b := range map[string]stores.GCSBucket{
		"the shim, plain":                {},
		"the shim, versioned":            {Versioned: true},
		"the shim, with a policy":        {Policy: 24 * time.Hour},
		"the shim, with a locked policy": {Policy: 24 * time.Hour, Locked: true},
		"the shim, with object locks":    {ObjectLock: true},
		"the shim, with all of it":       {Policy: 24 * time.Hour, ObjectLock: true, Versioned: true},
	} {
		t.Run(name, func(t *testing.T) { probes(t, open(t, options(newBucket(t, b))), server.Shim.Now) })
	}
	if !*real {
		return
	}
	t.Run("Google", func(t *testing.T) {
		bucket := os.Getenv(realBucket)
		if bucket == "" {
			t.Fatalf("-real needs %s, and credentials in GOOGLE_APPLICATION_CREDENTIALS or an ambient identity", realBucket)
		}
		s, err := storeopen.Open(t.Context(), storeopen.Config{
			Provider: "GCS", Container: bucket, Environment: storeopen.FromEnvironment(os.Getenv, ""), Proxy: http.ProxyFromEnvironment,
		})
		if err != nil {
			t.Fatal(err)
		}
		probes(t, s.(*gcs.Store), time.Now)
	})
}

// probes write below a prefix of their own, clean up what can be, and derive what to expect
// from the bucket's configuration.
func probes(t *testing.T, s *gcs.Store, now func() time.Time) {
	prefix := "druid-conformance/" + strings.ToLower(rand.Text())
	caps := s.Capabilities()
	b, err := s.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	policed := b.Period > 0
	t.Cleanup(func() {
		_ = s.List(t.Context(), prefix, func(o store.Object) error { _ = s.Delete(t.Context(), o.Version); return nil })
	})
	put := func(name string, body []byte, opts store.PutOptions) store.Object {
		t.Helper()
		o, err := s.Put(t.Context(), prefix+"/"+name, bytes.NewReader(body), opts)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}

	// An object is whole, exists once, and is told with its lock and tags by all who tell.
	large := make([]byte, 40<<20)
	_, _ = rand.Read(large)
	o := put("large", large, store.PutOptions{Tags: map[string]string{"Purpose": "a probe"}})
	if !bytes.Equal(content(t, s, o.Version), large) {
		t.Error("a large object differs")
	}
	r, err := s.Open(t.Context(), o.Version, 10<<20, 1000)
	if err != nil {
		t.Fatal(err)
	}
	part, err := io.ReadAll(r)
	r.Close()
	if err != nil || !bytes.Equal(part, large[10<<20:10<<20+1000]) {
		t.Errorf("a part of it differs: %v", err)
	}
	if _, err := s.Open(t.Context(), o.Version, 10<<20, 100<<20); err == nil {
		if r, _ := s.Open(t.Context(), o.Version, 10<<20, 100<<20); r != nil {
			if _, err := io.Copy(io.Discard, r); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("a range beyond the end = %v", err)
			}
			r.Close()
		}
	}
	for _, size := range []int{1, 40 << 20} {
		if _, err := s.Put(t.Context(), o.Key, bytes.NewReader(large[:size]), store.PutOptions{}); !errors.Is(err, store.ErrExists) {
			t.Errorf("a second Put of %d bytes = %v, want %v", size, err, store.ErrExists)
		}
	}
	st, err := s.Stat(t.Context(), o.Version)
	if err != nil {
		t.Fatal(err)
	}
	if st.Tags["Purpose"] != "a probe" || len(st.Tags) != 1 || st.ServerTime.IsZero() {
		t.Errorf("Stat = %+v", st)
	}
	if policed && (st.Retention.Mode != b.Default || st.Retention.Until.Sub(st.Modified.Add(b.Period)).Abs() > time.Minute) {
		t.Errorf("its lock is %+v, want %s for %s from %s", *st.Retention, b.Default, b.Period, st.Modified)
	}
	for _, l := range below(t, s, prefix) {
		if !l.Retention.Until.Equal(st.Retention.Until) || l.Retention.Mode != st.Retention.Mode || l.Tags["Purpose"] != "a probe" {
			t.Errorf("List tells %+v with %+v, Stat %+v", l, *l.Retention, *st.Retention)
		}
	}

	// Locked or not, metadata can be edited; a hold protects.
	if err := s.SetTag(t.Context(), o.Version, "x-etcd-snapshot-exclude", "true"); err != nil {
		t.Errorf("SetTag = %v", err)
	}
	if err := s.SetHold(t.Context(), o.Version, true); err != nil {
		t.Errorf("SetHold = %v", err)
	}
	var refused *store.ImmutableError
	if err := s.Delete(t.Context(), o.Version); !errors.As(err, &refused) || !refused.Hold {
		t.Errorf("Delete under a hold = %v", err)
	}
	if st, err := s.Stat(t.Context(), o.Version); err != nil || !st.Retention.Hold || len(st.Tags) != 2 {
		t.Errorf("Stat = %+v with %+v, %v", st, st.Retention, err)
	}
	if err := s.SetHold(t.Context(), o.Version, false); err != nil {
		t.Errorf("releasing the hold = %v", err)
	}
	switch err := s.Delete(t.Context(), o.Version); {
	case policed && (!errors.As(err, &refused) || refused.Hold || refused.Until.IsZero()):
		t.Errorf("Delete under the policy = %v", err)
	case !policed && err != nil:
		t.Errorf("Delete = %v", err)
	}

	// A copy inside the service.
	src := put("source", []byte("source"), store.PutOptions{})
	made, err := s.Copy(t.Context(), s, src.Version, prefix+"/copy", store.PutOptions{})
	if err != nil || string(content(t, s, made.Version)) != "source" {
		t.Errorf("Copy = %+v, %v", made, err)
	}
	if _, err := s.Copy(t.Context(), s, src.Version, prefix+"/copy", store.PutOptions{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("a second Copy = %v, want %v", err, store.ErrExists)
	}

	// A lock of an object's own.
	until := now().Add(time.Hour).Truncate(time.Second)
	ask := store.PutOptions{Retention: &immutability.Retention{Mode: immutability.ModeCompliance, Until: until}}
	if !caps.ObjectLock {
		if _, err := s.Put(t.Context(), prefix+"/locked", strings.NewReader("x"), ask); !errors.Is(err, store.ErrUnsupported) {
			t.Errorf("Put with a lock = %v, want %v", err, store.ErrUnsupported)
		}
	} else {
		locked := put("locked", []byte("x"), ask)
		if r, err := s.Extend(t.Context(), locked.Version, until.Add(time.Hour)); err != nil && !policed || err == nil && r.Until.Before(until.Add(time.Hour)) {
			t.Errorf("Extend = %+v, %v", r, err)
		}
		if err := s.Delete(t.Context(), locked.Version); !errors.As(err, &refused) {
			t.Errorf("Delete of what is locked = %v", err)
		}
	}
	want := b.Default
	deletion := prober.Refused
	if !policed {
		want, deletion = immutability.ModeNone, prober.Allowed
	}
	probe(t, s, prober.Options{Prefix: snapshot.Prefix(prefix)}, now(), want, deletion)
}

// below lists a prefix.
func below(t *testing.T, s store.Reader, prefix string) []store.Object {
	t.Helper()
	var all []store.Object
	if err := s.List(t.Context(), prefix, func(o store.Object) error { all = append(all, o); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}
