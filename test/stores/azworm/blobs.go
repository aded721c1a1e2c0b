package azworm

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// dispatch finds the operation of a request to the blob service.
func (s *Shim) dispatch(w http.ResponseWriter, r *http.Request, t target) {
	comp := r.URL.Query().Get("comp")
	op, need := operation(r, t, comp)
	if p := s.authenticate(r, t, need); p != nil {
		refuse(w, r, *p)
		return
	}
	if s.isHidden(t.container) {
		refuse(w, r, problem{http.StatusNotFound, "ContainerNotFound", ""})
		return
	}
	switch op {
	case "container":
		s.container(w, r, t)
	case "list":
		s.list(w, r, t)
	case "read":
		s.read(w, r, t)
	case "write":
		s.write(w, r, t, comp == "metadata")
	case "stage":
		s.stage(w, r, t)
	case "delete":
		s.delete(w, r, t)
	case "tags":
		s.tags(w, r, t)
	case "policy":
		s.setPolicy(w, r, t)
	case "hold":
		s.setHold(w, r, t)
	default:
		refuse(w, r, problem{http.StatusNotImplemented, "APINotImplemented", ""})
	}
}

// operation names the request, and what it takes [sas] [actions].
func operation(r *http.Request, t target, comp string) (op string, need right) {
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case t.blob == "" && comp == "list":
		if strings.Contains(r.URL.Query().Get("include"), "tags") {
			return "list", right{'c', "lt", []string{"blobs/read", "blobs/tags/read"}}
		}
		return "list", right{'c', "l", []string{"blobs/read"}}
	case t.blob == "" && comp == "" && read:
		return "container", right{'c', "r", []string{"read"}}
	case t.blob == "" && comp == "" && r.Method == http.MethodDelete:
		return "container", right{'c', "d", []string{"delete"}}
	case t.blob == "" && comp == "":
		return "container", right{'c', "w", []string{"write"}}
	case t.blob == "":
		return "", right{}
	case comp == "tags" && read:
		return "tags", right{'o', "t", []string{"blobs/tags/read"}}
	case comp == "tags":
		return "tags", right{'o', "t", []string{"blobs/tags/write"}}
	case comp == "immutabilityPolicies":
		return "policy", right{'o', "i", []string{setPolicies}}
	case comp == "legalhold":
		return "hold", right{'o', "i", []string{"write"}}
	case comp == "" && read, comp == "blocklist" && read:
		return "read", right{'o', "r", []string{"blobs/read"}}
	case comp == "" && r.Method == http.MethodDelete && t.version != "":
		return "delete", right{'o', "x", []string{"blobs/deleteBlobVersion/action"}}
	case comp == "" && r.Method == http.MethodDelete:
		return "delete", right{'o', "d", []string{"blobs/delete"}}
	case r.Method == http.MethodPut && comp == "block":
		return "stage", right{'o', "w", []string{"blobs/write"}}
	case r.Method == http.MethodPut && (comp == "" || comp == "blocklist" || comp == "metadata"):
		need = right{'o', "w", []string{"blobs/write"}}
		// Whether who may write may also ask for a lock of the blob's own is not documented: here he may not.
		if r.Header.Get("x-ms-immutability-policy-until-date") != "" || r.Header.Get("x-ms-legal-hold") != "" {
			need.letters, need.actions = need.letters+"i", append(need.actions, setPolicies)
		}
		if r.Header.Get("x-ms-tags") != "" { // "Write to a blob with blob index tags"
			need.letters, need.actions = need.letters+"t", append(need.actions, "blobs/tags/write")
		}
		return "write", need
	}
	return "", right{}
}

// state finds a container, or answers that there is none. The caller holds mu.
func (s *Shim) state(w http.ResponseWriter, r *http.Request, t target) *containerState {
	c := s.containers[t.container]
	if c == nil {
		refuse(w, r, problem{http.StatusNotFound, "ContainerNotFound", ""})
	}
	return c
}

// version finds what a request addresses, or answers why not. The caller holds mu.
func (s *Shim) version(w http.ResponseWriter, r *http.Request, t target) (*containerState, *version) {
	c := s.state(w, r, t)
	if c == nil {
		return nil, nil
	}
	if t.version != "" && !validID(t.version) {
		refuse(w, r, problem{http.StatusBadRequest, "InvalidQueryParameterValue", ""})
		return nil, nil
	}
	v := c.blob(t.blob).find(t.version)
	if v == nil {
		refuse(w, r, problem{http.StatusNotFound, "BlobNotFound", ""})
		return nil, nil
	}
	return c, v
}

