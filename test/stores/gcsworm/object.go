package gcsworm

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// version is one generation of one object.
type version struct {
	bucket, key    string
	generation     int64
	metageneration int64
	created        time.Time
	updated        time.Time
	deleted        time.Time // when it became noncurrent; zero: it is live

	size                    string
	md5, crc32c, etag, kind string // kind is the content type
	metadata                map[string]string

	temporary bool // hold
	event     bool // hold
	released  time.Time
	mode      string // of its own retention; empty: none
	until     time.Time
}

func (v *version) live() bool { return v.deleted.IsZero() }

// The modes of an object's own retention, page "Object Retention Lock".
const (
	modeLocked   = "Locked"
	modeUnlocked = "Unlocked"
)

// expires is the earliest time at which v may be deleted; zero: any, or not known.
//
// Page "Bucket Lock": the policy counts from the object's creation and for all objects, also
// those that were there before. Page "Object holds": an event-based hold starts the period
// anew when it is released, and nobody knows the end before. Page "Object Retention Lock": of
// both retentions the later end counts.
func (b *bucket) expires(v *version) time.Time {
	if v.event {
		return time.Time{}
	}
	var end time.Time
	if b.period > 0 {
		end = v.created.Add(b.period)
		if v.released.After(v.created) {
			end = v.released.Add(b.period)
		}
	}
	if v.until.After(end) {
		end = v.until
	}
	return end
}

// guard refuses to delete v, or to make it noncurrent, while something protects it. Pages
// "Bucket Lock" and "Object holds": neither may be deleted, replaced or made noncurrent. Page
// "Object Retention Lock": an object's own retention keeps it from being deleted or replaced,
// but it can be made noncurrent.
func (s *Shim) guard(b *bucket, v *version, archive bool) *fault {
	if v.temporary || v.event {
		return &fault{http.StatusForbidden, "objectUnderActiveHold",
			fmt.Sprintf("Object '%s/%s' is under active %s hold and cannot be deleted, overwritten or archived until hold is removed.", b.name, v.key, holdOf(v))}
	}
	end := b.expires(v)
	if archive { // of both retentions the object's own does not count
		own := v.until
		v.until = time.Time{}
		end = b.expires(v)
		v.until = own
	}
	if end.After(s.now()) {
		return &fault{http.StatusForbidden, "retentionPolicyNotMet",
			fmt.Sprintf("Object '%s/%s' is subject to bucket's retention policy or object retention and cannot be deleted, overwritten or archived until %s", b.name, v.key, stamp(end))}
	}
	return nil
}

func holdOf(v *version) string {
	if v.event {
		return "Event-Based"
	}
	return "Temporary"
}

// liveOf is the live version of a key, or nil.
func (b *bucket) liveOf(key string) *version {
	if all := b.objects[key]; len(all) > 0 && all[len(all)-1].live() {
		return all[len(all)-1]
	}
	return nil
}

// find is the version a request addresses: a generation, else the live one.
func (b *bucket) find(q url.Values, parameter, key string) (*version, *fault) {
	wanted := q.Get(parameter)
	if wanted == "" {
		if v := b.liveOf(key); v != nil {
			return v, nil
		}
		return nil, noObject(b.name, key)
	}
	generation, err := strconv.ParseInt(wanted, 10, 64)
	if err != nil {
		return nil, invalid("Invalid value for generation.")
	}
	for _, v := range b.objects[key] {
		if v.generation == generation {
			return v, nil
		}
	}
	return nil, noObject(b.name, key)
}

// conditions checks the preconditions of a request about v. Page "Request preconditions" and
// the reference of each method: those about generations are about the live one, 0 is "there is
// no live one"; those about metagenerations are about the version that is addressed.
func (b *bucket) conditions(q url.Values, prefix, key string, v *version) *fault {
	live := int64(0)
	if l := b.liveOf(key); l != nil {
		live = l.generation
	}
	if want := q.Get(prefix + "GenerationMatch"); want != "" && want != strconv.FormatInt(live, 10) {
		return unmet()
	}
	if not := q.Get(prefix + "GenerationNotMatch"); not != "" && (not == strconv.FormatInt(live, 10) || live == 0) {
		return &fault{http.StatusNotModified, "", ""}
	}
	if prefix != "if" {
		return nil
	}
	if v == nil {
		if q.Get("ifMetagenerationMatch") != "" {
			return unmet()
		}
		return nil
	}
	return metaCondition(q, v.metageneration)
}

