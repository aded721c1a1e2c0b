package gcsworm

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// The states of a resumable upload.
type uploadState int

const (
	open uploadState = iota
	completed
	canceled
	failed
)

// uploadLife is how long an upload may take, page "Resumable uploads".
const uploadLife = 7 * 24 * time.Hour

// upload is a resumable one.
type upload struct {
	bucket string
	query  url.Values // with the preconditions
	in     insertion
	may    permit // of who began it
	begun  time.Time
	state  uploadState
	spool  *os.File // nil once it is not open any more
	have   int64
	made   fields // the object, once it is complete
}

func (u *upload) drop() {
	if u.spool != nil {
		discard(u.spool)
		u.spool = nil
	}
}

// beginUpload opens a resumable upload. Page "Resumable uploads": its address is in Location.
func (s *Shim) beginUpload(w http.ResponseWriter, r *http.Request, name string) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	in, refused := parseInsert(body)
	if refused != nil {
		s.refuse(w, refused)
		return
	}
	named(&in, r)
	if in.contentType == "" {
		in.contentType = r.Header.Get("X-Upload-Content-Type")
	}
	id, refused := s.openUpload(r, name, in)
	if refused != nil {
		s.refuse(w, refused)
		return
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	w.Header().Set("Location", fmt.Sprintf("%s://%s%s?uploadType=resumable&upload_id=%s", scheme, r.Host, r.URL.EscapedPath(), id))
	s.head(w)
	w.WriteHeader(http.StatusOK)
}

func (s *Shim) openUpload(r *http.Request, name string, in insertion) (id string, refused *fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[name]
	if b == nil {
		return "", noBucket()
	}
	if refused := s.admit(s.access.permit(r), b, r.URL.Query(), in.key); refused != nil {
		return "", refused
	}
	spool, err := newSpool()
	if err != nil {
		return "", invalid(err.Error())
	}
	s.last++
	id = strconv.FormatInt(s.last, 10)
	s.uploads[id] = &upload{bucket: name, query: r.URL.Query(), may: s.access.permit(r), in: in, begun: s.now(), spool: spool}
	return id, nil
}

// serveChunk serves everything about an upload that was begun. Page "Resumable uploads": bytes
// that are there already are ignored, chunks but the last are multiples of 256 KiB, a complete
// upload goes on answering with its object, a canceled one is gone (499, then 4xx).
func (s *Shim) serveChunk(w http.ResponseWriter, r *http.Request, id string) {
	var body *os.File
	if r.Method != http.MethodDelete {
		// Whole or not at all: of a chunk that breaks off nothing was received.
		var err error
		if body, err = newSpool(); err != nil {
			panic(err)
		}
		defer discard(body)
		if n, err := io.Copy(body, r.Body); err != nil || r.ContentLength >= 0 && n != r.ContentLength {
			panic(http.ErrAbortHandler)
		}
	}
	s.mu.Lock()
	made, have, refused := s.chunk(r, id, body)
	s.mu.Unlock()
	switch {
	case refused != nil:
		s.refuse(w, refused)
	case made != nil:
		s.answer(w, made)
	default:
		s.incomplete(w, r, have)
	}
}

// incomplete tells how much is there, by 308 or as clients wish that do not understand it.
func (s *Shim) incomplete(w http.ResponseWriter, r *http.Request, have int64) {
	if have > 0 {
		w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", have-1))
	}
	s.head(w)
	if r.Header.Get("X-GUploader-No-308") == "yes" {
		w.Header().Set("X-Http-Status-Code-Override", "308")
		w.WriteHeader(http.StatusOK)
		return
	}
	w.WriteHeader(http.StatusPermanentRedirect)
}

func (s *Shim) chunk(r *http.Request, id string, body *os.File) (made fields, have int64, refused *fault) {
	u := s.uploads[id]
	switch {
	case u == nil:
		return nil, 0, notFound("No such upload.")
	case u.state == canceled:
		return nil, 0, &fault{499, "canceled", "The upload was canceled."}
	case r.Method == http.MethodDelete && u.state == open:
		u.state = canceled
		u.drop()
		return nil, 0, &fault{499, "canceled", "The upload was canceled."}
	case u.state == completed:
		return u.made, 0, nil
	case u.state == failed, s.now().Sub(u.begun) > uploadLife:
		return nil, 0, &fault{http.StatusGone, "gone", "The upload has ended."}
	}
	first, total, err := parseContentRange(r.Header.Get("Content-Range"))
	if err != nil {
		return nil, 0, invalid(err.Error())
	}
	if refused := u.receive(body, first, total); refused != nil {
		return nil, 0, refused
	}
	if total < 0 || u.have < total {
		return nil, u.have, nil
	}
	if sum := hashHeader(r); sum != "" {
		u.in.crc32c = sum
	}
	b := s.buckets[u.bucket]
	if b == nil {
		return nil, 0, noBucket()
	}
	v, refused := s.insert(u.may, b, u.query, u.in, u.spool)
	u.drop()
	if refused != nil {
		u.state = failed
		return nil, 0, refused
	}
	u.state, u.made = completed, s.describe(b, v)
	return u.made, 0, nil
}

// receive adds what is new of a chunk that begins at first; negative: it has no bytes.
func (u *upload) receive(body *os.File, first, total int64) *fault {
	if first < 0 {
		return nil
	}
	size, err := body.Seek(0, io.SeekEnd)
	switch {
	case err != nil:
		return invalid(err.Error())
	case first > u.have:
		return invalid(fmt.Sprintf("Invalid request. There are %d bytes, the chunk begins at %d.", u.have, first))
	case total < 0 && size%(256<<10) != 0:
		return invalid("Invalid request. Chunks but the last must be multiples of 256 KiB.")
	case total >= 0 && first+size != total:
		return invalid("Invalid request. The last chunk does not end where the upload ends.")
	case first+size <= u.have:
		return nil
	}
	if _, err := body.Seek(u.have-first, io.SeekStart); err != nil {
		return invalid(err.Error())
	}
	n, err := io.Copy(u.spool, body)
	u.have += n
	if err != nil {
		return invalid(err.Error())
	}
	return nil
}

// parseContentRange reads "bytes 0-99/200", "bytes 0-99/*", "bytes */200" and "bytes */*".
// first is negative if there are no bytes, total if it is not known.
func parseContentRange(s string) (first, total int64, err error) {
	bad := fmt.Errorf("Failed to parse Content-Range header %q.", s)
	span, end, ok := strings.Cut(strings.TrimPrefix(s, "bytes "), "/")
	if !ok || !strings.HasPrefix(s, "bytes ") {
		return 0, 0, bad
	}
	first, total = -1, -1
	if end != "*" {
		if total, err = strconv.ParseInt(end, 10, 64); err != nil || total < 0 {
			return 0, 0, bad
		}
	}
	if span == "*" {
		return first, total, nil
	}
	from, to, ok := strings.Cut(span, "-")
	if first, err = strconv.ParseInt(from, 10, 64); !ok || err != nil || first < 0 {
		return 0, 0, bad
	}
	if last, err := strconv.ParseInt(to, 10, 64); err != nil || last < first || total >= 0 && last >= total {
		return 0, 0, bad
	}
	return first, total, nil
}