// read passes on contents and properties, and adds what Azurite does not know.
func (s *Shim) read(w http.ResponseWriter, r *http.Request, t target) {
	s.mu.Lock()
	if r.URL.Query().Get("comp") == "blocklist" && s.containers[t.container] != nil && s.containers[t.container].blob(t.blob).current == nil {
		s.mu.Unlock()
		s.forward(w, r, t.container, t.blob, nil) // blocks may be there before the blob is
		return
	}
	c, v := s.version(w, r, t)
	if v == nil {
		s.mu.Unlock()
		return
	}
	container, name := c.blob(t.blob).store(t.container, t.blob, v)
	headers := s.headers(c, c.blob(t.blob), v)
	s.mu.Unlock()
	if match := r.Header.Get("If-Match"); match != "" && match != v.etag {
		refuse(w, r, problem{http.StatusPreconditionFailed, "ConditionNotMet", ""})
		return
	}
	r.Header.Del("If-Match")
	s.forward(w, r, container, name, func(h http.Header) {
		for name, values := range headers {
			h[name] = values
		}
	})
}

// headers are what reading a version tells beyond what Azurite does.
func (s *Shim) headers(c *containerState, b *blobState, v *version) http.Header {
	h := http.Header{}
	h.Set("ETag", v.etag)
	h.Set("Last-Modified", v.created.UTC().Format(http.TimeFormat))
	h.Set("x-ms-creation-time", v.created.UTC().Format(http.TimeFormat))
	if v.id != "" {
		h.Set("x-ms-version-id", v.id)
		if v == b.current {
			h.Set("x-ms-is-current-version", "true")
		}
	}
	if until, mode := s.told(c, v); mode != "" {
		h.Set("x-ms-immutability-policy-until-date", until.UTC().Format(http.TimeFormat))
		h.Set("x-ms-immutability-policy-mode", mode)
	}
	if v.hold {
		h.Set("x-ms-legal-hold", "true")
	}
	if len(v.tags) > 0 {
		h.Set("x-ms-tag-count", strconv.Itoa(len(v.tags)))
	}
	return h
}

// told is the lock of a version as the service tells it; no mode: it tells none.
func (s *Shim) told(c *containerState, v *version) (time.Time, string) {
	until, locked := c.until(v)
	switch {
	case until.IsZero(), s.opts.SilentPolicies && !c.versionLevel:
		return time.Time{}, ""
	case locked:
		return until, "locked"
	}
	return until, "unlocked"
}

// forward passes a request on as it is, to where Azurite has it.
func (s *Shim) forward(w http.ResponseWriter, r *http.Request, container, name string, change func(http.Header)) {
	resp, err := s.ask(r, r.Method, container, name, r.URL.Query(), r.Header, r.Body, r.ContentLength)
	if err != nil {
		broken(err)
	}
	if resp.StatusCode >= 300 {
		change = nil
	}
	s.reply(w, resp, change)
}

// write is everything that makes a blob, or a new version of it, visible.
func (s *Shim) write(w http.ResponseWriter, r *http.Request, t target, metadata bool) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		broken(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.state(w, r, t)
	if c == nil || !s.source(w, r) {
		return
	}
	next, p := s.locks(c, r.Header)
	if p != nil {
		refuse(w, r, *p)
		return
	}
	b := c.blob(t.blob)
	if old := b.current; old != nil && r.Header.Get("If-None-Match") != "*" {
		if code := c.overwriteRefusal(old, metadata, s.Now()); code != "" {
			refuse(w, r, problem{http.StatusConflict, code, ""})
			return
		}
		if c.versionLevel {
			s.putAside(r, t, old)
		}
	}
	resp, err := s.ask(r, r.Method, t.container, t.blob, r.URL.Query(), r.Header, bytes.NewReader(body), int64(len(body)))
	if err != nil {
		broken(err)
	}
	if resp.StatusCode >= 300 {
		s.reply(w, resp, nil)
		return
	}
	s.describe(r, t, next)
	for key, values := range query(r.Header.Get("x-ms-tags")) {
		next.tags = append(next.tags, tag{key, values[0]})
	}
	if c.versionLevel {
		next.id = s.idAt(s.Now())
	}
	c.add(t.blob, next)
	headers := s.headers(c, c.blob(t.blob), next)
	s.reply(w, resp, func(h http.Header) {
		for _, name := range []string{"X-Ms-Version-Id", "Last-Modified", "Etag"} {
			if values := headers.Values(name); len(values) > 0 {
				h[http.CanonicalHeaderKey(name)] = values
			}
		}
	})
}

