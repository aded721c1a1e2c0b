package s3_test

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"druid.internal/druid/internal/store/s3"
)

// fake answers in a server's place. It keeps nothing; what it answers is the test's business,
// except for what every store asks when it is opened.
type fake struct {
	*httptest.Server

	name       string // the Server header
	versioning string // the status; empty: never switched on
	locks      bool
	handle     http.HandlerFunc // everything else

	asked    atomic.Int32 // for settings
	mu       sync.Mutex
	requests []request
}

// request is one that the fake was sent.
type request struct {
	method, path, query string
	header              http.Header
	body                []byte
}

// operation names a request as S3's documentation does, roughly.
func (r request) operation() string {
	switch q := r.query; {
	case r.method == http.MethodPut && strings.Contains(q, "partNumber"):
		return "UploadPart"
	case r.method == http.MethodPut && !strings.Contains(q, "tagging") && !strings.Contains(q, "retention"):
		return "PutObject"
	case r.method == http.MethodPost && strings.Contains(q, "uploads"):
		return "CreateMultipartUpload"
	case r.method == http.MethodPost && strings.Contains(q, "uploadId"):
		return "CompleteMultipartUpload"
	case r.method == http.MethodDelete && strings.Contains(q, "uploadId"):
		return "AbortMultipartUpload"
	case r.method == http.MethodGet && strings.Contains(q, "versions"):
		return "ListObjectVersions"
	case r.method == http.MethodGet && strings.Contains(q, "tagging"):
		return "GetObjectTagging"
	case r.method == http.MethodHead && strings.Count(r.path, "/") < 2:
		return "HeadBucket"
	case r.method == http.MethodHead:
		return "HeadObject"
	case r.method == http.MethodGet:
		return "GetObject"
	case r.method == http.MethodDelete:
		return "DeleteObject"
	}
	return r.method + " " + r.path + "?" + r.query
}

func newFake(t *testing.T, handle http.HandlerFunc) *fake {
	t.Helper()
	f := unstarted(t, handle)
	f.StartTLS()
	return f
}

// newPlainFake is one without TLS.
func newPlainFake(t *testing.T, handle http.HandlerFunc) *fake {
	t.Helper()
	f := unstarted(t, handle)
	f.Start()
	return f
}

func unstarted(t *testing.T, handle http.HandlerFunc) *fake {
	f := &fake{name: "MinIO", versioning: "Enabled", handle: handle}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", f.name)
	q := r.URL.Query()
	if r.Method == http.MethodGet && (q.Has("versioning") || q.Has("object-lock")) {
		f.asked.Add(1)
	}
	switch {
	case r.Method == http.MethodGet && q.Has("versioning"):
		fmt.Fprintf(w, `<VersioningConfiguration><Status>%s</Status></VersioningConfiguration>`, f.versioning)
		return
	case r.Method == http.MethodGet && q.Has("object-lock"):
		if f.locks {
			io.WriteString(w, `<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>`)
		} else {
			refuse(w, http.StatusNotFound, "ObjectLockConfigurationNotFoundError")
		}
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	f.requests = append(f.requests, request{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Clone(), body})
	f.mu.Unlock()
	f.handle(w, r)
}

// operations are the requests after opening, in order.
func (f *fake) operations() []string {
	var names []string
	for _, r := range f.sent() {
		names = append(names, r.operation())
	}
	return names
}

func (f *fake) sent() []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>said the server</Message></Error>`, code)
}

// options reach the fake. One attempt, unless a test is about repeating.
func (f *fake) options() s3.Options {
	return s3.Options{
		Bucket: "backups", Endpoint: f.URL, Attempts: 1,
		TrustedCAs: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw}),
		Keys: func() (s3.Keys, error) {
			return s3.Keys{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "the-secret"}, nil
		},
	}
}

func (f *fake) open(t *testing.T, o s3.Options) *s3.Store {
	t.Helper()
	s, err := s3.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.CloseIdle)
	return s
}

// accepting answers uploads as a server without faults does.
func accepting(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodPost && q.Has("uploads"):
		io.WriteString(w, `<InitiateMultipartUploadResult><UploadId>upload-1</UploadId></InitiateMultipartUploadResult>`)
	case r.Method == http.MethodPost:
		w.Header().Set("X-Amz-Version-Id", "v1")
		io.WriteString(w, `<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>`)
	case r.Method == http.MethodPut:
		w.Header().Set("ETag", `"e"`)
		w.Header().Set("X-Amz-Version-Id", "v1")
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, http.StatusNotFound, "NoSuchKey")
	}
}

// wantIntegrity checks that the body of a request is covered by a checksum that is right, in
// the wanted header, and by the signature.
func wantIntegrity(t *testing.T, r request, legacy bool) {
	t.Helper()
	var crc [4]byte
	binary.BigEndian.PutUint32(crc[:], crc32.ChecksumIEEE(r.body))
	sum := md5.Sum(r.body)
	name, want := "X-Amz-Checksum-Crc32", base64.StdEncoding.EncodeToString(crc[:])
	if legacy {
		name, want = "Content-Md5", base64.StdEncoding.EncodeToString(sum[:])
	}
	if got := r.header.Get(name); got != want {
		t.Errorf("%s: %s is %q, want %q", r.operation(), name, got, want)
	}
	digest := sha256.Sum256(r.body)
	if got := r.header.Get("X-Amz-Content-Sha256"); got != hex.EncodeToString(digest[:]) {
		t.Errorf("%s: the signature covers %q, not the body", r.operation(), got)
	}
}
