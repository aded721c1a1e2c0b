package oss_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/oss"
)

func TestWhatIsSentCanBeVerifiedAndForbidsToOverwrite(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, _ *http.Request, body []byte) {
		w.Header().Set("x-oss-hash-crc64ecma", crcOf(string(body)))
	})
	s := f.open(t)
	if _, err := s.Put(t.Context(), "a b/k", strings.NewReader("content"), store.PutOptions{Tags: map[string]string{"k": "a b+c"}}); err != nil {
		t.Fatal(err)
	}
	h := f.last(http.MethodPut).Header
	for name, want := range map[string]string{
		"x-oss-forbid-overwrite": "true",
		"Content-MD5":            "mgNkuembtIDdJeHwKEyFVQ==",
		"x-oss-tagging":          "k=a%20b%2Bc",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if !strings.HasPrefix(h.Get("Authorization"), "OSS4-HMAC-SHA256 Credential=AKID/") {
		t.Errorf("signed by %q", h.Get("Authorization"))
	}
}

func TestWithoutARegionTheOlderSignatureIsUsed(t *testing.T) {
	f := newFake(t, nil)
	f.open(t, func(o *oss.Options) { o.Region = "" })
	if got := f.last(http.MethodGet).Header.Get("Authorization"); !strings.HasPrefix(got, "OSS AKID:") {
		t.Errorf("signed by %q", got)
	}
}

func TestAnObjectThatTheServerAlteredFailsThePut(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.Header().Set("x-oss-hash-crc64ecma", "1") })
	_, err := f.open(t).Put(t.Context(), "k", strings.NewReader("content"), store.PutOptions{})
	if err == nil || !strings.Contains(strings.ToLower(err.Error()), "crc") {
		t.Errorf("Put = %v, want a complaint about the CRC", err)
	}
	isOneLine(t, err)
}

func TestAListingThatCannotBeTrustedIsAnError(t *testing.T) {
	version := func(key string) string {
		return "<Version><Key>" + key + "</Key><VersionId>null</VersionId><IsLatest>true</IsLatest><LastModified>2026-11-20T10:00:00.000Z</LastModified><Size>1</Size></Version>"
	}
	cases := map[string]string{
		"keys out of order":       version("a/b") + version("a/a") + version("b"),
		"a key out of place":      version("b/c"),
		"more, but not where":     version("a/a") + "<IsTruncated>true</IsTruncated>",
		"more, at the beginning":  version("a/a") + "<IsTruncated>true</IsTruncated><NextKeyMarker></NextKeyMarker>",
		"something without a key": "<Version><VersionId>null</VersionId></Version>",
	}
	for name, content := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(w http.ResponseWriter, r *http.Request, _ []byte) {
				if r.URL.Query().Has("worm") {
					refuse(w, r, http.StatusNotFound, "NoSuchWORMConfiguration")
					return
				}
				io.WriteString(w, "<ListVersionsResult>"+content+"</ListVersionsResult>")
			})
			var keys []string
			err := f.open(t).List(t.Context(), "a", func(o store.Object) error { keys = append(keys, o.Key); return nil })
			if err == nil {
				t.Errorf("List = %q and no error", keys)
			}
			isOneLine(t, err)
		})
	}
}

func TestAnswersAreClassified(t *testing.T) {
	cases := map[string]struct {
		status int
		code   string
		want   error
		words  string
	}{
		"forbidden":         {403, "AccessDenied", store.ErrForbidden, "permissions.md"},
		"a wrong key":       {403, "InvalidAccessKeyId", store.ErrCredentials, "accessKeyID"},
		"a wrong secret":    {403, "SignatureDoesNotMatch", store.ErrCredentials, "accessKeySecret"},
		"an ended session":  {403, "SecurityTokenExpired", store.ErrCredentials, "renew"},
		"a wrong clock":     {403, "RequestTimeTooSkewed", store.ErrCredentials, "clock"},
		"an unpaid account": {403, "UserDisable", store.ErrForbidden, "suspended"},
		"an archive":        {403, "InvalidObjectState", store.ErrForbidden, "archive"},
		"too fast":          {503, "QpsLimitExceeded", store.ErrThrottled, "later"},
		"failing":           {500, "InternalError", store.ErrUnreachable, "later"},
		"no bucket":         {404, "NoSuchBucket", store.ErrNoBucket, "container"},
		"no object":         {404, "NoSuchKey", store.ErrNotFound, ""},
		"no version":        {404, "NoSuchVersion", store.ErrNotFound, ""},
		"a marker":          {405, "MethodNotAllowed", store.ErrNotFound, "delete marker"},
		"not known":         {501, "NotImplemented", store.ErrUnsupported, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(w http.ResponseWriter, r *http.Request, _ []byte) { refuse(w, r, c.status, c.code) })
			_, err := f.open(t).Open(t.Context(), store.Version{Key: "k"}, 0, -1)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("Open = %v, want %v with %q", err, c.want, c.words)
			}
			isOneLine(t, err)
		})
	}
}

// The retention policy is unknown to a writer of few rights: that is not "none".
func TestAPolicyThatMayNotBeReadIsUnknown(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request, _ []byte) {
		switch {
		case r.URL.Query().Has("worm"):
			refuse(w, r, http.StatusForbidden, "AccessDenied")
		case r.URL.Query().Has("tagging"):
			io.WriteString(w, "<Tagging><TagSet/></Tagging>")
		default:
			w.Header().Set("Last-Modified", "Fri, 20 Nov 2026 10:00:00 GMT")
			w.Header().Set("Content-Length", "5")
		}
	})
	s := f.open(t)
	o, err := s.Stat(t.Context(), store.Version{Key: "k"})
	if err != nil || o.Retention != nil || o.Size != 5 {
		t.Errorf("Stat = %+v, %v", o, err)
	}
	b, err := s.Inspect(t.Context())
	if err != nil || b.Default != "unknown" || !strings.Contains(fmt.Sprint(b.Notes), "oss:GetBucketWorm") {
		t.Errorf("Inspect = %+v, %v", b, err)
	}
}

func TestWrongOptionsAreNamed(t *testing.T) {
	cases := map[string]struct {
		change func(*oss.Options)
		words  string
	}{
		"no bucket":            {func(o *oss.Options) { o.Bucket = "" }, "--store-container"},
		"a bucket in capitals": {func(o *oss.Options) { o.Bucket = "Bucket" }, "lower-case"},
		"no endpoint":          {func(o *oss.Options) { o.Endpoint = "" }, "storageEndpoint"},
		"an endpoint of FTP":   {func(o *oss.Options) { o.Endpoint = "ftp://x" }, "endpoint"},
		"a path":               {func(o *oss.Options) { o.Endpoint = "https://x/y" }, "endpoint"},
		"a secret in it":       {func(o *oss.Options) { o.Endpoint = "https://me:hunter2@x" }, "must not contain"},
		"no keys":              {func(o *oss.Options) { o.Keys = nil }, "credentials"},
		"no certificate":       {func(o *oss.Options) { o.TrustedCAs = []byte("x") }, "trustedCaCert"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := oss.Options{Bucket: "bucket", Endpoint: "oss-eu-central-1.aliyuncs.com", Keys: func() (oss.Keys, error) { return oss.Keys{}, nil }}
			c.change(&o)
			_, err := oss.New(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("New = %v, want %q", err, c.words)
			}
			isOneLine(t, err)
		})
	}
}
