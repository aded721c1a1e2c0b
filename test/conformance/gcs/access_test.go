package gcs_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/gcs"
	"druid.internal/druid/test/stores"
)

// The permissions of the roles, as the documentation recommends them.
var (
	mayWrite   = []string{"storage.buckets.get", "storage.objects.create", "storage.objects.get", "storage.objects.list"}
	mayRead    = []string{"storage.buckets.get", "storage.objects.get", "storage.objects.list"}
	mayCollect = []string{"storage.buckets.get", "storage.objects.get", "storage.objects.list", "storage.objects.delete"}
)

// office is a server of its own where nobody is served without a token.
type office struct {
	*stores.GCS
	bucket string
}

func newOffice(t *testing.T, b stores.GCSBucket) office {
	t.Helper()
	g := stores.RunGCS(t)
	if err := g.CreateBucket(t.Context(), "guarded", b); err != nil {
		t.Fatal(err)
	}
	g.Shim.Identify("root@test", "*")
	return office{g, "guarded"}
}

// options are those of a service account.
func (o office) options(t *testing.T, email string) gcs.Options {
	t.Helper()
	key, err := o.ServiceAccount(email)
	if err != nil {
		t.Fatal(err)
	}
	c, err := gcs.ParseCredentials(key)
	if err != nil {
		t.Fatal(err)
	}
	return gcs.Options{
		Bucket: o.bucket, Endpoint: o.Endpoint, TrustedCAs: o.CA.PEM, ChunkSize: chunk, Attempts: 2,
		Credentials: func() (gcs.Credentials, error) { return c, nil },
	}
}

// as is a store that asks with these permissions.
func (o office) as(t *testing.T, email string, permissions ...string) *gcs.Store {
	t.Helper()
	o.Shim.Identify(email, permissions...)
	return open(t, o.options(t, email))
}

func TestAWriterWithTheLeastRightsCanDoItsWorkAndNothingElse(t *testing.T) {
	o := newOffice(t, stores.GCSBucket{Policy: 24 * time.Hour, Locked: true})
	s := o.as(t, "writer@test", mayWrite...)
	for _, size := range []int{10, 2*chunk + 1} {
		key := fmt.Sprintf("a/key-%d", size)
		obj, err := s.Put(t.Context(), key, bytes.NewReader(make([]byte, size)), store.PutOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), key, bytes.NewReader(make([]byte, size)), store.PutOptions{}); !errors.Is(err, store.ErrExists) {
			t.Errorf("a second Put = %v, want %v", err, store.ErrExists)
		}
		st, err := s.Stat(t.Context(), obj.Version)
		if err != nil || st.Retention.Mode != immutability.ModeCompliance {
			t.Errorf("Stat = %+v, %v", st, err)
		}
		if len(content(t, s, obj.Version)) != size {
			t.Error("it cannot read what it wrote")
		}
		for what, err := range map[string]error{
			"Delete":  s.Delete(t.Context(), obj.Version),
			"SetTag":  s.SetTag(t.Context(), obj.Version, "k", "v"),
			"SetHold": s.SetHold(t.Context(), obj.Version, true),
		} {
			var locked *store.ImmutableError
			if !errors.Is(err, store.ErrForbidden) || errors.As(err, &locked) || !strings.Contains(err.Error(), "storage.objects.") {
				t.Errorf("%s = %v, want %v, the permission, and no claim about a lock", what, err, store.ErrForbidden)
			}
		}
	}
	if all := listed(t, s); len(all) != 2 {
		t.Errorf("it lists %+v", all)
	}
	r := o.as(t, "reader@test", mayRead...)
	if all := listed(t, r); len(all) != 2 || len(content(t, r, all[0].Version)) != 10 {
		t.Errorf("a reader lists %+v", all)
	}
	if _, err := r.Put(t.Context(), "a/other", strings.NewReader("x"), store.PutOptions{}); !errors.Is(err, store.ErrForbidden) {
		t.Errorf("a reader's Put = %v, want %v", err, store.ErrForbidden)
	}
	var locked *store.ImmutableError
	c := o.as(t, "collector@test", mayCollect...)
	if err := c.Delete(t.Context(), listed(t, c)[0].Version); !errors.As(err, &locked) || errors.Is(err, store.ErrForbidden) {
		t.Errorf("a collector's Delete = %v, want the lock's refusal", err)
	}
}

