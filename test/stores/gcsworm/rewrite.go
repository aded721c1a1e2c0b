package gcsworm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// serveRewrite copies inside the service. Page "Objects: rewrite": in one location and storage
// class one call is enough.
func (s *Shim) serveRewrite(w http.ResponseWriter, r *http.Request, name, rest string, body []byte) {
	from, to, _ := strings.Cut(rest, "/rewriteTo/b/")
	toBucket, toKey, ok := strings.Cut(to, "/o/")
	if !ok {
		s.refuse(w, notFound("no such method"))
		return
	}
	s.mu.Lock()
	result, refused := s.rewrite(s.access.permit(r), r.URL.Query(), name, unescape(from), unescape(toBucket), unescape(toKey), body)
	s.mu.Unlock()
	s.reply(w, result, refused)
}

func (s *Shim) rewrite(may permit, q url.Values, name, key, toName, toKey string, body []byte) (fields, *fault) {
	src, dst := s.buckets[name], s.buckets[toName]
	if src == nil || dst == nil {
		return nil, noBucket()
	}
	v, refused := src.find(q, "sourceGeneration", key)
	if refused != nil {
		return nil, refused
	}
	if refused := src.conditions(q, "ifSource", key, v); refused != nil {
		return nil, refused
	}
	in, refused := parseInsert(body)
	if refused != nil {
		return nil, refused
	}
	if len(body) == 0 || in.contentType == "" { // no resource: the source's metadata goes along
		in.contentType, in.metadata = v.kind, v.metadata
	}
	in.key = toKey
	spool, refused := s.fetch(v)
	if refused != nil {
		return nil, refused
	}
	defer discard(spool)
	made, refused := s.insert(may, dst, q, in, spool)
	if refused != nil {
		return nil, refused
	}
	return fields{
		"kind": "storage#rewriteResponse", "done": true, "objectSize": v.size, "totalBytesRewritten": v.size,
		"resource": s.describe(dst, made),
	}, nil
}

// fetch is the content of a version in a file.
func (s *Shim) fetch(v *version) (*os.File, *fault) {
	spool, err := newSpool()
	if err != nil {
		return nil, invalid(err.Error())
	}
	if refused := s.fetchInto(spool, v); refused != nil {
		discard(spool)
		return nil, refused
	}
	return spool, nil
}

func (s *Shim) fetchInto(w io.Writer, v *version) *fault {
	resp, err := s.client.Get(fmt.Sprintf("%s/storage/v1/b/%s/o/%s?alt=media&generation=%d", s.target, url.PathEscape(v.bucket), url.PathEscape(v.key), v.generation))
	if err != nil {
		return &fault{http.StatusInternalServerError, "internalError", err.Error()}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return &fault{http.StatusInternalServerError, "internalError", "fake-gcs-server: " + resp.Status}
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return &fault{http.StatusInternalServerError, "internalError", err.Error()}
	}
	return nil
}

// maxComponents is how many objects one call composes, page "Composite objects".
const maxComponents = 32

// serveCompose joins objects, as the original uploads its snapshots. Page "Composite objects":
// the sources stay, each with its own retention.
func (s *Shim) serveCompose(w http.ResponseWriter, r *http.Request, name, key string, body []byte) {
	s.mu.Lock()
	result, refused := s.compose(s.access.permit(r), r.URL.Query(), name, key, body)
	s.mu.Unlock()
	s.reply(w, result, refused)
}

func (s *Shim) compose(may permit, q url.Values, name, key string, body []byte) (fields, *fault) {
	b := s.buckets[name]
	if b == nil {
		return nil, noBucket()
	}
	var req struct {
		Destination   json.RawMessage `json:"destination"`
		SourceObjects []struct {
			Name       string      `json:"name"`
			Generation json.Number `json:"generation"`
		} `json:"sourceObjects"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, invalid("Parse Error")
	}
	if n := len(req.SourceObjects); n == 0 || n > maxComponents {
		return nil, invalid(fmt.Sprintf("The number of source components provided (%d) is not between 1 and %d.", n, maxComponents))
	}
	in, refused := parseInsert(req.Destination)
	if refused != nil {
		return nil, refused
	}
	in.key = key
	spool, err := newSpool()
	if err != nil {
		return nil, invalid(err.Error())
	}
	defer discard(spool)
	for _, source := range req.SourceObjects {
		v, refused := b.find(url.Values{"generation": {source.Generation.String()}}, "generation", source.Name)
		if refused == nil {
			refused = s.fetchInto(spool, v)
		}
		if refused != nil {
			return nil, refused
		}
	}
	made, refused := s.insert(may, b, q, in, spool)
	if refused != nil {
		return nil, refused
	}
	return s.describe(b, made), nil
}