func query(raw string) url.Values {
	values, _ := url.ParseQuery(raw)
	return values
}

// locks are what a new version carries: what the request asks for, else the default [version].
func (s *Shim) locks(c *containerState, h http.Header) (*version, *problem) {
	v := &version{created: s.Now(), hold: h.Get("x-ms-legal-hold") == "true"}
	date, mode := h.Get("x-ms-immutability-policy-until-date"), h.Get("x-ms-immutability-policy-mode")
	if (date != "" || v.hold) && !c.versionLevel {
		return nil, &problem{http.StatusConflict, "FeatureNotSupportedOnAccount", ""} // the real code is not documented
	}
	switch {
	case date != "":
		until, err := http.ParseTime(date)
		if err != nil || !until.After(s.Now()) {
			return nil, &problem{http.StatusBadRequest, "InvalidHeaderValue", ""}
		}
		v.until, v.locked = until, strings.EqualFold(mode, "locked")
	case c.versionLevel && c.policy != nil:
		v.until, v.locked = s.Now().Add(time.Duration(c.policy.days)*day).Truncate(time.Second), c.policy.locked
	}
	return v, nil
}

// describe asks Azurite what has been written.
func (s *Shim) describe(r *http.Request, t target, v *version) {
	resp, err := s.ask(r, http.MethodHead, t.container, t.blob, nil, http.Header{"X-Ms-Version": r.Header["X-Ms-Version"]}, nil, 0)
	if err != nil {
		broken(err)
	}
	defer resp.Body.Close()
	v.etag, v.size, v.metadata = resp.Header.Get("ETag"), resp.ContentLength, http.Header{}
	for name, values := range resp.Header {
		if strings.HasPrefix(strings.ToLower(name), "x-ms-meta-") {
			v.metadata[name] = values
		}
	}
}

// putAside keeps a version that is not to be the current one any more.
func (s *Shim) putAside(r *http.Request, t target, v *version) {
	b := s.containers[t.container].blob(t.blob)
	from := fmt.Sprintf("%s/%s/%s/%s?%s", s.opts.Backend, s.opts.Account, t.container, url.PathEscape(t.blob), s.permission)
	b.current = nil
	container, name := b.store(t.container, t.blob, v)
	resp, err := s.ask(r, http.MethodPut, container, name, nil, http.Header{
		"X-Ms-Version": r.Header["X-Ms-Version"], "X-Ms-Copy-Source": {from}, "X-Ms-Requires-Sync": {"true"},
	}, nil, 0)
	if err != nil {
		broken(err)
	}
	resp.Body.Close()
	if resp.StatusCode >= 300 {
		broken(fmt.Errorf("keep %s: %s", t.blob, resp.Status))
	}
}

// source turns the source of a copy into where Azurite has it. It answers why not.
func (s *Shim) source(w http.ResponseWriter, r *http.Request) bool {
	raw := r.Header.Get("x-ms-copy-source")
	if raw == "" {
		return true
	}
	u, err := url.Parse(raw)
	rest, ok := "", false
	if err == nil {
		rest, ok = strings.CutPrefix(u.Path, "/"+s.opts.Account+"/")
	}
	if !ok {
		refuse(w, r, problem{http.StatusBadRequest, "CannotVerifyCopySource", ""})
		return false
	}
	from := target{version: u.Query().Get("versionid")}
	from.container, from.blob, _ = strings.Cut(rest, "/")
	asked := &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{"Authorization": {r.Header.Get("x-ms-copy-source-authorization")}}}
	if p := s.authenticate(asked, from, right{'o', "r", []string{"blobs/read"}}); p != nil {
		refuse(w, r, problem{http.StatusForbidden, "CannotVerifyCopySource", p.detail})
		return false
	}
	c, v := s.version(w, r, from)
	if v == nil {
		return false
	}
	if match := r.Header.Get("x-ms-source-if-match"); match != "" && match != v.etag {
		refuse(w, r, problem{http.StatusPreconditionFailed, "SourceConditionNotMet", ""})
		return false
	}
	container, name := c.blob(from.blob).store(from.container, from.blob, v)
	r.Header.Del("x-ms-source-if-match")
	r.Header.Del("x-ms-copy-source-authorization")
	r.Header.Set("x-ms-copy-source", fmt.Sprintf("%s/%s/%s/%s?%s", s.opts.Backend, s.opts.Account, container, url.PathEscape(name), s.permission))
	return true
}