// Who may not read the bucket's configuration still sees every lock, and hides nothing.
func TestWithoutThePermissionToReadTheBucketLocksAreSeen(t *testing.T) {
	o := newOffice(t, stores.GCSBucket{Versioned: true, Policy: time.Hour, Locked: true})
	s := o.as(t, "blind@test", "storage.objects.create", "storage.objects.get", "storage.objects.list", "storage.objects.delete")
	obj, err := s.Put(t.Context(), "a/key", strings.NewReader("x"), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Whether the policy is locked is not known, so the weaker is claimed.
	if st, err := s.Stat(t.Context(), obj.Version); err != nil || st.Retention.Mode != immutability.ModeGovernance || st.Retention.Until.IsZero() {
		t.Errorf("Stat = %+v, %v", st, err)
	}
	b, err := s.Inspect(t.Context())
	if err != nil || b.Default != immutability.ModeUnknown || len(b.Notes) == 0 || !strings.Contains(b.Notes[0], "storage.buckets.get") {
		t.Errorf("Inspect = %+v, %v", b, err)
	}
	o.Shim.Advance(2 * time.Hour)
	if err := s.Delete(t.Context(), obj.Version); err != nil {
		t.Errorf("Delete = %v", err)
	}
	if all := listed(t, s); len(all) != 0 {
		t.Errorf("the deletion left %+v, so it only hid something", all)
	}
}

func TestATokenThatEndsOrIsRevokedIsReplaced(t *testing.T) {
	o := newOffice(t, stores.GCSBucket{})
	s := o.as(t, "writer@test", mayWrite...)
	for name, end := range map[string]func(){"it ended": func() { o.Shim.Advance(2 * time.Hour) }, "it was revoked": o.Shim.Revoke} {
		end()
		if err := s.List(t.Context(), "", func(store.Object) error { return nil }); err != nil {
			t.Errorf("%s: List = %v", name, err)
		}
		end()
		if _, err := s.Put(t.Context(), "a/"+name, bytes.NewReader(make([]byte, 2*chunk)), store.PutOptions{}); err != nil {
			t.Errorf("%s: Put = %v", name, err)
		}
	}
}

func TestWrongCredentialsBucketsAndCertificatesAreNamed(t *testing.T) {
	o := newOffice(t, stores.GCSBucket{})
	o.Shim.Identify("writer@test", mayWrite...)
	cases := map[string]struct {
		change func(*gcs.Options)
		want   error
		says   string
	}{
		"an unknown account": {func(p *gcs.Options) { *p = o.options(t, "nobody@test") }, store.ErrCredentials, "account not found"},
		"no identity":        {func(p *gcs.Options) { p.Anonymous, p.Credentials = true, nil }, store.ErrCredentials, "Anonymous caller"},
		"no such bucket":     {func(p *gcs.Options) { p.Bucket = "nobody-made-this" }, store.ErrNoBucket, "nobody-made-this"},
		"no CA":              {func(p *gcs.Options) { p.TrustedCAs = nil }, store.ErrUnreachable, "trustedCaCert"},
		"nobody is there":    {func(p *gcs.Options) { p.Endpoint = "https://127.0.0.1:1" }, store.ErrUnreachable, "https://127.0.0.1:1"},
		"plain http":         {func(p *gcs.Options) { p.Endpoint = "http://" + o.Address }, nil, o.Address},
		"credentials that cannot be read": {func(p *gcs.Options) {
			p.Credentials = func() (gcs.Credentials, error) { return gcs.Credentials{}, errors.New("the file is gone") }
		}, store.ErrCredentials, "the file is gone"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := o.options(t, "writer@test")
			p.Attempts = 1
			c.change(&p)
			_, err := gcs.New(t.Context(), p)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "PRIVATE KEY") {
				t.Errorf("%v, want one line of kind %v with %q", err, c.want, c.says)
			}
		})
	}
	// An account that disappears while a store is open.
	s := o.as(t, "late@test", mayRead...)
	o.Shim.Identify("late@test")
	o.Shim.Revoke()
	if err := s.List(t.Context(), "", func(store.Object) error { return nil }); !errors.Is(err, store.ErrCredentials) || strings.Contains(err.Error(), "\n") {
		t.Errorf("List = %v, want one line of kind %v", err, store.ErrCredentials)
	}
}
