package gcsworm

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Shim is the handler before a fake-gcs-server. It is safe for concurrent use.
type Shim struct {
	target string // URL of the fake-gcs-server
	client *http.Client
	access access

	mu      sync.Mutex // one request at a time, apart from the transfer of bodies
	ahead   time.Duration
	buckets map[string]*bucket
	uploads map[string]*upload
	last    int64 // number of the last upload
}

// New makes a shim before the fake-gcs-server at target, http://ADDRESS:PORT.
func New(target string) *Shim {
	return &Shim{
		target: strings.TrimSuffix(target, "/"), client: &http.Client{Transport: &http.Transport{DisableCompression: true}},
		buckets: map[string]*bucket{}, uploads: map[string]*upload{},
	}
}

// Now is the shim's clock.
func (s *Shim) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

func (s *Shim) now() time.Time { return time.Now().Add(s.ahead).UTC() }

// Advance moves the clock.
func (s *Shim) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// Uploads is how many resumable uploads into a bucket were begun and neither completed nor
// canceled.
func (s *Shim) Uploads(bucket string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, u := range s.uploads {
		if u.bucket == bucket && u.state == open {
			n++
		}
	}
	return n
}

// Close drops what unfinished uploads hold.
func (s *Shim) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.uploads {
		u.drop()
	}
	s.client.CloseIdleConnections()
}

// ServeHTTP implements http.Handler.
func (s *Shim) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if e := recover(); e != nil && e != http.ErrAbortHandler {
			log.Printf("gcsworm: %s %s: %v", r.Method, r.URL, e)
			panic(http.ErrAbortHandler)
		}
	}()
	path := r.URL.EscapedPath()
	switch {
	case path == "/_worm/advance":
		s.serveAdvance(w, r)
		return
	case path == "/_worm/token":
		s.serveToken(w, r)
		return
	}
	if refused := s.access.check(r, s.Now()); refused != nil {
		s.refuse(w, refused)
		return
	}
	rest, uploading := strings.CutPrefix(path, "/upload/storage/v1/b/")
	if uploading {
		bucket, ok := strings.CutSuffix(strings.TrimSuffix(rest, "/"), "/o")
		if !ok {
			s.refuse(w, notFound("no such method"))
			return
		}
		s.serveUpload(w, r, unescape(bucket))
		return
	}
	rest, ok := strings.CutPrefix(strings.TrimPrefix(path, "/download"), "/storage/v1/b")
	if !ok {
		s.refuse(w, notFound("no such method"))
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20)) // all that has more is an upload
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	s.route(w, r, strings.Trim(rest, "/"), body)
}

// route serves what is not an upload. rest is NAME, NAME/o or NAME/o/KEY and what follows, escaped.
func (s *Shim) route(w http.ResponseWriter, r *http.Request, rest string, body []byte) {
	name, rest, _ := strings.Cut(rest, "/")
	name = unescape(name)
	key, object := strings.CutPrefix(rest, "o/")
	switch {
	case name == "":
		s.serveBuckets(w, r, body)
	case rest == "":
		s.serveBucket(w, r, name, body)
	case rest == "lockRetentionPolicy" && r.Method == http.MethodPost:
		s.serveLockPolicy(w, r, name)
	case rest == "o" && r.Method == http.MethodGet:
		s.serveList(w, r, name)
	case !object:
		s.refuse(w, notFound("no such method"))
	case strings.Contains(key, "/rewriteTo/b/") && r.Method == http.MethodPost:
		s.serveRewrite(w, r, name, key, body)
	case strings.HasSuffix(key, "/compose") && r.Method == http.MethodPost:
		s.serveCompose(w, r, name, unescape(strings.TrimSuffix(key, "/compose")), body)
	case strings.Contains(key, "/"):
		s.refuse(w, notFound("no such method"))
	default:
		s.serveObject(w, r, name, unescape(key), body)
	}
}

// unescape undoes the escaping of one segment of a path.
func unescape(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

// serveAdvance moves the clock: POST /_worm/advance?d=24h.
func (s *Shim) serveAdvance(w http.ResponseWriter, r *http.Request) {
	d, err := time.ParseDuration(r.URL.Query().Get("d"))
	if err != nil || r.Method != http.MethodPost {
		s.refuse(w, invalid("want POST with d=DURATION"))
		return
	}
	s.Advance(d)
	s.answer(w, fields{"now": s.Now().Format(time.RFC3339Nano)})
}

// fields is a JSON object.
type fields = map[string]any

// answer sends a JSON object. The Date is the shim's.
func (s *Shim) answer(w http.ResponseWriter, body fields) {
	s.head(w)
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_ = json.NewEncoder(w).Encode(body) // who asked is gone
}

// head sets what all answers have. It takes the clock itself.
func (s *Shim) head(w http.ResponseWriter) {
	w.Header().Set("Date", s.Now().Format(http.TimeFormat))
}

// fault is a refusal.
type fault struct {
	status  int
	reason  string
	message string
}

func (f *fault) Error() string { return fmt.Sprintf("%d %s: %s", f.status, f.reason, f.message) }

// The refusals, with the reasons of the page "HTTP status and error codes for JSON".
func notFound(message string) *fault { return &fault{http.StatusNotFound, "notFound", message} }
func invalid(message string) *fault  { return &fault{http.StatusBadRequest, "invalid", message} }
func forbidden(message string) *fault {
	return &fault{http.StatusForbidden, "forbidden", message}
}
func unmet() *fault {
	return &fault{http.StatusPreconditionFailed, "conditionNotMet", "At least one of the pre-conditions you specified did not hold."}
}
func noBucket() *fault { return notFound("The specified bucket does not exist.") }
func noObject(bucket, key string) *fault {
	return notFound("No such object: " + bucket + "/" + key)
}

// refuse sends a refusal in Google's form.
func (s *Shim) refuse(w http.ResponseWriter, f *fault) {
	s.head(w)
	if f.status == http.StatusNotModified {
		w.WriteHeader(f.status)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(f.status)
	_ = json.NewEncoder(w).Encode(fields{"error": fields{
		"code": f.status, "message": f.message,
		"errors": []fields{{"message": f.message, "domain": "global", "reason": f.reason}},
	}}) // who asked is gone
}

// reply sends the result of something, or why it was refused.
func (s *Shim) reply(w http.ResponseWriter, body fields, refused *fault) {
	switch {
	case refused != nil:
		s.refuse(w, refused)
	case body == nil:
		s.head(w)
		w.WriteHeader(http.StatusNoContent)
	default:
		s.answer(w, body)
	}
}
