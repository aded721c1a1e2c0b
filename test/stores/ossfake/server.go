// Package ossfake speaks as much of the protocol of Alibaba Cloud OSS as internal/store/oss
// uses: versions, retention policies of buckets (WORM), refusal to overwrite, multipart
// uploads, tags. There is no server of OSS to test against, so this encodes what its
// documentation says; each rule cites the page it is from, below
// https://www.alibabacloud.com/help/en/oss/. What the documentation leaves open is marked so.
//
// It keeps everything in memory, has a clock that can be moved, and does not verify
// signatures: it knows access keys by their IDs only, and does not mind the client's clock.
// Buckets stand in the path, as with an endpoint that is an IP address.
package ossfake

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Server is an http.Handler. The zero value is no use: New.
type Server struct {
	keys []string

	mu      sync.Mutex
	offset  time.Duration
	buckets map[string]*bucket
	serial  int
}

// New returns a server without buckets that accepts these access key IDs.
func New(accessKeyIDs ...string) *Server {
	return &Server{keys: accessKeyIDs, buckets: map[string]*bucket{}}
}

// Now is the server's clock, which the header Date tells as well.
func (s *Server) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

func (s *Server) now() time.Time { return time.Now().Add(s.offset) }

// Advance moves the clock forward.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += d
}

// refusal is an answer other than success.
type refusal struct {
	status  int
	code    string
	message string
}

func (r *refusal) Error() string { return r.code + ": " + r.message }

func refuse(status int, code, message string) error { return &refusal{status, code, message} }

// exchange is one request and what is answered to it.
type exchange struct {
	s      *Server
	r      *http.Request
	body   []byte
	header http.Header // of the answer
	query  map[string]string
	bucket string
	key    string
	who    string // the access key ID
	now    time.Time
}

// has says whether a parameter is there, be it empty.
func (x *exchange) has(name string) bool { _, is := x.query[name]; return is }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.ContentLength >= 0 && int64(len(body)) != r.ContentLength {
		return // the client has gone
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	x := &exchange{s: s, r: r, body: body, header: w.Header(), query: map[string]string{}, now: s.now()}
	for name, values := range r.URL.Query() {
		x.query[name] = values[0]
	}
	x.bucket, x.key, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	w.Header().Set("Date", x.now.UTC().Format(http.TimeFormat))
	w.Header().Set("x-oss-request-id", fmt.Sprintf("%024X", s.serial))
	w.Header().Set("Server", "AliyunOSS")
	status, answer, err := x.serve()
	if err != nil {
		x.fail(w, err)
		return
	}
	if text, is := answer.([]byte); is {
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		w.WriteHeader(status)
		if r.Method != http.MethodHead {
			w.Write(text)
		}
		return
	}
	if answer == nil {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	text, err := xml.Marshal(answer)
	if err != nil {
		panic(err)
	}
	w.WriteHeader(status)
	w.Write(append([]byte(xml.Header), text...))
}

// fail answers as on the page error-responses. A HEAD has no body; the same text is then in a
// header, in base64.
func (x *exchange) fail(w http.ResponseWriter, err error) {
	r, is := err.(*refusal) //nolint:errorlint // made by refuse
	if !is {
		r = &refusal{http.StatusInternalServerError, "InternalError", err.Error()}
	}
	text, merr := xml.Marshal(struct {
		XMLName   xml.Name `xml:"Error"`
		Code      string
		Message   string
		RequestId string
		HostId    string
	}{Code: r.code, Message: r.message, RequestId: w.Header().Get("x-oss-request-id"), HostId: x.r.Host})
	if merr != nil {
		panic(merr)
	}
	w.Header().Set("Content-Type", "application/xml")
	if x.r.Method == http.MethodHead {
		w.Header().Set("x-oss-err", base64.StdEncoding.EncodeToString(text))
		w.WriteHeader(r.status)
		return
	}
	w.WriteHeader(r.status)
	w.Write(text)
}

// serve does what was asked for. What is answered is XML, or bytes, or nothing.
func (x *exchange) serve() (status int, answer any, err error) {
	if err := x.authenticate(); err != nil {
		return 0, nil, err
	}
	// developer-reference/putobject: Content-MD5 is compared with what arrives.
	if want := x.r.Header.Get("Content-MD5"); want != "" {
		if sum := md5.Sum(x.body); base64.StdEncoding.EncodeToString(sum[:]) != want {
			return 0, nil, refuse(http.StatusBadRequest, "InvalidDigest", "The Content-MD5 you specified was invalid.")
		}
	}
	if x.key == "" {
		return x.serveBucket()
	}
	b, err := x.find()
	if err != nil {
		return 0, nil, err
	}
	return x.serveObject(b)
}

// authenticate looks who asks: "OSS ID:…" in version 1 of the signatures, and
// "OSS4-HMAC-SHA256 Credential=ID/…" in version 4.
func (x *exchange) authenticate() error {
	auth := x.r.Header.Get("Authorization")
	_, id, v4 := strings.Cut(auth, "Credential=")
	if v4 {
		id, _, _ = strings.Cut(id, "/")
	} else {
		id, _, _ = strings.Cut(strings.TrimPrefix(auth, "OSS "), ":")
	}
	switch {
	case auth == "":
		return refuse(http.StatusForbidden, "AccessDenied", "Anonymous access is forbidden for this operation.")
	case !slices.Contains(x.s.keys, id):
		return refuse(http.StatusForbidden, "InvalidAccessKeyId", "The OSS Access Key Id you provided does not exist in our records.")
	}
	x.who = id
	return nil
}

func (x *exchange) find() (*bucket, error) {
	b := x.s.buckets[x.bucket]
	if b == nil {
		return nil, refuse(http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist.")
	}
	if b.owner != x.who { // 0003-00000001; bucket policies are not known here
		return nil, refuse(http.StatusForbidden, "AccessDenied", "The bucket you access does not belong to you.")
	}
	return b, nil
}

// parse reads the body of a request.
func (x *exchange) parse(into any) error {
	if err := xml.Unmarshal(x.body, into); err != nil {
		return refuse(http.StatusBadRequest, "MalformedXML", "The XML you provided was not well-formed.")
	}
	return nil
}