func metaCondition(q url.Values, metageneration int64) *fault {
	now := strconv.FormatInt(metageneration, 10)
	if want := q.Get("ifMetagenerationMatch"); want != "" && want != now {
		return unmet()
	}
	if not := q.Get("ifMetagenerationNotMatch"); not == now {
		return &fault{http.StatusNotModified, "", ""}
	}
	return nil
}

func (s *Shim) serveObject(w http.ResponseWriter, r *http.Request, name, key string, body []byte) {
	if r.Method == http.MethodGet && r.URL.Query().Get("alt") == "media" {
		s.serveMedia(w, r, name, key)
		return
	}
	s.mu.Lock()
	result, refused := s.objectMethod(r, name, key, body)
	s.mu.Unlock()
	s.reply(w, result, refused)
}

func (s *Shim) objectMethod(r *http.Request, name, key string, body []byte) (fields, *fault) {
	b := s.buckets[name]
	if b == nil {
		return nil, noBucket()
	}
	q := r.URL.Query()
	v, refused := b.find(q, "generation", key)
	if refused != nil {
		return nil, refused
	}
	if refused := b.conditions(q, "if", key, v); refused != nil {
		return nil, refused
	}
	switch r.Method {
	case http.MethodGet:
		return s.describe(b, v), nil
	case http.MethodPatch:
		return s.patch(s.access.permit(r), b, v, q.Get("overrideUnlockedRetention") == "true", body)
	case http.MethodDelete:
		return nil, s.remove(b, v, q.Get("generation") != "")
	}
	return nil, invalid("method not supported")
}

// remove deletes. Page "Object Versioning": in a versioned bucket a deletion that names no
// generation makes the live version noncurrent; one that names it is for good, and no other
// version becomes the live one by it.
func (s *Shim) remove(b *bucket, v *version, named bool) *fault {
	archive := b.versioned && !named
	if refused := s.guard(b, v, archive); refused != nil {
		return refused
	}
	if archive {
		v.deleted = s.now()
		return nil
	}
	return s.drop(b, v)
}

// drop forgets a version and its bytes.
func (s *Shim) drop(b *bucket, v *version) *fault {
	b.objects[v.key] = slices.DeleteFunc(b.objects[v.key], func(x *version) bool { return x == v })
	if len(b.objects[v.key]) == 0 {
		delete(b.objects, v.key)
	}
	return s.toFake(http.MethodDelete, fmt.Sprintf("/storage/v1/b/%s/o/%s?generation=%d", url.PathEscape(b.name), url.PathEscape(v.key), v.generation), "", nil, nil)
}

// patch changes metadata, which stays possible under every lock (pages "Object holds", "Object
// metadata"). Maps are merged, null removes (page "Objects: patch").
func (s *Shim) patch(may permit, b *bucket, v *version, override bool, body []byte) (fields, *fault) {
	var req fields
	if json.Unmarshal(body, &req) != nil {
		return nil, invalid("Parse Error")
	}
	next := *v
	next.metadata = maps.Clone(v.metadata)
	if given, ok := req["metadata"]; ok {
		changes, isMap := given.(fields)
		if !isMap || next.metadata == nil {
			next.metadata = map[string]string{}
		}
		for name, value := range changes {
			if value == nil {
				delete(next.metadata, name)
			} else {
				next.metadata[name] = fmt.Sprint(value)
			}
		}
	}
	if on, ok := req["temporaryHold"].(bool); ok {
		next.temporary = on
	}
	if on, ok := req["eventBasedHold"].(bool); ok {
		if v.event && !on {
			next.released = s.now()
		}
		next.event = on
	}
	if given, ok := req["retention"]; ok {
		if refused := may("storage.objects.setRetention"); refused != nil {
			return nil, refused
		}
		if override {
			if refused := may("storage.objects.overrideUnlockedRetention"); refused != nil {
				return nil, refused
			}
		}
		if refused := s.retain(b, &next, given, override); refused != nil {
			return nil, refused
		}
	}
	// Page "Object holds": an object cannot have both.
	if next.event && next.mode != "" {
		return nil, invalid("An object cannot have both an event-based hold and a retention configuration.")
	}
	next.metageneration++
	next.updated = s.now()
	*v = next
	return s.describe(b, v), nil
}

