package gcsworm

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// insertion is what a request to create an object says about it.
type insertion struct {
	key, contentType string
	metadata         map[string]string
	temporary        bool
	event            *bool // nil: as the bucket's default says
	retention        any
	crc32c           string
}

// parseInsert reads the resource of a request; none is an empty one.
func parseInsert(body []byte) (insertion, *fault) {
	var in insertion
	if len(body) == 0 {
		return in, nil
	}
	var req struct {
		Name           string            `json:"name"`
		ContentType    string            `json:"contentType"`
		Metadata       map[string]string `json:"metadata"`
		TemporaryHold  bool              `json:"temporaryHold"`
		EventBasedHold *bool             `json:"eventBasedHold"`
		Retention      any               `json:"retention"`
		CRC32C         string            `json:"crc32c"`
	}
	if json.Unmarshal(body, &req) != nil {
		return in, invalid("Parse Error")
	}
	return insertion{key: req.Name, contentType: req.ContentType, metadata: req.Metadata, temporary: req.TemporaryHold,
		event: req.EventBasedHold, retention: req.Retention, crc32c: req.CRC32C}, nil
}

// admit checks whether an object may be created now: the preconditions, the right to replace the one that is there, and what
// protects that.
func (s *Shim) admit(may permit, b *bucket, q url.Values, key string) *fault {
	live := b.liveOf(key)
	if refused := b.conditions(q, "if", key, live); refused != nil {
		return refused
	}
	if live == nil {
		return nil
	}
	if refused := may("storage.objects.delete"); refused != nil {
		return refused
	}
	return s.guard(b, live, b.versioned)
}

// insert creates an object of what is in the file. Preconditions are checked now, also if they
// were checked when the upload began.
func (s *Shim) insert(may permit, b *bucket, q url.Values, in insertion, spool *os.File) (*version, *fault) {
	if in.key == "" || len(in.key) > 1024 {
		return nil, &fault{http.StatusBadRequest, "required", "Required"}
	}
	if refused := s.admit(may, b, q, in.key); refused != nil {
		return nil, refused
	}
	sum, err := checksum(spool)
	if err != nil {
		return nil, invalid(err.Error())
	}
	// Page "Data validation and change detection".
	if in.crc32c != "" && in.crc32c != sum {
		return nil, invalid(fmt.Sprintf("Provided CRC32C %q doesn't match calculated CRC32C %q.", in.crc32c, sum))
	}
	now := s.now()
	v := &version{bucket: b.name, key: in.key, metageneration: 1, created: now, updated: now, kind: in.contentType,
		metadata: in.metadata, temporary: in.temporary, event: b.defaultHold}
	if in.event != nil {
		v.event = *in.event
	}
	if in.retention != nil {
		if refused := may("storage.objects.setRetention"); refused != nil {
			return nil, refused
		}
		if refused := s.retain(b, v, in.retention, false); refused != nil {
			return nil, refused
		}
		if v.event { // page "Object holds": an object cannot have both
			return nil, invalid("An object cannot have both an event-based hold and a retention configuration.")
		}
	}
	live := b.liveOf(in.key)
	if refused := s.store(v, spool); refused != nil {
		return nil, refused
	}
	if live != nil {
		if b.versioned {
			live.deleted = now
		} else if refused := s.drop(b, live); refused != nil {
			return nil, refused
		}
	}
	b.objects[v.key] = append(b.objects[v.key], v)
	return v, nil
}

// store hands the content to the fake, which numbers the generation and measures it.
func (s *Shim) store(v *version, spool *os.File) *fault {
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return invalid(err.Error())
	}
	kind := v.kind
	if kind == "" {
		kind = "application/octet-stream"
	}
	var made struct {
		Generation, Size, Md5Hash, Crc32c, Etag string
	}
	path := fmt.Sprintf("/upload/storage/v1/b/%s/o?uploadType=media&name=%s", url.PathEscape(v.bucket), url.QueryEscape(v.key))
	if refused := s.toFake(http.MethodPost, path, kind, io.NopCloser(spool), &made); refused != nil {
		return refused
	}
	v.generation, _ = strconv.ParseInt(made.Generation, 10, 64)
	v.size, v.md5, v.crc32c, v.etag = made.Size, made.Md5Hash, made.Crc32c, made.Etag
	return nil
}

// checksum is the CRC32C of a file as the API writes it.
func checksum(f *os.File) (string, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, h.Sum32())), nil
}

// A spool holds a body until it is complete. It has no name any more.
func newSpool() (*os.File, error) {
	f, err := os.CreateTemp("", "gcsworm-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

func discard(f *os.File) { _ = f.Close() } // nothing else holds it

func (s *Shim) serveUpload(w http.ResponseWriter, r *http.Request, name string) {
	q := r.URL.Query()
	switch {
	case q.Get("upload_id") != "":
		s.serveChunk(w, r, q.Get("upload_id"))
	case q.Get("uploadType") == "resumable":
		s.beginUpload(w, r, name)
	case q.Get("uploadType") == "multipart", q.Get("uploadType") == "media":
		s.serveSimple(w, r, name)
	default:
		s.refuse(w, invalid("Invalid value for uploadType."))
	}
}

// serveSimple creates an object by one request. What was received in part makes none.
func (s *Shim) serveSimple(w http.ResponseWriter, r *http.Request, name string) {
	spool, err := newSpool()
	if err != nil {
		panic(err)
	}
	defer discard(spool)
	in, refused := receive(r, spool)
	if refused != nil {
		s.refuse(w, refused)
		return
	}
	s.mu.Lock()
	var result fields
	b := s.buckets[name]
	if b == nil {
		refused = noBucket()
	} else if v, no := s.insert(s.access.permit(r), b, r.URL.Query(), in, spool); no != nil {
		refused = no
	} else {
		result = s.describe(b, v)
	}
	s.mu.Unlock()
	s.reply(w, result, refused)
}

// receive reads a request that holds an object, alone or after its resource.
func receive(r *http.Request, spool *os.File) (insertion, *fault) {
	in := insertion{contentType: r.Header.Get("Content-Type")}
	if r.URL.Query().Get("uploadType") == "multipart" {
		_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil {
			return in, invalid("Malformed multipart body.")
		}
		parts := multipart.NewReader(r.Body, params["boundary"])
		resource, err := parts.NextPart()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		text, err := io.ReadAll(resource)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		var refused *fault
		if in, refused = parseInsert(text); refused != nil {
			return in, refused
		}
		content, err := parts.NextPart()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if in.contentType == "" {
			in.contentType = content.Header.Get("Content-Type")
		}
		if _, err := io.Copy(spool, content); err != nil {
			panic(http.ErrAbortHandler)
		}
		if _, err := parts.NextPart(); err != io.EOF { // the end must be there, else it is half a body
			panic(http.ErrAbortHandler)
		}
	} else if _, err := io.Copy(spool, r.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
	named(&in, r)
	return in, nil
}

// named takes what requests say outside the resource.
func named(in *insertion, r *http.Request) {
	if key := r.URL.Query().Get("name"); key != "" {
		in.key = key
	}
	if sum := hashHeader(r); sum != "" {
		in.crc32c = sum
	}
}

// hashHeader is the CRC32C of the header X-Goog-Hash, "" if there is none.
func hashHeader(r *http.Request) string {
	for _, value := range r.Header.Values("X-Goog-Hash") {
		for part := range strings.SplitSeq(value, ",") {
			if sum, ok := strings.CutPrefix(strings.TrimSpace(part), "crc32c="); ok {
				return sum
			}
		}
	}
	return ""
}
