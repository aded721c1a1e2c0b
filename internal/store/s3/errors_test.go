package s3_test

import (
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"druid.internal/druid/internal/hosttest"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/s3"
)

func TestWhatTheServerSaysBecomesAKindAndARemedy(t *testing.T) {
	cases := []struct {
		code   string
		status int
		want   error // nil: none of the sentinels
		remedy string
	}{
		{"NoSuchKey", 404, store.ErrNotFound, ""},
		{"NoSuchVersion", 404, store.ErrNotFound, ""},
		{"NoSuchBucket", 404, store.ErrNoBucket, "check the container's name"},
		{"AccessDenied", 403, store.ErrForbidden, "grant s3:ListBucketVersions"},
		{"InvalidAccessKeyId", 403, store.ErrCredentials, "check accessKeyID"},
		{"SignatureDoesNotMatch", 403, store.ErrCredentials, "check secretAccessKey"},
		{"ExpiredToken", 400, store.ErrCredentials, "renew the token"},
		{"RequestTimeTooSkewed", 403, store.ErrCredentials, "set the clock"},
		{"SlowDown", 503, store.ErrThrottled, "try again later"},
		{"", 429, store.ErrThrottled, "try again later"},
		{"AuthorizationHeaderMalformed", 400, nil, "the field region"},
		{"PermanentRedirect", 301, nil, "the field region"},
		{"InternalError", 500, store.ErrUnreachable, "try again later"},
		{"", 502, store.ErrUnreachable, "try again later"},
		{"NotImplemented", 501, store.ErrUnsupported, ""},
		{"XMinioStorageFull", 507, store.ErrNoSpace, "enlarge"},
		{"QuotaExceeded", 403, store.ErrNoSpace, "enlarge"},
		{"SomethingNew", 403, store.ErrForbidden, "grant s3:ListBucketVersions"},
		{"SomethingNew", 418, nil, ""},
	}
	sentinels := []error{store.ErrNotFound, store.ErrNoBucket, store.ErrExists, store.ErrForbidden, store.ErrCredentials,
		store.ErrThrottled, store.ErrUnreachable, store.ErrUnsupported, store.ErrNoSpace, store.ErrUnknownOutcome}
	for _, c := range cases {
		f := newFake(t, func(w http.ResponseWriter, r *http.Request) { refuse(w, c.status, c.code) })
		err := f.open(t, f.options()).List(t.Context(), "", func(store.Object) error { return nil })
		if err == nil {
			t.Errorf("%s %d is no error", c.code, c.status)
			continue
		}
		for _, s := range sentinels {
			if got, want := errors.Is(err, s), s == c.want; got != want {
				t.Errorf("%s %d: errors.Is(%q, %q) = %v", c.code, c.status, err, s, got)
			}
		}
		if !strings.Contains(err.Error(), c.remedy) || !strings.Contains(err.Error(), c.code) || !strings.Contains(err.Error(), "backups") {
			t.Errorf("%s %d: %q does not say what, where and the remedy %q", c.code, c.status, err, c.remedy)
		}
		if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "the-secret") {
			t.Errorf("%s %d: %q is more than one line or shows a secret", c.code, c.status, err)
		}
	}
}

var quiet = log.New(io.Discard, "", 0)

func someKeys() (s3.Keys, error) {
	return s3.Keys{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "the-secret"}, nil
}

func TestWhatHappensOnTheWayBecomesAKindAndARemedy(t *testing.T) {
	tlsServer := httptest.NewUnstartedServer(http.NotFoundHandler())
	tlsServer.Config.ErrorLog = quiet
	tlsServer.StartTLS()
	defer tlsServer.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	nobody := hosttest.Nobody()
	breaking := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	breaking.Config.ErrorLog = quiet
	breaking.Start()
	defer breaking.Close()

	cases := map[string]struct {
		endpoint string
		want     string
	}{
		"a certificate of an unknown CA": {tlsServer.URL, "trustedCaCert"},
		"a certificate of another host":  {strings.Replace(tlsServer.URL, "127.0.0.1", "localhost", 1), "trustedCaCert"},
		"a plain server asked for TLS":   {strings.Replace(plain.URL, "http://", "https://", 1), "speaks plain http"},
		"nobody listens":                 {"http://" + nobody, "connection refused"},
		"the connection breaks":          {breaking.URL, "broke"},
	}
	for name, c := range cases {
		_, err := s3.New(t.Context(), s3.Options{Bucket: "backups", Endpoint: c.endpoint, Attempts: 1, Keys: someKeys})
		if !errors.Is(err, store.ErrUnreachable) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", name, err, c.want)
		}
	}
	if _, err := s3.New(t.Context(), s3.Options{Bucket: "backups", Endpoint: tlsServer.URL, Attempts: 1, Keys: someKeys, InsecureSkipVerify: true}); errors.Is(err, store.ErrUnreachable) {
		t.Errorf("with verification switched off: %v", err)
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tlsServer.Certificate().Raw})
	if _, err := s3.New(t.Context(), s3.Options{Bucket: "backups", Endpoint: tlsServer.URL, Attempts: 1, Keys: someKeys, TrustedCAs: ca}); errors.Is(err, store.ErrUnreachable) {
		t.Errorf("with the CA: %v", err)
	}
}

