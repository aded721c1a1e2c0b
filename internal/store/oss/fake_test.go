package oss_test

import (
	"encoding/xml"
	"fmt"
	"hash/crc64"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"druid.internal/druid/internal/store/oss"
)

// fake answers in a server's place. It keeps nothing; what it answers is the test's business,
// except for what every store asks when it is opened. A whole server is in the module of the
// tests with servers.
type fake struct {
	*httptest.Server
	handle func(w http.ResponseWriter, r *http.Request, body []byte)

	mu       sync.Mutex
	requests []*http.Request
}

func newFake(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, body []byte)) *fake {
	t.Helper()
	f := &fake{handle: handle}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		f.mu.Lock()
		f.requests = append(f.requests, r)
		f.mu.Unlock()
		switch q := r.URL.Query(); {
		case q.Has("versioning"):
			io.WriteString(w, "<VersioningConfiguration/>")
		case q.Has("worm") && handle == nil:
			refuse(w, r, http.StatusNotFound, "NoSuchWORMConfiguration")
		default:
			handle(w, r, body)
		}
	}))
	f.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.Start()
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

func refuse(w http.ResponseWriter, r *http.Request, status int, code string) {
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	b, err := xml.Marshal(struct {
		XMLName       xml.Name `xml:"Error"`
		Code, Message string
	}{Code: code, Message: "in so\nmany words"})
	if err != nil {
		panic(err)
	}
	w.Write(b)
}

func (f *fake) open(t *testing.T, change ...func(*oss.Options)) *oss.Store {
	t.Helper()
	o := oss.Options{Bucket: "bucket", Endpoint: f.URL, Region: "eu-central-1", Attempts: 1,
		Keys: func() (oss.Keys, error) { return oss.Keys{AccessKeyID: "AKID", AccessKeySecret: "hunter2"}, nil }}
	for _, c := range change {
		c(&o)
	}
	s, err := oss.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.CloseIdle)
	return s
}

// last is the last request whose method is the one given.
func (f *fake) last(method string) *http.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.requests) - 1; i >= 0; i-- {
		if f.requests[i].Method == method {
			return f.requests[i]
		}
	}
	return nil
}

func crcOf(s string) string {
	return fmt.Sprint(crc64.Checksum([]byte(s), crc64.MakeTable(crc64.ECMA)))
}

func isOneLine(t *testing.T, err error) {
	t.Helper()
	if text := fmt.Sprint(err); strings.Contains(text, "\n") || strings.Contains(text, "hunter2") {
		t.Errorf("%q is more than one line, or shows a secret", text)
	}
}