// stage keeps a block, which is not visible and hence not protected.
func (s *Shim) stage(w http.ResponseWriter, r *http.Request, t target) {
	s.mu.Lock()
	c := s.state(w, r, t)
	ok := c != nil && s.source(w, r)
	s.mu.Unlock()
	if ok {
		s.forward(w, r, t.container, t.blob, nil)
	}
}

// delete removes a blob or a version.
func (s *Shim) delete(w http.ResponseWriter, r *http.Request, t target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, v := s.version(w, r, t)
	if v == nil {
		return
	}
	b := c.blob(t.blob)
	if match := r.Header.Get("If-Match"); match != "" && match != v.etag {
		refuse(w, r, problem{http.StatusPreconditionFailed, "ConditionNotMet", ""})
		return
	}
	if t.version != "" && v == b.current {
		// The current version can be deleted by the blob's name only. Whether that is said before
		// or after the lock is looked at is not documented.
		refuse(w, r, problem{http.StatusForbidden, "OperationNotAllowedOnRootBlob", ""})
		return
	}
	if code := c.refusal(v, s.Now()); code != "" {
		refuse(w, r, problem{http.StatusConflict, code, ""})
		return
	}
	container, name := b.store(t.container, t.blob, v)
	if t.version == "" && c.versionLevel {
		s.putAside(r, t, v) // the current version becomes a previous one [versioning]
	} else {
		c.drop(t.blob, v)
	}
	r.Header.Del("If-Match")
	s.forward(w, r, container, name, nil)
}

// tags reads or replaces the index tags, which is allowed on what is immutable: they are not
// among the operations that [container] and [version] prohibit.
func (s *Shim) tags(w http.ResponseWriter, r *http.Request, t target) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		broken(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, v := s.version(w, r, t)
	if v == nil {
		return
	}
	type tags struct {
		XMLName xml.Name `xml:"Tags"`
		Set     []tag    `xml:"TagSet>Tag"`
	}
	container, name := c.blob(t.blob).store(t.container, t.blob, v)
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "application/xml")
		_ = xml.NewEncoder(w).Encode(tags{Set: v.tags})
		return
	}
	resp, err := s.ask(r, r.Method, container, name, r.URL.Query(), r.Header, bytes.NewReader(body), int64(len(body)))
	if err != nil {
		broken(err)
	}
	var sent tags
	if resp.StatusCode < 300 && xml.Unmarshal(body, &sent) == nil {
		v.tags = slices.Clone(sent.Set)
	}
	s.reply(w, resp, nil)
}

// setPolicy sets or removes the policy of a version. A locked one can only become longer; an
// unlocked one may be shortened, removed and locked [version].
func (s *Shim) setPolicy(w http.ResponseWriter, r *http.Request, t target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, v := s.version(w, r, t)
	if v == nil {
		return
	}
	if !c.versionLevel {
		refuse(w, r, problem{http.StatusConflict, "FeatureNotSupportedOnAccount", ""}) // the real code is not documented
		return
	}
	if r.Method == http.MethodDelete {
		if v.locked {
			refuse(w, r, problem{http.StatusConflict, "ImmutabilityPolicyDeleteOnLockedPolicy", ""})
			return
		}
		v.until = time.Time{}
		w.WriteHeader(http.StatusOK)
		return
	}
	until, err := http.ParseTime(r.Header.Get("x-ms-immutability-policy-until-date"))
	locked := strings.EqualFold(r.Header.Get("x-ms-immutability-policy-mode"), "locked")
	switch {
	case err != nil, !until.After(s.Now()):
		refuse(w, r, problem{http.StatusBadRequest, "InvalidHeaderValue", ""})
		return
	case v.locked && (until.Before(v.until) || !locked):
		refuse(w, r, problem{http.StatusConflict, "BlobImmutableDueToPolicy", ""})
		return
	}
	v.until, v.locked = until, locked
	_, mode := s.told(c, v)
	w.Header().Set("x-ms-immutability-policy-until-date", until.UTC().Format(http.TimeFormat))
	w.Header().Set("x-ms-immutability-policy-mode", mode)
	w.WriteHeader(http.StatusOK)
}

// setHold sets or clears the legal hold of a version [hold].
func (s *Shim) setHold(w http.ResponseWriter, r *http.Request, t target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, v := s.version(w, r, t)
	if v == nil {
		return
	}
	if !c.versionLevel {
		refuse(w, r, problem{http.StatusConflict, "FeatureNotSupportedOnAccount", ""}) // the real code is not documented
		return
	}
	v.hold = r.Header.Get("x-ms-legal-hold") == "true"
	w.Header().Set("x-ms-legal-hold", strconv.FormatBool(v.hold))
	w.WriteHeader(http.StatusOK)
}