func TestImpossibleOptionsAreRefusedBeforeAnyRequest(t *testing.T) {
	cases := map[string]struct {
		change func(*s3.Options)
		want   string
	}{
		"no bucket":               {func(o *s3.Options) { o.Bucket = "" }, "--store-container"},
		"no region":               {func(o *s3.Options) { o.Endpoint = "" }, "region"},
		"an endpoint of no sense": {func(o *s3.Options) { o.Endpoint = "ftp://x" }, "https://s3.example.com"},
		"a password in it":        {func(o *s3.Options) { o.Endpoint = "https://user:hidden@host" }, "must not contain"},
		"a CA that is none":       {func(o *s3.Options) { o.TrustedCAs = []byte("hello") }, "trustedCaCert"},
		"a key of a wrong length": {func(o *s3.Options) { o.CustomerKey = "short" }, "sseCustomerKey"},
		"two identities":          {func(o *s3.Options) { o.WebIdentity = &s3.WebIdentity{RoleARN: "a", TokenFile: "b"} }, "one too many"},
	}
	for name, c := range cases {
		o := s3.Options{Bucket: "backups", Endpoint: "https://127.0.0.1:1", Keys: someKeys}
		c.change(&o)
		_, err := s3.New(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
}

func TestARefusalToDeleteIsTakenForALockOnlyIfThereIsOne(t *testing.T) {
	const words, plain = "Access Denied because object protected by object lock.", "Access Denied"
	cases := map[string]struct {
		locked        bool
		code, message string
		status        int
		wantImmutable bool
		wantForbidden bool
	}{
		"AWS names the lock":                      {true, "AccessDenied", words, 403, true, false},
		"MinIO names the lock":                    {true, "InvalidRequest", "Object is WORM protected and cannot be overwritten", 400, true, false},
		"denied, and there is a lock: no proof":   {true, "AccessDenied", plain, 403, true, true},
		"denied, and there is no lock":            {false, "AccessDenied", plain, 403, false, true},
		"another invalid request is not a lock":   {true, "InvalidRequest", "something else", 400, false, false},
		"gone already":                            {false, "NoSuchVersion", "", 404, false, false},
		"the server is in trouble and has a lock": {true, "InternalError", "", 500, false, false},
	}
	for name, c := range cases {
		f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				if c.locked {
					w.Header().Set("X-Amz-Object-Lock-Mode", "COMPLIANCE")
					w.Header().Set("X-Amz-Object-Lock-Retain-Until-Date", "2099-01-01T00:00:00Z")
				}
				return
			}
			if r.Method == http.MethodGet {
				refuse(w, http.StatusNotFound, "NoSuchObjectLockConfiguration")
				return
			}
			w.WriteHeader(c.status)
			w.Write([]byte("<Error><Code>" + c.code + "</Code><Message>" + c.message + "</Message></Error>"))
		})
		f.locks = true
		err := f.open(t, f.options()).Delete(t.Context(), store.Version{Key: "k", ID: "v"})
		var immutable *store.ImmutableError
		if got := errors.As(err, &immutable); got != c.wantImmutable {
			t.Errorf("%s: %v is a refusal because of a lock: %v, want %v", name, err, got, c.wantImmutable)
		} else if got && immutable.Until.IsZero() {
			t.Errorf("%s: the refusal does not say until when", name)
		}
		if got := errors.Is(err, store.ErrForbidden); got != c.wantForbidden {
			t.Errorf("%s: %v is a missing permission: %v, want %v", name, err, got, c.wantForbidden)
		}
		if c.code == "NoSuchVersion" && err != nil {
			t.Errorf("%s: %v, want success", name, err)
		}
	}
}