// retain sets an object's own retention. Page "Object Retention Lock": only in buckets that
// have it enabled, only until a moment in the future; one that is locked keeps its mode and
// only becomes longer; one that is not becomes locked, shorter or nothing only with an override.
func (s *Shim) retain(b *bucket, v *version, given any, override bool) *fault {
	if !b.objectLock {
		return invalid("Object retention is not enabled for this bucket.")
	}
	var mode string
	var until time.Time
	if config, ok := given.(fields); ok {
		mode, _ = config["mode"].(string)
		until, _ = time.Parse(time.RFC3339, fmt.Sprint(config["retainUntilTime"]))
		switch {
		case mode != modeLocked && mode != modeUnlocked:
			return invalid("Invalid retention mode.")
		case !until.After(s.now()):
			return invalid("The retain-until time must be in the future.")
		}
	}
	weaker := mode != v.mode || until.Before(v.until)
	switch {
	case v.mode == modeLocked && weaker:
		return forbidden(fmt.Sprintf("The retention configuration of object '%s/%s' is locked and can only become longer.", b.name, v.key))
	case v.mode == modeUnlocked && weaker && !override:
		return forbidden("overrideUnlockedRetention is required to reduce, remove or lock an unlocked retention configuration.")
	}
	v.mode, v.until = mode, until.Truncate(time.Second)
	return nil
}

// describe is the resource of the page "Objects" of the JSON API.
func (s *Shim) describe(b *bucket, v *version) fields {
	generation := strconv.FormatInt(v.generation, 10)
	m := fields{
		"kind": "storage#object", "id": b.name + "/" + v.key + "/" + generation, "name": v.key, "bucket": b.name,
		"generation": generation, "metageneration": strconv.FormatInt(v.metageneration, 10), "contentType": v.kind,
		"storageClass": "STANDARD", "size": v.size, "md5Hash": v.md5, "crc32c": v.crc32c, "etag": v.etag,
		"timeCreated": stamp(v.created), "updated": stamp(v.updated), "timeFinalized": stamp(v.created),
	}
	if !v.live() {
		m["timeDeleted"] = stamp(v.deleted)
	}
	if len(v.metadata) > 0 {
		m["metadata"] = v.metadata
	}
	if v.temporary {
		m["temporaryHold"] = true
	}
	if v.event {
		m["eventBasedHold"] = true
	}
	if v.mode != "" {
		m["retention"] = fields{"mode": v.mode, "retainUntilTime": v.until.UTC().Format(time.RFC3339)}
	}
	if end := b.expires(v); !end.IsZero() {
		m["retentionExpirationTime"] = stamp(end)
	}
	return m
}

// serveMedia serves the bytes of a version, by the fake. It is asked one request at a time, as
// it confuses its versions otherwise; the body is sent without holding up the others.
func (s *Shim) serveMedia(w http.ResponseWriter, r *http.Request, name, key string) {
	resp, v, refused := func() (*http.Response, *version, *fault) {
		s.mu.Lock()
		defer s.mu.Unlock()
		b := s.buckets[name]
		if b == nil {
			return nil, nil, noBucket()
		}
		v, refused := b.find(r.URL.Query(), "generation", key)
		if refused == nil {
			refused = b.conditions(r.URL.Query(), "if", key, v)
		}
		if refused != nil {
			return nil, nil, refused
		}
		target := fmt.Sprintf("%s/storage/v1/b/%s/o/%s?alt=media&generation=%d", s.target, url.PathEscape(name), url.PathEscape(key), v.generation)
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, target, nil)
		if err != nil {
			return nil, nil, invalid(err.Error())
		}
		if ranged := r.Header.Get("Range"); ranged != "" {
			req.Header.Set("Range", ranged)
		}
		resp, err := s.client.Do(req)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		return resp, v, nil
	}()
	if refused != nil {
		s.refuse(w, refused)
		return
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		if !strings.HasPrefix(name, "X-Goog-Meta-") {
			w.Header()[name] = values
		}
	}
	w.Header().Set("X-Goog-Metageneration", strconv.FormatInt(v.metageneration, 10))
	s.head(w)
	w.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(w, resp.Body); err != nil {
		panic(http.ErrAbortHandler) // a body that breaks off must not look complete
	}
}
