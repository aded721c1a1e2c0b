package gcs

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"

	"druid.internal/druid/internal/store"
)

// answer is what the SDK makes of an answer.
func answer(status int, reason, message string) error {
	e := &googleapi.Error{Code: status, Message: message}
	if reason != "" {
		e.Errors = []googleapi.ErrorItem{{Reason: reason, Message: message}}
	}
	return fmt.Errorf("storage: retry failed after 4 attempts; last error: %w", e)
}

func TestErrorsAreClassifiedOnceAndSayWhatToDo(t *testing.T) {
	s := &Store{opts: Options{Bucket: "b"}}
	sent := func(err error) error {
		return &url.Error{Op: "Get", URL: "https://storage.googleapis.com/storage/v1/b/b", Err: err}
	}
	cases := map[string]struct {
		err     error
		want    error
		says    string
		passing bool
	}{
		"no object":               {answer(404, "notFound", "No such object: b/k"), store.ErrNotFound, "No such object", false},
		"no bucket":               {answer(404, "notFound", "The specified bucket does not exist."), store.ErrNoBucket, "check the container", false},
		"no object, by the SDK":   {storage.ErrObjectNotExist, store.ErrNotFound, "", false},
		"no bucket, by the SDK":   {storage.ErrBucketNotExist, store.ErrNoBucket, "create it", false},
		"it exists":               {answer(412, "conditionNotMet", "x"), store.ErrExists, "", false},
		"no permission":           {answer(403, "forbidden", "sa@p does not have storage.objects.create access"), store.ErrForbidden, "permissions.md", false},
		"no permission, in brief": {answer(403, "", ""), store.ErrForbidden, "Forbidden (HTTP 403)", false},
		"billing is off":          {answer(403, "accountDisabled", "x"), store.ErrForbidden, "billing", false},
		"the API is off":          {answer(403, "accessNotConfigured", "x"), store.ErrForbidden, "enable the Cloud Storage API", false},
		"a quota":                 {answer(403, "quotaExceeded", "x"), store.ErrThrottled, "quota", false},
		"a rate, as forbidden":    {answer(403, "rateLimitExceeded", "x"), store.ErrThrottled, "later", false},
		"a rate":                  {answer(429, "rateLimitExceeded", "x"), store.ErrThrottled, "later", true},
		"a token that ended":      {answer(401, "authError", "Invalid Credentials"), store.ErrCredentials, "expired", false},
		"nobody in particular":    {answer(401, "required", "Anonymous caller does not have access"), store.ErrCredentials, "Anonymous", false},
		"the server fails":        {answer(503, "backendError", "x"), store.ErrUnreachable, "answers but fails", true},
		"a page of a proxy":       {&googleapi.Error{Code: 502, Body: "<html>secret</html>"}, store.ErrUnreachable, "Bad Gateway (HTTP 502)", true},
		"not implemented":         {answer(501, "notImplemented", "x"), store.ErrUnsupported, "", false},
		"no space":                {answer(507, "", "x"), store.ErrNoSpace, "enlarge", false},
		"too large":               {answer(413, "uploadTooLarge", "x"), nil, "5 TiB", false},
		"a redirect":              {&googleapi.Error{Code: 302}, nil, "--store-endpoint-override", false},
		"refused":                 {sent(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}), store.ErrUnreachable, "refused", true},
		"no name":                 {sent(&net.DNSError{Name: "storage.googleapis.com", Err: "no such host"}), store.ErrUnreachable, "cannot be resolved", false},
		"reset":                   {sent(&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}), store.ErrUnreachable, "broke", true},
		"closed without a word":   {sent(io.EOF), store.ErrUnreachable, "broke", true},
		"closed while idle":       {sent(errors.New("http: server closed idle connection")), store.ErrUnreachable, "broke", true},
		"nothing moved":           {sent(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}), store.ErrUnreachable, "in time", true},
		"no trust":                {sent(x509.UnknownAuthorityError{}), store.ErrUnreachable, "trustedCaCert", false},
		"no route":                {sent(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}), store.ErrUnreachable, "no connection", false},
		"no identity":             {sent(&credentialsError{err: errors.New("none was found")}), store.ErrCredentials, "none was found", false},
		"an identity refused":     {sent(&credentialsError{status: 400, err: errors.New("invalid_grant: account not found")}), store.ErrCredentials, "still exist", false},
		"no token for now":        {sent(&credentialsError{status: 503, err: errors.New("x")}), store.ErrUnreachable, "later", true},
		"no way to a token":       {sent(&credentialsError{err: &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}}), store.ErrUnreachable, "token service", true},
		"nobody gives tokens":     {sent(&credentialsError{issuer: "https://tokens.example/t", err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}), store.ErrUnreachable, "refused by the token service of the credentials (https://tokens.example/t)", false},
		"no trust in its service": {sent(&credentialsError{err: x509.UnknownAuthorityError{}}), store.ErrUnreachable, "token service", false},
		"words of the SDK":        {errors.New("storage: something\nodd"), nil, "something odd", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := s.classify(t.Context(), c.err)
			if c.want != nil && !errors.Is(got, c.want) || !strings.Contains(got.Error(), c.says) || strings.Contains(got.Error(), "\n") || strings.Contains(got.Error(), "secret") {
				t.Errorf("%q, want one line of kind %v with %q", got, c.want, c.says)
			}
			if c.want == nil {
				for _, kind := range []error{store.ErrNotFound, store.ErrExists, store.ErrForbidden, store.ErrUnreachable} {
					if errors.Is(got, kind) {
						t.Errorf("%q is of kind %v", got, kind)
					}
				}
			}
			if again := s.classify(t.Context(), fmt.Errorf("wrapped: %w", got)); again.Error() != "wrapped: "+got.Error() {
				t.Errorf("classified twice it is %q", again)
			}
			if passing(c.err) != c.passing {
				t.Errorf("worth repeating: %v, want %v", !c.passing, c.passing)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := s.classify(ctx, answer(404, "notFound", "x")); got != context.Canceled { //nolint:errorlint // nothing else may be in it
		t.Errorf("after a cancelation it is %v", got)
	}
}

func TestALockIsBlamedOnlyWhereTheServerSaysSo(t *testing.T) {
	cases := map[string]struct {
		err          error
		blamed, hold bool
	}{
		"a policy":                 {answer(403, "retentionPolicyNotMet", "x"), true, false},
		"a hold":                   {answer(403, "objectUnderActiveHold", "x"), true, true},
		"a policy, in words":       {answer(403, "forbidden", "Object 'b/k' is subject to bucket's retention policy and cannot be deleted, overwritten or archived until 2026-01-01"), true, false},
		"a hold, in words":         {answer(403, "forbidden", "Object 'b/k' is under active Event-Based hold and cannot be deleted"), true, true},
		"a missing permission":     {answer(403, "forbidden", "sa@p does not have storage.objects.delete access"), false, false},
		"a lock that is not a 403": {answer(400, "retentionPolicyNotMet", "x"), false, false},
		"no answer":                {io.EOF, false, false},
	}
	for name, c := range cases {
		if blamed, hold := blamesLock(c.err); blamed != c.blamed || hold != c.hold {
			t.Errorf("%s: blamed %v, hold %v", name, blamed, hold)
		}
	}
}

func TestEndpointsAreCompleted(t *testing.T) {
	cases := map[string]struct {
		give, want string
		anonymous  bool
	}{
		"nothing":             {"", "", false},
		"a host":              {"storage.example.com", "https://storage.example.com/storage/v1/", false},
		"a URL":               {"https://storage.example.com/", "https://storage.example.com/storage/v1/", false},
		"a URL with the path": {"https://storage.example.com/storage/v1", "https://storage.example.com/storage/v1/", false},
		"an emulator":         {"http://127.0.0.1:4443", "http://127.0.0.1:4443/storage/v1/", true},
	}
	for name, c := range cases {
		o, err := Options{Bucket: "b", Endpoint: c.give}.complete()
		if err != nil || o.Endpoint != c.want || o.Anonymous != c.anonymous {
			t.Errorf("%s: %q, anonymous %v, %v", name, o.Endpoint, o.Anonymous, err)
		}
	}
	for name, o := range map[string]Options{
		"no bucket": {}, "a path for a bucket": {Bucket: "a/b"}, "no URL": {Bucket: "b", Endpoint: "ftp://x"},
		"a password": {Bucket: "b", Endpoint: "https://u:hunter2@x"}, "a query": {Bucket: "b", Endpoint: "https://x/?a=b"},
	} {
		if _, err := o.complete(); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for give, want := range map[int64]int64{0: DefaultChunkSize, 1: 256 << 10, 5 << 20: 5 << 20, 5<<20 + 1: 5<<20 + 256<<10, 1 << 40: 1 << 30} {
		if o, err := (Options{Bucket: "b", ChunkSize: give}).complete(); err != nil || o.ChunkSize != want {
			t.Errorf("a chunk of %d bytes becomes %d, %v, want %d", give, o.ChunkSize, err, want)
		}
	}
	if o, _ := (Options{Bucket: "b"}).complete(); o.IdleTimeout != 2*time.Minute || o.Attempts != 4 || o.server() != "Google Cloud Storage" {
		t.Errorf("the defaults are %+v", o)
	}
}

// A redirect must lead neither a body nor a token elsewhere.
func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := 0
	mux := http.NewServeMux()
	mux.HandleFunc("/elsewhere", func(http.ResponseWriter, *http.Request) { elsewhere++ })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) })
	s := serve(t, mux)
	if err := s.List(t.Context(), "", func(store.Object) error { return nil }); err == nil || !strings.Contains(err.Error(), "--store-endpoint-override") {
		t.Errorf("List = %v", err)
	}
	if elsewhere > 0 {
		t.Error("the redirect was followed")
	}
}
